// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "base/duration.h"
#include "base/escape.h"
#include "diagnose/blame.h"
#include "diagnose/culprits.h"
#include "request/names.h"

namespace whylate {
namespace {

constexpr const char* kIdleCpu = "idle CPU";

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

std::string cpu_text(std::uint16_t cpu) {
  return cpu == WL_NO_CPU ? std::string("its CPU") : fmt::format("CPU {}", cpu);
}

/// It runs where a device interrupts, and where somebody sends over loopback or veth.
constexpr const char* kMoveSoftirqs =
    "Move what sends on this CPU, or the interrupts behind that softirq work, to another CPU "
    "(/proc/irq/*/smp_affinity, RPS).";

std::string task_remedy(const wl_occupant& task, const std::string& comm) {
  if (starts_with(comm, "ksoftirqd/")) {
    return kMoveSoftirqs;
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

/// ", cgroup /a/b" or ", autogroup 12"; nothing for the root group and what is not known.
std::string group_text(const wl_occupant& task, const RunContext& context) {
  if (const auto number = autogroup_of(task.cgroup)) return fmt::format(", autogroup {}", *number);
  const std::string path = cgroup_path(context, task.cgroup);
  return path.empty() || path == "/" ? std::string() : fmt::format(", cgroup {}", path);
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
    finding.what =
        fmt::format("{} ({}{}), a thread of the responder itself, held it{}.", finding.culprit,
                    occupant_policy(task), group_text(task, context), share);
    finding.remedy = "Give its threads more CPUs, or run fewer of them.";
    return finding;
  }
  finding.what = fmt::format("{} ({}{}) held it{}", finding.culprit, occupant_policy(task),
                             group_text(task, context), share);
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

constexpr const char* kMoveInterrupts =
    "Move interrupts to another CPU (/proc/irq/*/smp_affinity).";

/// What people do about each kind of theft.
std::string theft_remedy(std::uint8_t kind) {
  switch (kind) {
    case WL_OCC_TIMER:
      return "Keep programs with many or short timers off this CPU; isolate it with nohz_full.";
    case WL_OCC_IPI:
      return "Look for what signals this CPU (perf trace -e ipi:*): wake-ups across CPUs, "
             "membarrier, memory maps shared with threads elsewhere.";
    case WL_OCC_IRQ_WORK:
      return "Look for perf events, BPF and printk on this CPU.";
    case WL_OCC_SOFTIRQ:
      return kMoveSoftirqs;
    default:
      return kMoveInterrupts;
  }
}

std::string irq_text(const RunContext& context, std::uint32_t irq) {
  const auto it = context.irq_names.find(irq);
  return it == context.irq_names.end() ? fmt::format("interrupt {}", irq)
                                       : fmt::format("interrupt {} ({})", irq, escape(it->second));
}

/// " The longest was interrupt 28 (eth0-rx), 3.00ms." where one was long.
std::string long_irq_text(const wl_request& record, const RunContext& context) {
  if (record.long_irq_ns == 0) return {};
  return fmt::format(" A long one was {}, {}.", irq_text(context, record.long_irq),
                     format_duration(record.long_irq_ns));
}

/// One kind of interrupt, or softirqs; the others of them stand beside it.
Finding blame_theft(const Request& request, const wl_occupant& largest,
                    const std::vector<wl_occupant>& occupants, std::uint64_t wait,
                    const RunContext& context) {
  std::string parts;
  for (const wl_occupant& occupant : occupants) {
    if (!is_theft(occupant.kind)) continue;
    parts +=
        (parts.empty() ? "" : ", ") + occupant_label(occupant) + " " + percent(occupant.ns, wait);
  }
  Finding finding;
  finding.culprit = occupant_label(largest);
  finding.what = fmt::format("{} held it ({}).", finding.culprit, parts);
  if (largest.kind == WL_OCC_IRQ) finding.what += long_irq_text(request.record, context);
  finding.remedy = theft_remedy(largest.kind);
  return finding;
}

/// What else is known of a wait for the CPU.
std::string wait_notes(const Request& request, wl_stage stage) {
  const wl_request& record = request.record;
  std::string text;
  if (stage != WL_STAGE_RUN_QUEUE) return text;
  if ((record.quality & WL_Q_VIA_THREAD) != 0) {
    text += fmt::format(" {}[{}] handed the packet to {}: the waits of both are in it.",
                        escape_field(record.waker_comm), record.waker_tid, thread_text(record));
  }
  if (record.migrations > 0) {
    text +=
        fmt::format(" The thread was moved to another CPU {} meanwhile.",
                    record.migrations == 1 ? "once" : fmt::format("{} times", record.migrations));
  }
  if (record.idle_elsewhere_ns > record.stage_ns[stage] / 10) {
    text += fmt::format(" CPU {}, which it may use too, was idle for {} of that.",
                        record.idle_elsewhere_cpu, format_duration(record.idle_elsewhere_ns));
  }
  return text;
}

Finding blame_occupants(const Request& request, wl_stage stage, const RunContext& context) {
  const std::vector<wl_occupant> occupants = occupants_of(request, stage);
  const std::uint64_t wait = request.record.stage_ns[stage];
  if (occupants.empty()) {
    return {"not named",
            "the thread was runnable but not running; who ran instead is not recorded.",
            "Move the responder to an isolated CPU."};
  }
  // The largest single one: kinds of interrupts have causes and remedies of their own, and would
  // outweigh together what held the CPU longer than any of them.
  const wl_occupant* largest = &occupants.front();
  if (is_theft(largest->kind)) return blame_theft(request, *largest, occupants, wait, context);
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
      return {kIdleCpu, fmt::format("the idle task was still on its way out{}.", share),
              "Keep the CPU out of idle states (idle=poll, or disable them in cpuidle)."};
    default:
      return {occupant_label(*largest),
              fmt::format("{} held it{}.", occupant_label(*largest), share), ""};
  }
}

}  // namespace

std::string thread_text(const wl_request& record) {
  return fmt::format("{}[{}]", escape_field(record.comm), record.tid);
}

Finding blame_run_queue(const Request& request, wl_stage stage, const RunContext& context) {
  Finding finding = blame_occupants(request, stage, context);
  // Where it held for the smaller part only, whoever had the CPU for the rest is the answer.
  if (request.record.budget_share[stage == WL_STAGE_RUN_QUEUE ? 0 : 1] >= 500) {
    finding.what =
        fmt::format("its real-time budget was used up; {} meanwhile.",
                    finding.culprit == kIdleCpu ? "the CPU was idle" : finding.culprit + " ran");
    finding.culprit = "real-time budget";
    finding.remedy =
        "Raise cpu.rt_runtime_us of the group (sched_rt_runtime_us for the whole host; a deadline "
        "task's own runtime), or use less CPU time at that priority.";
  }
  finding.what += wait_notes(request, stage);
  return finding;
}

Finding blame_app_irq(const Request& request, const RunContext& context) {
  const wl_request& record = request.record;
  std::uint32_t largest = 0;
  std::string parts;
  for (std::uint32_t i = 0; i < WL_NR_THEFT; ++i) {
    if (record.theft_ns[i] == 0) continue;
    if (record.theft_ns[i] > record.theft_ns[largest]) largest = i;
    wl_occupant one{};
    one.kind = wl_theft_kind(i);
    parts += (parts.empty() ? "" : ", ") + occupant_label(one) + " " +
             percent(record.theft_ns[i], record.stage_ns[WL_STAGE_APP_IRQ]);
  }
  const std::string thread = thread_text(record);
  if (parts.empty()) {
    return {"interrupts", fmt::format("interrupts and softirqs took the CPU from {}.", thread),
            kMoveInterrupts};
  }
  wl_occupant thief{};
  thief.kind = wl_theft_kind(largest);
  const bool one = record.theft_ns[largest] >= record.stage_ns[WL_STAGE_APP_IRQ] / 4 * 3;
  Finding finding;
  finding.culprit = one ? occupant_label(thief) : "interrupts and softirqs";
  finding.what = fmt::format("{} took the CPU from {} ({}).", finding.culprit, thread, parts);
  if (thief.kind == WL_OCC_IRQ) finding.what += long_irq_text(record, context);
  finding.remedy = theft_remedy(thief.kind);
  return finding;
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

Finding blame_softirq_wait(const Request& request, const RunContext& context) {
  const wl_request& record = request.record;
  if (!occupants_of(request, WL_STAGE_SOFTIRQ_WAIT).empty()) {
    Finding finding = blame_occupants(request, WL_STAGE_SOFTIRQ_WAIT, context);
    const char* const thread =
        record.softirq_mode == WL_SOFTIRQ_THREADED_NAPI ? "a NAPI thread" : "ksoftirqd";
    finding.what =
        fmt::format("packet processing was left to {}, which had to wait for the CPU: ", thread) +
        finding.what;
    if ((record.quality & WL_Q_SQUEEZED) != 0) {
      finding.what += " The softirq before had used up its budget (net.core.netdev_budget).";
    }
    return finding;
  }
  if ((record.quality & WL_Q_SQUEEZED) != 0) {
    return {"softirq budget",
            "the softirq before had used up its budget, and the packet waited for the next one.",
            "Raise net.core.netdev_budget and netdev_budget_usecs, or spread the flows over more "
            "queues."};
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

Finding blame_hard_irq(const Request& request, const RunContext& context) {
  const wl_request& record = request.record;
  if (record.irq == WL_NO_IRQ) {
    return {"device interrupts",
            "several interrupts came together before packet processing was raised; which of them "
            "brought the packet is not known.",
            "Look at what shares this CPU's interrupts."};
  }
  const std::string name = irq_text(context, record.irq);
  return {name,
          fmt::format("the handler of {} ran that long before packet processing was raised.", name),
          "Look at what shares this interrupt."};
}

}  // namespace whylate
