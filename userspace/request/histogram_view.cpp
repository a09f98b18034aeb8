// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "request/histogram_view.h"

#include <algorithm>
#include <numeric>

namespace whylate {
namespace {

std::uint64_t sum_of(std::span<const wl_u32> buckets) {
  return std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
}

}  // namespace

HistogramView::HistogramView(std::span<const wl_u32> buckets, std::uint64_t count,
                             std::uint64_t max_ns)
    : buckets_(buckets), count_(count), zeros_(0), max_ns_(max_ns) {
  const std::uint64_t entered = sum_of(buckets);
  // Read while requests end, the buckets can be ahead of the count.
  count_ = std::max(count, entered);
  zeros_ = count_ - entered;
}

std::optional<std::uint64_t> HistogramView::percentile_ns(std::uint64_t numerator,
                                                          std::uint64_t denominator) const {
  if (count_ == 0) return std::nullopt;
  const unsigned __int128 scaled = static_cast<unsigned __int128>(count_) * numerator;
  auto rank = static_cast<std::uint64_t>((scaled + denominator - 1) / denominator);
  rank = std::clamp<std::uint64_t>(rank, 1, count_);
  std::uint64_t seen = zeros_;
  if (rank <= seen) return 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (rank <= seen) {
      const bool open = i + 1 == buckets_.size();
      const std::uint64_t upper = wl_hist_upper(static_cast<wl_u32>(i));
      return open ? max_ns_ : std::min(upper, max_ns_);
    }
  }
  return max_ns_;
}

std::uint64_t HistogramView::count_above(std::uint64_t limit_ns) const {
  std::uint64_t above = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (wl_hist_lower(static_cast<wl_u32>(i)) > limit_ns) above += buckets_[i];
  }
  return above;
}

std::optional<std::uint64_t> HistogramView::max_ns() const {
  if (count_ == 0) return std::nullopt;
  return max_ns_;
}

std::uint64_t aggregate_count(const wl_aggregate& aggregate) {
  return sum_of(aggregate.hist[WL_NR_STAGES]);
}

HistogramView total_histogram(const wl_aggregate& aggregate) {
  return HistogramView(aggregate.hist[WL_NR_STAGES], aggregate_count(aggregate),
                       aggregate.max_total_ns);
}

HistogramView stage_histogram(const wl_aggregate& aggregate, wl_stage stage) {
  return HistogramView(aggregate.hist[stage], aggregate_count(aggregate),
                       aggregate.stage_max_ns[stage]);
}

}  // namespace whylate
