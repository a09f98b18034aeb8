// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/stack.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/escape.h"
#include "base/log.h"
#include "base/signals.h"
#include "cli/output.h"
#include "host/process.h"
#include "report/stack_json.h"
#include "report/stack_text.h"
#include "stack/collect.h"
#include "stack/decide.h"

namespace whylate::cli {
namespace {

constexpr std::uint8_t kTcpListen = 10;
constexpr std::size_t kMaxProcesses = 32;
constexpr std::size_t kAtOnce = 8;  // in one window: each brings hooks that every packet passes

Error usage(std::string message) { return Error{ExitCode::kUsage, std::move(message)}; }

Result<std::vector<pid_t>> servers_of(const StackCommand& command, const StackSources& sources) {
  if (!sources.list_sockets) {
    return Error{ExitCode::kUnsupported,
                 "--port needs live capture, which this build lacks: use -p PID"};
  }
  Result<std::vector<capture::SocketInfo>> sockets = sources.list_sockets(std::nullopt);
  if (!sockets.ok()) return sockets.error();
  std::set<pid_t> owners;
  for (const capture::SocketInfo& socket : *sockets) {
    const bool serves = socket.proto == WL_PROTO_UDP || socket.tcp_state == kTcpListen;
    const bool wanted = !command.proto || socket.proto == *command.proto;
    if (serves && wanted && socket.local_port == *command.port && socket.tgid != ::getpid()) {
      owners.insert(socket.tgid);
    }
  }
  if (owners.empty()) {
    return usage(fmt::format(
        "no process has a kernel socket on port {}; a stack that bypasses the kernel has none: "
        "use -p PID",
        *command.port));
  }
  return std::vector<pid_t>(owners.begin(), owners.end());
}

Result<std::vector<pid_t>> select(const StackCommand& command, const StackSources& sources) {
  if (command.pid) return std::vector<pid_t>{*command.pid};
  if (command.port) return servers_of(command, sources);
  std::vector<pid_t> pids = host::find_by_comm("", *command.comm);
  pids.erase(std::remove(pids.begin(), pids.end(), ::getpid()), pids.end());
  if (pids.empty()) return usage(fmt::format("no process is named '{}'", escape(*command.comm)));
  return pids;
}

/// Waits without counting, in steps short enough for a signal to end it.
std::uint64_t wait_for(std::uint64_t window_ns) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::nanoseconds(window_ns);
  while (!stop_requested() && Clock::now() < end) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    ::poll(nullptr, 0, static_cast<int>(std::clamp<std::int64_t>(left.count(), 1, 100)));
  }
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
}

stack::ObserveRequest request_for(const stack::Evidence& evidence, std::uint64_t window_ns) {
  stack::ObserveRequest request;
  request.pid = evidence.process.pid;
  request.net_namespace = evidence.process.net_namespace;
  request.window_ns = window_ns;
  for (const stack::IoUring& ring : evidence.rings) {
    request.inodes.insert(request.inodes.end(), ring.registered_sockets.begin(),
                          ring.registered_sockets.end());
  }
  for (const stack::Interface& interface : evidence.interfaces) {
    request.interfaces[interface.ifindex] = interface.name;
  }
  return request;
}

/// One window for all of them, counted where that is possible.
std::vector<stack::TrafficWindow> watch(const std::vector<stack::ObserveRequest>& requests,
                                        std::uint64_t window_ns, const StackSources& sources) {
  std::vector<Result<stack::TrafficWindow>> counted(
      requests.size(),
      Error{ExitCode::kUnsupported, "this build has no live capture (WHYLATE_BPF=OFF)"});
  if (sources.observe) counted = sources.observe(requests);
  const bool none =
      std::none_of(counted.begin(), counted.end(), [](const auto& window) { return window.ok(); });
  const std::uint64_t waited_ns = none ? wait_for(window_ns) : window_ns;
  std::vector<stack::TrafficWindow> windows;
  for (Result<stack::TrafficWindow>& one : counted) {
    stack::TrafficWindow window;
    if (one.ok()) {
      window = std::move(*one);
    } else {
      window.window_ns = waited_ns;
      window.not_counted.push_back(
          {"tracepoints", one.error().message,
           "packets of sockets, at tcpdump's taps, and redirected by XDP"});
    }
    windows.push_back(std::move(window));
  }
  return windows;
}

void add_report(const stack::StackReport& report, bool first, const StackCommand& command,
                Output& output) {
  if (command.json) {
    output.add(stack_to_json(report).dump(-1, ' ', false,
                                          nlohmann::ordered_json::error_handler_t::replace) +
               "\n");
    return;
  }
  output.add((first ? "" : "\n") + stack_to_text(report));
  if (command.explain) output.add(stack_explain(report));
}

}  // namespace

std::vector<Result<stack::StackReport>> examine_stacks(const std::vector<pid_t>& pids,
                                                       const StackCommand& command,
                                                       const StackSources& sources) {
  const stack::HostRoot root;
  stack::CollectOptions options;
  options.borrow_descriptors = command.borrow;
  std::vector<Result<stack::Evidence>> found;
  std::vector<stack::ObserveRequest> requests;
  for (const pid_t pid : pids) {
    found.push_back(stack::collect_evidence(pid, root, options));
    if (found.back().ok()) requests.push_back(request_for(*found.back(), command.window_ns));
  }
  std::vector<stack::TrafficWindow> windows;
  if (!requests.empty()) windows = watch(requests, command.window_ns, sources);
  std::vector<Result<stack::StackReport>> reports;
  std::size_t watched = 0;
  for (Result<stack::Evidence>& evidence : found) {
    if (!evidence.ok()) {
      reports.push_back(evidence.error());
      continue;
    }
    stack::collect_after(*evidence, root, options);
    reports.push_back(stack::decide(*evidence, windows[watched++]));
  }
  return reports;
}

std::optional<stack::StackReport> look_once(pid_t pid) {
  const Result<stack::Evidence> evidence = stack::collect_evidence(pid, {}, {});
  if (!evidence.ok()) return std::nullopt;
  return stack::decide(*evidence, stack::TrafficWindow{});
}

std::optional<std::string> other_stack(pid_t pid) {
  const std::optional<stack::StackReport> looked = look_once(pid);
  if (!looked) return std::nullopt;
  const stack::StackReport& report = *looked;
  const bool in_ring_alone = std::any_of(
      report.sockets.begin(), report.sockets.end(), [](const stack::SocketVerdict& socket) {
        return !socket.fd && socket.count == 1 && socket.stack == stack::Stack::kIoUring;
      });
  if (in_ring_alone) {
    return fmt::format(
        "{}[{}] has sockets in io_uring's own table (direct descriptors), where trace cannot find "
        "them; `whylate stack -p {}` looks at them",
        escape(report.process.comm), pid, pid);
  }
  const bool likely = report.confidence >= stack::Confidence::kLikely;
  if (!likely || !traits(report.verdict).bypass) return std::nullopt;
  std::string tools;
  for (const std::string& tool : report.use_instead) {
    tools += (tools.empty() ? "" : ", ") + tool;
  }
  return fmt::format(
      "{}[{}] is carried by {} ({}), whose packets pass none of the hooks on the kernel's sockets; "
      "`whylate stack -p {}` says more; use instead: {}",
      escape(report.process.comm), pid, traits(report.verdict).title, name(report.confidence), pid,
      tools);
}

int run_stack(const StackCommand& command, const StackSources& sources) {
  Result<std::vector<pid_t>> selected = select(command, sources);
  if (!selected.ok()) return fail(selected.error());
  std::vector<pid_t>& pids = *selected;
  if (pids.size() > kMaxProcesses) {
    log_line(
        fmt::format("{} more processes are left out: use -p PID", pids.size() - kMaxProcesses));
    pids.resize(kMaxProcesses);
  }
  Output output = Output::to_stdout();
  ExitCode code = ExitCode::kDone;
  bool first = true;
  for (std::size_t at = 0; at < pids.size(); at += kAtOnce) {
    if (at > 0 && output.reader_gone()) break;
    if (at > 0 && stop_requested()) {
      log_line(fmt::format("interrupted: {} of {} processes were looked at", at, pids.size()));
      return static_cast<int>(ExitCode::kFinding);
    }
    const std::size_t end = std::min(at + kAtOnce, pids.size());
    const std::vector<pid_t> group(pids.begin() + static_cast<std::ptrdiff_t>(at),
                                   pids.begin() + static_cast<std::ptrdiff_t>(end));
    for (const Result<stack::StackReport>& report : examine_stacks(group, command, sources)) {
      if (!report.ok()) {
        // Of several processes one may end meanwhile; of one, that is the answer.
        if (pids.size() == 1) return fail(report.error());
        log_line(report.error().message);
        code = ExitCode::kFinding;
        continue;
      }
      if (report->process.vanished) code = ExitCode::kFinding;
      add_report(*report, first, command, output);
      first = false;
    }
    const Status written = output.flush();
    if (!written.ok()) return fail(written.error());
  }
  return static_cast<int>(code);
}

}  // namespace whylate::cli
