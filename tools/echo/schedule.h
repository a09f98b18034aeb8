// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

namespace whylate::echo {

/// An absolute send schedule: point k lies at start + k / rate, and `burst` requests belong to each
/// point. It is never moved: a client that was late sends at once and stays measured against the
/// schedule (otherwise a stall would hide every request that should have been sent during it).
class Schedule {
 public:
  /// `rate_millihertz` (points per 1000 s) and `burst` are at least 1; smaller values are raised
  /// to 1.
  Schedule(std::int64_t start_ns, std::int64_t rate_millihertz, std::uint64_t burst);

  /// When request `index` (from 0) should be sent. Exact to the nanosecond, no accumulated
  /// rounding.
  std::int64_t intended_ns(std::uint64_t index) const;
  /// The distance between two points, rounded down.
  std::int64_t period_ns() const;

 private:
  std::int64_t start_ns_;
  std::int64_t rate_millihertz_;
  std::uint64_t burst_;
};

}  // namespace whylate::echo
