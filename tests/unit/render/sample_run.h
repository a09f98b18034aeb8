// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <memory>

#include "diagnose/summary.h"
#include "unit/diagnose/run_builder.h"
#include "unit/request/builder.h"

namespace whylate::test {

/// Ten ordinary requests through veth, then one that waited 1.5 ms behind a hog.
struct SampleRun {
  std::unique_ptr<capture::Totals> totals = std::make_unique<capture::Totals>();
  Collector collector{2};
  RunContext context;

  SampleRun() {
    context.pid = 4242;
    context.pids = {4242};
    context.comm = "udp-echo";
    context.start_ns = 5'000;
    context.kernel_release = "6.18";
    context.machine = "x86_64";
    context.duration_ns = 10'000'000'000;
    context.own_cpu_ns = 50'000'000;
    context.idle_states[{1, 1}] = {"C1", 2'000};
    context.devices[2] = {"veth0", "noqueue"};
    context.stages[WL_STAGE_TX_QUEUE] = {false, "merged into app: no queue"};
    totals->call_ns = 10;
    totals->counters.runs = 110;
    totals->counters.sampled_runs = 10;
    totals->counters.sampled_ns = 800;
    totals->counters.target_runs = 110;
    totals->counters.target_sampled_runs = 10;
    totals->counters.target_sampled_ns = 800;
    for (std::uint64_t i = 0; i < 10; ++i) {
      Request request = make_request({{WL_STAGE_SOFTIRQ_WAIT, 310},
                                      {WL_STAGE_STACK, 900},
                                      {WL_STAGE_IDLE_EXIT, i == 0 ? 0u : 840u},
                                      {WL_STAGE_APP, 2'100}},
                                     i, 1'000'000 * (i + 1));
      request.record.idle_state = 1;
      request.record.rx_ifindex = 2;
      if (i < 2) request.record.quality |= WL_Q_COLD;
      count_request(*totals, collector, request);
    }
    Request slow = make_request(
        {{WL_STAGE_SOFTIRQ_WAIT, 310}, {WL_STAGE_RUN_QUEUE, 1'530'000}, {WL_STAGE_APP, 2'100}}, 10,
        20'000'000);
    slow.record.has_id = 1;
    slow.record.id = 8121;
    add_occupant(slow, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 1'470'000, 991, "stress-ng-cpu");
    add_occupant(slow, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 45'000, 31, "kworker/1:1");
    add_occupant(slow, WL_STAGE_RUN_QUEUE, WL_OCC_SOFTIRQ, 15'000);
    count_request(*totals, collector, slow);
  }

  Summary summary() const { return build_summary(*totals, collector, context); }
};

}  // namespace whylate::test
