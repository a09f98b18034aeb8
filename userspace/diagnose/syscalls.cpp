// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/syscalls.h"

namespace whylate {
namespace {

constexpr std::int32_t kNone = -1;

struct Row {
  std::int32_t x86_64;
  std::int32_t aarch64;
  BlockingSyscall call;
};

// Numbers of the kernel's 64-bit tables (x86: syscall_64.tbl; arm64: the generic table).
constexpr Row kRows[] = {
    {0, 63, {"read", SleepKind::kInput}},
    {1, 64, {"write", SleepKind::kOutput}},
    {2, kNone, {"open", SleepKind::kStorage}},
    {3, 57, {"close", SleepKind::kUnknown}},
    {7, kNone, {"poll", SleepKind::kEvents}},
    {9, 222, {"mmap", SleepKind::kUnknown}},
    {10, 226, {"mprotect", SleepKind::kUnknown}},
    {11, 215, {"munmap", SleepKind::kUnknown}},
    {12, 214, {"brk", SleepKind::kUnknown}},
    {17, 67, {"pread64", SleepKind::kStorage}},
    {18, 68, {"pwrite64", SleepKind::kStorage}},
    {19, 65, {"readv", SleepKind::kInput}},
    {20, 66, {"writev", SleepKind::kOutput}},
    {23, kNone, {"select", SleepKind::kEvents}},
    {26, 227, {"msync", SleepKind::kStorage}},
    {28, 233, {"madvise", SleepKind::kUnknown}},
    {34, kNone, {"pause", SleepKind::kEvents}},
    {35, 101, {"nanosleep", SleepKind::kTimer}},
    {40, 71, {"sendfile", SleepKind::kOutput}},
    {42, 203, {"connect", SleepKind::kOutput}},
    {43, 202, {"accept", SleepKind::kInput}},
    {44, 206, {"sendto", SleepKind::kOutput}},
    {45, 207, {"recvfrom", SleepKind::kInput}},
    {46, 211, {"sendmsg", SleepKind::kOutput}},
    {47, 212, {"recvmsg", SleepKind::kInput}},
    {48, 210, {"shutdown", SleepKind::kOutput}},
    {61, 260, {"wait4", SleepKind::kChild}},
    {65, 193, {"semop", SleepKind::kLock}},
    {69, 189, {"msgsnd", SleepKind::kOutput}},
    {70, 188, {"msgrcv", SleepKind::kInput}},
    {72, 25, {"fcntl", SleepKind::kLock}},
    {73, 32, {"flock", SleepKind::kLock}},
    {74, 82, {"fsync", SleepKind::kStorage}},
    {75, 83, {"fdatasync", SleepKind::kStorage}},
    {77, 46, {"ftruncate", SleepKind::kStorage}},
    {128, 137, {"rt_sigtimedwait", SleepKind::kEvents}},
    {130, 133, {"rt_sigsuspend", SleepKind::kEvents}},
    {202, 98, {"futex", SleepKind::kLock}},
    {208, 4, {"io_getevents", SleepKind::kEvents}},
    {217, 61, {"getdents64", SleepKind::kStorage}},
    {220, 192, {"semtimedop", SleepKind::kLock}},
    {230, 115, {"clock_nanosleep", SleepKind::kTimer}},
    {232, kNone, {"epoll_wait", SleepKind::kEvents}},
    {242, 182, {"mq_timedsend", SleepKind::kOutput}},
    {243, 183, {"mq_timedreceive", SleepKind::kInput}},
    {247, 95, {"waitid", SleepKind::kChild}},
    {257, 56, {"openat", SleepKind::kStorage}},
    {270, 72, {"pselect6", SleepKind::kEvents}},
    {271, 73, {"ppoll", SleepKind::kEvents}},
    {275, 76, {"splice", SleepKind::kOutput}},
    {277, 84, {"sync_file_range", SleepKind::kStorage}},
    {281, 22, {"epoll_pwait", SleepKind::kEvents}},
    {285, 47, {"fallocate", SleepKind::kStorage}},
    {288, 242, {"accept4", SleepKind::kInput}},
    {295, 69, {"preadv", SleepKind::kStorage}},
    {296, 70, {"pwritev", SleepKind::kStorage}},
    {299, 243, {"recvmmsg", SleepKind::kInput}},
    {307, 269, {"sendmmsg", SleepKind::kOutput}},
    {327, 286, {"preadv2", SleepKind::kStorage}},
    {328, 287, {"pwritev2", SleepKind::kStorage}},
    {332, 291, {"statx", SleepKind::kStorage}},
    {333, 292, {"io_pgetevents", SleepKind::kEvents}},
    {426, 426, {"io_uring_enter", SleepKind::kEvents}},
    {441, 441, {"epoll_pwait2", SleepKind::kEvents}},
    {449, 449, {"futex_waitv", SleepKind::kLock}},
    {455, 455, {"futex_wait", SleepKind::kLock}},
};

}  // namespace

BlockingSyscall blocking_syscall(std::string_view machine, std::int32_t number) {
  const bool x86 = machine == "x86_64";
  if (number < 0 || (!x86 && machine != "aarch64")) return {};
  for (const Row& row : kRows) {
    if ((x86 ? row.x86_64 : row.aarch64) == number) return row.call;
  }
  return {};
}

}  // namespace whylate
