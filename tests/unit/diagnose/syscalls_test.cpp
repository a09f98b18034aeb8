// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/syscalls.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

namespace whylate {
namespace {

TEST(Syscalls, KnowsBothMachines) {
  EXPECT_EQ(blocking_syscall("x86_64", 202).name, "futex");
  EXPECT_EQ(blocking_syscall("aarch64", 98).name, "futex");
  EXPECT_EQ(blocking_syscall("x86_64", 232).name, "epoll_wait");
  EXPECT_EQ(blocking_syscall("aarch64", 22).name, "epoll_pwait");
}

// Calls that nobody expects to sleep are named all the same: a stop can happen in any.
TEST(Syscalls, EveryCallHasItsName) {
  EXPECT_EQ(blocking_syscall("aarch64", 129).name, "kill");
  EXPECT_EQ(blocking_syscall("aarch64", 129).kind, SleepKind::kUnknown);
  EXPECT_EQ(blocking_syscall("aarch64", 25).name, "fcntl");
  EXPECT_EQ(blocking_syscall("aarch64", 222).name, "mmap");
  for (const char* machine : {"x86_64", "aarch64"}) {
    EXPECT_EQ(blocking_syscall(machine, 455).name, "futex_wait");
    EXPECT_EQ(blocking_syscall(machine, 455).kind, SleepKind::kLock);
    EXPECT_EQ(blocking_syscall(machine, 469).name, "file_setattr");
    for (std::int32_t number = 424; number <= 469; ++number) {
      EXPECT_NE(blocking_syscall(machine, number).name, "") << machine << " " << number;
    }
  }
#ifdef __x86_64__
  EXPECT_EQ(blocking_syscall("x86_64", 62).name, "kill");
  for (std::int32_t number = 0; number <= 334; ++number) {
    EXPECT_NE(blocking_syscall("x86_64", number).name, "") << number;
  }
#endif
  for (std::int32_t number = 0; number <= 294; ++number) {
    const bool unused = number >= 244 && number < 260;  // for architectures of their own
    EXPECT_EQ(blocking_syscall("aarch64", number).name.empty(), unused) << number;
  }
}

TEST(Syscalls, UnknownIsEmpty) {
  EXPECT_EQ(blocking_syscall("x86_64", -1).name, "");
  EXPECT_EQ(blocking_syscall("x86_64", 100'000).name, "");
  EXPECT_EQ(blocking_syscall("riscv64", 98).name, "");
  // Calls arm64 does not have must not match the marker for "none".
  EXPECT_EQ(blocking_syscall("aarch64", -1).name, "");
}

TEST(Syscalls, AgreesWithTheHeadersOfThisMachine) {
  utsname name = {};
  ASSERT_EQ(uname(&name), 0);
  const auto check = [&name](std::int32_t number, const char* expected) {
    EXPECT_EQ(blocking_syscall(name.machine, number).name, expected);
  };
  check(SYS_read, "read");
  check(SYS_recvfrom, "recvfrom");
  check(SYS_recvmsg, "recvmsg");
  check(SYS_sendto, "sendto");
  check(SYS_futex, "futex");
  check(SYS_clock_nanosleep, "clock_nanosleep");
  check(SYS_epoll_pwait, "epoll_pwait");
  check(SYS_ppoll, "ppoll");
  check(SYS_fsync, "fsync");
  check(SYS_io_uring_enter, "io_uring_enter");
}

}  // namespace
}  // namespace whylate
