// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/stats.h"

#include <gtest/gtest.h>

#include <numeric>

namespace whylate::echo {
namespace {

RequestRecord answered(std::int64_t intended_ns, std::int64_t sent_ns, std::int64_t received_ns) {
  RequestRecord record;
  record.intended_ns = intended_ns;
  record.sent_ns = sent_ns;
  record.received_ns = received_ns;
  return record;
}

TEST(Stats, NearestRank) {
  std::vector<std::int64_t> values(1'000);
  std::iota(values.begin(), values.end(), 1);
  EXPECT_EQ(nearest_rank(values, 50'000), 500);
  EXPECT_EQ(nearest_rank(values, 99'000), 990);
  EXPECT_EQ(nearest_rank(values, 99'900), 999);
  EXPECT_EQ(nearest_rank(values, 100'000), 1'000);
  EXPECT_EQ(nearest_rank(values, 0), 1);
  EXPECT_EQ(nearest_rank({7}, 99'900), 7);
  EXPECT_EQ(nearest_rank({1, 2, 3}, 50'000), 2);
  EXPECT_EQ(nearest_rank({1, 2, 3, 4}, 50'000), 2);
}

TEST(Stats, NothingKnownGivesNothing) {
  EXPECT_FALSE(latency_figures({}, Origin::kSent));
  EXPECT_FALSE(latency_figures({RequestRecord{}}, Origin::kSent));
  EXPECT_FALSE(latency_figures({answered(kUnknownNs, 1, 5)}, Origin::kIntended));
  EXPECT_FALSE(lateness_figures({answered(kUnknownNs, 1, 5)}));
  EXPECT_EQ(latency_ns(answered(1, 2, kUnknownNs), Origin::kSent), std::nullopt);
}

TEST(Stats, FirstTwoAreLeftOutOfTheSlowestOnly) {
  const std::vector<RequestRecord> requests = {answered(0, 0, 900), answered(0, 0, 800),
                                               answered(0, 0, 30), answered(0, 0, 50),
                                               answered(0, 0, 40)};
  const auto figures = latency_figures(requests, Origin::kSent);
  ASSERT_TRUE(figures);
  EXPECT_EQ(figures->count, 5U);
  EXPECT_EQ(figures->max_ns, 900);
  EXPECT_EQ(figures->slowest_but_first_two_ns, 50);
  EXPECT_EQ(latency_figures({requests[0], requests[1]}, Origin::kSent)->slowest_but_first_two_ns,
            std::nullopt);
}

TEST(Stats, FirstTwoMeansTheFirstSentNotTheFirstAnswered) {
  const std::vector<RequestRecord> requests = {answered(0, 0, kUnknownNs),
                                               answered(0, 0, kUnknownNs), answered(0, 0, 70),
                                               answered(0, 0, 20)};
  EXPECT_EQ(latency_figures(requests, Origin::kSent)->slowest_but_first_two_ns, 70);
}

// Coordinated omission: the server stalls once for 100 ms and the client, which waits for it, sends
// what was due meanwhile afterwards. From actual send one request is slow; from intended send a
// hundred are.
TEST(Stats, AStallShowsInFullFromIntendedSend) {
  constexpr std::int64_t kMs = 1'000'000;
  std::vector<RequestRecord> requests;
  for (std::int64_t i = 0; i < 1'000; ++i) {
    const std::int64_t intended = i * kMs;
    std::int64_t sent = intended;
    std::int64_t received = intended + 10'000;
    if (i == 500) received = sent + 100 * kMs;
    if (i > 500 && i < 600) {
      sent = 600 * kMs;
      received = sent + 10'000;
    }
    requests.push_back(answered(intended, sent, received));
  }
  EXPECT_EQ(latency_figures(requests, Origin::kSent)->p99_ns, 10'000);
  EXPECT_GT(latency_figures(requests, Origin::kIntended)->p99_ns, 80 * kMs);
  EXPECT_EQ(lateness_figures(requests)->max_ns, 99 * kMs);
  EXPECT_EQ(lateness_figures(requests)->p50_ns, 0);
}

}  // namespace
}  // namespace whylate::echo
