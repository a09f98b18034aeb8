// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace whylate {

struct SyscallRow {
  std::int32_t number;
  std::string_view name;
};

/// The 64-bit system calls of the kernel headers that this was built with: tools/cmake/
/// SyscallNames.cmake. That of x86-64 is empty where the headers lack it (built on another
/// machine).
std::span<const SyscallRow> x86_64_syscalls();
std::span<const SyscallRow> aarch64_syscalls();

}  // namespace whylate
