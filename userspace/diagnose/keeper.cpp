// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/keeper.h"

#include <algorithm>

#include "request/histogram_view.h"

namespace whylate {
namespace {

bool counts(const Request& request) {
  return is_complete(request) && has_reply(request) && !is_cold(request);
}

bool is_slower(const Request& a, const Request& b) {
  const std::uint64_t total_a = total_ns(a);
  const std::uint64_t total_b = total_ns(b);
  return total_a != total_b ? total_a > total_b : a.record.seq < b.record.seq;
}

}  // namespace

void SlowestKeeper::add(const Request& request) {
  if (capacity_ == 0 || !counts(request)) return;
  if (heap_.size() == capacity_) {
    if (!is_slower(request, heap_.front())) return;
    std::pop_heap(heap_.begin(), heap_.end(), is_slower);
    heap_.pop_back();
  }
  heap_.push_back(request);
  std::push_heap(heap_.begin(), heap_.end(), is_slower);
}

std::vector<Request> SlowestKeeper::sorted() const {
  std::vector<Request> requests = heap_;
  std::sort(requests.begin(), requests.end(), is_slower);
  return requests;
}

void StalledTime::add(const Request& request) {
  if (!counts(request)) return;
  const Interval interval{request.record.start_ns, request.record.end_ns};
  const auto longer = [](const Interval& a, const Interval& b) {
    return a.length_ns() > b.length_ns();
  };
  if (heap_.size() < capacity_) {
    heap_.push_back(interval);
    std::push_heap(heap_.begin(), heap_.end(), longer);
    return;
  }
  if (heap_.empty() || interval.length_ns() <= heap_.front().length_ns()) {
    longest_dropped_ns_ = std::max(longest_dropped_ns_, interval.length_ns());
    return;
  }
  longest_dropped_ns_ = std::max(longest_dropped_ns_, heap_.front().length_ns());
  std::pop_heap(heap_.begin(), heap_.end(), longer);
  heap_.back() = interval;
  std::push_heap(heap_.begin(), heap_.end(), longer);
}

StalledTime::Answer StalledTime::above(std::uint64_t late_above_ns) const {
  std::vector<Interval> late;
  for (const Interval& interval : heap_) {
    if (interval.length_ns() > late_above_ns) late.push_back(interval);
  }
  std::sort(late.begin(), late.end(),
            [](const Interval& a, const Interval& b) { return a.start_ns < b.start_ns; });
  Answer answer;
  answer.late_requests = late.size();
  answer.is_lower_bound = longest_dropped_ns_ > late_above_ns;
  std::uint64_t covered_to = 0;
  for (const Interval& interval : late) {
    const std::uint64_t from = std::max(interval.start_ns, covered_to);
    if (interval.end_ns > from) answer.ns += interval.end_ns - from;
    covered_to = std::max(covered_to, interval.end_ns);
  }
  return answer;
}

void RunningMedian::add(const Request& request) {
  if (!counts(request)) return;
  const std::uint64_t total = total_ns(request);
  ++buckets_[std::min<wl_u32>(wl_hist_index(total), WL_HIST_BUCKETS - 1)];
  max_ns_ = std::max(max_ns_, total);
  if (++count_ < next_) return;
  // Ever rarer: the median of many moves slowly.
  next_ = count_ + std::max(kEnough, count_ / 16);
  median_ns_ = HistogramView(buckets_, count_, max_ns_).percentile_ns(50, 100);
}

}  // namespace whylate
