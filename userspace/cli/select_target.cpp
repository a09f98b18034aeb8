// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/select_target.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/escape.h"
#include "capture/attach_plan.h"
#include "capture/privileges.h"
#include "cli/stack.h"
#include "request/names.h"

namespace whylate::cli {
namespace {

Error usage(std::string message) { return Error{ExitCode::kUsage, std::move(message)}; }

constexpr std::uint8_t kTcpListen = 10;

bool admits(const TraceOptions& options, const capture::SocketInfo& socket) {
  if (options.port && socket.local_port != *options.port) return false;
  return !options.proto || socket.proto == *options.proto;
}

/// Listening, or bound for datagrams: what makes a process the server of a port.
bool serves(const capture::SocketInfo& socket) {
  if (socket.proto == WL_PROTO_TCP) return socket.tcp_state == kTcpListen;
  return socket.proto == WL_PROTO_UDP;
}

std::string port_text(const TraceOptions& options) {
  return options.proto ? fmt::format("{}/{}", *options.port, proto_name(*options.proto))
                       : fmt::format("{}", *options.port);
}

Result<host::ProcessInfo> read_target(pid_t pid) {
  Result<host::ProcessInfo> process = host::read_process("", pid);
  if (!process.ok()) return process.error();
  Status traceable = host::check_traceable(*process);
  if (!traceable.ok()) return traceable.error();
  return process;
}

std::string name_of(const host::ProcessInfo& process) {
  return fmt::format("{}[{}]", escape(process.comm), process.pid);
}

Result<Target> select_by_port(const TraceOptions& options, Target target) {
  Result<std::vector<capture::SocketInfo>> sockets = capture::list_sockets(std::nullopt);
  if (!sockets.ok()) return sockets.error();
  std::set<pid_t> owners;
  for (const capture::SocketInfo& socket : *sockets) {
    if (admits(options, socket) && serves(socket) && socket.tgid != ::getpid()) {
      owners.insert(socket.tgid);
    }
  }
  for (const pid_t owner : owners) {
    Result<host::ProcessInfo> process = host::read_process("", owner);
    if (!process.ok()) continue;  // ended meanwhile, or lives outside this pid namespace
    target.processes.push_back(std::move(*process));
  }
  if (target.processes.empty()) {
    return usage(fmt::format("no process serves port {}", port_text(options)));
  }
  for (capture::SocketInfo& socket : *sockets) {
    if (admits(options, socket) && owners.count(socket.tgid) > 0) {
      target.sockets.push_back(std::move(socket));
    }
  }
  target.sockets_known = true;
  return target;
}

}  // namespace

std::vector<pid_t> Target::pids() const {
  std::vector<pid_t> pids;
  for (const host::ProcessInfo& process : processes) pids.push_back(process.pid);
  return pids;
}

Result<Target> select_target(const TraceOptions& options, std::optional<pid_t> launched) {
  Target target;
  if (launched) {
    Result<host::ProcessInfo> process = host::read_process("", *launched);
    // Whoever gave the command gave no wrong argument.
    if (!process.ok()) return Error{ExitCode::kRuntimeError, process.error().message};
    target.processes.push_back(std::move(*process));
  } else if (options.pid) {
    Result<host::ProcessInfo> process = read_target(*options.pid);
    if (!process.ok()) return process.error();
    target.processes.push_back(std::move(*process));
  } else if (options.comm) {
    for (const pid_t pid : host::find_by_comm("", *options.comm)) {
      if (pid == ::getpid()) continue;
      Result<host::ProcessInfo> process = host::read_process("", pid);
      if (process.ok()) target.processes.push_back(std::move(*process));
    }
    if (target.processes.empty()) {
      return usage(fmt::format("no process is named '{}'", escape(*options.comm)));
    }
  }

  Status allowed = capture::check_privileges(capture::read_privileges(""));
  if (!allowed.ok()) return allowed.error();
  // Before anything is loaded: without type information the load would fail for no clear reason.
  Result<capture::Features> features = capture::read_features();
  if (!features.ok()) return features.error();
  target.features = std::move(*features);
  const std::vector<std::string> missing = capture::missing_requirements(target.features);
  if (!missing.empty()) {
    return Error{ExitCode::kUnsupported, fmt::format("{}", fmt::join(missing, "; "))};
  }
  if (launched) return target;
  if (target.processes.empty()) return select_by_port(options, std::move(target));

  for (const host::ProcessInfo& process : target.processes) {
    Result<std::vector<capture::SocketInfo>> sockets = capture::list_sockets(process.pid);
    if (!sockets.ok()) return sockets.error();
    for (capture::SocketInfo& socket : *sockets) {
      if (admits(options, socket)) target.sockets.push_back(std::move(socket));
    }
  }
  target.sockets_known = true;
  if (target.sockets.empty()) {
    // Not "no requests": its traffic may just not come this way.
    for (const host::ProcessInfo& process : target.processes) {
      const std::optional<std::string> other = other_stack(process.pid);
      if (other) return Error{ExitCode::kUnsupported, *other};
    }
    std::string who = name_of(target.processes.front());
    if (target.processes.size() > 1) {
      who += fmt::format(" (and {} more of that name)", target.processes.size() - 1);
    }
    const std::string what = options.port ? fmt::format("no socket on port {}", port_text(options))
                                          : std::string("no UDP or TCP socket");
    return usage(fmt::format("{} has {}", who, what));
  }
  return target;
}

}  // namespace whylate::cli
