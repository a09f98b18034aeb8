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
