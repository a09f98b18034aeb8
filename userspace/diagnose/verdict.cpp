// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/verdict.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "base/duration.h"
#include "base/escape.h"
#include "diagnose/culprits.h"
#include "diagnose/syscalls.h"
#include "request/names.h"

namespace whylate {
namespace {

/// "stopped by a signal (...)": completes "the process was".
std::string stop_text(std::uint8_t kind) {
  switch (kind) {
    case WL_STOP_SIGNAL:
      return "stopped by a signal (SIGSTOP, or one of job control)";
    case WL_STOP_TRACER:
      return "held by a debugger or tracer (ptrace: gdb, strace)";
    case WL_STOP_FROZEN_ASLEEP:
    case WL_STOP_FREEZER:
      return "frozen (cgroup freezer, or the machine was suspended)";
    default:
      return "stopped";
  }
}

std::string stop_remedy(const wl_request& record, std::uint8_t kind) {
  switch (kind) {
    case WL_STOP_SIGNAL:
      return "Find who sends SIGSTOP and SIGCONT: a supervisor, a checkpoint or backup script, a "
             "shell's job control.";
    case WL_STOP_TRACER:
      return fmt::format("TracerPid in /proc/{}/status names who holds it; detach that.",
                         record.tgid);
    default:
      return "Find who freezes its cgroup (docker pause, systemctl freeze, a checkpoint): "
             "cgroup.freeze, or freezer.state of version 1.";
  }
}

std::string_view stop_culprit(std::uint8_t kind) {
  switch (kind) {
    case WL_STOP_SIGNAL:
      return "stop signal";
    case WL_STOP_TRACER:
      return "debugger or tracer";
    default:
      return "freezer";
  }
}

/// A stage of which the process was stopped for half or more.
std::optional<Finding> blame_stop(const wl_request& record, wl_stop_part part, wl_stage stage) {
  const std::uint64_t ns = record.stopped_ns[part];
  if (ns == 0 || ns < record.stage_ns[stage] - ns) return std::nullopt;
  const std::uint8_t kind = record.stop_kind[part];
  std::string what = fmt::format("the process was {}", stop_text(kind));
  if (ns < record.stage_ns[stage]) what += fmt::format(" for {} of it", format_duration(ns));
  // A reader that slept until its datagram came was frozen when that came, or it would have woken.
  if (part == WL_STOP_APP && kind == WL_STOP_FROZEN_ASLEEP) {
    what += ", in a sleep of its own; since when in it is not known";
  }
  return Finding{std::string(stop_culprit(kind)), what + ".", stop_remedy(record, kind)};
}

Finding blame_socket_queue(const wl_request& record) {
  if (auto stop = blame_stop(record, WL_STOP_QUEUE, WL_STAGE_SOCKET_QUEUE)) return *stop;
  std::string what = fmt::format("it lay on the socket while {} was busy with earlier requests",
                                 thread_text(record));
  if (record.stopped_ns[WL_STOP_QUEUE] > 0) {
    what += fmt::format("; for {} of it the process was {}",
                        format_duration(record.stopped_ns[WL_STOP_QUEUE]),
                        stop_text(record.stop_kind[WL_STOP_QUEUE]));
  }
  return {"application", what + ".", "Shorten the work per request, or add threads or sockets."};
}

Finding blame_blocked(const Request& request, const RunContext& context) {
  const wl_request& record = request.record;
  if (auto stop = blame_stop(record, WL_STOP_APP, WL_STAGE_APP_BLOCKED)) return *stop;
  const std::string thread = thread_text(record);
  if (record.blocked_syscall < 0 && std::string_view(thread).substr(0, 8) == "iou-wrk-") {
    return {
        "the server's own thread",
        fmt::format("{}, a worker of io_uring, had read the request and given it back; what the "
                    "server's own thread waited for until it replied is not followed.",
                    thread),
        "Look at what has the CPU of the server's own thread, or let that thread read itself "
        "(no IOSQE_ASYNC)."};
  }
  if (record.blocked_syscall < 0) {
    return {"outside a system call",
            fmt::format("{} slept outside a system call: a page fault, or unknown.", thread),
            "Lock and touch its memory before serving (mlockall), keep it off swap and files."};
  }
  const BlockingSyscall call = blocking_syscall(context.machine, record.blocked_syscall);
  const std::string name = call.name.empty() ? fmt::format("system call {}", record.blocked_syscall)
                                             : std::string(call.name);
  std::string longest;
  if (record.blocked_ns > 0 && record.blocked_ns < record.stage_ns[WL_STAGE_APP_BLOCKED]) {
    longest = fmt::format(" (longest sleep {})", format_duration(record.blocked_ns));
  }
  // Only a futex is ended by the one who matters: timers and packets wake from whatever task their
  // interrupt happened to hit, and that bystander must not be blamed.
  const bool waker_known = record.blocked_waker_tid != 0;
  const std::string waker =
      fmt::format("{}[{}]", escape_field(record.blocked_waker_comm), record.blocked_waker_tid);
  const std::string during =
      waker_known ? fmt::format(", woken while {} ran", waker) : std::string();
  switch (call.kind) {
    case SleepKind::kLock:
      if (!waker_known) {
        return {name,
                fmt::format("{} was blocked in {}{} until a timeout or interrupt ended it.", thread,
                            name, longest),
                "Look at what it waits for."};
      }
      return {waker,
              fmt::format("{} was blocked in {}{}, woken by {}, which held the lock or gave the "
                          "signal.",
                          thread, name, longest, waker),
              "Hold that lock for less time, or keep the serving thread off it."};
    case SleepKind::kTimer:
      return {name, fmt::format("{} sleeps on its own in {}{}.", thread, name, longest),
              "Do not sleep between reading a request and answering it."};
    case SleepKind::kEvents:
    case SleepKind::kInput:
      return {name,
              fmt::format("{} waited for other input in {}{}{}.", thread, name, longest, during),
              "Look at what it waits for before it answers: another service, a pipe, a timer."};
    case SleepKind::kOutput:
      return {name,
              fmt::format("{} waited in {} for room to write{}{}.", thread, name, longest, during),
              "The other end reads too slowly, or the buffer is too small."};
    case SleepKind::kStorage:
      return {name, fmt::format("{} waited for storage in {}{}.", thread, name, longest),
              "Move storage work off the serving thread."};
    case SleepKind::kChild:
      return {name, fmt::format("{} waited for a process in {}{}.", thread, name, longest),
              "Do not wait for processes on the serving thread."};
    case SleepKind::kUnknown:
      break;
  }
  return {name, fmt::format("{} was blocked in {}{}{}.", thread, name, longest, during),
          "Look at what it waits for."};
}

Finding find_culprit(const Request& request, wl_stage stage, const RunContext& context) {
  const wl_request& record = request.record;
  const std::string thread = thread_text(record);
  switch (stage) {
    case WL_STAGE_HARD_IRQ:
      return blame_hard_irq(request, context);
    case WL_STAGE_SOFTIRQ_WAIT:
      return blame_softirq_wait(request, context);
    case WL_STAGE_SOFTIRQ_POLL:
      return {"packets ahead", "the driver's poll, packets ahead of it and GRO came first.",
              "Fewer packets per interrupt (coalescing), or spread the flows over more queues."};
    case WL_STAGE_BACKLOG:
      return {"socket owner", "the segment waited while a thread of the responder held the socket.",
              "Shorten the time its threads spend inside the socket (large sends and reads)."};
    case WL_STAGE_STACK:
      return {
          "network stack", "the kernel's receive path itself took that long.",
          "Look at packet filters, at a full receive buffer (collapse), at other work in the same "
          "softirq, and with TCP at segments out of order: what comes early waits here for the "
          "missing bytes (nstat -az TcpExtTCPOFOQueue)."};
    case WL_STAGE_SOCKET_QUEUE:
      return blame_socket_queue(record);
    case WL_STAGE_WAKEUP:
      return {"wakeup",
              "the CPU was busy and reacted late to the wake signal (interrupts off, or the "
              "hypervisor).",
              "Put the interrupt and the responder on one CPU, or look for code that runs with "
              "interrupts off."};
    case WL_STAGE_IDLE_EXIT:
      return blame_idle(request, context);
    case WL_STAGE_RUN_QUEUE:
    case WL_STAGE_APP_RUN_QUEUE:
      return blame_run_queue(request, stage, context);
    case WL_STAGE_THROTTLED:
      return blame_quota(context);
    case WL_STAGE_RECV:
      return {"read", fmt::format("{} had the CPU but its read took that long.", thread),
              "Look at the size of the read and at what else runs in it."};
    case WL_STAGE_APP:
      return {"application",
              fmt::format("{} was computing (user and kernel mode, page faults included).", thread),
              fmt::format("Profile it (perf record -t {}).", record.tid)};
    case WL_STAGE_APP_BLOCKED:
      return blame_blocked(request, context);
    case WL_STAGE_APP_IRQ:
      return blame_app_irq(request, context);
    case WL_STAGE_SEND:
      return {"send",
              fmt::format("the send call of {} took that long to reach the device.", thread),
              "Look at packet filters on output and at the size of the reply."};
    case WL_STAGE_TX_QUEUE:
      return blame_tx(request, context);
    case WL_STAGE_UNATTRIBUTED:
    default:
      return {"unknown", "no mark explains this time.", ""};
  }
}

}  // namespace

std::uint16_t cpu_of_stage(const wl_request& record, wl_stage stage) {
  switch (stage) {
    case WL_STAGE_HARD_IRQ:
      return record.irq_cpu;
    case WL_STAGE_SOFTIRQ_WAIT:
    case WL_STAGE_SOFTIRQ_POLL:
    case WL_STAGE_STACK:
      return record.rx_cpu;
    case WL_STAGE_WAKEUP:
    case WL_STAGE_IDLE_EXIT:
    case WL_STAGE_RUN_QUEUE:
    case WL_STAGE_THROTTLED:
      return record.run_cpu;
    case WL_STAGE_RECV:
      return record.recv_cpu;
    case WL_STAGE_APP:
    case WL_STAGE_APP_RUN_QUEUE:
    case WL_STAGE_APP_IRQ:
      // One CPU only when the thread ended where it began.
      return record.recv_cpu == record.app_cpu ? record.app_cpu : WL_NO_CPU;
    case WL_STAGE_SEND:
    case WL_STAGE_TX_QUEUE:
      return record.tx_cpu;
    default:
      return WL_NO_CPU;
  }
}

wl_stage dominant_stage(const Request& request) {
  int largest = 0;
  for (int i = 1; i < WL_NR_STAGES; ++i) {
    if (request.record.stage_ns[i] > request.record.stage_ns[largest]) largest = i;
  }
  return static_cast<wl_stage>(largest);
}

std::optional<Verdict> diagnose(const Request& request, const RunContext& context,
                                std::optional<std::uint64_t> p50_ns) {
  if (!is_complete(request) || total_ns(request) == 0) return std::nullopt;
  const wl_stage stage = dominant_stage(request);
  const std::uint64_t ns = request.record.stage_ns[stage];
  const std::uint64_t total = total_ns(request);

  const Finding finding = find_culprit(request, stage, context);
  Verdict verdict;
  verdict.stage = stage;
  verdict.culprit = finding.culprit;
  const std::uint16_t cpu = cpu_of_stage(request.record, stage);
  const std::string where = cpu == WL_NO_CPU ? std::string() : fmt::format(" on CPU {}", cpu);
  if (p50_ns && total / 2 < *p50_ns && ns < total - ns) {
    verdict.ordinary = true;
    verdict.text = fmt::format("nothing stands out; the largest part is {} {}{}.",
                               stage_name(stage), format_duration(ns), where);
    return verdict;
  }
  verdict.text =
      fmt::format("{} {}{}: {}", stage_name(stage), format_duration(ns), where, finding.what);
  if (!finding.remedy.empty()) verdict.text += " " + finding.remedy;
  return verdict;
}

}  // namespace whylate
