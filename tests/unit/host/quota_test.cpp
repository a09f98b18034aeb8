// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/quota.h"

#include <gtest/gtest.h>

#include "unit/host/temp_tree.h"

namespace whylate::host {
namespace {

using test::TempTree;

constexpr const char* kHybrid =
    "30 29 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "31 30 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
constexpr const char* kUnified = "30 29 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup rw\n";

void add_v1(const TempTree& tree, const std::string& path, const std::string& quota) {
  tree.write("/sys/fs/cgroup/cpu,cpuacct" + path + "/cpu.cfs_quota_us", quota + "\n");
  tree.write("/sys/fs/cgroup/cpu,cpuacct" + path + "/cpu.cfs_period_us", "100000\n");
}

TEST(Quota, V1WalksUpAndFindsTheTightest) {
  TempTree tree;
  tree.write("/proc/self/mountinfo", kHybrid);
  add_v1(tree, "", "-1");
  add_v1(tree, "/a", "20000");
  add_v1(tree, "/a/b", "-1");
  add_v1(tree, "/a/b/c", "50000");
  ProcessInfo process;
  process.cgroup_v1 = {{"cpuset", "/elsewhere"}, {"cpu,cpuacct", "/a/b/c"}};
  process.cgroup_v2 = "/a";
  const Result<QuotaInfo> info = read_quota(tree.root(), process);
  ASSERT_TRUE(info.ok()) << info.error().message;
  ASSERT_EQ(info->levels.size(), 2u);
  EXPECT_EQ(info->levels[0].path, "/a/b/c");
  EXPECT_EQ(info->levels[1].path, "/a");
  EXPECT_EQ(info->levels[1].quota_us, 20000u);
  EXPECT_EQ(info->levels[1].period_us, 100000u);
  EXPECT_FALSE(info->levels[1].v2);
  EXPECT_EQ(info->tightest, 1u);
}

TEST(Quota, V2ReadsCpuMax) {
  TempTree tree;
  tree.write("/proc/self/mountinfo", kUnified);
  tree.write("/sys/fs/cgroup/s/cpu.max", "150000 100000\n");
  tree.write("/sys/fs/cgroup/s/t/cpu.max", "10000 5000\n");
  tree.write("/sys/fs/cgroup/s/t/u/cpu.max", "max 100000\n");
  ProcessInfo process;
  process.cgroup_v2 = "/s/t/u";
  const Result<QuotaInfo> info = read_quota(tree.root(), process);
  ASSERT_TRUE(info.ok()) << info.error().message;
  ASSERT_EQ(info->levels.size(), 2u);
  EXPECT_EQ(info->levels[0].path, "/s/t");
  EXPECT_TRUE(info->levels[0].v2);
  EXPECT_EQ(info->tightest, 1u);  // 1.5 CPUs against 2
}

TEST(Quota, NoLimitIsNotAnError) {
  TempTree tree;
  tree.write("/proc/self/mountinfo", kUnified);
  tree.write("/sys/fs/cgroup/cgroup.procs", "");
  ProcessInfo process;
  process.cgroup_v2 = "/";
  const Result<QuotaInfo> info = read_quota(tree.root(), process);
  ASSERT_TRUE(info.ok());
  EXPECT_TRUE(info->levels.empty());
  EXPECT_FALSE(info->tightest.has_value());
}

TEST(Quota, AMountThatShowsOnlyAPartOfTheTree) {
  TempTree tree;
  tree.write("/proc/self/mountinfo", "30 29 0:26 /pod /mnt\\040x rw - cgroup2 cgroup rw\n");
  tree.write("/mnt x/cpu.max", "max 100000\n");
  tree.write("/mnt x/in/cpu.max", "1000 100000\n");
  ProcessInfo process;
  process.cgroup_v2 = "/pod/in";
  const Result<QuotaInfo> info = read_quota(tree.root(), process);
  ASSERT_TRUE(info.ok()) << info.error().message;
  ASSERT_EQ(info->levels.size(), 1u);
  EXPECT_EQ(info->levels[0].path, "/pod/in");
}

TEST(Quota, WhatCannotBeSeenIsAnErrorNotNoLimit) {
  TempTree tree;
  ProcessInfo process;
  process.cgroup_v2 = "/s";
  EXPECT_FALSE(read_quota(tree.root(), process).ok());
  tree.write("/proc/self/mountinfo", kUnified);
  EXPECT_FALSE(read_quota(tree.root(), process).ok());  // the group is not there
  tree.write("/proc/self/mountinfo", "30 29 0:26 / / rw - ext4 /dev/vda rw\n");
  EXPECT_FALSE(read_quota(tree.root(), process).ok());
}

}  // namespace
}  // namespace whylate::host
