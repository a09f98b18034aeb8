// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "stack/evidence.h"

namespace whylate::stack {

/// Where to read. A tree of files can stand in for a machine.
struct HostRoot {
  std::string path;  ///< put before absolute paths; "" is the real machine

  /// Netlink, xattrs, descriptors and device calls mean something on the real machine only.
  bool live() const { return path.empty(); }
};

/// What collecting may do beyond reading files and diag sockets.
struct CollectOptions {
  bool borrow_descriptors = false;  ///< pidfd_getfd for getsockopt calls that only read
  std::uint32_t max_sockets = 200'000;
};

/// Everything there is to know at the start of the window; counters get their `before`.
/// Errors, one line each: no such process, kernel thread, zombie (kUsage); no right to look at the
/// process at all, with the capability that is missing (kUnsupported). All lesser gaps are entries
/// of could_not_read.
Result<Evidence> collect_evidence(pid_t pid, const HostRoot& root, const CollectOptions& options);

/// The second reading: fills every `after`, notes sockets that are gone, and whether the process
/// is. Never fails: what is missing goes to could_not_read.
void collect_after(Evidence& evidence, const HostRoot& root, const CollectOptions& options);

}  // namespace whylate::stack
