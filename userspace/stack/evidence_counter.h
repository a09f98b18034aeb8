// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace whylate::stack {

/// A counter read at the start and at the end of the window.
struct Counter {
  std::optional<std::uint64_t> before;
  std::optional<std::uint64_t> after;

  /// What it moved by; nothing when one reading is missing or it went backwards (was reset).
  std::optional<std::uint64_t> moved() const {
    if (!before || !after || *after < *before) return std::nullopt;
    return *after - *before;
  }
};

/// Where a fact was read and what it says: one line of the JSON's `evidence`.
struct Fact {
  std::string source;  ///< "/proc/12/fd/7", "inet_diag", "xdp_redirect"
  std::string text;
};

/// Something that could not be read, and what is unknown because of it.
struct Unreadable {
  std::string source;   ///< "xdp_diag", "/proc/12/maps"
  std::string reason;   ///< "not in this kernel", "CAP_SYS_PTRACE is missing"
  std::string unknown;  ///< "interface and queue of AF_XDP sockets"
};

}  // namespace whylate::stack
