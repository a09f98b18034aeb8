// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "request/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "request/address.h"

namespace whylate {
namespace {

using ::testing::ElementsAre;

TEST(Names, EveryReasonHasItsOwnNameAndText) {
  std::set<std::string_view> names;
  for (int i = 0; i < WL_NR_LOST; ++i) {
    names.insert(lost_name(static_cast<wl_lost>(i)));
    EXPECT_NE(lost_text(static_cast<wl_lost>(i)), "unknown");
  }
  for (int i = 0; i < WL_NR_UNMATCHED; ++i) {
    names.insert(unmatched_name(static_cast<wl_unmatched>(i)));
    EXPECT_NE(unmatched_text(static_cast<wl_unmatched>(i)), "unknown");
  }
  EXPECT_EQ(names.size(), std::size_t{WL_NR_LOST} + WL_NR_UNMATCHED);
  EXPECT_EQ(names.count("unknown"), 0u);
}

TEST(Names, UnknownValuesSaySo) {
  EXPECT_EQ(origin_name(200), "unknown");
  EXPECT_EQ(softirq_mode_name(200), "unknown");
  EXPECT_EQ(occupant_kind_name(0), "unknown");
  EXPECT_EQ(policy_name(4), "unknown");
  EXPECT_EQ(proto_name(1), "unknown");
}

TEST(Names, QualityBitsInOrder) {
  EXPECT_THAT(quality_names(0), ElementsAre());
  EXPECT_THAT(quality_names(WL_Q_COLD | WL_Q_NO_REPLY | WL_Q_NO_ID),
              ElementsAre("no_reply", "cold", "no_id"));
  EXPECT_THAT(quality_names(1u << 31), ElementsAre("unknown"));
}

TEST(FormatEndpoint, BothFamilies) {
  std::uint8_t address[16] = {10, 7, 0, 2};
  EXPECT_EQ(format_endpoint(4, address, 9000), "10.7.0.2:9000");
  std::uint8_t loopback[16] = {};
  loopback[15] = 1;
  EXPECT_EQ(format_endpoint(6, loopback, 53), "[::1]:53");
  EXPECT_EQ(format_endpoint(0, address, 1), "unknown");
}

}  // namespace
}  // namespace whylate
