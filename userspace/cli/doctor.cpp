// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/escape.h"
#include "base/log.h"
#include "base/stage_names.h"
#include "capture/plan_inputs.h"
#include "cli/output.h"
#include "host/cpulist.h"
#include "host/file.h"
#include "host/process.h"

namespace whylate::cli {
namespace {

using capture::Features;
using capture::Plan;
using capture::ProgramInfo;
using nlohmann::json;

/// A field of the kernel that refines a stage when it is there.
struct OptionalField {
  const char* name;
  const char* since;
  const char* use;
  bool Features::*present;
};

constexpr OptionalField kFields[] = {
    {"cfs_rq.throttled_clock_self_time", "6.6", "time lost to a CPU quota, exact",
     &Features::cfs_throttled_self_time},
    {"task_struct.throttled", "6.18", "quota applied on return to user mode",
     &Features::task_throttled},
    {"task_struct.__state", "5.14", "state of a thread (before: .state)", &Features::task_state},
    {"udp_sock.reader_queue", "4.13", "datagrams waiting at attach", &Features::udp_reader_queue},
    {"udp_sock.udp_prod_queue", "6.18", "datagrams queued in batches", &Features::udp_prod_queue},
};

const char* state_of(const ProgramInfo& info, const Features& features) {
  const int args = features.args(info.tracepoint);
  if (args < 0) return "absent";
  return args < info.min_args ? "too old" : "present";
}

// "C1 (2 us)", "default_idle (exit latency not known)".
std::string describe_state(const host::IdleState& state) {
  std::string text = escape(state.name);
  text += state.latency_us ? fmt::format(" ({} us)", *state.latency_us)
                           : std::string(" (exit latency not known)");
  if (state.disabled) text += " disabled";
  return text;
}

// CPUs whose states are alike share a line.
struct StateGroup {
  std::vector<int> cpus;
  std::string states;
};

std::vector<StateGroup> group_states(const host::CpuidleInfo& info) {
  std::vector<StateGroup> groups;
  for (const host::CpuIdleStates& cpu : info.cpus) {
    std::string states;
    for (const host::IdleState& state : cpu.states) {
      states += (states.empty() ? "" : ", ") + describe_state(state);
    }
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const StateGroup& group) { return group.states == states; });
    if (same != groups.end()) {
      same->cpus.push_back(cpu.cpu);
    } else {
      groups.push_back({{cpu.cpu}, states});
    }
  }
  return groups;
}

std::string virtual_text(const std::optional<bool>& virtualised) {
  if (!virtualised) return "virtual or not: not known";
  return *virtualised ? "in a virtual machine" : "not in a virtual machine";
}

json stage_json(const Plan& plan, std::size_t stage) {
  const capture::StagePlan& how = plan.stages[stage];
  return {{"name", stage_name(static_cast<int>(stage))},
          {"measured", how.measured},
          {"how", how.measured ? json(how.how) : json(nullptr)},
          {"why_not", how.measured ? json(nullptr) : json(how.why_not)}};
}

json cpuidle_json(const host::CpuidleInfo& info) {
  json cpus = json::array();
  for (const host::CpuIdleStates& cpu : info.cpus) {
    json states = json::array();
    for (const host::IdleState& state : cpu.states) {
      states.push_back(
          {{"index", state.index},
           {"name", escape(state.name)},
           {"desc", escape(state.desc)},
           {"latency_ns", state.latency_us ? json(*state.latency_us * 1000) : json(nullptr)},
           {"disabled", state.disabled},
           {"usage", state.usage ? json(*state.usage) : json(nullptr)}});
    }
    cpus.push_back({{"cpu", cpu.cpu}, {"states", states}});
  }
  return {{"driver", info.driver == "none" ? json(nullptr) : json(escape(info.driver))},
          {"governor", info.governor.empty() ? json(nullptr) : json(escape(info.governor))},
          {"forced_poll", info.forced_poll},
          {"cpus", cpus}};
}

json features_json(const Features& features) {
  json tracepoints = json::array();
  for (const ProgramInfo& info : capture::programs()) {
    const int args = features.args(info.tracepoint);
    tracepoints.push_back({{"name", info.tracepoint},
                           {"program", info.program},
                           {"present", args >= info.min_args},
                           {"required", info.required},
                           {"since", info.since},
                           {"args", args < 0 ? json(nullptr) : json(args)},
                           {"args_needed", info.min_args}});
  }
  json fields = json::array();
  for (const OptionalField& field : kFields) {
    fields.push_back({{"name", field.name},
                      {"present", features.*field.present},
                      {"since", field.since},
                      {"use", field.use}});
  }
  return {{"tracepoints", tracepoints}, {"fields", fields}};
}

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

using Out = std::back_insert_iterator<std::string>;

void write_tracepoints(const Features& features, Out out) {
  fmt::format_to(out, "\ntracepoints\n");
  for (const ProgramInfo& info : capture::programs()) {
    fmt::format_to(out, "  {:<28}{:<9}{} since {}\n", info.tracepoint, state_of(info, features),
                   info.required ? "required," : "optional,", info.since);
  }
  fmt::format_to(out, "\noptional fields\n");
  for (const OptionalField& field : kFields) {
    fmt::format_to(out, "  {:<34}{:<9}since {}: {}\n", field.name,
                   features.*field.present ? "present" : "absent", field.since, field.use);
  }
}

void write_stages(const DoctorReport& report, Out out) {
  const Plan& plan = *report.plan;
  if (report.pid) {
    fmt::format_to(out, "\nstages of {}[{}]", escape(report.comm), *report.pid);
  } else {
    fmt::format_to(out, "\nstages, judged by this network namespace (-p PID judges for a process)");
  }
  fmt::format_to(out, "{}\n", report.syscalls ? " with --syscalls" : "");
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const capture::StagePlan& how = plan.stages[stage];
    fmt::format_to(out, "  {:<15}{}{}\n", stage_name(static_cast<int>(stage)),
                   how.measured ? "" : "not measured: ", how.measured ? how.how : how.why_not);
  }
  fmt::format_to(out, "\nleft out\n");
  if (plan.programs_off.empty()) fmt::format_to(out, "  nothing\n");
  for (const capture::ProgramOff& off : plan.programs_off) {
    fmt::format_to(out, "  {:<35}{}\n", off.program, off.reason);
  }
}

}  // namespace

Result<DoctorReport> examine(const DoctorOptions& options) {
  DoctorReport report;
  report.syscalls = options.syscalls;
  report.pid = options.pid;
  if (options.pid) {
    const Result<host::ProcessInfo> process = host::read_process(options.root, *options.pid);
    if (!process) return process.error();
    if (const Status traceable = host::check_traceable(*process); !traceable) {
      return traceable.error();
    }
    report.comm = process->comm;
  }
  report.kernel = host::read_kernel(options.root);
  if (auto cpus = host::possible_cpus(options.root)) report.cpus_possible = std::move(*cpus);
  if (auto cpus = host::online_cpus(options.root)) report.cpus_online = std::move(*cpus);
  report.privileges = capture::read_privileges(options.root);
  report.obstacles = capture::missing_privileges(report.privileges);
  if (report.obstacles.empty()) {
    if (const Status probe = capture::probe_bpf(); !probe) {
      report.obstacles.push_back(probe.error().message);
    }
  }

  Result<Features> features = capture::read_features(options.btf_path);
  std::vector<std::string> lacking;
  if (features) {
    report.features = std::move(*features);
    lacking = capture::missing_requirements(*report.features);
  } else if (report.obstacles.empty() || report.obstacles.back() != features.error().message) {
    lacking.push_back(features.error().message);
  }

  // Sockets can only be listed where BPF works; without them the plan reckons with any.
  std::optional<std::vector<capture::SocketInfo>> sockets;
  if (options.pid && options.list_sockets && report.obstacles.empty() && lacking.empty()) {
    if (auto found = options.list_sockets(options.pid)) {
      sockets = std::move(*found);
    } else {
      report.warnings.push_back("the sockets of the process are not known: " +
                                found.error().message);
    }
  }
  std::vector<pid_t> pids;
  if (options.pid) pids.push_back(*options.pid);
  const capture::PlanInputs inputs = capture::gather_plan_inputs(
      options.root, pids, options.syscalls, sockets ? &*sockets : nullptr);
  report.cpuidle = inputs.cpuidle;
  if (!inputs.devices_known) report.warnings.push_back(inputs.devices_why_unknown);
  if (report.features && lacking.empty()) {
    if (auto plan = capture::make_plan(*report.features, inputs)) report.plan = std::move(*plan);
  }
  report.obstacles.insert(report.obstacles.end(), lacking.begin(), lacking.end());

  if (!host::clocksource_is_good(report.kernel.clocksource)) {
    report.warnings.push_back(
        "clocksource " +
        (report.kernel.clocksource.empty() ? "not known" : escape(report.kernel.clocksource)) +
        ": readings on different CPUs may disagree, and each is slow");
  }
  if (host::read_u64(options.root + "/proc/sys/kernel/bpf_stats_enabled").value_or(0) != 0) {
    report.warnings.push_back(
        "kernel.bpf_stats_enabled is on: the kernel times every run of a BPF program, which makes "
        "tracing much dearer");
  }
  return report;
}

std::string doctor_text(const DoctorReport& report) {
  std::string text;
  Out out = std::back_inserter(text);
  const auto row = [&](const char* name, const std::string& value) {
    fmt::format_to(out, "  {:<14}{}\n", name, value);
  };
  fmt::format_to(out, "this machine\n");
  row("kernel",
      fmt::format("{} {}, {}", escape(report.kernel.release), escape(report.kernel.machine),
                  virtual_text(report.kernel.virtualised)));
  row("CPUs",
      fmt::format(
          "possible {}, online {}",
          report.cpus_possible.empty() ? "not known" : host::format_cpu_list(report.cpus_possible),
          report.cpus_online.empty() ? "not known" : host::format_cpu_list(report.cpus_online)));
  row("clocksource",
      report.kernel.clocksource.empty() ? "not known" : escape(report.kernel.clocksource));
  row("type info", report.features ? "readable" : "not readable");
  row("privileges", report.privileges.effective ? capture::describe_capabilities(report.privileges)
                                                : std::string("not known"));
  row("lockdown", report.privileges.lockdown.empty() ? "not known (securityfs is not readable)"
                                                     : escape(report.privileges.lockdown));
  row("cpuidle",
      fmt::format("driver {}, governor {}", escape(report.cpuidle.driver),
                  report.cpuidle.governor.empty() ? "none" : escape(report.cpuidle.governor)));
  for (const StateGroup& group : group_states(report.cpuidle)) {
    row("", fmt::format("CPU {}: {}", host::format_cpu_list(group.cpus), group.states));
  }
  if (report.features) write_tracepoints(*report.features, out);
  if (report.plan) write_stages(report, out);
  if (!report.warnings.empty()) fmt::format_to(out, "\nwarnings\n");
  for (const std::string& warning : report.warnings) fmt::format_to(out, "  {}\n", warning);
  if (report.possible()) {
    fmt::format_to(out, "\ntracing is possible\n");
  } else {
    fmt::format_to(out, "\ntracing is NOT possible\n");
    for (const std::string& obstacle : report.obstacles) fmt::format_to(out, "  {}\n", obstacle);
  }
  return text;
}

json doctor_json(const DoctorReport& report) {
  json root;
  root["schema"] = "whylate.doctor/1";
  root["possible"] = report.possible();
  root["obstacles"] = report.obstacles;
  root["warnings"] = report.warnings;
  root["kernel"] = {
      {"release", escape(report.kernel.release)},
      {"machine", escape(report.kernel.machine)},
      {"virtualised", report.kernel.virtualised ? json(*report.kernel.virtualised) : json(nullptr)},
      {"clocksource", text_or_null(escape(report.kernel.clocksource))},
      {"cpus_possible", report.cpus_possible.empty() ? json(nullptr) : json(report.cpus_possible)},
      {"cpus_online", report.cpus_online.empty() ? json(nullptr) : json(report.cpus_online)}};
  root["btf"] = report.features.has_value();
  root["privileges"] = {
      {"cap_bpf", report.privileges.effective ? json(report.privileges.can_bpf()) : json(nullptr)},
      {"cap_perfmon",
       report.privileges.effective ? json(report.privileges.can_perfmon()) : json(nullptr)},
      {"initial_user_namespace", report.privileges.initial_user_namespace},
      {"seccomp_filter", report.privileges.seccomp_mode == 2},
      {"lockdown", text_or_null(escape(report.privileges.lockdown))}};
  root["cpuidle"] = cpuidle_json(report.cpuidle);
  const json features = report.features ? features_json(*report.features) : json::object();
  root["tracepoints"] = report.features ? features["tracepoints"] : json(nullptr);
  root["fields"] = report.features ? features["fields"] : json(nullptr);
  root["target"] =
      report.pid ? json{{"pid", *report.pid}, {"comm", escape(report.comm)}} : json(nullptr);
  root["mode"] = report.syscalls ? "syscalls" : "default";
  root["stages"] = nullptr;
  root["programs_off"] = nullptr;
  if (report.plan) {
    root["stages"] = json::array();
    for (std::size_t i = 0; i < report.plan->stages.size(); ++i) {
      root["stages"].push_back(stage_json(*report.plan, i));
    }
    root["programs_off"] = json::array();
    for (const capture::ProgramOff& off : report.plan->programs_off) {
      root["programs_off"].push_back({{"program", off.program}, {"reason", off.reason}});
    }
  }
  return root;
}

ExitCode run_doctor(const DoctorOptions& options) {
  const Result<DoctorReport> report = examine(options);
  if (!report) {
    log_line(report.error().message);
    return report.error().code;
  }
  Output output = Output::to_stdout();
  output.add(options.json ? doctor_json(*report).dump(2) + "\n" : doctor_text(*report));
  if (const Status written = output.flush(); !written) {
    log_line(written.error().message);
    return written.error().code;
  }
  return report->possible() ? ExitCode::kDone : ExitCode::kUnsupported;
}

}  // namespace whylate::cli
