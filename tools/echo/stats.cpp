// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/stats.h"

#include <algorithm>

namespace whylate::echo {
namespace {

/// `values` in request order, with their request's index.
struct Indexed {
  std::vector<std::int64_t> values;
  std::optional<std::int64_t> slowest_but_first_two;

  void add(std::size_t index, std::int64_t value) {
    values.push_back(value);
    if (index >= 2) slowest_but_first_two = std::max(slowest_but_first_two.value_or(value), value);
  }
};

std::optional<Figures> figures(Indexed indexed) {
  auto& sorted = indexed.values;
  if (sorted.empty()) return std::nullopt;
  std::sort(sorted.begin(), sorted.end());
  Figures result;
  result.count = sorted.size();
  result.min_ns = sorted.front();
  result.p50_ns = nearest_rank(sorted, 50'000);
  result.p90_ns = nearest_rank(sorted, 90'000);
  result.p99_ns = nearest_rank(sorted, 99'000);
  result.p99_9_ns = nearest_rank(sorted, 99'900);
  result.max_ns = sorted.back();
  result.slowest_but_first_two_ns = indexed.slowest_but_first_two;
  return result;
}

}  // namespace

std::int64_t nearest_rank(const std::vector<std::int64_t>& sorted, std::uint32_t percent_milli) {
  const std::uint64_t scaled = std::uint64_t{percent_milli} * sorted.size();
  const std::uint64_t rank = (scaled + 99'999) / 100'000;
  return sorted[std::clamp<std::uint64_t>(rank, 1, sorted.size()) - 1];
}

std::optional<std::int64_t> latency_ns(const RequestRecord& request, Origin origin) {
  const std::int64_t begin = origin == Origin::kSent ? request.sent_ns : request.intended_ns;
  if (request.received_ns == kUnknownNs || request.sent_ns == kUnknownNs || begin == kUnknownNs) {
    return std::nullopt;
  }
  return request.received_ns - begin;
}

std::optional<Figures> latency_figures(const std::vector<RequestRecord>& requests, Origin origin) {
  Indexed indexed;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (const auto latency = latency_ns(requests[i], origin)) indexed.add(i, *latency);
  }
  return figures(std::move(indexed));
}

std::optional<Figures> lateness_figures(const std::vector<RequestRecord>& requests) {
  Indexed indexed;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto& request = requests[i];
    if (request.sent_ns == kUnknownNs || request.intended_ns == kUnknownNs) continue;
    indexed.add(i, request.sent_ns - request.intended_ns);
  }
  return figures(std::move(indexed));
}

}  // namespace whylate::echo
