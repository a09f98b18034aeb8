// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <memory>

#include "capture/session.h"
#include "diagnose/collector.h"
#include "request/request.h"

namespace whylate::test {

/// Books a request as the kernel side does, and hands it to the collector.
inline void count_request(capture::Totals& totals, Collector& collector, const Request& request) {
  wl_counters& counters = totals.counters;
  wl_aggregate& aggregate = totals.aggregate;
  collector.add(request);
  ++collector.self_test().records;
  if (!is_complete(request)) {
    ++counters.incomplete;
    return;
  }
  if (!has_reply(request)) {
    ++counters.no_reply;
    return;
  }
  ++counters.complete;
  const std::uint64_t total = total_ns(request);
  aggregate.total_ns += total;
  aggregate.max_total_ns = std::max<wl_u64>(aggregate.max_total_ns, total);
  if (!is_cold(request)) {
    aggregate.max_total_warm_ns = std::max<wl_u64>(aggregate.max_total_warm_ns, total);
  }
  ++aggregate.hist[WL_NR_STAGES][wl_hist_index(total)];
  for (int i = 0; i < WL_NR_STAGES; ++i) {
    const wl_u64 ns = request.record.stage_ns[i];
    if (ns == 0) continue;
    aggregate.stage_ns[i] += ns;
    aggregate.stage_max_ns[i] = std::max(aggregate.stage_max_ns[i], ns);
    ++aggregate.hist[i][wl_hist_index(ns)];
  }
  for (const wl_occupant& occupant : request.occupants) {
    const auto same = std::find_if(totals.blame.begin(), totals.blame.end(),
                                   [&occupant](const capture::BlameTotal& total_row) {
                                     return total_row.key.pid == occupant.pid &&
                                            total_row.key.kind == occupant.kind &&
                                            total_row.key.stage == occupant.stage;
                                   });
    capture::BlameTotal fresh{};
    fresh.key = {occupant.pid, occupant.kind, occupant.stage, 0};
    fresh.value.tgid = occupant.tgid;
    fresh.value.policy = occupant.policy;
    fresh.value.nice = occupant.nice;
    std::copy(std::begin(occupant.comm), std::end(occupant.comm), std::begin(fresh.value.comm));
    capture::BlameTotal& row =
        same != totals.blame.end() ? *same : totals.blame.emplace_back(fresh);
    row.value.ns += occupant.ns;
    ++row.value.requests;
  }
}

}  // namespace whylate::test
