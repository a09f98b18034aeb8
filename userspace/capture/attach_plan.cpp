// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/attach_plan.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace whylate::capture {
namespace {

constexpr ProgramInfo kPrograms[] = {
    // program, tracepoint, since, arguments read, required
    {"wl_cpu_idle", "cpu_idle", "before 5.10", 2, false},
    {"wl_irq_entry", "irq_handler_entry", "before 5.10", 2, false},
    {"wl_irq_exit", "irq_handler_exit", "before 5.10", 1, false},
    {"wl_vec_local_timer_entry", "local_timer_entry", "before 5.10, x86 only", 1, false},
    {"wl_vec_local_timer_exit", "local_timer_exit", "before 5.10, x86 only", 1, false},
    {"wl_vec_reschedule_entry", "reschedule_entry", "before 5.10, x86 only", 1, false},
    {"wl_vec_reschedule_exit", "reschedule_exit", "before 5.10, x86 only", 1, false},
    {"wl_vec_call_function_entry", "call_function_entry", "before 5.10, x86 only", 1, false},
    {"wl_vec_call_function_exit", "call_function_exit", "before 5.10, x86 only", 1, false},
    {"wl_vec_call_function_single_entry", "call_function_single_entry", "before 5.10, x86 only", 1,
     false},
    {"wl_vec_call_function_single_exit", "call_function_single_exit", "before 5.10, x86 only", 1,
     false},
    {"wl_vec_irq_work_entry", "irq_work_entry", "before 5.10, x86 only", 1, false},
    {"wl_vec_irq_work_exit", "irq_work_exit", "before 5.10, x86 only", 1, false},
    {"wl_softirq_raise", "softirq_raise", "before 5.10", 1, true},
    {"wl_softirq_entry", "softirq_entry", "before 5.10", 1, true},
    {"wl_softirq_exit", "softirq_exit", "before 5.10", 1, true},
    {"wl_netif_receive_skb", "netif_receive_skb", "before 5.10", 1, true},
    {"wl_kfree_skb", "kfree_skb", "before 5.10", 1, true},
    {"wl_napi_poll", "napi_poll", "before 5.10", 3, false},
    {"wl_tcp_probe", "tcp_probe", "before 5.10", 2, true},
    {"wl_sk_data_ready", "sk_data_ready", "6.3", 1, false},
    {"wl_sock_recv_length", "sock_recv_length", "6.3", 3, false},
    {"wl_set_state", "inet_sock_set_state", "before 5.10", 3, false},
    {"wl_sched_waking", "sched_waking", "before 5.10", 1, true},
    {"wl_sched_wakeup", "sched_wakeup", "before 5.10", 1, true},
    {"wl_sched_wakeup_new", "sched_wakeup_new", "before 5.10", 1, true},
    {"wl_sched_switch", "sched_switch", "5.18", 4, true},
    {"wl_sched_migrate", "sched_migrate_task", "before 5.10", 2, true},
    {"wl_fork", "sched_process_fork", "before 5.10", 2, true},
    {"wl_exit", "sched_process_exit", "before 5.10", 1, true},
    {"wl_exec", "sched_process_exec", "before 5.10", 2, false},
    {"wl_sys_enter", "sys_enter", "before 5.10", 2, false},
    {"wl_sys_exit", "sys_exit", "before 5.10", 2, false},
    {"wl_sock_send_length", "sock_send_length", "6.3", 3, false},
    {"wl_net_dev_queue", "net_dev_queue", "before 5.10", 1, false},
    {"wl_net_dev_start_xmit", "net_dev_start_xmit", "before 5.10", 2, true},
};

constexpr ProgramInfo kOldReadPrograms[] = {
    // the first two tracepoints are required anyhow
    {"wl_old_netif_receive_skb", "netif_receive_skb", "before 5.10", 1, false},
    {"wl_old_kfree_skb", "kfree_skb", "before 5.10", 1, false},
    {"wl_old_consume_skb", "consume_skb", "before 5.10", 1, true},
    {"wl_old_tcp_rcv_space_adjust", "tcp_rcv_space_adjust", "before 5.10", 1, true},
};

bool is_vector(std::string_view program) { return program.substr(0, 7) == "wl_vec_"; }

bool any_hard_irq(const PlanInputs& inputs) {
  if (!inputs.devices_known) return true;
  return std::any_of(inputs.devices.begin(), inputs.devices.end(),
                     [](const host::NetDevice& device) { return device.may_have_hard_irq(); });
}

// Whether a reply can meet a queueing discipline on its way out.
bool any_egress_queue(const PlanInputs& inputs) {
  if (!inputs.devices_known) return true;
  return std::any_of(inputs.devices.begin(), inputs.devices.end(),
                     [&](const host::NetDevice& device) {
                       if (inputs.loopback_only && device.kind != host::DeviceKind::kLoopback)
                         return false;
                       return device.has_queue();
                     });
}

// "veth", "veth, tun": through what the packets of a target without a real device arrive.
std::string virtual_ways(const PlanInputs& inputs) {
  std::set<std::string> kinds;
  if (!inputs.loopback_only) {
    for (const host::NetDevice& device : inputs.devices) {
      if (!device.up || device.kind == host::DeviceKind::kLoopback) continue;
      kinds.insert(device.kind_name.empty() ? device.name : device.kind_name);
    }
  }
  std::string text;
  for (const std::string& kind : kinds) text += (text.empty() ? "" : ", ") + kind;
  return text.empty() ? "loopback" : text;
}

// The one state that every CPU uses when idle; nothing when there is a choice or no knowledge.
std::optional<int> only_idle_state(const host::CpuidleInfo& cpuidle) {
  std::optional<int> only;
  for (const host::CpuIdleStates& cpu : cpuidle.cpus) {
    const std::vector<int> usable = host::usable_states(cpuidle, cpu);
    if (usable.size() != 1 || (only && *only != usable[0])) return std::nullopt;
    only = usable[0];
  }
  return only;
}

std::string idle_state_name(const host::CpuidleInfo& cpuidle, int index) {
  if (cpuidle.cpus.empty()) return "state " + std::to_string(index);
  const host::IdleState* state = host::find_state(cpuidle, cpuidle.cpus[0].cpu, index);
  return state != nullptr ? state->name : "state " + std::to_string(index);
}

std::string lacks(const ProgramInfo& info, const Features& features) {
  const int args = features.args(info.tracepoint);
  if (args < 0) {
    return std::string("this kernel has no tracepoint ") + info.tracepoint + " (since " +
           info.since + ")";
  }
  return std::string("the tracepoint ") + info.tracepoint + " has " + std::to_string(args) +
         " arguments here, " + std::to_string(info.min_args) + " are needed (since " + info.since +
         ")";
}

bool usable(const ProgramInfo& info, const Features& features) {
  return features.args(info.tracepoint) >= info.min_args;
}

bool has_reads(const Features& features) {
  return features.has("sk_data_ready") && features.has("sock_recv_length");
}

// "no tracepoint sk_data_ready and no sock_recv_length (since 6.3)"
std::string lacks_reads(const Features& features) {
  std::string text = "this kernel has ";
  if (!features.has("sk_data_ready")) text += "no tracepoint sk_data_ready";
  if (!features.has("sk_data_ready") && !features.has("sock_recv_length")) text += " and ";
  if (!features.has("sock_recv_length")) text += "no tracepoint sock_recv_length";
  return text + " (since 6.3)";
}

// The programs that old_read_programs() replace.
bool belongs_to_reads(std::string_view program) {
  return program == "wl_sk_data_ready" || program == "wl_sock_recv_length" ||
         program == "wl_netif_receive_skb" || program == "wl_kfree_skb";
}

// Why a program that this kernel could run is not needed; "" when it is.
std::string not_needed(std::string_view program, const PlanInputs& inputs) {
  if (program == "wl_sys_enter" || program == "wl_sys_exit") {
    return inputs.syscalls ? "" : "only with --syscalls: it slows every system call of the host";
  }
  if (program == "wl_cpu_idle") {
    const std::optional<int> only = only_idle_state(inputs.cpuidle);
    if (!only) return "";
    return "every CPU has one idle state (" + idle_state_name(inputs.cpuidle, *only) +
           "), known without the hook";
  }
  if (program == "wl_sock_send_length") {
    // It runs for every send of the host, and only TCP keeps a reply back.
    if (inputs.has_tcp || !inputs.has_udp) return "";
    return "the target has no TCP socket";
  }
  if (program == "wl_net_dev_queue") {
    if (inputs.syscalls || any_egress_queue(inputs)) return "";
    return "the egress devices have no queue";
  }
  if (program == "wl_napi_poll") {
    if (inputs.loopback_only) return "every socket is bound to a loopback address";
    if (any_hard_irq(inputs) || inputs.napi_threads) return "";
    return "no device with a hard interrupt in the target's network namespace";
  }
  return "";
}

class Planner {
 public:
  Planner(const Features& features, const PlanInputs& inputs)
      : features_(features), inputs_(inputs) {}

  Plan run() {
    plan_.old_reads = !has_reads(features_);
    choose_programs();
    receive_stages();
    wait_stages();
    app_stages();
    send_stages();
    yes(WL_STAGE_UNATTRIBUTED, "what no mark explains");
    return std::move(plan_);
  }

 private:
  void choose_programs() {
    for (const ProgramInfo& info : programs()) {
      if (plan_.old_reads && belongs_to_reads(info.program)) {
        plan_.programs_off.push_back(
            {info.program, usable(info, features_)
                               ? "replaced by wl_old_* programs: " + lacks_reads(features_)
                               : lacks(info, features_)});
        continue;
      }
      std::string reason = not_needed(info.program, inputs_);
      const bool needed = reason.empty();
      if (needed && usable(info, features_)) continue;
      if (needed) {
        reason = is_vector(info.program)
                     ? std::string("this kernel has no tracepoint ") + info.tracepoint + " (x86)"
                     : lacks(info, features_);
      } else if (std::string_view(info.program) == "wl_cpu_idle") {
        plan_.fixed_idle_state = only_idle_state(inputs_.cpuidle);
      }
      plan_.programs_off.push_back({info.program, std::move(reason)});
    }
  }

  void receive_stages() {
    if (plan_.is_off("wl_irq_entry") || plan_.is_off("wl_irq_exit")) {
      no(WL_STAGE_HARD_IRQ, "this kernel has no tracepoints irq_handler_entry and _exit");
    } else if (inputs_.loopback_only || !any_hard_irq(inputs_)) {
      no(WL_STAGE_HARD_IRQ,
         "packets arrive through " + virtual_ways(inputs_) + ": there is no hard interrupt");
    } else if (!inputs_.devices_known) {
      yes(WL_STAGE_HARD_IRQ,
          "irq_handler_entry to the first NET_RX raise, for packets that come with an interrupt "
          "(devices not known: " +
              inputs_.devices_why_unknown + ")");
    } else {
      yes(WL_STAGE_HARD_IRQ, "irq_handler_entry to the first NET_RX raise (" + hard_irq_devices() +
                                 "); none for packets through other devices");
    }
    yes(WL_STAGE_SOFTIRQ_WAIT,
        std::string("softirq_raise to softirq_entry") +
            (inputs_.napi_threads ? "; NAPI threads: sched_waking to sched_switch" : ""));
    yes(WL_STAGE_SOFTIRQ_POLL,
        std::string("softirq_entry to netif_receive_skb") +
            (plan_.is_off("wl_napi_poll") ? "" : ", later rounds from napi_poll"));
    yes(WL_STAGE_BACKLOG, "TCP: netif_receive_skb to tcp_probe when a task owned the socket");
    if (plan_.old_reads) {
      merged_stack();
      return;
    }
    yes(WL_STAGE_STACK, "netif_receive_skb (TCP: tcp_probe) to sk_data_ready");
    yes(WL_STAGE_SOCKET_QUEUE, "sk_data_ready to sched_waking of the reader, or to the read");
  }

  void merged_stack() {
    if (inputs_.sockets_known && !inputs_.has_tcp) {
      no(WL_STAGE_STACK, "merged into socket_queue: " + lacks_reads(features_));
    } else {
      yes(WL_STAGE_STACK,
          "TCP: netif_receive_skb to tcp_probe; the rest of it, and all of UDP's, is merged into "
          "socket_queue: " +
              lacks_reads(features_));
    }
    yes(WL_STAGE_SOCKET_QUEUE,
        "netif_receive_skb (TCP: tcp_probe) to sched_waking of the reader, or to the read: with "
        "the stack in it, as " +
            lacks_reads(features_));
  }

  void wait_stages() {
    yes(WL_STAGE_WAKEUP, "sched_waking to sched_wakeup, if the reader's CPU was busy");
    std::string how = "sched_waking to the sched_switch that ends the idle task";
    if (plan_.fixed_idle_state) {
      how += "; state " + idle_state_name(inputs_.cpuidle, *plan_.fixed_idle_state) +
             " (the only one" + (inputs_.cpuidle.driver == "none" ? ", no cpuidle driver)" : ")");
    } else if (plan_.is_off("wl_cpu_idle")) {
      how += "; the state is not known: no tracepoint cpu_idle";
    } else {
      how += "; state from cpu_idle";
    }
    yes(WL_STAGE_IDLE_EXIT, how);
    yes(WL_STAGE_RUN_QUEUE, "from there to sched_switch, occupants from the CPU's slices");
    if (features_.cfs_throttled_self_time) {
      yes(WL_STAGE_THROTTLED, features_.task_throttled
                                  ? "cfs_rq.throttled_clock_self_time, applied on return to user"
                                  : "cfs_rq.throttled_clock_self_time");
    } else {
      no(WL_STAGE_THROTTLED,
         "part of run_queue: this kernel has no cfs_rq.throttled_clock_self_time (since 6.6, "
         "CONFIG_CFS_BANDWIDTH)");
    }
    const std::string read =
        plan_.old_reads ? "consume_skb (TCP: tcp_rcv_space_adjust)" : "sock_recv_length";
    yes(WL_STAGE_RECV, by_syscalls() ? "sched_switch or sys_enter of the read to its sys_exit"
                                     : "sched_switch to " + read + ", if the reader slept");
  }

  void app_stages() {
    const std::string end = by_syscalls()                      ? "sys_enter of the send"
                            : plan_.is_off("wl_net_dev_queue") ? "net_dev_start_xmit"
                                                               : "net_dev_queue";
    yes(WL_STAGE_APP, std::string("read done to ") + end + ", on the CPU");
    yes(WL_STAGE_APP_RUN_QUEUE, "runnable but not running in that time (sched_switch)");
    yes(WL_STAGE_APP_BLOCKED, "asleep in that time, system call from the saved registers");
    std::string sources;
    if (!plan_.is_off("wl_irq_entry") && !plan_.is_off("wl_irq_exit")) {
      sources = "device interrupts, ";
    }
    const bool vectors = std::none_of(plan_.programs_off.begin(), plan_.programs_off.end(),
                                      [](const ProgramOff& off) { return is_vector(off.program); });
    if (vectors) sources += "timer and inter-processor interrupts, ";
    yes(WL_STAGE_APP_IRQ, sources + "softirqs in that time" +
                              (vectors ? ""
                                       : "; timer and inter-processor interrupts have no "
                                         "tracepoints here and stay in app"));
  }

  void send_stages() {
    if (by_syscalls()) {
      yes(WL_STAGE_SEND, plan_.is_off("wl_net_dev_queue")
                             ? "sys_enter of the send to net_dev_start_xmit"
                             : "sys_enter of the send to net_dev_queue");
    } else if (inputs_.syscalls) {
      no(WL_STAGE_SEND, "part of app: this kernel has no tracepoints sys_enter and sys_exit");
    } else {
      no(WL_STAGE_SEND, "part of app: only --syscalls tells it apart");
    }
    const bool queue = !plan_.is_off("wl_net_dev_queue");
    const bool held = !plan_.is_off("wl_sock_send_length");
    if (queue) {
      yes(WL_STAGE_TX_QUEUE,
          std::string("net_dev_queue to net_dev_start_xmit") +
              (held ? "; TCP replies that leave later: from the end of the send" : ""));
    } else if (held) {
      yes(WL_STAGE_TX_QUEUE,
          std::string("TCP replies that leave later: end of the send to net_dev_start_xmit; ") +
              (features_.has("net_dev_queue") ? "the egress devices have no queue"
                                              : "this kernel has no tracepoint net_dev_queue"));
    } else if (!features_.has("net_dev_queue")) {
      no(WL_STAGE_TX_QUEUE, std::string("merged into ") + (by_syscalls() ? "send" : "app") +
                                ": this kernel has no tracepoint net_dev_queue");
    } else {
      no(WL_STAGE_TX_QUEUE, "merged into app: the egress devices have no queue");
    }
  }

  bool by_syscalls() const {
    return inputs_.syscalls && !plan_.is_off("wl_sys_enter") && !plan_.is_off("wl_sys_exit");
  }

  std::string hard_irq_devices() const {
    std::string text;
    for (const host::NetDevice& device : inputs_.devices) {
      if (device.may_have_hard_irq()) text += (text.empty() ? "" : ", ") + device.name;
    }
    return text;
  }

  void yes(int stage, std::string how) {
    StagePlan& plan = plan_.stages[static_cast<std::size_t>(stage)];
    plan.measured = true;
    plan.how = std::move(how);
  }
  void no(int stage, std::string why_not) {
    plan_.stages[static_cast<std::size_t>(stage)].why_not = std::move(why_not);
  }

  const Features& features_;
  const PlanInputs& inputs_;
  Plan plan_;
};

}  // namespace

std::span<const ProgramInfo> programs() { return kPrograms; }

std::span<const ProgramInfo> old_read_programs() { return kOldReadPrograms; }

std::vector<std::string> Plan::off_names() const {
  std::vector<std::string> names;
  for (const ProgramOff& off : programs_off) names.push_back(off.program);
  return names;
}

bool Plan::is_off(const std::string& program) const {
  return std::any_of(programs_off.begin(), programs_off.end(),
                     [&](const ProgramOff& off) { return off.program == program; });
}

bool is_indispensable(std::string_view program, const Plan& plan) {
  if (!plan.old_reads && belongs_to_reads(program)) return true;
  const auto required = [&](const ProgramInfo& info) {
    return info.required && program == info.program;
  };
  return std::any_of(std::begin(kPrograms), std::end(kPrograms), required) ||
         (plan.old_reads &&
          std::any_of(std::begin(kOldReadPrograms), std::end(kOldReadPrograms), required));
}

std::vector<std::string> missing_requirements(const Features& features) {
  std::vector<std::string> missing;
  for (const ProgramInfo& info : programs()) {
    if (info.required && !usable(info, features)) missing.push_back(lacks(info, features));
  }
  if (!has_reads(features)) {
    for (const ProgramInfo& info : old_read_programs()) {
      if (!info.required || usable(info, features)) continue;
      missing.push_back(lacks_reads(features) + ", and " + lacks(info, features));
    }
  }
  if (!features.iter_task_file) {
    missing.push_back("this kernel has no BPF iterator over open files (since 5.8)");
  }
  return missing;
}

Result<Plan> make_plan(const Features& features, const PlanInputs& inputs) {
  const std::vector<std::string> missing = missing_requirements(features);
  if (!missing.empty()) {
    std::string line;
    for (const std::string& one : missing) line += (line.empty() ? "" : "; ") + one;
    return Error{ExitCode::kUnsupported, line};
  }
  return Planner(features, inputs).run();
}

}  // namespace whylate::capture
