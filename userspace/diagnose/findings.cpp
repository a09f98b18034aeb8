// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include "base/duration.h"
#include "base/escape.h"
#include "diagnose/blame.h"
#include "diagnose/summary.h"
#include "request/names.h"

namespace whylate {
namespace {

constexpr std::uint64_t kStealPartOfRun = 1000;  // steal above 0.1 % of the run is worth a line
constexpr std::uint64_t kStallPartOfRun = 100;   // stalled for more than 1 % of it likewise

/// What is missing of incomplete requests, in the order of the flags.
std::string why_incomplete(const IncompleteSeen& seen) {
  std::string why;
  for (const auto& [flag, count] : seen.by_flag) {
    const std::vector<std::string> names = quality_names(flag);
    why += fmt::format("{}{} x {}", why.empty() ? "" : ", ", count,
                       names.empty() ? "unknown" : names.front());
  }
  return why;
}

std::string incomplete_text(const Summary& summary) {
  std::string text = fmt::format(
      "{} requests miss an event of theirs: they are in no latency figure and not among the "
      "slowest",
      summary.incomplete);
  const IncompleteSeen& seen = summary.incomplete_seen;
  if (!seen.by_flag.empty()) text += fmt::format(" ({})", why_incomplete(seen));
  if (seen.longest_ns > 0) {
    text += fmt::format("; the longest known took {}", format_duration(seen.longest_ns));
  }
  return text + ".";
}

}  // namespace

std::vector<FindingRow> find_findings(const Summary& summary) {
  const RunContext& context = summary.context;
  std::vector<FindingRow> rows;
  const auto add = [&rows](std::string id, std::string text, std::string remedy) {
    rows.push_back({std::move(id), std::move(text), std::move(remedy)});
  };

  if (summary.self_test.violations > 0) {
    add("self_test",
        fmt::format("{} checks of the tracer's own figures failed, first: {}",
                    summary.self_test.violations, escape(summary.self_test.first)),
        "This is an error of whylate: do not rely on this report, and report it.");
  }
  if (summary.observed == 0) {
    add("no_requests", "No request was seen.",
        "Check that traffic reaches this process and that it passes the kernel's network stack.");
  }
  if (summary.lost[WL_LOST_RING_FULL] > 0) {
    add("ring_full",
        fmt::format("Details of {} requests were dropped; slow ones may be missing from the list.",
                    summary.lost[WL_LOST_RING_FULL]),
        "Ask for slow requests only (--slower-than).");
  }
  if (summary.unmatched[WL_UNM_DROPPED] > 0) {
    add("packets_dropped",
        fmt::format("The stack dropped {} packets for the target, most often because its receive "
                    "buffer was full: those requests never came to be.",
                    summary.unmatched[WL_UNM_DROPPED]),
        "Raise SO_RCVBUF and net.core.rmem_max, or answer faster.");
  }
  if (summary.incomplete > 0) {
    const bool lost_switch = summary.incomplete_seen.by_flag.count(WL_Q_LOST_SWITCH) > 0;
    add("incomplete", incomplete_text(summary),
        lost_switch ? "lost_switch: this kernel did not report a context switch of the reader; "
                      "--json-lines has the records."
                    : "--json-lines has the records, with their quality flags.");
  }
  if (summary.no_reply > 0) {
    add("no_reply",
        fmt::format("{} requests were followed by another read instead of a reply; they are in no "
                    "latency figure.",
                    summary.no_reply),
        "");
  }
  if (context.quota_us && context.period_us) {
    add("cpu_quota",
        fmt::format("The target runs under a CPU quota of {} per {} (cgroup {}).",
                    format_duration(*context.quota_us * kNsPerUs),
                    format_duration(*context.period_us * kNsPerUs), escape(context.cgroup)),
        "Raise cpu.max (cgroup v2) or cpu.cfs_quota_us (v1) if `throttled` shows up.");
  }
  if (context.virtualised.value_or(false) && context.steal_ns &&
      *context.steal_ns > context.duration_ns / kStealPartOfRun) {
    add("steal",
        fmt::format("The hypervisor took {} of CPU time in this run; it lies inside whatever stage "
                    "it hit.",
                    format_duration(*context.steal_ns)),
        "Give the machine CPUs of its own; mistrust single stages of some microseconds here.");
  }
  if (summary.stalled_ns && *summary.stalled_ns > context.duration_ns / kStallPartOfRun) {
    add("stalled",
        fmt::format("For {}{} of the run at least one late request was in flight (late: above {}); "
                    "percentiles over requests hide that.",
                    summary.stalled_is_lower_bound ? "at least " : "",
                    format_duration(*summary.stalled_ns), format_duration(*summary.late_above_ns)),
        "");
  }
  for (const BlameRow& row : summary.blame) {
    if (row.key.kind != WL_OCC_TASK || context.own_pid <= 0) continue;
    if (row.value.tgid != static_cast<std::uint32_t>(context.own_pid)) continue;
    add("own_interference",
        fmt::format("whylate itself held the target's CPU for {} of the waits, summed over the "
                    "requests: several may wait at the same time.",
                    format_duration(row.value.ns)),
        "Leave the tracer a CPU that the responder does not use.");
    break;
  }
  return rows;
}

}  // namespace whylate
