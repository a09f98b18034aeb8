// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "echo/address.h"

namespace whylate::echo {

using MacAddress = std::array<std::uint8_t, 6>;

/// What a responder without the kernel's IP stack answers to.
struct FrameTarget {
  MacAddress mac{};
  Endpoint listen;          ///< the unspecified address stands for every address
  bool answer_arp = false;  ///< IPv4: the kernel does not own the address, so nobody else answers
};

enum class FrameKind { kOther, kRequest, kArp };

/// A received frame, taken apart; the spans point into it.
struct ParsedFrame {
  FrameKind kind = FrameKind::kOther;
  std::span<std::uint8_t> whole;    ///< from the Ethernet header to the packet's end, no padding
  std::span<std::uint8_t> payload;  ///< of a request
};

/// Takes an Ethernet frame apart. Fragments, VLAN tags, IPv6 extension headers, other addresses or
/// ports, and lengths that do not fit are kOther.
ParsedFrame parse_frame(std::span<std::uint8_t> frame, const FrameTarget& target);

/// Turns a request or an ARP question into its answer, in place. Checksums are computed afresh:
/// between virtual devices requests carry only the start of one.
void make_answer(const ParsedFrame& frame, const FrameTarget& target);

}  // namespace whylate::echo
