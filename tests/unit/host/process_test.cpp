// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "unit/host/temp_tree.h"

namespace whylate::host {
namespace {

using test::add_process;
using test::stat_line;
using test::TempTree;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr unsigned long kKernelThread = 0x00200000 | 0x40;

TEST(Process, ReadsAnOrdinaryProcess) {
  TempTree tree;
  add_process(tree, 4242, "udp-echo");
  tree.write("/proc/4242/cgroup", "12:cpu,cpuacct:/srv/a:b\n1:name=systemd:/x\n0::/srv/unified\n");
  const Result<ProcessInfo> info = read_process(tree.root(), 4242);
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->pid, 4242);
  EXPECT_EQ(info->comm, "udp-echo");
  EXPECT_EQ(info->start_ticks, 12345u);
  EXPECT_EQ(info->start_ns, 12345u * (1'000'000'000u / sysconf(_SC_CLK_TCK)));
  EXPECT_FALSE(info->is_kernel_thread);
  EXPECT_FALSE(info->is_zombie);
  EXPECT_THAT(info->threads, ElementsAre(4242));
  EXPECT_THAT(info->nspid, ElementsAre(4242));
  EXPECT_THAT(info->cpus_allowed, ElementsAre(0, 1));
  EXPECT_EQ(info->cgroup_v2, "/srv/unified");
  EXPECT_THAT(info->cgroup_v1,
              ElementsAre(Pair("cpu,cpuacct", "/srv/a:b"), Pair("name=systemd", "/x")));
  EXPECT_TRUE(check_traceable(*info).ok());
}

// The name ends at the last parenthesis, whatever the process called itself.
TEST(Process, NamesMayHoldBlanksParenthesesAndLineEnds) {
  for (const char* comm : {"a) b", "(a) b)", ") S 1 1", "x\ny", "", "  "}) {
    TempTree tree;
    add_process(tree, 7, comm);
    const Result<ProcessInfo> info = read_process(tree.root(), 7);
    ASSERT_TRUE(info.ok()) << comm << ": " << info.error().message;
    EXPECT_EQ(info->comm, comm);
    EXPECT_EQ(info->start_ticks, 12345u) << comm;
  }
}

TEST(Process, CpusAreThoseOfAnyThread) {
  TempTree tree;
  add_process(tree, 10, "srv", 'S', 0, "2");
  tree.write("/proc/10/task/11/status", "Cpus_allowed_list:\t0,4-5\n");
  tree.write("/proc/10/task/9/status", "Cpus_allowed_list:\t4\n");
  const Result<ProcessInfo> info = read_process(tree.root(), 10);
  ASSERT_TRUE(info.ok());
  EXPECT_THAT(info->threads, ElementsAre(9, 10, 11));
  EXPECT_THAT(info->cpus_allowed, ElementsAre(0, 2, 4, 5));
}

TEST(Process, InAnotherPidNamespaceAllIdsAreKept) {
  TempTree tree;
  add_process(tree, 500, "srv");
  tree.write("/proc/500/status", "Tgid:\t500\nNSpid:\t500\t17\t1\n");
  const Result<ProcessInfo> info = read_process(tree.root(), 500);
  ASSERT_TRUE(info.ok());
  EXPECT_THAT(info->nspid, ElementsAre(500, 17, 1));
}

TEST(Process, KernelThreadsAndZombiesAreNotTraceable) {
  TempTree tree;
  add_process(tree, 2, "kthreadd", 'S', kKernelThread);
  add_process(tree, 3, "gone", 'Z');
  const Result<ProcessInfo> thread = read_process(tree.root(), 2);
  ASSERT_TRUE(thread.ok());
  EXPECT_TRUE(thread->is_kernel_thread);
  const Status refused = check_traceable(*thread);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("kernel thread"));
  const Result<ProcessInfo> zombie = read_process(tree.root(), 3);
  ASSERT_TRUE(zombie.ok());
  EXPECT_TRUE(zombie->is_zombie);
  ASSERT_FALSE(check_traceable(*zombie).ok());
  EXPECT_THAT(check_traceable(*zombie).error().message, HasSubstr("zombie"));
}

TEST(Process, ErrorsAreOneLineEach) {
  TempTree tree;
  add_process(tree, 20, "srv");
  tree.write("/proc/21/stat", stat_line(21, "worker", 'S', 0, 1));
  tree.write("/proc/21/status", "Tgid:\t20\nPid:\t21\n");
  tree.write("/proc/22/stat", "22 (broken");
  tree.write("/proc/22/status", "Tgid:\t22\n");
  for (const int pid : {0, -1, 99, 21, 22}) {
    const Result<ProcessInfo> info = read_process(tree.root(), pid);
    ASSERT_FALSE(info.ok()) << pid;
    EXPECT_EQ(info.error().message.find('\n'), std::string::npos);
    EXPECT_EQ(info.error().code, pid == 22 ? ExitCode::kRuntimeError : ExitCode::kUsage);
  }
  EXPECT_THAT(read_process(tree.root(), 99).error().message, "no such process: 99");
  EXPECT_THAT(read_process(tree.root(), 21).error().message, HasSubstr("process 20"));
}

TEST(Process, FindByCommIsExact) {
  TempTree tree;
  add_process(tree, 30, "nginx");
  add_process(tree, 31, "nginx-debug");
  add_process(tree, 9, "nginx");
  add_process(tree, 32, "nginx", 'Z');
  add_process(tree, 33, "nginx", 'S', kKernelThread);
  add_process(tree, 34, "fifteen-bytes-x");
  add_process(tree, 35, "a) b");
  tree.write("/proc/self-made/stat", "nonsense");
  EXPECT_THAT(find_by_comm(tree.root(), "nginx"), ElementsAre(9, 30));
  EXPECT_THAT(find_by_comm(tree.root(), "ngin"), IsEmpty());
  EXPECT_THAT(find_by_comm(tree.root(), "fifteen-bytes-x-and-more"), ElementsAre(34));
  EXPECT_THAT(find_by_comm(tree.root(), "a) b"), ElementsAre(35));
  EXPECT_THAT(find_by_comm(tree.root(), ""), IsEmpty());
}

TEST(Process, ReadsItself) {
  const Result<ProcessInfo> info = read_process("", getpid());
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_GT(info->start_ns, 0u);
  EXPECT_FALSE(info->threads.empty());
  EXPECT_FALSE(info->cpus_allowed.empty());
}

TEST(Process, NapiThreadsAreFoundAmongTheKernelsThreads) {
  const test::TempTree tree;
  EXPECT_FALSE(has_napi_threads(tree.root()));
  tree.write("/proc/2/task/2/children", "3 4 ");
  tree.write("/proc/3/comm", "kworker/0:1\n");
  EXPECT_FALSE(has_napi_threads(tree.root())) << "4 is gone";
  tree.write("/proc/4/comm", "napi/eth0-8193\n");
  EXPECT_TRUE(has_napi_threads(tree.root()));
}

}  // namespace
}  // namespace whylate::host
