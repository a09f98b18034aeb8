// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/render/sample_run.h"

namespace whylate {
namespace {

using test::SampleRun;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Text, GoldenReport) {
  const SampleRun run;
  EXPECT_EQ(
      summary_to_text(run.summary()),
      R"(udp-echo[4242] 10.7.0.2:9000/udp   kernel 6.18   10.0 s   11 requests, 0 incomplete, 0 lost   own cost 0.9 us/request
                    p50       p99     p99.9       max  share
total            4.22us    1.53ms    1.53ms    1.53ms
softirq_wait     0.31us    0.31us    0.31us    0.31us    <1%
stack            0.90us    0.90us    0.90us    0.90us     1%
idle_exit        0.84us    0.84us    0.84us    0.84us    <1%   CPU 1 C1
run_queue             0    1.53ms    1.53ms    1.53ms    97%   stress-ng-cpu[991] 96 %, kworker/1:1[31] 3 %, softirqs 1 %
app              2.10us    2.10us    2.10us    2.10us     1%
no time in: softirq_poll, socket_queue, wakeup, throttled, recv, app_run_queue, app_blocked, app_irq, unattributed
not measured: hard_irq (packets arrive through veth0: there is no hard interrupt)
not measured: backlog (only TCP sockets have one)
not measured: send (part of app; --syscalls tells it apart)
not measured: tx_queue (merged into app: no queue)
stalled: 1.53ms with a late request in flight (1 above 42.23us)
slowest but the first two
 id 8121       1.53ms  run_queue 1.53ms on CPU 1: stress-ng-cpu[991] (SCHED_OTHER, nice 0) held it for 96 % of the wait. Move the responder to an isolated CPU.
     softirq_wait 0.31us  run_queue 1.53ms  app 2.10us
     on the CPU meanwhile: stress-ng-cpu[991] 96 %, kworker/1:1[31] 3 %, softirqs 1 %
 seq 2         4.15us  app 2.10us on CPU 1: echo[4243] was computing (user and kernel mode, page faults included). Profile it (perf record -t 4243).
     softirq_wait 0.31us  stack 0.90us  idle_exit 0.84us  app 2.10us
)");
}

TEST(Text, NoRequestsIsAReportToo) {
  SampleRun run;
  *run.totals = {};
  run.collector = Collector(2);
  const std::string text = summary_to_text(run.summary());
  EXPECT_THAT(text, AllOf(HasSubstr("0 requests, 0 incomplete, 0 lost"),
                          HasSubstr("No request was seen"), HasSubstr("own cost not measured"),
                          Not(HasSubstr("nan")), Not(HasSubstr("p50")), Not(HasSubstr("slowest"))));
}

TEST(Text, LossIsShownByCause) {
  SampleRun run;
  run.totals->counters.lost[WL_LOST_RING_FULL] = 12;
  run.totals->counters.unmatched[WL_UNM_UNSYNCED] = 3;
  run.totals->recursion_misses = 5;
  EXPECT_THAT(summary_to_text(run.summary()),
              AllOf(HasSubstr("INCOMPLETE"), HasSubstr("12 lost"), HasSubstr("lost ring_full: 12"),
                    HasSubstr("recursion misses: 5"), HasSubstr("3 reads while")));
}

TEST(Text, NamesFromOutsideCannotControlTheTerminal) {
  SampleRun run;
  run.context.comm = "\x1b[2J\xff";
  run.context.kernel_release = "6\x07";
  run.context.devices[2].name = "ve\nth";
  const std::string text = summary_to_text(run.summary());
  for (const char c : text) {
    EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << static_cast<int>(c);
  }
}

TEST(Text, ManyAddressesAndProcessesAreCounted) {
  SampleRun run;
  run.context.pids = {4242, 4243, 4244};
  for (wl_u16 port = 1; port <= 5; ++port) {
    Request request = test::make_request({{WL_STAGE_APP, 100}}, 100 + port, 50'000'000);
    request.record.lport = port;
    request.record.sk_cookie = port;
    test::count_request(*run.totals, run.collector, request);
  }
  EXPECT_THAT(summary_to_text(run.summary()),
              AllOf(HasSubstr("udp-echo[4242] and 2 more "), HasSubstr(" and 3 more   kernel")));
}

TEST(Text, NothingSlowEnough) {
  SampleRun run;
  run.collector = Collector(2);
  run.context.slower_than_ns = 5'000'000;
  EXPECT_THAT(summary_to_text(run.summary()),
              HasSubstr("no request but the first two was slower than 5.00ms"));
}

}  // namespace
}  // namespace whylate
