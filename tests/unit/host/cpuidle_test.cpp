// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/cpuidle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/host/temp_tree.h"

namespace whylate::host {
namespace {

using test::TempTree;
using ::testing::ElementsAre;

constexpr const char* kCpu = "/sys/devices/system/cpu";

void add_state(const TempTree& tree, int cpu, int index, const std::string& name,
               const std::string& latency, bool disabled) {
  const std::string base = std::string(kCpu) + "/cpu" + std::to_string(cpu) + "/cpuidle/state" +
                           std::to_string(index) + "/";
  tree.write(base + "name", name + "\n");
  tree.write(base + "desc", "words about " + name + "\n");
  if (!latency.empty()) tree.write(base + "latency", latency + "\n");
  tree.write(base + "disable", disabled ? "1\n" : "0\n");
  tree.write(base + "usage", "77\n");
}

void add_machine(const TempTree& tree, const std::string& driver, const std::string& governor) {
  tree.write(std::string(kCpu) + "/online", "0,2\n");
  tree.write(std::string(kCpu) + "/cpuidle/current_driver", driver + "\n");
  tree.write(std::string(kCpu) + "/cpuidle/current_governor", governor + "\n");
}

TEST(Cpuidle, ReadsHaltpollWithTwoStates) {
  TempTree tree;
  add_machine(tree, "haltpoll", "haltpoll");
  for (const int cpu : {0, 2}) {
    add_state(tree, cpu, 0, "POLL", "0", false);
    add_state(tree, cpu, 1, "haltpoll idle", "1", false);
  }
  const Result<CpuidleInfo> info = read_cpuidle(tree.root());
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->driver, "haltpoll");
  EXPECT_EQ(info->governor, "haltpoll");
  ASSERT_EQ(info->cpus.size(), 2u);
  EXPECT_EQ(info->cpus[1].cpu, 2);
  ASSERT_EQ(info->cpus[1].states.size(), 2u);
  const IdleState& state = info->cpus[1].states[1];
  EXPECT_EQ(state.index, 1);
  EXPECT_EQ(state.name, "haltpoll idle");
  EXPECT_EQ(state.desc, "words about haltpoll idle");
  EXPECT_EQ(state.latency_us, 1u);
  EXPECT_EQ(state.usage, 77u);
  EXPECT_THAT(usable_states(*info, info->cpus[0]), ElementsAre(0, 1));
  EXPECT_EQ(find_state(*info, 2, 1), &state);
  EXPECT_EQ(find_state(*info, 1, 1), nullptr);
  EXPECT_EQ(find_state(*info, 2, 9), nullptr);
}

// The switch works under menu; haltpoll enters the state all the same.
TEST(Cpuidle, DisabledStatesCountOnlyWhereTheGovernorLooks) {
  for (const char* governor : {"menu", "haltpoll"}) {
    TempTree tree;
    add_machine(tree, "haltpoll", governor);
    add_state(tree, 0, 0, "POLL", "0", false);
    add_state(tree, 0, 1, "haltpoll idle", "1", true);
    const Result<CpuidleInfo> info = read_cpuidle(tree.root());
    ASSERT_TRUE(info.ok());
    const std::vector<int> usable = usable_states(*info, info->cpus[0]);
    if (std::string(governor) == "menu") {
      EXPECT_THAT(usable, ElementsAre(0));
    } else {
      EXPECT_THAT(usable, ElementsAre(0, 1));
    }
  }
}

TEST(Cpuidle, WithoutDriverThereIsTheKernelsOwnIdleCall) {
  TempTree tree;
  add_machine(tree, "none", "menu");
  const Result<CpuidleInfo> info = read_cpuidle(tree.root());
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->driver, "none");
  ASSERT_EQ(info->cpus.size(), 2u);
  for (const CpuIdleStates& cpu : info->cpus) {
    ASSERT_EQ(cpu.states.size(), 1u);
    EXPECT_EQ(cpu.states[0].index, 1);
    EXPECT_EQ(cpu.states[0].name, "default_idle");
    EXPECT_FALSE(cpu.states[0].latency_us.has_value());
    EXPECT_FALSE(cpu.states[0].usage.has_value());
  }
}

TEST(Cpuidle, AKernelWithoutCpuidleIsTheSame) {
  TempTree tree;
  tree.write(std::string(kCpu) + "/online", "0\n");
  const Result<CpuidleInfo> info = read_cpuidle(tree.root());
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->driver, "none");
  EXPECT_EQ(info->governor, "");
  EXPECT_EQ(info->cpus[0].states[0].name, "default_idle");
  EXPECT_FALSE(read_cpuidle("/nonexistent").ok());
}

TEST(Cpuidle, ForcedPollingLeavesTheDriverAside) {
  TempTree tree;
  add_machine(tree, "intel_idle", "menu");
  add_state(tree, 0, 1, "C1", "2", false);
  tree.write("/proc/cmdline", "root=/dev/vda1 idle=poll quiet\n");
  const Result<CpuidleInfo> info = read_cpuidle(tree.root());
  ASSERT_TRUE(info.ok());
  EXPECT_TRUE(info->forced_poll);
  EXPECT_THAT(usable_states(*info, info->cpus[0]), ElementsAre(0));
  tree.write("/proc/cmdline", "root=/dev/vda1 myidle=poll\n");
  EXPECT_FALSE(read_cpuidle(tree.root())->forced_poll);
}

// Names sort as text in a directory; indices must not.
TEST(Cpuidle, StatesAreInNumericOrderAndHolesStay) {
  TempTree tree;
  add_machine(tree, "intel_idle", "menu");
  for (const int index : {10, 2, 0}) {
    add_state(tree, 0, index, "C" + std::to_string(index), "", false);
  }
  tree.write(std::string(kCpu) + "/cpu0/cpuidle/driver/name", "intel_idle\n");
  const Result<CpuidleInfo> info = read_cpuidle(tree.root());
  ASSERT_TRUE(info.ok());
  EXPECT_THAT(usable_states(*info, info->cpus[0]), ElementsAre(0, 2, 10));
  EXPECT_FALSE(info->cpus[0].states[0].latency_us.has_value());
}

TEST(Cpuidle, OlderKernelsNameTheGovernorReadOnly) {
  TempTree tree;
  tree.write(std::string(kCpu) + "/online", "0\n");
  tree.write(std::string(kCpu) + "/cpuidle/current_governor_ro", "ladder\n");
  EXPECT_EQ(read_cpuidle(tree.root())->governor, "ladder");
}

}  // namespace
}  // namespace whylate::host
