// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// `whylate trace` of a responder on AF_XDP: every request is a redirect, a wake-up where it sleeps,
// and a frame sent.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "support/attached.h"
#include "support/host.h"
#include "support/trace.h"

namespace whylate::live {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kRequests = 1'000;

struct Way {
  const char* xdp_mode;
  bool spins;
};

class XskTrace : public ::testing::TestWithParam<Way> {
 protected:
  void TearDown() override { EXPECT_TRUE(only_left(before_)); }

  /// Traces a responder while it answers kRequests; what the trace printed.
  Json run(const Args& trace_args = {}) {
    SpawnOptions at_server, at_client;
    at_server.netns_fd = pair_.server().fd();
    at_client.netns_fd = pair_.client().fd();
    const std::string address = fmt::format("{}:9000", VethPair::kServerAddress4);
    Server server({"--listen", address, "--stack", "af-xdp", "--xdp-mode", GetParam().xdp_mode,
                   "--mode", GetParam().spins ? "spin" : "blocking"},
                  at_server);
    Child trace = Child::spawn(
        Args{whylate_path(), "trace", "-p", std::to_string(server.pid()), "--json"} + trace_args);
    EXPECT_TRUE(trace.wait_line("following its packets")) << trace.err();
    // One after the other: a packet then has a round of the driver, and a wake-up, of its own.
    const Json client = run_client({"--to", address, "--wait", "block", "--gap-us", "500",
                                    "--count", std::to_string(kRequests)},
                                   at_client);
    EXPECT_EQ(client.value("received", std::uint64_t{0}), kRequests);
    trace.send(SIGINT);
    EXPECT_EQ(trace.wait(), 0) << trace.err();
    const Json report = Json::parse(trace.out(), nullptr, false);
    EXPECT_FALSE(report.is_discarded()) << trace.out() << trace.err();
    return report;
  }

  const VethPair pair_;

 private:
  std::set<int> before_ = tracer_programs();
};

void expect_measured(const Json& stage, std::uint64_t count) {
  EXPECT_EQ(stage["measured"], true) << stage;
  EXPECT_EQ(stage["count"], count) << stage;
  ASSERT_TRUE(stage["p50_ns"].is_number() && stage["max_ns"].is_number()) << stage;
  EXPECT_LE(stage["p50_ns"], stage["p99_ns"]);
  EXPECT_LE(stage["p99_ns"], stage["max_ns"]);
  EXPECT_GE(stage["total_ns"], stage["max_ns"]);
}

void expect_silent(const Json& stage, const char* why) {
  EXPECT_EQ(stage["measured"], false) << stage;
  EXPECT_TRUE(stage["p50_ns"].is_null() && stage["total_ns"].is_null()) << stage;
  EXPECT_THAT(stage["why_not"].get<std::string>(), HasSubstr(why));
}

TEST_P(XskTrace, EveryRequestIsRedirectedAndSent) {
  const Json report = run();
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report["schema"], "whylate.af_xdp/1");
  EXPECT_EQ(report["complete"], true) << report.dump(1);
  const Json& packets = report["packets"];
  EXPECT_EQ(packets["redirected"], kRequests) << report.dump(1);
  EXPECT_EQ(packets["rx_ring"], kRequests);
  EXPECT_EQ(packets["tx_ring"], kRequests);
  EXPECT_EQ(packets["failed"], 0);
  EXPECT_EQ(packets["polled"], 0);
  const std::uint64_t woke = packets["woke_a_thread"];
  const std::uint64_t awake = packets["found_it_awake"];
  EXPECT_EQ(woke + awake, kRequests);

  const Json& stages = report["stages"];
  expect_measured(stages["softirq_wait"], kRequests);
  expect_measured(stages["redirect"], kRequests);
  expect_silent(stages["hard_irq"], "virtual device");
  expect_measured(stages["transmit"], report["transmit_calls"].get<std::uint64_t>());
  if (GetParam().spins) {
    EXPECT_EQ(woke, 0u);
    expect_silent(stages["wake"], "awake");
    expect_silent(stages["run_queue"], "awake");
    expect_silent(stages["user"], "not seen");
  } else {
    EXPECT_GT(woke, kRequests / 2) << "it sleeps between two requests";
    if (std::string(GetParam().xdp_mode) == "generic") {
      expect_silent(stages["wake"], "within its redirect");
    } else {
      expect_measured(stages["wake"], report["wakes"].get<std::uint64_t>());
    }
    EXPECT_LE(report["wakes"], woke);
    EXPECT_LE(stages["run_queue"]["count"], report["wakes"]);
    EXPECT_GT(stages["run_queue"]["count"], kRequests / 2);
    EXPECT_GT(stages["user"]["count"], kRequests / 2);
  }
  EXPECT_THAT(report["notes"].dump(), HasSubstr("user space"));
  ASSERT_EQ(report["sockets"].size(), 1u);
  EXPECT_THAT(report["sockets"][0].get<std::string>(), HasSubstr(GetParam().xdp_mode));
}

INSTANTIATE_TEST_SUITE_P(Ways, XskTrace,
                         ::testing::Values(Way{"generic", false}, Way{"generic", true},
                                           Way{"native", false}, Way{"native", true}),
                         [](const ::testing::TestParamInfo<Way>& param) {
                           return std::string(param.param.xdp_mode) +
                                  (param.param.spins ? "_spinning" : "_sleeping");
                         });

TEST(XskTraceText, SaysWhatIsMeasuredAndWhatIsNot) {
  const VethPair pair;
  SpawnOptions at_server;
  at_server.netns_fd = pair.server().fd();
  Server server(
      {"--listen", fmt::format("{}:9000", VethPair::kServerAddress4), "--stack", "af-xdp"},
      at_server);
  const Child trace =
      Child::run({whylate_path(), "trace", "-p", std::to_string(server.pid()), "-d", "300ms"});
  EXPECT_EQ(trace.exit_code(), 0) << trace.err();
  EXPECT_THAT(trace.out(), HasSubstr("AF_XDP, 0 packets redirected to it"));
  EXPECT_THAT(trace.out(), HasSubstr("not measured: no packet was redirected"));
  EXPECT_THAT(trace.out(), HasSubstr("user space"));
}

}  // namespace
}  // namespace whylate::live
