// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace whylate::capture {

/// What this process may do, as far as BPF is concerned.
struct Privileges {
  std::optional<std::uint64_t>
      effective;               ///< capability bits; nothing when /proc could not be read
  std::uint64_t bounding = 0;  ///< capabilities that can be had at all
  bool initial_user_namespace =
      true;              ///< capabilities of any other user namespace do not count for BPF
  int seccomp_mode = 0;  ///< 2: system calls are filtered
  std::string lockdown;  ///< "none", "integrity", "confidentiality"; "" not known

  bool has(int capability) const {
    return effective && ((*effective >> static_cast<unsigned>(capability)) & 1u) != 0;
  }
  bool can_bpf() const;      ///< CAP_BPF or CAP_SYS_ADMIN
  bool can_perfmon() const;  ///< CAP_PERFMON or CAP_SYS_ADMIN
};

/// Reads /proc/self and securityfs below `root` ("" = real).
Privileges read_privileges(const std::string& root);

/// Everything that stands in the way, one line each; empty when nothing does.
std::vector<std::string> missing_privileges(const Privileges& privileges);

/// The same as one Error (kUnsupported, one line).
Status check_privileges(const Privileges& privileges);

/// "CAP_BPF, CAP_PERFMON" of what matters here; "none".
std::string describe_capabilities(const Privileges& privileges);

}  // namespace whylate::capture
