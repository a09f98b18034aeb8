// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/trace_xsk.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/utsname.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/duration.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/signals.h"
#include "capture/xsk.h"
#include "cli/stack.h"
#include "host/process.h"
#include "report/json.h"
#include "report/xsk.h"

namespace whylate::cli {
namespace {

constexpr std::uint64_t kSliceNs = 50 * kNsPerMs;
constexpr std::uint64_t kLookEveryNs = kNsPerSecond;

std::uint64_t now_ns() {
  timespec time = {};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(time.tv_nsec);
}

void sleep_ns(std::uint64_t ns) {
  const timespec time = {static_cast<time_t>(ns / kNsPerSecond),
                         static_cast<long>(ns % kNsPerSecond)};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

bool is_gone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

XskTarget describe(const stack::StackReport& report) {
  XskTarget target;
  target.pid = report.process.pid;
  target.comm = report.process.comm;
  target.start_ns = report.process.start_ns;
  utsname kernel = {};
  if (::uname(&kernel) == 0) target.kernel = kernel.release;
  for (const stack::SocketVerdict& socket : report.sockets) {
    if (socket.stack != stack::Stack::kAfXdp) continue;
    target.sockets.push_back(fmt::format("fd {}: {}", socket.fd.value_or(-1), socket.detail));
  }
  return target;
}

}  // namespace

std::optional<stack::StackReport> af_xdp_target(const TraceOptions& options) {
  if (options.port || !options.command.empty()) return std::nullopt;
  pid_t pid = options.pid.value_or(0);
  if (options.comm) {
    const std::vector<pid_t> pids = host::find_by_comm("", *options.comm);
    if (pids.size() == 1) pid = pids.front();
  }
  if (pid == 0) return std::nullopt;
  std::optional<stack::StackReport> report = look_once(pid);
  const auto on_af_xdp = [](const stack::SocketVerdict& socket) {
    return socket.stack == stack::Stack::kAfXdp && socket.confidence >= stack::Confidence::kLikely;
  };
  if (!report || std::none_of(report->sockets.begin(), report->sockets.end(), on_af_xdp)) {
    return std::nullopt;
  }
  return report;
}

Result<int> run_xsk_trace(const TraceOptions& options, const stack::StackReport& target,
                          Output output) {
  const pid_t pid = target.process.pid;
  const bool generic = std::any_of(
      target.interfaces.begin(), target.interfaces.end(),
      [](const auto& interface) { return interface.xdp_mode == stack::XdpMode::kGeneric; });
  Result<std::unique_ptr<capture::XskSession>> opened = capture::XskSession::open(pid, generic);
  if (!opened.ok()) return opened.error();
  capture::XskSession& session = **opened;
  log_line(
      fmt::format("{}[{}] is carried by AF_XDP: following its packets as far as the kernel "
                  "sees them",
                  escape(target.process.comm), pid));
  const std::uint64_t begin_ns = now_ns();
  std::uint64_t look_ns = begin_ns + kLookEveryNs;
  bool gone = false;
  while (!stop_requested() && !output.reader_gone()) {
    const std::uint64_t time_ns = now_ns();
    if (options.duration_ns && time_ns - begin_ns >= *options.duration_ns) break;
    if (options.count && session.redirected() >= *options.count) break;
    gone = is_gone(pid);
    if (gone) break;
    if (time_ns >= look_ns) {
      look_ns = time_ns + kLookEveryNs;
      if (const auto sockets = session.sockets(); !sockets.ok()) continue;  // it is ending
    }
    std::uint64_t wait_ns = kSliceNs;
    if (options.duration_ns) {
      wait_ns = std::min(wait_ns, begin_ns + *options.duration_ns - time_ns);
    }
    sleep_ns(wait_ns);
    output.look_for_reader();
  }
  XskReading reading;
  reading.before = session.first_sockets();
  if (Result<std::vector<wl_xsk_line>> after = session.sockets(); after.ok()) {
    reading.after = std::move(*after);
  }
  reading.duration_ns = now_ns() - begin_ns;
  session.detach();
  reading.recursion_misses = session.recursion_misses();
  reading.totals = session.totals();
  reading.generic = generic;
  reading.sockets_lost = reading.after.size() > WL_XSK_MAX_SOCKETS;
  if (output.reader_gone()) return static_cast<int>(ExitCode::kDone);

  const XskSummary summary = summarise_xsk(reading, describe(target));
  switch (options.format) {
    case Format::kText:
      output.add(xsk_to_text(summary));
      break;
    case Format::kJson:
      output.add(dump_json_pretty(xsk_to_json(summary)) + "\n");
      break;
    case Format::kJsonLines:
      output.add(dump_json_line(xsk_to_json(summary)) + "\n");
      break;
  }
  if (Status written = output.close(); !written.ok()) return written.error();
  if (gone) log_line(fmt::format("target exited after {}", format_seconds(reading.duration_ns)));
  return static_cast<int>(gone && summary.redirected == 0 ? ExitCode::kFinding : ExitCode::kDone);
}

}  // namespace whylate::cli
