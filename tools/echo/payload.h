// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace whylate::echo {

/// The sequence number's place in every payload: whylate's `--id-offset 0 --id-bytes 8`.
constexpr std::size_t kIdBytes = 8;
/// A request carries at least the number and eight bytes that differ with it.
constexpr std::size_t kMinSizeBytes = 16;

/// Fills a payload: the id in little endian at offset 0, then bytes that depend on seed and id
/// alone. A payload shorter than the id is left untouched.
void fill_payload(std::span<std::uint8_t> payload, std::uint64_t id, std::uint64_t seed);

/// Whether a payload is, byte for byte, what fill_payload() makes of this id and seed.
bool payload_matches(std::span<const std::uint8_t> payload, std::uint64_t id, std::uint64_t seed);

/// The id a payload carries; nothing when it is too short to carry one.
std::optional<std::uint64_t> payload_id(std::span<const std::uint8_t> payload);

}  // namespace whylate::echo
