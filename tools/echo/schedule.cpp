// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/schedule.h"

#include <algorithm>

namespace whylate::echo {
namespace {

constexpr std::int64_t kNsPerThousandSeconds = 1'000'000'000'000;

}  // namespace

Schedule::Schedule(std::int64_t start_ns, std::int64_t rate_millihertz, std::uint64_t burst)
    : start_ns_(start_ns),
      rate_millihertz_(std::max<std::int64_t>(1, rate_millihertz)),
      burst_(std::max<std::uint64_t>(1, burst)) {}

std::int64_t Schedule::intended_ns(std::uint64_t index) const {
  // Point times 10^12 leaves 64 bits after some 10^7 points; the wide product keeps it exact.
  const auto point = static_cast<unsigned __int128>(index / burst_);
  const auto offset = point * static_cast<unsigned __int128>(kNsPerThousandSeconds) /
                      static_cast<unsigned __int128>(rate_millihertz_);
  return start_ns_ + static_cast<std::int64_t>(offset);
}

std::int64_t Schedule::period_ns() const { return kNsPerThousandSeconds / rate_millihertz_; }

}  // namespace whylate::echo
