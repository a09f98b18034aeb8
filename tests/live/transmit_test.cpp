// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Replies that leave later than they are sent: who kept them is said, and it is not the
// application.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causes.h"
#include "support/host.h"

namespace whylate::live {
namespace {

/// Server and client on the two ends of a veth pair; `tc` (words after "tc qdisc add dev D root")
/// shapes the server's way out.
TraceResult run_pair(const std::string& tc, const Args& server_args, const Args& client_args) {
  const VethPair veth;
  if (!tc.empty()) {
    veth.server().run("tc",
                      std::string("qdisc add dev ") + VethPair::kServerDevice + " root " + tc);
  }
  SpawnOptions at_server;
  SpawnOptions at_client;
  at_server.netns_fd = veth.server().fd();
  at_client.netns_fd = veth.client().fd();
  Server server(Args{"--cpu", std::to_string(cpus().server), "--listen",
                     std::string(VethPair::kServerAddress4) + ":0"} +
                    server_args,
                at_server);
  Trace trace(server.trace_args({"--id-offset", "0"}));
  const Json client = run_client(Args{"--cpu", std::to_string(cpus().client), "--to",
                                      server.address(VethPair::kServerAddress4)} +
                                     client_args,
                                 at_client);
  EXPECT_EQ(client["received"], client["count"]) << client.dump();
  sleep_ms(2'200);  // a reply that is not reported by then is lost
  TraceResult result = trace.stop();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result;
}

/// Every request is there or known to be missing: a queue sends in the context of whatever task is
/// running, and some kernels report nothing in the context of some.
void expect_all_but_unreported(const TraceResult& result, std::uint64_t count) {
  EXPECT_EQ(result.observed(), count) << result.summary["requests"].dump();
  EXPECT_EQ(result.summary["requests"]["no_reply"], 0);
  const std::uint64_t unreported = result.summary["lost"]["tx_pending"];
  EXPECT_LE(unreported * 10, count);
  EXPECT_EQ(result.lost_sum(), unreported) << result.summary["lost"].dump();
}

constexpr const char* kSlowQueue = "tbf rate 500kbit burst 1600 latency 800ms";

TEST(Transmit, ABurstInTheQueueIsAllThereAndTheQueueIsNamed) {
  const TraceResult result =
      run_pair(kSlowQueue, {}, {"--rate", "5", "--burst", "32", "--count", "640"});
  expect_all_but_unreported(result, 640);
  const std::vector<Record> slowest = slowest_of(result);
  EXPECT_TRUE(is_majority(slowest, "tx_queue")) << describe(slowest);
  EXPECT_GT(with_culprit(slowest, "tx_queue", "qdisc tbf on wls") * 2, slowest.size())
      << describe(slowest);
  for (const Record& record : slowest) {
    if (record.stage != "tx_queue") continue;
    EXPECT_THAT(record.text, ::testing::ContainsRegex("behind [0-9]+ packet"));
  }
}

TEST(Transmit, WithoutTheQueueNothingWaits) {
  const TraceResult result = run_pair("", {}, {"--rate", "5", "--burst", "32", "--count", "640"});
  EXPECT_EQ(result.observed(), 640u);
  EXPECT_EQ(result.lost_sum(), 0u) << result.summary["lost"].dump();
  EXPECT_EQ(with_stage(slowest_of(result), "tx_queue"), 0u);
}

/// Two requests at once on one connection: the second reply is small and the first is not
/// acknowledged yet. The client acknowledges with its next requests (delayed ACK), as it answers
/// replies within 40 ms (TCP_ATO_MIN), which makes the connection an interactive one.
TEST(Transmit, NagleHoldsTheSecondReply) {
  const Args client = {"--proto", "tcp", "--rate", "50", "--burst", "2", "--count", "400"};
  const TraceResult with = run_pair("", {"--proto", "tcp", "--nagle", "--work-us", "20"}, client);
  const TraceResult without = run_pair("", {"--proto", "tcp", "--work-us", "20"}, client);
  expect_all_but_unreported(with, 400);
  const auto held = [](const TraceResult& result) {
    return with_culprit(slowest_of(result, result.records.size()), "tx_queue", "Nagle");
  };
  EXPECT_GE(held(with), 5u) << describe(slowest_of(with));
  EXPECT_EQ(held(without), 0u) << describe(slowest_of(without));
}

/// Earlier replies fill a slow queue; TCP keeps the next ones back by itself.
TEST(Transmit, TcpBehindASlowQueueIsNotTheApplication) {
  const Args server = {"--proto", "tcp", "--size", "1400"};
  const Args client = {"--proto", "tcp",     "--size", "1400",    "--rate",
                       "5",       "--burst", "40",     "--count", "400"};
  const TraceResult with = run_pair("tbf rate 8mbit burst 3000 latency 2s", server, client);
  const std::vector<Record> slowest = slowest_of(with);
  expect_all_but_unreported(with, 400);
  EXPECT_TRUE(is_majority(slowest, "tx_queue")) << describe(slowest);
  EXPECT_EQ(with_stage(slowest, "app_blocked"), 0u) << describe(slowest);
}

}  // namespace
}  // namespace whylate::live
