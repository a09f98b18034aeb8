// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace whylate {

inline constexpr std::uint64_t kNsPerUs = 1'000;
inline constexpr std::uint64_t kNsPerMs = 1'000'000;
inline constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

/// Reads "500us", "1.5ms", "10s", "2m", "1h" or "250ns" into nanoseconds, rounded down to whole
/// ones. The unit is required. Errors (kUsage) name the text: no number, no or unknown unit,
/// negative, above 2^63 - 1 ns.
Result<std::uint64_t> parse_duration(std::string_view text);

/// A duration for people, scaled so that two decimals tell something: "42ns", "0.31us", "912.30us",
/// "1.55ms", "12.04s". 0 is "0".
std::string format_duration(std::uint64_t ns);

/// Seconds with one decimal and a space before the unit, as in a headline: "10.0 s".
std::string format_seconds(std::uint64_t ns);

}  // namespace whylate
