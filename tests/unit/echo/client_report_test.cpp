// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/client_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace whylate::echo {
namespace {

ClientRun some_run() {
  ClientRun run;
  run.requests.resize(5);
  run.requests[0] = {0, 5, 1'000, kUnknownNs, kUnknownNs, false};
  run.requests[1] = {10, 10, 500, kUnknownNs, kUnknownNs, false};
  run.requests[2] = {20, 25, 125, kUnknownNs, kUnknownNs, false};
  run.requests[3] = {30, 30, kUnknownNs, kUnknownNs, kUnknownNs, false};
  run.end_ns = 2'000;
  return run;
}

ClientOptions some_options() {
  ClientOptions options;
  options.to = *parse_endpoint("127.0.0.1:9000");
  options.rate_millihertz = 1'000'000;
  options.count = 5;
  return options;
}

TEST(ClientReport, CountsSentReceivedLost) {
  const auto summary = summarize(some_run());
  EXPECT_EQ(summary.sent, 4U);
  EXPECT_EQ(summary.received, 3U);
  EXPECT_EQ(summary.lost, 1U);
  EXPECT_EQ(summary.latency->max_ns, 995);
  EXPECT_EQ(summary.latency->slowest_but_first_two_ns, 100);
  EXPECT_EQ(summary.latency_intended->slowest_but_first_two_ns, 105);
  EXPECT_EQ(summary.lateness->max_ns, 5);
}

TEST(ClientReport, JsonAndTextRenderTheSame) {
  const auto summary = summarize(some_run());
  const auto json = nlohmann::json::parse(to_json(some_options(), summary));
  EXPECT_EQ(json.at("schema"), "whylate.client_summary/1");
  EXPECT_EQ(json.at("sent"), 4);
  EXPECT_EQ(json.at("latency_ns").at("slowest_but_first_two"), 100);
  EXPECT_EQ(json.at("latency_intended_ns").at("p50"), 490);
  EXPECT_EQ(json.at("send_lateness_ns").at("max"), 5);
  EXPECT_TRUE(json.at("window").is_null());
  const auto text = to_text(some_options(), summary);
  EXPECT_NE(text.find("4 sent, 3 received, 1 lost"), std::string::npos) << text;
  EXPECT_NE(text.find("100ns"), std::string::npos) << text;
}

TEST(ClientReport, NothingAnsweredDividesByNothing) {
  auto options = some_options();
  options.rate_millihertz.reset();
  const auto summary = summarize(ClientRun{});
  const auto json = nlohmann::json::parse(to_json(options, summary));
  EXPECT_TRUE(json.at("latency_ns").is_null());
  EXPECT_TRUE(json.at("latency_intended_ns").is_null());
  EXPECT_TRUE(json.at("send_lateness_ns").is_null());
  EXPECT_NE(to_text(options, summary).find("0 sent"), std::string::npos);
  EXPECT_EQ(exit_code(summary), ExitCode::kFinding);
}

TEST(ClientReport, ExitCodes) {
  auto run = some_run();
  EXPECT_EQ(exit_code(summarize(run)), ExitCode::kDone);
  run.oddities.mismatched = 1;
  EXPECT_EQ(exit_code(summarize(run)), ExitCode::kRuntimeError);
  run.oddities = {};
  run.oddities.disconnected = 1;
  EXPECT_EQ(exit_code(summarize(run)), ExitCode::kRuntimeError);  // one request was lost by it
  run.requests[3].received_ns = 99;
  EXPECT_EQ(exit_code(summarize(run)), ExitCode::kDone);
}

TEST(ClientReport, Durations) {
  EXPECT_EQ(human_duration(850), "850ns");
  EXPECT_EQ(human_duration(4'150), "4.15us");
  EXPECT_EQ(human_duration(1'550'000), "1.55ms");
  EXPECT_EQ(human_duration(2'000'000'000), "2.00s");
}

}  // namespace
}  // namespace whylate::echo
