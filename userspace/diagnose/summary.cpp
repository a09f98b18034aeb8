// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/escape.h"
#include "diagnose/blame.h"
#include "request/address.h"
#include "request/histogram_view.h"
#include "request/names.h"

namespace whylate {
namespace {

constexpr std::uint64_t kLateFactor = 10;  // without --slower-than: late is above so many medians

Spread spread_of(const HistogramView& view) {
  Spread spread;
  spread.p50_ns = view.percentile_ns(50, 100);
  spread.p90_ns = view.percentile_ns(90, 100);
  spread.p99_ns = view.percentile_ns(99, 100);
  spread.p99_9_ns = view.percentile_ns(999, 1000);
  spread.max_ns = view.max_ns();
  return spread;
}

std::optional<double> ratio(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

std::string why_no_hard_irq(const Collector& collector, const RunContext& context) {
  std::string devices;
  for (const std::uint32_t index : collector.rx_devices()) {
    const auto it = context.devices.find(index);
    if (it == context.devices.end()) continue;
    devices += (devices.empty() ? "" : ", ") + escape(it->second.name);
  }
  if (collector.origins()[WL_ORIGIN_NETIF_RX] > 0) {
    return devices.empty()
               ? std::string("packets arrive through software devices: there is no hard interrupt")
               : fmt::format("packets arrive through {}: there is no hard interrupt", devices);
  }
  return "no request began with a device interrupt";
}

/// The plan says what could be seen; the run says what was.
StageStatus status_of(wl_stage stage, const capture::Totals& totals, const Collector& collector,
                      const RunContext& context) {
  const bool seen = totals.aggregate.stage_ns[stage] > 0;
  StageStatus status = context.stages[stage];
  if (seen) return StageStatus{true, {}};
  if (stage == WL_STAGE_SEND && !context.syscalls) {
    return StageStatus{false, "part of app; --syscalls tells it apart"};
  }
  if (!status.measured) return status;
  if (stage == WL_STAGE_HARD_IRQ && collector.origins()[WL_ORIGIN_IRQ] == 0) {
    return StageStatus{false, why_no_hard_irq(collector, context)};
  }
  if (stage == WL_STAGE_BACKLOG && !collector.saw_tcp()) {
    return StageStatus{false, "only TCP sockets have one"};
  }
  return status;
}

void fill_counts(Summary& summary, const capture::Totals& totals, const Collector& collector) {
  const wl_counters& counters = totals.counters;
  summary.complete = counters.complete;
  summary.incomplete = counters.incomplete;
  summary.incomplete_seen = collector.incomplete();
  summary.no_reply = counters.no_reply;
  summary.observed = counters.complete + counters.incomplete + counters.no_reply;
  summary.clamped = counters.clamped;
  std::copy(std::begin(counters.unmatched), std::end(counters.unmatched),
            summary.unmatched.begin());
  std::copy(std::begin(counters.lost), std::end(counters.lost), summary.lost.begin());
  summary.lost_total = std::accumulate(summary.lost.begin(), summary.lost.end(), std::uint64_t{0});
  summary.recursion_misses = totals.recursion_misses;

  summary.self_test = collector.self_test();
  const wl_aggregate& aggregate = totals.aggregate;
  const std::uint64_t entered = aggregate_count(aggregate);
  if (entered != counters.complete) {
    summary.self_test.note(fmt::format("the histogram holds {} requests, {} were counted", entered,
                                       counters.complete));
  }
  const std::uint64_t sum = std::accumulate(std::begin(aggregate.stage_ns),
                                            std::end(aggregate.stage_ns), std::uint64_t{0});
  if (sum != aggregate.total_ns) {
    summary.self_test.note(
        fmt::format("all stages sum to {} ns, all totals to {} ns", sum, aggregate.total_ns));
  }
}

void fill_blame(Summary& summary, const capture::Totals& totals) {
  for (const capture::BlameTotal& total : totals.blame) {
    if (total.key.stage >= WL_NR_STAGES) {
      summary.self_test.note(fmt::format("blame for unknown stage {}", total.key.stage));
      continue;
    }
    const std::uint64_t stage_ns = totals.aggregate.stage_ns[total.key.stage];
    if (total.value.ns > stage_ns) {
      summary.self_test.note(fmt::format("blame of {} ns exceeds the {} ns of {}", total.value.ns,
                                         stage_ns,
                                         stage_name(static_cast<wl_stage>(total.key.stage))));
      continue;
    }
    summary.blame.push_back({total.key, total.value, ratio(total.value.ns, stage_ns)});
  }
  for (std::uint32_t i = 0; i < WL_NR_THEFT; ++i) {
    const std::uint64_t ns = totals.aggregate.theft_ns[i];
    if (ns == 0) continue;
    BlameRow row;
    row.key.kind = wl_theft_kind(i);
    row.key.stage = WL_STAGE_APP_IRQ;
    row.value.ns = ns;
    row.share = ratio(ns, totals.aggregate.stage_ns[WL_STAGE_APP_IRQ]);
    summary.blame.push_back(row);
  }
  std::sort(summary.blame.begin(), summary.blame.end(), [](const BlameRow& a, const BlameRow& b) {
    if (a.value.ns != b.value.ns) return a.value.ns > b.value.ns;
    if (a.key.stage != b.key.stage) return a.key.stage < b.key.stage;
    if (a.key.kind != b.key.kind) return a.key.kind < b.key.kind;
    return a.key.pid < b.key.pid;
  });
}

/// Mean of the timed invocations; 0 when there were none.
double mean_ns(wl_u64 ns, wl_u64 runs) {
  return runs == 0 ? 0.0 : static_cast<double>(ns) / static_cast<double>(runs);
}

/// Two figures: what the hooks cost one request of the target, and what they cost this host in all
/// (they run for every task and packet of it).
void fill_cost(Summary& summary, const capture::Totals& totals) {
  // Every packet to the target comes with a raise, an entry and an exit of its softirq, which run
  // before anyone knows whose packet it is.
  constexpr double kSoftirqHooks = 3;
  const wl_counters& c = totals.counters;
  if (c.sampled_runs == 0 || totals.call_ns <= 0) return;
  const double other_ns = mean_ns(c.sampled_ns - std::min(c.sampled_ns, c.target_sampled_ns),
                                  c.sampled_runs - std::min(c.sampled_runs, c.target_sampled_runs));
  if (summary.observed > 0 && c.target_sampled_runs > 0) {
    const double target_ns =
        static_cast<double>(c.target_runs) *
            (totals.call_ns + mean_ns(c.target_sampled_ns, c.target_sampled_runs)) +
        static_cast<double>(c.target_packets) * kSoftirqHooks * (totals.call_ns + other_ns);
    summary.cost_ns_per_request = target_ns / static_cast<double>(summary.observed);
  }
  if (summary.context.own_cpu_ns && summary.context.duration_ns > 0) {
    const double host_ns =
        static_cast<double>(c.runs) * (totals.call_ns + mean_ns(c.sampled_ns, c.sampled_runs));
    summary.cpu_share = (static_cast<double>(*summary.context.own_cpu_ns) + host_ns) /
                        static_cast<double>(summary.context.duration_ns);
  }
}

void fill_stalled(Summary& summary, const Collector& collector) {
  if (summary.context.slower_than_ns > 0) {
    summary.late_above_ns = summary.context.slower_than_ns;
  } else if (summary.latency.p50_ns) {
    summary.late_above_ns = *summary.latency.p50_ns * kLateFactor;
  }
  if (!summary.late_above_ns || summary.observed == 0) return;
  const StalledTime::Answer answer = collector.stalled().above(*summary.late_above_ns);
  summary.stalled_ns = answer.ns;
  summary.late_requests = answer.late_requests;
  summary.stalled_is_lower_bound = answer.is_lower_bound || summary.lost[WL_LOST_RING_FULL] > 0;
}

std::vector<std::string> endpoints_of(const Collector& collector, const RunContext& context) {
  std::set<std::string> endpoints = collector.endpoints();
  if (endpoints.empty()) {
    for (const LocalSocket& socket : context.sockets) {
      if (!socket.serves) continue;
      endpoints.insert(fmt::format("{}/{}",
                                   format_endpoint(socket.family, socket.address, socket.port),
                                   proto_name(socket.proto)));
    }
  }
  return {endpoints.begin(), endpoints.end()};
}

}  // namespace

Summary build_summary(const capture::Totals& totals, const Collector& collector,
                      const RunContext& context) {
  Summary summary;
  summary.context = context;
  fill_counts(summary, totals, collector);

  const wl_aggregate& aggregate = totals.aggregate;
  summary.latency = spread_of(total_histogram(aggregate));
  if (aggregate.max_total_warm_ns > 0) {
    summary.slowest_but_first_two_ns = aggregate.max_total_warm_ns;
  }
  for (int i = 0; i < WL_NR_STAGES; ++i) {
    const auto stage = static_cast<wl_stage>(i);
    StageSummary& row = summary.stages[i];
    row.stage = stage;
    const StageStatus status = status_of(stage, totals, collector, context);
    row.measured = status.measured;
    row.why_not = status.why_not;
    if (!row.measured) {
      if (row.why_not.empty()) row.why_not = "no hook for it is attached";
      continue;
    }
    row.spread = spread_of(stage_histogram(aggregate, stage));
    row.total_ns = aggregate.stage_ns[i];
    row.share = ratio(aggregate.stage_ns[i], aggregate.total_ns);
  }
  fill_blame(summary, totals);
  fill_stalled(summary, collector);
  fill_cost(summary, totals);
  for (Request& request : collector.slowest().sorted()) {
    std::optional<Verdict> verdict = diagnose(request, context, summary.latency.p50_ns);
    summary.slowest.push_back({std::move(request), std::move(verdict)});
  }
  summary.endpoints = endpoints_of(collector, context);
  summary.idle_exits.assign(collector.idle_exits().begin(), collector.idle_exits().end());
  for (auto& entry : summary.idle_exits) {
    if (entry.first.second < 0) entry.first.second = context.fixed_idle_state.value_or(-1);
  }
  std::stable_sort(summary.idle_exits.begin(), summary.idle_exits.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });

  summary.is_whole =
      summary.lost_total == 0 && summary.recursion_misses == 0 && summary.self_test.violations == 0;
  summary.findings = find_findings(summary);
  return summary;
}

}  // namespace whylate
