// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/cpulist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/host/temp_tree.h"

namespace whylate::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int> parsed(std::string_view text) {
  const Result<std::vector<int>> cpus = parse_cpu_list(text);
  EXPECT_TRUE(cpus.ok()) << text;
  return cpus.ok() ? *cpus : std::vector<int>{-1};
}

TEST(CpuList, ParsesWhatSysfsWrites) {
  EXPECT_THAT(parsed("0,3-7\n"), ElementsAre(0, 3, 4, 5, 6, 7));
  EXPECT_EQ(parsed("0-127").size(), 128u);
  EXPECT_THAT(parsed("2"), ElementsAre(2));
  EXPECT_THAT(parsed("\n"), IsEmpty());
  EXPECT_THAT(parsed("5,1-2,2,0"), ElementsAre(0, 1, 2, 5));
}

TEST(CpuList, RefusesNonsense) {
  for (const char* text : {"a", "1-", "-1", "1,,2", ",", "3-1", "0x2", "1 2", "1;2", "99999999999",
                           "0-65536", "1-2-3", "+1", "0,3-7x"}) {
    const Result<std::vector<int>> cpus = parse_cpu_list(text);
    ASSERT_FALSE(cpus.ok()) << text;
    EXPECT_EQ(cpus.error().code, ExitCode::kUsage);
    EXPECT_NE(cpus.error().message.find(text), std::string::npos);
  }
  std::string flood = "0-65535";
  for (int i = 0; i < 100; ++i) flood += ",0-65535";
  EXPECT_FALSE(parse_cpu_list(flood).ok());
}

TEST(CpuList, FormatsBack) {
  for (const char* text : {"", "0", "0-1", "0,3-7", "1,3,5", "0-127"}) {
    EXPECT_EQ(format_cpu_list(parsed(text)), text);
  }
}

// Possible, online and present differ: room for hotplug, and holes.
TEST(CpuList, ReadsHolesAndOfflineCpus) {
  test::TempTree tree;
  tree.write("/sys/devices/system/cpu/possible", "0-127\n");
  tree.write("/sys/devices/system/cpu/online", "0,3-7\n");
  ASSERT_TRUE(possible_cpus(tree.root()).ok());
  EXPECT_EQ(possible_cpus(tree.root())->size(), 128u);
  EXPECT_THAT(*online_cpus(tree.root()), ElementsAre(0, 3, 4, 5, 6, 7));
  tree.write("/sys/devices/system/cpu/online", "\n");
  EXPECT_FALSE(online_cpus(tree.root()).ok());
  EXPECT_FALSE(online_cpus("/nonexistent").ok());
}

}  // namespace
}  // namespace whylate::host
