// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/cgroups.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "temp_tree.h"

namespace whylate::host {
namespace {

using test::TempTree;

std::uint64_t inode_of(const TempTree& tree, const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat((tree.root() + path).c_str(), &info), 0);
  return info.st_ino;
}

constexpr const char* kV1 =
    "31 24 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n"
    "32 24 0:28 / /cg/cpu rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct\n";
constexpr const char* kV2 = "33 24 0:29 / /cg/unified rw - cgroup2 cgroup2 rw\n";

TEST(Cgroups, TheV1HierarchyOfTheCpuControllerIsTheOneThatCounts) {
  const TempTree tree;
  tree.write("/proc/self/mountinfo", std::string(kV2) + kV1);
  tree.write("/cg/cpu/cpu.shares", "1024");
  tree.write("/cg/cpu/a/b c/cpu.shares", "1024");
  tree.write("/cg/unified/other/cgroup.procs", "");
  const auto groups = read_cgroups(tree.root());
  EXPECT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups.at(inode_of(tree, "/cg/cpu")), "/");
  EXPECT_EQ(groups.at(inode_of(tree, "/cg/cpu/a")), "/a");
  EXPECT_EQ(groups.at(inode_of(tree, "/cg/cpu/a/b c")), "/a/b c");
}

TEST(Cgroups, ElseTheUnifiedOne) {
  const TempTree tree;
  tree.write("/proc/self/mountinfo", kV2);
  tree.write("/cg/unified/system.slice/x.service/cgroup.procs", "");
  const auto groups = read_cgroups(tree.root());
  EXPECT_EQ(groups.at(inode_of(tree, "/cg/unified/system.slice/x.service")),
            "/system.slice/x.service");
}

TEST(Cgroups, NothingMountedIsNothingKnown) {
  const TempTree tree;
  EXPECT_TRUE(read_cgroups(tree.root()).empty());
  tree.write("/proc/self/mountinfo", kV1);  // the directory is not there
  EXPECT_TRUE(read_cgroups(tree.root()).empty());
}

}  // namespace
}  // namespace whylate::host
