// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "base/duration.h"
#include "base/escape.h"
#include "diagnose/blame.h"
#include "request/names.h"

namespace whylate {
namespace {

constexpr std::size_t kShownEndpoints = 3;
constexpr std::size_t kShownOccupants = 3;

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  return fmt::format("{}", fmt::join(parts, between));
}

std::string duration_or_dash(const std::optional<std::uint64_t>& ns) {
  return ns ? format_duration(*ns) : std::string("-");
}

std::string headline(const Summary& summary) {
  const RunContext& context = summary.context;
  std::string name = context.comm.empty() ? std::string("target") : escape(context.comm);
  if (context.pid) name += fmt::format("[{}]", *context.pid);
  if (context.pids.size() > 1) name += fmt::format(" and {} more", context.pids.size() - 1);

  std::vector<std::string> shown(
      summary.endpoints.begin(),
      summary.endpoints.begin() +
          static_cast<std::ptrdiff_t>(std::min(kShownEndpoints, summary.endpoints.size())));
  if (!shown.empty()) name += " " + joined(shown, ", ");
  if (summary.endpoints.size() > kShownEndpoints) {
    name += fmt::format(" and {} more", summary.endpoints.size() - kShownEndpoints);
  }

  std::vector<std::string> parts = {std::move(name)};
  if (!context.kernel_release.empty()) {
    parts.push_back("kernel " + escape(context.kernel_release));
  }
  parts.push_back(format_seconds(context.duration_ns));
  parts.push_back(fmt::format("{} requests, {} incomplete, {} lost", summary.observed,
                              summary.incomplete, summary.lost_total));
  parts.push_back(summary.cost_ns_per_request ? fmt::format("own cost {:.1f} us/request",
                                                            *summary.cost_ns_per_request / 1000.0)
                                              : std::string("own cost not measured"));
  return joined(parts, "   ");
}

struct Row {
  std::string name, p50, p99, p99_9, max, share, note;
};

std::string format_row(const Row& row) {
  std::string line = fmt::format("{:<13} {:>9} {:>9} {:>9} {:>9} {:>6}", row.name, row.p50, row.p99,
                                 row.p99_9, row.max, row.share);
  if (!row.note.empty()) line += "   " + row.note;
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

/// The largest occupants of a stage over the run.
std::string occupants_note(const Summary& summary, wl_stage stage) {
  std::vector<std::string> parts;
  std::size_t left_out = 0;
  for (const BlameRow& row : summary.blame) {
    if (row.key.stage != stage || row.value.ns == 0) continue;
    if (parts.size() == kShownOccupants) {
      ++left_out;
      continue;
    }
    wl_occupant occupant{};
    occupant.kind = row.key.kind;
    occupant.pid = row.key.pid;
    std::copy(std::begin(row.value.comm), std::end(row.value.comm), std::begin(occupant.comm));
    parts.push_back(fmt::format("{} {}", occupant_label(occupant),
                                percent(row.value.ns, summary.stages[stage].total_ns)));
  }
  if (left_out > 0) parts.push_back(fmt::format("{} more", left_out));
  return joined(parts, ", ");
}

std::string idle_note(const Summary& summary) {
  if (summary.idle_exits.empty()) return {};
  const auto& [cpu, state] = summary.idle_exits.front().first;
  const std::string where =
      cpu == WL_NO_CPU ? std::string("CPU unknown") : fmt::format("CPU {}", cpu);
  if (state < 0) return where + ", state unknown";
  const std::string name = idle_state_name(summary.context, cpu, state);
  return name.empty() ? fmt::format("{} state {}", where, state)
                      : fmt::format("{} {}", where, name);
}

std::string stage_note(const Summary& summary, wl_stage stage) {
  switch (stage) {
    case WL_STAGE_IDLE_EXIT:
      return idle_note(summary);
    case WL_STAGE_THROTTLED:
      return summary.context.cgroup.empty() ? std::string()
                                            : "cgroup " + escape(summary.context.cgroup);
    default:
      return occupants_note(summary, stage);
  }
}

std::string share_text(const std::optional<double>& share) {
  if (!share) return "-";
  const double percent_value = *share * 100;
  if (percent_value > 0 && percent_value < 0.5) return "<1%";
  return fmt::format("{:.0f}%", percent_value);
}

std::string table(const Summary& summary) {
  std::string text = format_row({"", "p50", "p99", "p99.9", "max", "share", ""});
  const Spread& latency = summary.latency;
  text +=
      format_row({"total", duration_or_dash(latency.p50_ns), duration_or_dash(latency.p99_ns),
                  duration_or_dash(latency.p99_9_ns), duration_or_dash(latency.max_ns), "", ""});
  std::vector<std::string> empty;
  for (const StageSummary& row : summary.stages) {
    if (!row.measured) continue;
    if (row.total_ns == 0) {
      empty.emplace_back(stage_name(row.stage));
      continue;
    }
    const Spread& spread = row.spread;
    text += format_row({std::string(stage_name(row.stage)), duration_or_dash(spread.p50_ns),
                        duration_or_dash(spread.p99_ns), duration_or_dash(spread.p99_9_ns),
                        duration_or_dash(spread.max_ns), share_text(row.share),
                        stage_note(summary, row.stage)});
  }
  if (!empty.empty()) text += fmt::format("no time in: {}\n", joined(empty, ", "));
  return text;
}

std::string not_measured(const Summary& summary) {
  std::string text;
  for (const StageSummary& row : summary.stages) {
    if (row.measured) continue;
    text += fmt::format("not measured: {} ({})\n", stage_name(row.stage), escape(row.why_not));
  }
  return text;
}

std::string losses(const Summary& summary) {
  std::string text;
  if (!summary.is_whole) {
    text += "INCOMPLETE: this report lacks something\n";
    for (int i = 0; i < WL_NR_LOST; ++i) {
      if (summary.lost[i] == 0) continue;
      const auto lost = static_cast<wl_lost>(i);
      text +=
          fmt::format("  lost {}: {} ({})\n", lost_name(lost), summary.lost[i], lost_text(lost));
    }
    if (summary.recursion_misses > 0) {
      text += fmt::format(
          "  recursion misses: {} (calls of the tracer's programs that the kernel "
          "skipped)\n",
          summary.recursion_misses);
    }
    if (summary.self_test.violations > 0) {
      text += fmt::format("  self-test: {} violations, first: {}\n", summary.self_test.violations,
                          escape(summary.self_test.first));
    }
  }
  std::vector<std::string> parts;
  for (int i = 0; i < WL_NR_UNMATCHED; ++i) {
    if (summary.unmatched[i] == 0) continue;
    parts.push_back(
        fmt::format("{} {}", summary.unmatched[i], unmatched_text(static_cast<wl_unmatched>(i))));
  }
  if (!parts.empty()) text += fmt::format("not counted as requests: {}\n", joined(parts, "; "));
  if (summary.clamped > 0) {
    text += fmt::format("clamped: marks of {} requests were out of order by more than 1us\n",
                        summary.clamped);
  }
  return text;
}

std::string slowest_list(const Summary& summary) {
  if (summary.slowest.empty()) {
    // With a threshold the kernel hands out the late ones only; without one, nobody was warm yet.
    if (summary.context.slower_than_ns > 0 && summary.complete > 0) {
      return fmt::format("no request but the first two was slower than {}\n",
                         format_duration(summary.context.slower_than_ns));
    }
    return {};
  }
  std::string text = "slowest but the first two\n";
  for (const SlowRequest& slow : summary.slowest) {
    const wl_request& record = slow.request.record;
    const std::string name =
        record.has_id ? fmt::format("id {}", record.id) : fmt::format("seq {}", record.seq);
    text += fmt::format(" {:<10} {:>9}  {}\n", name, format_duration(total_ns(slow.request)),
                        slow.verdict ? slow.verdict->text : std::string("no verdict"));
    std::vector<std::string> parts;
    for (int i = 0; i < WL_NR_STAGES; ++i) {
      if (record.stage_ns[i] == 0) continue;
      parts.push_back(fmt::format("{} {}", stage_name(static_cast<wl_stage>(i)),
                                  format_duration(record.stage_ns[i])));
    }
    text += fmt::format("     {}\n", joined(parts, "  "));
    const wl_stage stage = dominant_stage(slow.request);
    const std::vector<wl_occupant> occupants = occupants_of(slow.request, stage);
    if (occupants.size() < 2) continue;
    parts.clear();
    for (const wl_occupant& occupant : occupants) {
      parts.push_back(fmt::format("{} {}", occupant_label(occupant),
                                  percent(occupant.ns, record.stage_ns[stage])));
    }
    text += fmt::format("     on the CPU meanwhile: {}\n", joined(parts, ", "));
  }
  return text;
}

}  // namespace

std::string summary_to_text(const Summary& summary) {
  std::string text = headline(summary) + "\n";
  if (summary.complete > 0) text += table(summary);
  text += losses(summary);
  if (summary.complete > 0) {
    text += not_measured(summary);
    if (summary.stalled_ns && summary.late_requests > 0) {
      text += fmt::format("stalled: {}{} with a late request in flight ({} above {})\n",
                          summary.stalled_is_lower_bound ? "at least " : "",
                          format_duration(*summary.stalled_ns), summary.late_requests,
                          format_duration(*summary.late_above_ns));
    }
    text += slowest_list(summary);
  }
  for (const FindingRow& row : summary.findings) {
    if (row.id == "stalled") continue;  // has its own line above
    text +=
        fmt::format("{}: {}{}{}\n", row.id, row.text, row.remedy.empty() ? "" : " ", row.remedy);
  }
  return text;
}

}  // namespace whylate
