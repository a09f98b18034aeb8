// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect.h"

#include <dirent.h>
#include <signal.h>

#include <cerrno>
#include <chrono>

#include "host/file.h"
#include "host/process.h"
#include "stack/collect/borrow.h"
#include "stack/collect/fd_table.h"
#include "stack/collect/interfaces.h"
#include "stack/collect/libraries.h"
#include "stack/collect/maps.h"
#include "stack/collect/net_files.h"
#include "stack/collect/process_facts.h"
#include "stack/collect/sockets.h"
#include "stack/collect/user_devices.h"
#include "stack/collect/vendor_dpdk.h"
#include "stack/collect/vendor_exasock.h"
#include "stack/collect/vendor_offload.h"
#include "stack/collect/vendor_onload.h"
#include "stack/collect/vendor_rdma.h"

namespace whylate::stack {
namespace {

using collect::Context;
using collect::Reading;

/// Adds the time of its life to a sum: what collecting costs is part of the evidence.
class Stopwatch {
 public:
  explicit Stopwatch(std::uint64_t& sum_ns) : sum_ns_(sum_ns) {}
  ~Stopwatch() {
    const auto took = std::chrono::steady_clock::now() - begin_;
    sum_ns_ += static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  std::uint64_t& sum_ns_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// A process that lives but is not in /proc is hidden by the mount option hidepid.
bool is_hidden(pid_t pid) { return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM); }

char state_of(const std::string& base) {
  const auto text = host::read_file(base + "/stat");
  if (!text) return 'X';
  const std::size_t close = text->rfind(')');
  return close == std::string::npos || close + 2 >= text->size() ? 'X' : (*text)[close + 2];
}

// A leader may have ended while other threads run on: then one of those stands for the process.
pid_t living_thread(const host::ProcessInfo& process, const std::string& root) {
  if (!process.is_zombie) return process.pid;
  for (const pid_t tid : process.threads) {
    const std::string base =
        root + "/proc/" + std::to_string(process.pid) + "/task/" + std::to_string(tid);
    const char state = state_of(base);
    if (state != 'Z' && state != 'X') return tid;
  }
  return 0;
}

Result<host::ProcessInfo> find_process(pid_t pid, const HostRoot& root) {
  Result<host::ProcessInfo> process = host::read_process(root.path, pid);
  if (process) return process;
  if (root.live() && is_hidden(pid) && !host::exists("/proc/" + std::to_string(pid))) {
    return Error{ExitCode::kUnsupported, "process " + std::to_string(pid) +
                                             " runs but /proc hides it (hidepid): CAP_SYS_PTRACE "
                                             "is missing"};
  }
  return Error{ExitCode::kUsage, process.error().message};
}

// Without the descriptors there is nothing to judge. A process of the same user that may do more
// shows their numbers, but not what they are: `exe` is guarded in the same way.
Status check_rights(const Context& context) {
  const std::string path = context.proc() + "/fd";
  DIR* const directory = ::opendir(path.c_str());
  int error = directory != nullptr ? 0 : errno;
  if (directory != nullptr) {
    ::closedir(directory);
    collect::read_link(context.proc() + "/exe", &error);
    if (error != EACCES && error != EPERM) return Done{};
  }
  const std::string id = std::to_string(context.pid);
  if ((error == EACCES || error == EPERM) && host::exists(context.proc() + "/stat")) {
    return Error{ExitCode::kUnsupported,
                 "may not look at process " + id + ": CAP_SYS_PTRACE is missing"};
  }
  return Error{ExitCode::kUsage, "no such process: " + id};
}

}  // namespace

Result<Evidence> collect_evidence(pid_t pid, const HostRoot& root, const CollectOptions& options) {
  Evidence evidence;
  {
    const Stopwatch stopwatch(evidence.collect_ns);
    const Result<host::ProcessInfo> process = find_process(pid, root);
    if (!process) return process.error();
    const std::string id = std::to_string(pid);
    if (process->is_kernel_thread) {
      return Error{ExitCode::kUsage, id + " is a kernel thread: it has no sockets of its own"};
    }
    Context context;
    context.pid = pid;
    context.lead = living_thread(*process, root.path);
    context.root = root;
    context.options = options;
    context.unreadable = &evidence.could_not_read;
    if (context.lead == 0) {
      return Error{ExitCode::kUsage, "process " + id + " has already ended (zombie)"};
    }
    if (const Status rights = check_rights(context); !rights) return rights.error();

    evidence.process.pid = pid;
    evidence.process.comm = process->comm;
    evidence.process.start_ns = process->start_ns;
    evidence.process.nspid = process->nspid;
    const collect::DeviceNames devices = collect::DeviceNames::read(root.path);
    collect::collect_process(context, evidence);
    collect::collect_fds(context, devices, evidence);
    collect::collect_libraries(context, collect::collect_maps(context, devices, evidence),
                               evidence);
    collect::collect_user_devices(context, evidence);
    if (options.borrow_descriptors && context.live()) {
      collect::borrow_descriptors(context, evidence);
    }
    // Counters last: the window begins after them.
    collect::collect_sockets(context, evidence);
    collect::collect_dpdk(context, evidence);
    collect::collect_offload_stats(context, evidence);
    collect::collect_exasock(context, evidence);
    collect::collect_rdma(context, Reading::kBefore, evidence);
    collect::collect_onload(context, Reading::kBefore, evidence);
    collect::collect_interfaces(context, evidence);
    collect::collect_net_files(context, evidence);
    collect::collect_threads(context, Reading::kBefore, evidence);
  }
  return evidence;
}

void collect_after(Evidence& evidence, const HostRoot& root, const CollectOptions& options) {
  const Stopwatch stopwatch(evidence.collect_ns);
  const pid_t pid = evidence.process.pid;
  const Result<host::ProcessInfo> process = host::read_process(root.path, pid);
  Context context;
  context.pid = pid;
  context.lead = process ? living_thread(*process, root.path) : 0;
  context.root = root;
  context.options = options;
  context.unreadable = &evidence.could_not_read;
  // The same number may belong to another process by now.
  if (!process || context.lead == 0 || process->start_ns != evidence.process.start_ns) {
    evidence.process.vanished = true;
    return;
  }
  collect::collect_threads(context, Reading::kAfter, evidence);
  collect::collect_net_files_after(context, evidence);
  collect::collect_interfaces_after(context, evidence);
  collect::collect_onload(context, Reading::kAfter, evidence);
  collect::collect_rdma(context, Reading::kAfter, evidence);
  collect::collect_offload_stats_after(context, evidence);
  collect::collect_dpdk_after(context, evidence);
  collect::collect_sockets_after(context, collect::DeviceNames::read(root.path), evidence);
}

}  // namespace whylate::stack
