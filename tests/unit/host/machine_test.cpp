// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "host/kernel.h"
#include "host/steal.h"
#include "unit/host/temp_tree.h"

namespace whylate::host {
namespace {

using test::TempTree;

TEST(Kernel, TellsWhatTheCpuSays) {
  TempTree tree;
  tree.write("/proc/sys/kernel/osrelease", "6.18.1-test\n");
  tree.write("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor sse\n");
  tree.write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
  const KernelInfo guest = read_kernel(tree.root());
  EXPECT_EQ(guest.release, "6.18.1-test");
  EXPECT_EQ(guest.virtualised, true);
  EXPECT_EQ(guest.clocksource, "tsc");
  tree.write("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu nohypervisor sse\n");
  EXPECT_EQ(read_kernel(tree.root()).virtualised, false);
  tree.write("/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\n");
  EXPECT_FALSE(read_kernel(tree.root()).virtualised.has_value());
}

TEST(Kernel, UnknownStaysUnknown) {
  TempTree tree;
  const KernelInfo info = read_kernel(tree.root());
  EXPECT_EQ(info.release, "unknown");
  EXPECT_FALSE(info.virtualised.has_value());
  EXPECT_EQ(info.clocksource, "");
}

TEST(Kernel, ClockSources) {
  EXPECT_TRUE(clocksource_is_good("tsc"));
  EXPECT_TRUE(clocksource_is_good("kvm-clock"));
  EXPECT_TRUE(clocksource_is_good("arch_sys_counter"));
  EXPECT_FALSE(clocksource_is_good("hpet"));
  EXPECT_FALSE(clocksource_is_good("acpi_pm"));
  EXPECT_FALSE(clocksource_is_good(""));
}

TEST(Steal, ReadsTheColumnPerCpu) {
  TempTree tree;
  tree.write("/proc/stat",
             "cpu  1 2 3 4 5 6 7 30 9 10\ncpu0 1 2 3 4 5 6 7 10 0 0\ncpu3 1 2 3 4 5 6 7 20 0 0\n"
             "intr 1 2 3 4 5 6 7 8 9 10 11\nctxt 9\n");
  const Result<Steal> steal = read_steal(tree.root());
  ASSERT_TRUE(steal.ok());
  const std::uint64_t tick_ns = 1'000'000'000u / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  EXPECT_EQ(steal->total_ns, 30 * tick_ns);
  EXPECT_THAT(steal->cpu_ns,
              testing::ElementsAre(testing::Pair(0, 10 * tick_ns), testing::Pair(3, 20 * tick_ns)));
  tree.write("/proc/stat", "cpu  1 2 3\n");
  EXPECT_FALSE(read_steal(tree.root()).ok());
}

}  // namespace
}  // namespace whylate::host
