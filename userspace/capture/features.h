// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <map>
#include <string>

#include "base/result.h"

namespace whylate::capture {

inline constexpr const char* kVmlinuxBtf = "/sys/kernel/btf/vmlinux";

/// What the running kernel offers, read from its type information.
struct Features {
  std::map<std::string, int> tracepoints;  ///< name -> number of arguments
  bool iter_task_file = false;             ///< the iterator over open files, which finds sockets
  bool cfs_throttled_self_time = false;    ///< cfs_rq.throttled_clock_self_time: exact quota time
  bool task_throttled = false;    ///< task_struct.throttled: quota applied on return to user mode
  bool task_state = false;        ///< task_struct.__state (else .state)
  bool udp_reader_queue = false;  ///< udp_sock.reader_queue
  bool udp_prod_queue = false;    ///< udp_sock.udp_prod_queue: enqueue batched across CPUs
  /// Programs on tracepoints can be preempted: SRCU guards them (include/linux/tracepoint.h).
  bool tracepoints_preemptible = false;

  bool has(const std::string& tracepoint) const { return tracepoints.count(tracepoint) != 0; }
  /// Number of arguments, -1 when the tracepoint does not exist.
  int args(const std::string& tracepoint) const {
    const auto it = tracepoints.find(tracepoint);
    return it == tracepoints.end() ? -1 : it->second;
  }
};

/// Reads BTF. Error (kUnsupported, one line): the file and the kernel option that provides it; in a
/// build without live capture: that.
Result<Features> read_features(const std::string& btf_path = kVmlinuxBtf);

/// Loads and drops a BPF program that does nothing. Error (kUnsupported, one line): the bpf() call
/// is refused although the capabilities are there, with the likely reason.
Status probe_bpf();

}  // namespace whylate::capture
