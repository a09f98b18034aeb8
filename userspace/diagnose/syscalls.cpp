// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/syscalls.h"

#include <algorithm>

#include "diagnose/syscall_tables.h"

namespace whylate {
namespace {

struct Kind {
  std::string_view name;
  SleepKind kind;
};

constexpr Kind kKinds[] = {
    {"read", SleepKind::kInput},
    {"write", SleepKind::kOutput},
    {"open", SleepKind::kStorage},
    {"poll", SleepKind::kEvents},
    {"pread64", SleepKind::kStorage},
    {"pwrite64", SleepKind::kStorage},
    {"readv", SleepKind::kInput},
    {"writev", SleepKind::kOutput},
    {"select", SleepKind::kEvents},
    {"msync", SleepKind::kStorage},
    {"pause", SleepKind::kEvents},
    {"nanosleep", SleepKind::kTimer},
    {"sendfile", SleepKind::kOutput},
    {"connect", SleepKind::kOutput},
    {"accept", SleepKind::kInput},
    {"sendto", SleepKind::kOutput},
    {"recvfrom", SleepKind::kInput},
    {"sendmsg", SleepKind::kOutput},
    {"recvmsg", SleepKind::kInput},
    {"shutdown", SleepKind::kOutput},
    {"wait4", SleepKind::kChild},
    {"semop", SleepKind::kLock},
    {"msgsnd", SleepKind::kOutput},
    {"msgrcv", SleepKind::kInput},
    {"fcntl", SleepKind::kLock},
    {"flock", SleepKind::kLock},
    {"fsync", SleepKind::kStorage},
    {"fdatasync", SleepKind::kStorage},
    {"ftruncate", SleepKind::kStorage},
    {"rt_sigtimedwait", SleepKind::kEvents},
    {"rt_sigsuspend", SleepKind::kEvents},
    {"futex", SleepKind::kLock},
    {"io_getevents", SleepKind::kEvents},
    {"getdents64", SleepKind::kStorage},
    {"semtimedop", SleepKind::kLock},
    {"clock_nanosleep", SleepKind::kTimer},
    {"epoll_wait", SleepKind::kEvents},
    {"mq_timedsend", SleepKind::kOutput},
    {"mq_timedreceive", SleepKind::kInput},
    {"waitid", SleepKind::kChild},
    {"openat", SleepKind::kStorage},
    {"pselect6", SleepKind::kEvents},
    {"ppoll", SleepKind::kEvents},
    {"splice", SleepKind::kOutput},
    {"sync_file_range", SleepKind::kStorage},
    {"epoll_pwait", SleepKind::kEvents},
    {"fallocate", SleepKind::kStorage},
    {"accept4", SleepKind::kInput},
    {"preadv", SleepKind::kStorage},
    {"pwritev", SleepKind::kStorage},
    {"recvmmsg", SleepKind::kInput},
    {"sendmmsg", SleepKind::kOutput},
    {"preadv2", SleepKind::kStorage},
    {"pwritev2", SleepKind::kStorage},
    {"statx", SleepKind::kStorage},
    {"io_pgetevents", SleepKind::kEvents},
    {"io_uring_enter", SleepKind::kEvents},
    {"epoll_pwait2", SleepKind::kEvents},
    {"futex_waitv", SleepKind::kLock},
    {"futex_wait", SleepKind::kLock},
};

// Later than the headers that most builds have; from number 424 on all machines share the numbers.
constexpr SyscallRow kNewer[] = {
    {451, "cachestat"},         {452, "fchmodat2"},        {453, "map_shadow_stack"},
    {454, "futex_wake"},        {455, "futex_wait"},       {456, "futex_requeue"},
    {457, "statmount"},         {458, "listmount"},        {459, "lsm_get_self_attr"},
    {460, "lsm_set_self_attr"}, {461, "lsm_list_modules"}, {462, "mseal"},
    {463, "setxattrat"},        {464, "getxattrat"},       {465, "listxattrat"},
    {466, "removexattrat"},     {467, "open_tree_attr"},   {468, "file_getattr"},
    {469, "file_setattr"},
};

std::string_view name_in(std::span<const SyscallRow> rows, std::int32_t number) {
  for (const SyscallRow& row : rows) {
    if (row.number == number) return row.name;
  }
  return {};
}

}  // namespace

BlockingSyscall blocking_syscall(std::string_view machine, std::int32_t number) {
  const bool x86 = machine == "x86_64";
  if (number < 0 || (!x86 && machine != "aarch64")) return {};
  std::string_view name = name_in(x86 ? x86_64_syscalls() : aarch64_syscalls(), number);
  if (name.empty()) name = name_in(kNewer, number);
  const auto* const kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                        [&](const Kind& row) { return row.name == name; });
  return {name, kind == std::end(kKinds) ? SleepKind::kUnknown : kind->kind};
}

}  // namespace whylate
