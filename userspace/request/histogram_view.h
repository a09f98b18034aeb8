// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "histogram.h"
#include "record.h"

namespace whylate {

/// A view of one histogram of wl_aggregate. Values of 0 are not in the buckets: their number is the
/// number of requests minus the buckets' sum. Does not own the buckets.
///
/// A percentile is the nearest rank: the smallest value such that at least that part of the
/// requests is not above it. The bucket's highest value is reported, clipped to the exact maximum:
/// never below the true value and above it by less than 1/32 of it.
class HistogramView {
 public:
  /// `count` is the number of requests, zeros included; `max_ns` the exact largest value.
  HistogramView(std::span<const wl_u32> buckets, std::uint64_t count, std::uint64_t max_ns);

  /// The value at `numerator / denominator` of the requests (p99.9 is 999 of 1000); nothing when
  /// there are no requests.
  std::optional<std::uint64_t> percentile_ns(std::uint64_t numerator,
                                             std::uint64_t denominator) const;

  /// How many values lie in buckets wholly above `limit_ns`.
  std::uint64_t count_above(std::uint64_t limit_ns) const;

  std::uint64_t count() const { return count_; }
  std::optional<std::uint64_t> max_ns() const;

 private:
  std::span<const wl_u32> buckets_;
  std::uint64_t count_;
  std::uint64_t zeros_;
  std::uint64_t max_ns_;
};

/// Requests in the aggregate: every one has a total of at least 1 ns and so an entry.
std::uint64_t aggregate_count(const wl_aggregate& aggregate);

HistogramView total_histogram(const wl_aggregate& aggregate);
HistogramView stage_histogram(const wl_aggregate& aggregate, wl_stage stage);

}  // namespace whylate
