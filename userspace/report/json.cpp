// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/escape.h"
#include "diagnose/blame.h"
#include "request/address.h"
#include "request/names.h"

namespace whylate {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json cpu_or_null(std::uint16_t cpu) { return cpu == WL_NO_CPU ? Json(nullptr) : Json(cpu); }

Json stages_of(const wl_request& record) {
  Json stages = Json::array();
  for (int i = 0; i < WL_NR_STAGES; ++i) {
    if (record.stage_ns[i] == 0) continue;
    const auto stage = static_cast<wl_stage>(i);
    stages.push_back({{"name", stage_name(stage)},
                      {"ns", record.stage_ns[i]},
                      {"cpu", cpu_or_null(cpu_of_stage(record, stage))}});
  }
  return stages;
}

Json hard_irq_of(const wl_request& record, const RunContext& context) {
  if (record.irq == WL_NO_IRQ && record.origin != WL_ORIGIN_IRQ) return nullptr;
  Json json = {{"irq", nullptr}, {"name", nullptr}, {"cpu", cpu_or_null(record.irq_cpu)}};
  if (record.irq != WL_NO_IRQ) {
    json["irq"] = record.irq;
    const auto it = context.irq_names.find(record.irq);
    if (it != context.irq_names.end()) json["name"] = text_or_null(escape(it->second));
  }
  return json;
}

Json softirq_of(const wl_request& record) {
  if (record.softirq_mode == WL_SOFTIRQ_UNKNOWN && record.rx_cpu == WL_NO_CPU) return nullptr;
  return {{"mode", record.softirq_mode == WL_SOFTIRQ_UNKNOWN
                       ? Json(nullptr)
                       : Json(softirq_mode_name(record.softirq_mode))},
          {"cpu", cpu_or_null(record.rx_cpu)},
          {"hop", (record.quality & WL_Q_HOP) != 0},
          {"from_cpu", cpu_or_null(record.hop_cpu)}};
}

Json idle_of(const RunContext& context, std::uint16_t cpu, int state) {
  const auto it = context.idle_states.find({cpu, state});
  const bool known = it != context.idle_states.end();
  return {{"cpu", cpu_or_null(cpu)},
          {"state", state < 0 ? Json(nullptr) : Json(state)},
          {"name", text_or_null(idle_state_name(context, cpu, state))},
          {"bound_ns", known ? or_null(it->second.exit_latency_ns) : Json(nullptr)}};
}

template <typename T>
void add_group(Json& json, const T& holder, bool task, const RunContext& context) {
  const auto autogroup = autogroup_of(holder.cgroup);
  json["cgroup"] = task ? text_or_null(cgroup_path(context, holder.cgroup)) : Json(nullptr);
  json["autogroup"] = task && autogroup ? Json(*autogroup) : Json(nullptr);
  json["own"] =
      task && context.own_pid > 0 && holder.tgid == static_cast<std::uint32_t>(context.own_pid);
}

Json occupants_to_json(const Request& request, const RunContext& context) {
  Json occupants = Json::array();
  for (int i = 0; i < WL_NR_STAGES; ++i) {
    const auto stage = static_cast<wl_stage>(i);
    for (const wl_occupant& occupant : occupants_of(request, stage)) {
      const bool task = occupant.kind == WL_OCC_TASK;
      occupants.push_back({{"stage", stage_name(stage)},
                           {"kind", occupant_kind_name(occupant.kind)},
                           {"pid", task ? Json(occupant.pid) : Json(nullptr)},
                           {"comm", task ? Json(escape_field(occupant.comm)) : Json(nullptr)},
                           {"policy", task ? Json(policy_name(occupant.policy)) : Json(nullptr)},
                           {"prio", task ? Json(occupant.prio) : Json(nullptr)},
                           {"nice", task ? Json(occupant.nice) : Json(nullptr)},
                           {"tgid", task ? Json(occupant.tgid) : Json(nullptr)},
                           {"cpu", cpu_or_null(occupant.cpu)},
                           {"ns", occupant.ns}});
      add_group(occupants.back(), occupant, task, context);
    }
  }
  return occupants;
}

Json blocked_of(const wl_request& record) {
  if (record.stage_ns[WL_STAGE_APP_BLOCKED] == 0) return nullptr;
  const bool waker = record.blocked_waker_tid != 0;
  return {{"syscall", record.blocked_syscall < 0 ? Json(nullptr) : Json(record.blocked_syscall)},
          {"longest_ns", record.blocked_ns},
          {"waker_tid", waker ? Json(record.blocked_waker_tid) : Json(nullptr)},
          {"waker_comm", waker ? Json(escape_field(record.blocked_waker_comm)) : Json(nullptr)}};
}

/// For how long of two stages the reader was stopped.
Json stopped_of(const wl_request& record) {
  Json json = nullptr;
  for (const auto& [part, stage] : {std::pair{WL_STOP_QUEUE, WL_STAGE_SOCKET_QUEUE},
                                    std::pair{WL_STOP_APP, WL_STAGE_APP_BLOCKED}}) {
    if (record.stopped_ns[part] == 0) continue;
    if (json.is_null()) json = Json::array();
    json.push_back({{"stage", stage_name(stage)},
                    {"ns", record.stopped_ns[part]},
                    {"by", stop_name(record.stop_kind[part])}});
  }
  return json;
}

/// What app_irq was, by kind.
Json app_irq_of(const wl_request& record) {
  if (record.stage_ns[WL_STAGE_APP_IRQ] == 0) return nullptr;
  Json json = Json::object();
  for (std::uint32_t i = 0; i < WL_NR_THEFT; ++i) {
    json[std::string(occupant_kind_name(wl_theft_kind(i))) + "_ns"] = record.theft_ns[i];
  }
  const bool known = record.long_irq_ns > 0;
  json["long_irq"] = known ? Json(record.long_irq) : Json(nullptr);
  json["long_irq_ns"] = known ? Json(record.long_irq_ns) : Json(nullptr);
  return json;
}

/// What else is known of the wait in run_queue.
Json wait_of(const wl_request& record) {
  if (record.stage_ns[WL_STAGE_RUN_QUEUE] == 0) return nullptr;
  const bool idle = record.idle_elsewhere_ns > 0;
  return {{"migrations", record.migrations},
          {"idle_elsewhere_cpu", idle ? Json(record.idle_elsewhere_cpu) : Json(nullptr)},
          {"idle_elsewhere_ns", idle ? Json(record.idle_elsewhere_ns) : Json(nullptr)}};
}

/// Where a reply waited on its way to the driver.
Json tx_of(const wl_request& record, const RunContext& context) {
  if (record.stage_ns[WL_STAGE_TX_QUEUE] == 0) return nullptr;
  const auto device = context.devices.find(record.ifindex);
  return {{"device", device == context.devices.end() ? Json(nullptr)
                                                     : text_or_null(escape(device->second.name))},
          {"qdisc", text_or_null(escape_field(record.tx_qdisc))},
          {"backlog_packets",
           record.tx_backlog == WL_NO_BACKLOG ? Json(nullptr) : Json(record.tx_backlog)},
          {"held_ns", record.tx_held_ns},
          {"held_by", record.tx_held_ns > 0 ? Json(hold_name(record.tx_hold)) : Json(nullptr)}};
}

Json spread_to_json(const Spread& spread) {
  return {{"p50", or_null(spread.p50_ns)},
          {"p90", or_null(spread.p90_ns)},
          {"p99", or_null(spread.p99_ns)},
          {"p99_9", or_null(spread.p99_9_ns)},
          {"max", or_null(spread.max_ns)}};
}

Json stage_to_json(const StageSummary& row) {
  const auto shown = [&row](const std::optional<std::uint64_t>& value) {
    return row.measured ? or_null(value) : Json(nullptr);
  };
  return {{"p50_ns", shown(row.spread.p50_ns)},
          {"p90_ns", shown(row.spread.p90_ns)},
          {"p99_ns", shown(row.spread.p99_ns)},
          {"p99_9_ns", shown(row.spread.p99_9_ns)},
          {"max_ns", shown(row.spread.max_ns)},
          {"total_ns", row.measured ? Json(row.total_ns) : Json(nullptr)},
          {"share", row.measured ? or_null(row.share) : Json(nullptr)},
          {"measured", row.measured},
          {"why_not", text_or_null(row.why_not)}};
}

Json blame_to_json(const BlameRow& row, const RunContext& context) {
  const bool task = row.key.kind == WL_OCC_TASK;
  Json json = {{"stage", stage_name(static_cast<wl_stage>(row.key.stage))},
               {"kind", occupant_kind_name(row.key.kind)},
               {"pid", task ? Json(row.key.pid) : Json(nullptr)},
               {"comm", task ? Json(escape_field(row.value.comm)) : Json(nullptr)},
               {"policy", task ? Json(policy_name(row.value.policy)) : Json(nullptr)},
               {"nice", task ? Json(row.value.nice) : Json(nullptr)},
               {"ns", row.value.ns},
               {"requests", row.value.requests > 0 ? Json(row.value.requests) : Json(nullptr)},
               {"share", or_null(row.share)}};
  add_group(json, row.value, task, context);
  return json;
}

Json target_to_json(const Summary& summary) {
  const RunContext& context = summary.context;
  return {
      {"pid", or_null(context.pid)},           {"comm", text_or_null(escape(context.comm))},
      {"start_ns", or_null(context.start_ns)}, {"pids", context.pids},
      {"endpoints", summary.endpoints},        {"cgroup", text_or_null(escape(context.cgroup))}};
}

}  // namespace

Json request_to_json(const Request& request, const RunContext& context,
                     const std::optional<Verdict>& verdict) {
  const wl_request& record = request.record;
  Json json;
  json["schema"] = "whylate.request/1";
  json["seq"] = record.seq;
  json["id"] = record.has_id ? Json(record.id) : Json(nullptr);
  json["pid"] = record.tgid;
  json["tid"] = record.tid;
  json["comm"] = escape_field(record.comm);
  json["proto"] = proto_name(record.proto);
  json["local"] = format_endpoint(record.family, record.laddr, record.lport);
  json["remote"] = record.rport == 0
                       ? Json(nullptr)
                       : Json(format_endpoint(record.family, record.raddr, record.rport));
  const auto inode = context.inodes.find(record.sk_cookie);
  json["fd_inode"] = inode == context.inodes.end() ? Json(nullptr) : Json(inode->second);
  json["origin"] =
      record.origin == WL_ORIGIN_NONE ? Json(nullptr) : Json(origin_name(record.origin));
  json["start_ns"] = record.start_ns;
  json["end_ns"] = record.end_ns;
  json["total_ns"] = total_ns(request);
  json["recv_ns"] = record.recv_ns == 0 ? Json(nullptr) : Json(record.recv_ns);
  const bool first_byte =
      record.proto == WL_PROTO_TCP && (record.quality & WL_Q_FIRST_BYTE_UNKNOWN) == 0;
  json["first_byte_ns"] = first_byte ? Json(record.first_byte_ns) : Json(nullptr);
  json["read_bytes"] = record.read_len;
  json["stages"] = stages_of(record);
  json["hard_irq"] = hard_irq_of(record, context);
  json["softirq"] = softirq_of(record);
  json["idle"] = record.stage_ns[WL_STAGE_IDLE_EXIT] > 0
                     ? idle_of(context, record.run_cpu, idle_state_of(request, context))
                     : Json(nullptr);
  json["irq_idle"] = (record.quality & WL_Q_IRQ_CPU_IDLE) != 0
                         ? idle_of(context, record.irq_cpu, record.irq_idle_state)
                         : Json(nullptr);
  json["waker"] =
      record.waker_tid == 0
          ? Json(nullptr)
          : Json({{"tid", record.waker_tid}, {"comm", escape_field(record.waker_comm)}});
  json["woken"] = record.woken_tid == 0 ? Json(nullptr) : Json({{"tid", record.woken_tid}});
  json["fanout"] = record.fanout_rank == 0
                       ? Json(nullptr)
                       : Json({{"rank", record.fanout_rank}, {"earlier_ns", record.fanout_ns}});
  json["behind"] = record.behind == 0
                       ? Json(nullptr)
                       : Json({{"requests", record.behind}, {"ns", record.behind_ns}});
  json["poll_gap_ns"] = record.poll_gap_ns == 0 ? Json(nullptr) : Json(record.poll_gap_ns);
  json["occupants"] = occupants_to_json(request, context);
  json["app_irq"] = app_irq_of(record);
  json["wait"] = wait_of(record);
  json["blocked"] = blocked_of(record);
  json["stopped"] = stopped_of(record);
  json["tx"] = tx_of(record, context);
  json["reply"] = has_reply(request);
  if (verdict) {
    json["verdict"] = {{"stage", stage_name(verdict->stage)},
                       {"culprit", verdict->culprit},
                       {"text", verdict->text},
                       {"ordinary", verdict->ordinary}};
  } else {
    json["verdict"] = nullptr;
  }
  json["quality"] = quality_names(record.quality);
  return json;
}

Json summary_to_json(const Summary& summary) {
  Json json;
  json["schema"] = "whylate.summary/1";
  json["target"] = target_to_json(summary);
  json["kernel"] = text_or_null(escape(summary.context.kernel_release));
  json["mode"] = summary.context.syscalls ? "syscalls" : "default";
  json["duration_ns"] = summary.context.duration_ns;

  Json unmatched = Json::object();
  for (int i = 0; i < WL_NR_UNMATCHED; ++i) {
    unmatched[std::string(unmatched_name(static_cast<wl_unmatched>(i)))] = summary.unmatched[i];
  }
  json["requests"] = {{"observed", summary.observed},     {"complete", summary.complete},
                      {"incomplete", summary.incomplete}, {"no_reply", summary.no_reply},
                      {"clamped", summary.clamped},       {"unmatched", std::move(unmatched)}};
  json["complete"] = summary.is_whole;
  Json lost = Json::object();
  for (int i = 0; i < WL_NR_LOST; ++i) {
    lost[std::string(lost_name(static_cast<wl_lost>(i)))] = summary.lost[i];
  }
  json["lost"] = std::move(lost);
  json["self_test"] = {{"records", summary.self_test.records},
                       {"violations", summary.self_test.violations},
                       {"first", text_or_null(escape(summary.self_test.first))}};

  json["latency_ns"] = spread_to_json(summary.latency);
  json["latency_ns"]["slowest_but_first_two"] = or_null(summary.slowest_but_first_two_ns);
  json["late_above_ns"] = or_null(summary.late_above_ns);
  json["stalled_ns"] = or_null(summary.stalled_ns);
  json["stalled_is_lower_bound"] = summary.stalled_is_lower_bound;

  Json stages = Json::object();
  for (const StageSummary& row : summary.stages) {
    stages[std::string(stage_name(row.stage))] = stage_to_json(row);
  }
  json["stages"] = std::move(stages);
  json["blame"] = Json::array();
  for (const BlameRow& row : summary.blame) {
    json["blame"].push_back(blame_to_json(row, summary.context));
  }
  json["slowest"] = Json::array();
  for (const SlowRequest& slow : summary.slowest) {
    json["slowest"].push_back(request_to_json(slow.request, summary.context, slow.verdict));
  }
  json["cost"] = {{"ns_per_request", summary.cost_ns_per_request
                                         ? Json(std::llround(*summary.cost_ns_per_request))
                                         : Json(nullptr)},
                  {"cpu_share", or_null(summary.cpu_share)},
                  {"recursion_misses", summary.recursion_misses}};
  json["findings"] = Json::array();
  for (const FindingRow& row : summary.findings) {
    json["findings"].push_back(
        {{"id", row.id}, {"text", row.text}, {"remedy", text_or_null(row.remedy)}});
  }
  return json;
}

std::string dump_json_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string dump_json_pretty(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace whylate
