// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "histogram.h"

#include <gtest/gtest.h>

#include <random>

namespace whylate {
namespace {

constexpr wl_u64 kFirstOpenValue = wl_u64{1} << WL_HIST_MAX_BITS;

TEST(Histogram, Log2IsTheHighestSetBit) {
  for (wl_u32 bit = 0; bit < 64; ++bit) {
    const wl_u64 low = wl_u64{1} << bit;
    EXPECT_EQ(wl_log2_u64(low), bit);
    EXPECT_EQ(wl_log2_u64(low | (low - 1)), bit);
  }
}

TEST(Histogram, SmallValuesHaveABucketEach) {
  for (wl_u32 value = 0; value < 2 * WL_HIST_SUB; ++value) {
    EXPECT_EQ(wl_hist_index(value), value);
    EXPECT_EQ(wl_hist_lower(value), value);
    EXPECT_EQ(wl_hist_upper(value), value);
  }
}

TEST(Histogram, BucketsTileTheValuesWithoutGap) {
  wl_u64 next = 0;
  for (wl_u32 index = 0; index < WL_HIST_BUCKETS; ++index) {
    ASSERT_EQ(wl_hist_lower(index), next) << index;
    ASSERT_GE(wl_hist_upper(index), wl_hist_lower(index)) << index;
    ASSERT_EQ(wl_hist_index(wl_hist_lower(index)), index);
    ASSERT_EQ(wl_hist_index(wl_hist_upper(index)), index);
    next = wl_hist_upper(index) + 1;
  }
  EXPECT_EQ(next, kFirstOpenValue);
}

TEST(Histogram, ABucketIsNeverWiderThanAThirtySecondOfItsLowerBound) {
  for (wl_u32 index = 2 * WL_HIST_SUB; index < WL_HIST_BUCKETS; ++index) {
    const wl_u64 width = wl_hist_upper(index) - wl_hist_lower(index) + 1;
    ASSERT_LE(width * 32, wl_hist_lower(index)) << index;
  }
}

TEST(Histogram, AnyValueLiesInsideItsBucketAndOrderIsKept) {
  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp)
  for (int round = 0; round < 200'000; ++round) {
    const wl_u64 a = (random() >> (64 - WL_HIST_MAX_BITS)) >> (random() % WL_HIST_MAX_BITS);
    const wl_u64 b = (random() >> (64 - WL_HIST_MAX_BITS)) >> (random() % WL_HIST_MAX_BITS);
    const wl_u32 index = wl_hist_index(a);
    ASSERT_LT(index, static_cast<wl_u32>(WL_HIST_BUCKETS));
    ASSERT_LE(wl_hist_lower(index), a);
    ASSERT_GE(wl_hist_upper(index), a);
    if (a <= b) {
      ASSERT_LE(index, wl_hist_index(b)) << a << " " << b;
    } else {
      ASSERT_GE(index, wl_hist_index(b)) << a << " " << b;
    }
  }
}

TEST(Histogram, TheLastBucketIsOpenAbove) {
  const wl_u32 last = WL_HIST_BUCKETS - 1;
  EXPECT_EQ(wl_hist_index(kFirstOpenValue - 1), last);
  EXPECT_EQ(wl_hist_index(kFirstOpenValue), last);
  EXPECT_EQ(wl_hist_index(kFirstOpenValue + 1), last);
  EXPECT_EQ(wl_hist_index(~wl_u64{0}), last);
  EXPECT_LT(wl_hist_index(wl_hist_lower(last) - 1), last);
}

}  // namespace
}  // namespace whylate
