// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bpf/xsk_trace.h"

// What `whylate trace` says of a process on AF_XDP. Its requests cannot be told apart beyond the
// redirect, so there are stages of packets, of wake-ups and of transmit calls, and no totals of
// requests.

namespace whylate {

/// What the kernel side counted in one run.
struct XskReading {
  std::unique_ptr<wl_xsk_totals> totals;  ///< of all CPUs together
  std::vector<wl_xsk_line> before;        ///< the target's sockets
  std::vector<wl_xsk_line> after;
  std::uint64_t duration_ns = 0;
  std::uint64_t recursion_misses = 0;
  bool generic = false;       ///< an interface has its program in generic mode
  bool sockets_lost = false;  ///< more sockets than places: some of its redirects are not counted
};

/// Whom it is about, and what `whylate stack` found.
struct XskTarget {
  pid_t pid = 0;
  std::string comm;  ///< raw
  std::uint64_t start_ns = 0;
  std::string kernel;
  std::vector<std::string> sockets;  ///< "fd 3, native mode, copy, on eth0 queue 0"
  std::string use_instead;
};

/// Of what a stage counts one time.
enum class XskPer { kPacket, kWake, kCall };

/// One stage over the run.
struct XskStage {
  const char* name = "";     ///< in JSON
  const char* meaning = "";  ///< from where to where
  XskPer per = XskPer::kPacket;
  std::uint64_t count = 0;
  std::uint64_t total_ns = 0;
  std::optional<std::uint64_t> p50_ns;  ///< nothing when it was never entered
  std::optional<std::uint64_t> p99_ns;
  std::optional<std::uint64_t> max_ns;
  std::string why_not;  ///< why it was not measured; "" when it was
};

struct XskSummary {
  XskTarget target;
  std::uint64_t duration_ns = 0;
  std::uint64_t redirected = 0;
  std::uint64_t failed = 0;
  std::uint64_t woke = 0;    ///< packets for which a thread was woken
  std::uint64_t awake = 0;   ///< packets that found the target awake
  std::uint64_t polled = 0;  ///< packets fetched by a polling thread, without a softirq
  std::uint64_t wakes = 0;
  std::uint64_t transmit_calls = 0;
  std::optional<std::uint64_t> rx_frames;  ///< put into the receive rings; nothing: not readable
  std::optional<std::uint64_t> tx_frames;  ///< taken from the transmit rings
  std::uint64_t ring_full = 0;             ///< packets dropped: the receive ring had no room
  std::uint64_t lost = 0;
  std::uint64_t recursion_misses = 0;
  std::array<XskStage, WL_XSK_NR_STAGES> stages;
  std::vector<std::string> notes;  ///< sentences

  /// Nothing of the run is missing.
  bool complete() const { return lost == 0 && recursion_misses == 0; }
};

/// Pure.
XskSummary summarise_xsk(const XskReading& reading, XskTarget target);

/// "packet", "wake", "call".
const char* name(XskPer per);

}  // namespace whylate
