// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the client saw, against what the responder's host explains.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>

#include "causes.h"
#include "support/host.h"

namespace whylate::live {
namespace {

/// Traces a run and joins it with the client's own requests.
Json correlate_run(const Args& server_args, const Args& client_args) {
  const std::string requests = scratch_path("requests");
  Server server(Args{"--cpu", std::to_string(cpus().server)} + server_args);
  Trace trace(server.trace_args({"--id-offset", "0"}));
  trace.keep_file();
  run_client(Args{"--cpu", std::to_string(cpus().client), "--to", server.address("127.0.0.1"),
                  "--requests", requests} +
             client_args);
  const TraceResult result = trace.stop();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Child correlate =
      Child::run({whylate_path(), "correlate", "--requests", trace.file(), "--client", requests,
                  "--json", "--slowest", std::to_string(kSlowest)});
  EXPECT_EQ(correlate.exit_code(), 0) << correlate.err();
  Json json = Json::parse(correlate.out(), nullptr, false);
  EXPECT_EQ(json["schema"], "whylate.correlate/1");
  EXPECT_EQ(json["joined"], json["client_requests"]) << "each request is on both sides";
  EXPECT_EQ(json["shared_clock"], true);
  EXPECT_EQ(json["slowest"].size(), kSlowest);
  for (const Json& row : json["slowest"]) {
    // The parts of what the client saw add up to it.
    if (row["rest_ns"].is_null()) continue;
    EXPECT_EQ(row["client_late_ns"].get<std::uint64_t>() + row["host_ns"].get<std::uint64_t>() +
                  row["rest_ns"].get<std::uint64_t>(),
              row["client_ns"].get<std::uint64_t>())
        << row.dump();
  }
  return json;
}

std::size_t explained_by(const Json& json, const std::string& who) {
  std::size_t count = 0;
  for (const Json& row : json["slowest"]) count += row["explained_by"] == who ? 1 : 0;
  return count;
}

std::string texts(const Json& json) {
  std::string text;
  for (const Json& row : json["slowest"]) text += row["text"].get<std::string>() + "\n";
  return text;
}

TEST(Causes, ClientThatIsLateByItselfIsNotTheServersFault) {
  Json json;
  {
    const Child hog = start_load({"hog", cpus().client});
    json = correlate_run({}, {"--rate", "500", "--count", "1000"});
  }
  EXPECT_GT(explained_by(json, "client") * 2, kSlowest) << texts(json);
  EXPECT_LE(explained_by(json, "host"), kSlowest / 5) << texts(json);
  for (const Json& row : json["slowest"]) {
    if (row["explained_by"] == "client") {
      EXPECT_TRUE(row["culprit"].is_null()) << row.dump();
      EXPECT_TRUE(row["stage"].is_null()) << row.dump();
    }
  }
}

TEST(Causes, ServerThatIsLateIsNotTheClientsFault) {
  Json json;
  { json = correlate_run({"--sleep-us", "3000"}, {"--rate", "100", "--count", "200"}); }
  // What a hypervisor takes from the client makes that late, too, but seldom.
  EXPECT_LE(explained_by(json, "client"), kSlowest / 5) << texts(json);
  std::size_t right = 0;
  for (const Json& row : json["slowest"]) {
    if (row["explained_by"] != "host") continue;
    right += row["stage"] == "app_blocked" && row["culprit"] == "clock_nanosleep" ? 1 : 0;
  }
  EXPECT_GT(right * 2, kSlowest) << texts(json);
}

}  // namespace
}  // namespace whylate::live
