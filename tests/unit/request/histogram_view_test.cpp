// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "request/histogram_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace whylate {
namespace {

std::vector<wl_u32> buckets_of(const std::vector<std::uint64_t>& values) {
  std::vector<wl_u32> buckets(WL_HIST_BUCKETS);
  for (const std::uint64_t value : values) {
    if (value > 0) ++buckets[wl_hist_index(value)];
  }
  return buckets;
}

std::uint64_t nearest_rank(std::vector<std::uint64_t> values, std::uint64_t numerator,
                           std::uint64_t denominator) {
  std::sort(values.begin(), values.end());
  const std::uint64_t rank = (values.size() * numerator + denominator - 1) / denominator;
  return values[std::max<std::uint64_t>(rank, 1) - 1];
}

void expect_within_bound(const std::vector<std::uint64_t>& values) {
  const std::vector<wl_u32> buckets = buckets_of(values);
  const std::uint64_t max = *std::max_element(values.begin(), values.end());
  const HistogramView view(buckets, values.size(), max);
  for (const auto& [numerator, denominator] : {std::pair<std::uint64_t, std::uint64_t>{50, 100},
                                               {90, 100},
                                               {99, 100},
                                               {999, 1000},
                                               {1, 1}}) {
    const std::uint64_t exact = nearest_rank(values, numerator, denominator);
    const std::uint64_t shown = *view.percentile_ns(numerator, denominator);
    EXPECT_GE(shown, exact);
    EXPECT_LE(shown, exact + exact / 32) << exact;
    EXPECT_LE(shown, max);
  }
  EXPECT_EQ(*view.percentile_ns(1, 1), max);
}

TEST(HistogramView, SmallValuesAreExact) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t value = 1; value <= 60; ++value) values.push_back(value);
  const std::vector<wl_u32> buckets = buckets_of(values);
  const HistogramView view(buckets, values.size(), 60);
  EXPECT_EQ(*view.percentile_ns(50, 100), 30u);
  EXPECT_EQ(*view.percentile_ns(90, 100), 54u);
  EXPECT_EQ(*view.percentile_ns(999, 1000), 60u);
}

TEST(HistogramView, StaysWithinTheErrorBound) {
  std::mt19937_64 random(1);  // NOLINT(cert-msc51-cpp)
  for (int round = 0; round < 50; ++round) {
    std::vector<std::uint64_t> values(1 + random() % 500);
    for (std::uint64_t& value : values) value = (random() >> 22) >> (random() % 42);
    expect_within_bound(values);
  }
}

TEST(HistogramView, ZerosCountAndHaveTheLowestRanks) {
  std::vector<std::uint64_t> values(90, 0);
  values.insert(values.end(), 10, 1'000);
  expect_within_bound(values);
  const std::vector<wl_u32> buckets = buckets_of(values);
  const HistogramView view(buckets, values.size(), 1'000);
  EXPECT_EQ(*view.percentile_ns(90, 100), 0u);
  EXPECT_EQ(*view.percentile_ns(91, 100), 1'000u);
}

TEST(HistogramView, NoRequestsNoFigures) {
  const std::vector<wl_u32> buckets(WL_HIST_BUCKETS);
  const HistogramView view(buckets, 0, 0);
  EXPECT_FALSE(view.percentile_ns(50, 100));
  EXPECT_FALSE(view.max_ns());
}

TEST(HistogramView, OneRequestIsEveryPercentile) {
  const std::vector<wl_u32> buckets = buckets_of({947'123'456});
  const HistogramView view(buckets, 1, 947'123'456);
  EXPECT_EQ(*view.percentile_ns(50, 100), 947'123'456u);
  EXPECT_EQ(*view.percentile_ns(999, 1000), 947'123'456u);
}

TEST(HistogramView, LastBucketReadsAsTheMaximum) {
  const std::uint64_t huge = std::uint64_t{1} << 50;
  const std::vector<wl_u32> buckets = buckets_of({huge, huge + 5});
  const HistogramView view(buckets, 2, huge + 5);
  EXPECT_EQ(*view.percentile_ns(50, 100), huge + 5);
}

TEST(HistogramView, CountsWhatIsAboveALimit) {
  const std::vector<wl_u32> buckets = buckets_of({10, 20, 5'000, 1'000'000});
  const HistogramView view(buckets, 4, 1'000'000);
  EXPECT_EQ(view.count_above(20), 2u);
  EXPECT_EQ(view.count_above(2'000'000), 0u);
}

TEST(HistogramView, AggregateCountsByTheTotal) {
  auto aggregate = std::make_unique<wl_aggregate>();
  aggregate->hist[WL_NR_STAGES][wl_hist_index(100)] = 3;
  aggregate->hist[WL_STAGE_APP][wl_hist_index(40)] = 1;
  aggregate->max_total_ns = 100;
  aggregate->stage_max_ns[WL_STAGE_APP] = 40;
  EXPECT_EQ(aggregate_count(*aggregate), 3u);
  EXPECT_EQ(*stage_histogram(*aggregate, WL_STAGE_APP).percentile_ns(50, 100), 0u);
  EXPECT_EQ(*stage_histogram(*aggregate, WL_STAGE_APP).percentile_ns(99, 100), 40u);
  EXPECT_EQ(*total_histogram(*aggregate).percentile_ns(50, 100), 100u);
}

}  // namespace
}  // namespace whylate
