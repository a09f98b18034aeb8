// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/verdict.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "base/duration.h"
#include "base/escape.h"
#include "diagnose/blame.h"
#include "diagnose/syscalls.h"
#include "request/names.h"

namespace whylate {
namespace {

/// A culprit and what is said about it; the stage and its time are put before it.
struct Finding {
  std::string culprit;
  std::string what;
  std::string remedy;
};

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

std::string cpu_text(std::uint16_t cpu) {
  return cpu == WL_NO_CPU ? std::string("its CPU") : fmt::format("CPU {}", cpu);
}

std::string thread_text(const wl_request& record) {
  return fmt::format("{}[{}]", escape_field(record.comm), record.tid);
}

std::string task_remedy(const wl_occupant& task, const std::string& comm) {
  if (starts_with(comm, "ksoftirqd/")) {
    return "Move the interrupts behind that softirq work to another CPU "
           "(/proc/irq/*/smp_affinity, RPS).";
  }
  if (starts_with(comm, "kworker/")) {
    return "Keep kernel work off this CPU (/sys/devices/virtual/workqueue/*/cpumask), or isolate "
           "it.";
  }
  if (outranks_ordinary(task)) {
    return "Move it to another CPU, lower its priority, or move the responder to an isolated CPU.";
  }
  return "Move the responder to an isolated CPU.";
}

Finding blame_task(const Request& request, const wl_occupant& task, const RunContext& context,
                   std::string share) {
  const std::string comm = escape_field(task.comm);
  Finding finding;
  finding.culprit = occupant_label(task);
  if (context.own_pid > 0 && task.tgid == static_cast<std::uint32_t>(context.own_pid)) {
    finding.culprit = "whylate itself";
    finding.what = fmt::format("whylate itself (thread {}) held it{}.", task.pid, share);
    finding.remedy = "Leave the tracer a CPU that the responder does not use.";
    return finding;
  }
  if (task.tgid == request.record.tgid) {
    finding.what = fmt::format("{} ({}), a thread of the responder itself, held it{}.",
                               finding.culprit, occupant_policy(task), share);
    finding.remedy = "Give its threads more CPUs, or run fewer of them.";
    return finding;
  }
  finding.what = fmt::format("{} ({}) held it{}", finding.culprit, occupant_policy(task), share);
  if (outranks_ordinary(task)) {
    finding.what += "; the scheduler may not preempt it for an ordinary task.";
  } else if (task.nice > 0) {
    finding.what += "; nice values of different autogroups or cgroups do not compare.";
  } else {
    finding.what += ".";
  }
  finding.remedy = task_remedy(task, comm);
  return finding;
}

Finding blame_run_queue(const Request& request, wl_stage stage, const RunContext& context) {
  const std::vector<wl_occupant> occupants = occupants_of(request, stage);
  const std::uint64_t wait = request.record.stage_ns[stage];
  if (occupants.empty()) {
    return {"not named",
            "the thread was runnable but not running; who ran instead is not recorded.",
            "Move the responder to an isolated CPU."};
  }
  // Interrupts and softirqs are one culprit: both come to the CPU with the devices routed to it.
  std::uint64_t irq_ns = 0;
  std::uint64_t softirq_ns = 0;
  for (const wl_occupant& occupant : occupants) {
    if (occupant.kind == WL_OCC_IRQ) irq_ns += occupant.ns;
    if (occupant.kind == WL_OCC_SOFTIRQ) softirq_ns += occupant.ns;
  }
  const wl_occupant* largest = nullptr;
  for (const wl_occupant& occupant : occupants) {
    if (occupant.kind == WL_OCC_IRQ || occupant.kind == WL_OCC_SOFTIRQ) continue;
    largest = &occupant;
    break;
  }
  if (largest == nullptr || irq_ns + softirq_ns > largest->ns) {
    const bool both = irq_ns > 0 && softirq_ns > 0;
    const std::string culprit = both         ? "interrupts and softirqs"
                                : irq_ns > 0 ? "interrupts"
                                             : "softirqs";
    return {culprit,
            fmt::format("{} held it ({} interrupts, {} softirqs).", culprit, percent(irq_ns, wait),
                        percent(softirq_ns, wait)),
            "Move interrupts to another CPU (/proc/irq/*/smp_affinity)."};
  }
  // The share is left out when there is nothing beside it.
  const std::string share =
      largest->ns == wait ? "" : fmt::format(" for {} of the wait", percent(largest->ns, wait));
  switch (largest->kind) {
    case WL_OCC_TASK:
      return blame_task(request, *largest, context, share);
    case WL_OCC_UNKNOWN:
      return {"other tasks",
              fmt::format("other tasks held it{}: {}.", share,
                          request.record.not_named_switches > 0
                              ? fmt::format("{} switches, more than can be named",
                                            request.record.not_named_switches)
                              : "the kernel did not report a context switch"),
              "Move the responder to an isolated CPU."};
    case WL_OCC_IDLE:
      return {"idle CPU", fmt::format("the idle task was still on its way out{}.", share),
              "Keep the CPU out of idle states (idle=poll, or disable them in cpuidle)."};
    default:
      return {occupant_label(*largest),
              fmt::format("{} held it{}.", occupant_label(*largest), share), ""};
  }
}

Finding blame_quota(const RunContext& context) {
  const std::string group = context.cgroup.empty()
                                ? std::string("its cgroup")
                                : fmt::format("cgroup {}", escape(context.cgroup));
  std::string limit;
  if (context.quota_us && context.period_us) {
    limit = fmt::format(" ({} per {})", format_duration(*context.quota_us * kNsPerUs),
                        format_duration(*context.period_us * kNsPerUs));
  }
  const std::string culprit = context.cgroup.empty()
                                  ? std::string("CPU quota")
                                  : fmt::format("CPU quota of {}", escape(context.cgroup));
  return {culprit,
          fmt::format("the CPU quota of {}{} was used up; this is not contention.", group, limit),
          "Raise cpu.max (cgroup v2) or cpu.cfs_quota_us (v1)."};
}

Finding blame_idle(const Request& request, const RunContext& context) {
  const wl_request& record = request.record;
  const int state = idle_state_of(request, context);
  const std::string remedy =
      "Traffic this sparse lets the CPU sleep: disable the state (cpuidle/stateN/disable; the "
      "governor haltpoll ignores that) or poll (idle=poll).";
  if (state < 0) {
    return {"idle state", "the CPU was idle and had to wake up; its idle state is not known.",
            remedy};
  }
  const std::string name = idle_state_name(context, record.run_cpu, state);
  const std::string shown =
      name.empty() ? fmt::format("state {}", state) : fmt::format("{} (state {})", name, state);
  return {fmt::format("idle {}", shown),
          fmt::format("the CPU was idle in {} and had to wake up.", shown), remedy};
}

Finding blame_blocked(const Request& request, const RunContext& context) {
  const wl_request& record = request.record;
  const std::string thread = thread_text(record);
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

Finding blame_softirq_wait(const Request& request, const RunContext& context) {
  const wl_request& record = request.record;
  if (!occupants_of(request, WL_STAGE_SOFTIRQ_WAIT).empty()) {
    return blame_run_queue(request, WL_STAGE_SOFTIRQ_WAIT, context);
  }
  const std::string remedy =
      "Move the interrupt, or the load, to another CPU (/proc/irq/*/smp_affinity).";
  switch (record.softirq_mode) {
    case WL_SOFTIRQ_KSOFTIRQD:
      return {fmt::format("ksoftirqd on {}", cpu_text(record.rx_cpu)),
              "packet processing was left to ksoftirqd, which waits for the CPU like any ordinary "
              "task.",
              remedy};
    case WL_SOFTIRQ_THREADED_NAPI:
      return {fmt::format("NAPI thread on {}", cpu_text(record.rx_cpu)),
              "packet processing waited for its NAPI thread to get the CPU.",
              "Raise the NAPI thread's priority, or give it a CPU."};
    default:
      return {"softirq",
              "packet processing was raised but other kernel work ran on this CPU first.", remedy};
  }
}

Finding blame_tx(const Request& request, const RunContext& context) {
  const auto it = context.devices.find(request.record.ifindex);
  if (it == context.devices.end()) {
    return {"transmit queue", "the reply waited in a queueing discipline.",
            "Look at the qdisc of the outgoing device (tc -s qdisc)."};
  }
  const std::string qdisc =
      it->second.qdisc.empty() ? std::string("queueing discipline") : escape(it->second.qdisc);
  const std::string device = escape(it->second.name);
  return {fmt::format("qdisc {} on {}", qdisc, device),
          fmt::format("the reply waited in {} of {}.", qdisc, device),
          fmt::format("Look at its rate and backlog (tc -s qdisc show dev {}).", device)};
}

Finding blame_hard_irq(const Request& request, const RunContext& context) {
  const wl_request& record = request.record;
  std::string name = "device interrupt";
  if (record.irq != WL_NO_IRQ) {
    name = fmt::format("interrupt {}", record.irq);
    const auto it = context.irq_names.find(record.irq);
    if (it != context.irq_names.end()) name += fmt::format(" ({})", escape(it->second));
  }
  return {name,
          fmt::format("the handler of {} ran that long before packet processing was raised.", name),
          "Look at what shares this interrupt."};
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
          "Look at packet filters, at a full receive buffer (collapse) and at other work in the "
          "same softirq."};
    case WL_STAGE_SOCKET_QUEUE:
      return {"application",
              fmt::format("it lay on the socket while {} was busy with earlier requests.", thread),
              "Shorten the work per request, or add threads or sockets."};
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
      return {"interrupts", fmt::format("interrupts and softirqs took the CPU from {}.", thread),
              "Move interrupts to another CPU (/proc/irq/*/smp_affinity)."};
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
      return record.recv_cpu == record.tx_cpu ? record.tx_cpu : WL_NO_CPU;
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
