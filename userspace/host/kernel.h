// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <optional>
#include <string>

namespace whylate::host {

/// What kernel this is, and on what it runs.
struct KernelInfo {
  std::string release;  ///< as `uname -r` prints it; "unknown" when it cannot be read
  std::string machine;  ///< "x86_64", "aarch64", …
  std::optional<bool>
      virtualised;          ///< x86: the hypervisor flag; nothing where the CPU does not say
  std::string clocksource;  ///< "" when sysfs has none
};

/// Never fails; what cannot be read stays unknown.
KernelInfo read_kernel(const std::string& root);

/// Clock sources whose readings on different CPUs agree well enough to be subtracted.
bool clocksource_is_good(const std::string& clocksource);

}  // namespace whylate::host
