// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/session.h"
#include "diagnose/collector.h"
#include "diagnose/context.h"
#include "diagnose/verdict.h"
#include "request/request.h"

namespace whylate {

/// The spread of one figure over the requests of a run; all empty when there were none.
struct Spread {
  std::optional<std::uint64_t> p50_ns;
  std::optional<std::uint64_t> p90_ns;
  std::optional<std::uint64_t> p99_ns;
  std::optional<std::uint64_t> p99_9_ns;
  std::optional<std::uint64_t> max_ns;
};

struct StageSummary {
  wl_stage stage = WL_STAGE_UNATTRIBUTED;
  bool measured = true;
  std::string why_not;          ///< filled when not measured
  Spread spread;                ///< empty when not measured
  std::uint64_t total_ns = 0;   ///< over all complete requests
  std::optional<double> share;  ///< of the total of all requests, 0 to 1
};

/// How much of a stage one occupant accounts for, over all requests.
struct BlameRow {
  wl_blame_key key{};
  wl_blame value{};
  std::optional<double> share;  ///< of the stage's total, 0 to 1
};

struct SlowRequest {
  Request request;
  std::optional<Verdict> verdict;
};

/// Something about the host or the run that a reader should know, and what people do about it.
struct FindingRow {
  std::string id;
  std::string text;
  std::string remedy;
};

/// All values of a report; the renderers add none.
struct Summary {
  RunContext context;
  std::uint64_t observed = 0;  ///< complete + incomplete + no_reply
  std::uint64_t complete = 0;
  std::uint64_t incomplete = 0;
  IncompleteSeen incomplete_seen;  ///< why, of those that had a record
  std::uint64_t no_reply = 0;
  std::uint64_t clamped = 0;
  std::array<std::uint64_t, WL_NR_UNMATCHED> unmatched{};
  std::array<std::uint64_t, WL_NR_LOST> lost{};
  std::uint64_t lost_total = 0;
  std::uint64_t recursion_misses = 0;
  SelfTest self_test;
  bool is_whole = true;  ///< nothing lost, nothing missed, no violation: else INCOMPLETE

  Spread latency;
  std::optional<std::uint64_t> slowest_but_first_two_ns;
  std::optional<std::uint64_t> late_above_ns;  ///< what counts as late for stalled_ns
  std::optional<std::uint64_t> stalled_ns;
  std::uint64_t late_requests = 0;
  bool stalled_is_lower_bound = false;

  std::array<StageSummary, WL_NR_STAGES> stages;
  std::vector<BlameRow> blame;  ///< largest first
  std::vector<SlowRequest> slowest;
  std::vector<std::string> endpoints;  ///< "10.7.0.2:9000/udp"
  /// How often idle_exit left which state, by CPU and index, most often first.
  std::vector<std::pair<std::pair<std::uint32_t, int>, std::uint64_t>> idle_exits;

  std::optional<double> cost_ns_per_request;
  std::optional<double> cpu_share;  ///< of one CPU, the programs in the kernel included
  std::vector<FindingRow> findings;
};

/// Builds the values of a report from the kernel's totals and what the collector kept.
Summary build_summary(const capture::Totals& totals, const Collector& collector,
                      const RunContext& context);

/// What is worth saying beside the figures.
std::vector<FindingRow> find_findings(const Summary& summary);

}  // namespace whylate
