// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "bpf/xsk_trace.h"

namespace whylate::capture {

/// The hooks on the way of packets to the AF_XDP sockets of one process. Detached on destruction.
class XskSession {
 public:
  /// Loads, attaches and finds the sockets. Errors: kUnsupported, with what is missing: privileges,
  /// a tracepoint, AF_XDP in the kernel's type information.
  /// `generic`: an interface of the process has its XDP program in generic mode.
  static Result<std::unique_ptr<XskSession>> open(pid_t pid, bool generic);
  ~XskSession();
  XskSession(const XskSession&) = delete;
  XskSession& operator=(const XskSession&) = delete;

  /// Packets redirected to the target so far.
  std::uint64_t redirected() const;
  /// Sums over all CPUs.
  std::unique_ptr<wl_xsk_totals> totals() const;
  /// The target's sockets now; sockets that are new are followed from here on.
  Result<std::vector<wl_xsk_line>> sockets();
  /// Sockets as they were when it opened.
  const std::vector<wl_xsk_line>& first_sockets() const { return first_; }
  /// How often the kernel skipped a hook because one ran already on that CPU.
  std::uint64_t recursion_misses() const;
  void detach();

 private:
  struct Skeleton;
  explicit XskSession(pid_t pid);

  pid_t pid_;
  std::unique_ptr<Skeleton> skeleton_;
  std::vector<wl_xsk_line> first_;
};

}  // namespace whylate::capture
