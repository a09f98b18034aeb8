// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string_view>

namespace whylate {

/// What a thread that sleeps in a system call waits for.
enum class SleepKind {
  kUnknown,
  kLock,     ///< futex: a lock or a condition variable
  kTimer,    ///< it asked to sleep
  kEvents,   ///< epoll, poll, select: any of several inputs
  kInput,    ///< read, recv, accept
  kOutput,   ///< write, send: room in a buffer, or storage
  kStorage,  ///< fsync and friends
  kChild,    ///< wait for a process
};

struct BlockingSyscall {
  std::string_view name;
  SleepKind kind = SleepKind::kUnknown;
};

/// The system call `number` of a 64-bit program on `machine` ("x86_64" or "aarch64"). The name is
/// empty for other machines, and for calls that are later than the headers of the build.
BlockingSyscall blocking_syscall(std::string_view machine, std::int32_t number);

}  // namespace whylate
