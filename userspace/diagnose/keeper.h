// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "histogram.h"
#include "request/request.h"

namespace whylate {

/// Keeps the slowest requests of a run in bounded memory. Counts only complete ones with a reply
/// that are not among the first two. Equal totals: the earlier request is kept.
class SlowestKeeper {
 public:
  explicit SlowestKeeper(std::size_t capacity) : capacity_(capacity) {}

  void add(const Request& request);

  /// Slowest first.
  std::vector<Request> sorted() const;

 private:
  std::size_t capacity_;
  std::vector<Request> heap_;  // the fastest of those kept is in front
};

/// Wall time during which at least one late request was in flight. Which request is late may be
/// known only at the end, so the intervals of the longest requests are kept, in bounded memory.
class StalledTime {
 public:
  static constexpr std::size_t kDefaultCapacity = std::size_t{1} << 16;

  explicit StalledTime(std::size_t capacity = kDefaultCapacity) : capacity_(capacity) {}

  /// Takes a request in; the same ones as SlowestKeeper count.
  void add(const Request& request);

  struct Answer {
    std::uint64_t ns = 0;
    std::uint64_t late_requests = 0;  ///< among those kept
    bool is_lower_bound = false;      ///< late requests had to be dropped for lack of room
  };

  /// Length of the union of the intervals of requests longer than `late_above_ns`.
  Answer above(std::uint64_t late_above_ns) const;

 private:
  struct Interval {
    std::uint64_t start_ns;
    std::uint64_t end_ns;
    std::uint64_t length_ns() const { return end_ns - start_ns; }
  };

  std::size_t capacity_;
  std::uint64_t longest_dropped_ns_ = 0;
  std::vector<Interval> heap_;  // the shortest of those kept is in front
};

/// The median of the requests so far, for who must judge before the run is over.
class RunningMedian {
 public:
  RunningMedian() : buckets_(WL_HIST_BUCKETS) {}

  /// Only requests that count in a latency figure; others are ignored.
  void add(const Request& request);

  /// Nothing before `kEnough` of them. Brought up to date every so many requests.
  std::optional<std::uint64_t> ns() const { return median_ns_; }

  static constexpr std::uint64_t kEnough = 64;

 private:
  std::vector<wl_u32> buckets_;
  std::uint64_t count_ = 0;
  std::uint64_t max_ns_ = 0;
  std::uint64_t next_ = kEnough;
  std::optional<std::uint64_t> median_ns_;
};

}  // namespace whylate
