// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/correlate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace whylate::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kHeader =
    R"({"schema":"whylate.client/1","proto":"udp","to":"10.0.0.1:9","rate":1000,"clock":"monotonic"})";

std::string host_line(std::uint64_t id, std::uint64_t start, std::uint64_t end,
                      const std::string& stage = "app") {
  nlohmann::json json = {
      {"schema", "whylate.request/1"},
      {"id", id},
      {"start_ns", start},
      {"end_ns", end},
      {"total_ns", end - start},
      {"reply", true},
      {"verdict", {{"stage", stage}, {"culprit", "who"}, {"text", stage + ": it"}}}};
  return json.dump() + "\n";
}

HostFile host_of(const std::string& lines) {
  std::istringstream in(lines);
  Result<HostFile> file = read_host_file(in, "host");
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
  return file.ok() ? *file : HostFile{};
}

ClientRequest sent(std::uint64_t id, std::optional<std::uint64_t> intended, std::uint64_t at,
                   std::optional<std::uint64_t> received) {
  return {id, intended, at, received};
}

TEST(ReadHostFile, TakesRequestsAndTheSummary) {
  const HostFile file =
      host_of(host_line(5, 100, 300) +
              R"({"schema":"whylate.request/1","id":null,"start_ns":1,"end_ns":2,"total_ns":1})"
              "\n\n"
              R"({"schema":"whylate.summary/1","complete":false})"
              "\n");
  ASSERT_EQ(file.requests.size(), 1u);
  EXPECT_EQ(file.requests[0].total_ns, 200u);
  EXPECT_TRUE(file.requests[0].complete);
  EXPECT_EQ(file.without_id, 1u);
  EXPECT_TRUE(file.has_summary);
  EXPECT_TRUE(file.lost_something);
}

TEST(ReadHostFile, NamesTheBadLine) {
  const std::string good = host_line(5, 100, 300);
  for (const std::string& bad :
       {std::string("nonsense"), std::string("[1]"), std::string("{}"), good.substr(0, 40),
        std::string(R"({"schema":"whylate.client/1"})"),
        std::string(R"({"schema":"whylate.request/1","id":-1})"),
        std::string(R"({"schema":"whylate.request/1","id":"x"})"),
        std::string(
            R"({"schema":"whylate.request/1","id":1,"start_ns":5,"end_ns":4,"total_ns":1})"),
        std::string(
            R"({"schema":"whylate.request/1","id":1,"start_ns":1,"end_ns":4,"total_ns":1})"),
        std::string("{\"schema\":\"\xff\"}")}) {
    std::istringstream in(good + good + bad + "\n");
    const Result<HostFile> file = read_host_file(in, "f.jsonl");
    ASSERT_FALSE(file.ok()) << bad;
    EXPECT_EQ(file.error().code, ExitCode::kBadInput);
    EXPECT_THAT(file.error().message, StartsWith("f.jsonl:3: "));
    EXPECT_EQ(file.error().message.find('\n'), std::string::npos);
  }
}

TEST(ReadClientFile, TakesWhatTheHarnessWrites) {
  std::istringstream in(
      std::string(kHeader) +
      "\n"
      R"({"id":1,"intended_ns":10,"sent_ns":12,"received_ns":20,"latency_ns":8,"latency_intended_ns":10})"
      "\n"
      R"({"id":2,"intended_ns":null,"sent_ns":12,"received_ns":null,"latency_ns":null,"latency_intended_ns":null})"
      "\n");
  const Result<ClientFile> file = read_client_file(in, "c");
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(file->requests.size(), 2u);
  EXPECT_EQ(*file->requests[0].intended_ns, 10u);
  EXPECT_FALSE(file->requests[1].received_ns);
}

TEST(ReadClientFile, NamesTheBadLine) {
  const auto refused = [](const std::string& text) {
    std::istringstream in(text);
    const Result<ClientFile> file = read_client_file(in, "c");
    EXPECT_FALSE(file.ok()) << text;
    if (file.ok()) return std::string();
    EXPECT_EQ(file.error().code, ExitCode::kBadInput);
    return file.error().message;
  };
  EXPECT_THAT(refused(""), StartsWith("c:1: "));
  EXPECT_THAT(refused(host_line(1, 2, 3)), StartsWith("c:1: "));
  EXPECT_THAT(refused(R"({"schema":"whylate.client/1","clock":"realtime"})"),
              HasSubstr("realtime"));
  const std::string start = std::string(kHeader) + "\n";
  EXPECT_THAT(refused(start + R"({"id":1})"), StartsWith("c:2: "));
  EXPECT_THAT(refused(start + R"({"id":1,"intended_ns":9,"sent_ns":8,"received_ns":9})"),
              HasSubstr("before it was intended"));
  EXPECT_THAT(refused(start + R"({"id":1,"intended_ns":null,"sent_ns":8,"received_ns":7})"),
              HasSubstr("before the request was sent"));
  EXPECT_THAT(refused(start + R"({"id":1.5,"intended_ns":null,"sent_ns":8,"received_ns":9})"),
              HasSubstr("\"id\" is not a whole number"));
}

TEST(Correlate, AFileWithoutASummaryIsNotKnownToBeComplete) {
  const ClientFile client = {{sent(5, 100, 100, 400)}};
  const auto json_of = [&client](const std::string& more) {
    return correlation_to_json(correlate(host_of(host_line(5, 110, 300) + more), client, 1));
  };
  EXPECT_TRUE(json_of("")["host_complete"].is_null());
  EXPECT_EQ(json_of("{\"schema\":\"whylate.summary/1\",\"complete\":true}\n")["host_complete"],
            true);
  EXPECT_EQ(json_of("{\"schema\":\"whylate.summary/1\",\"complete\":false}\n")["host_complete"],
            false);
  EXPECT_THAT(correlation_to_text(correlate(host_of(host_line(5, 110, 300)), client, 1)),
              HasSubstr("INCOMPLETE: the responder's file has no summary line"));
}

TEST(Correlate, ServerLate) {
  const HostFile host = host_of(host_line(1, 1'010, 901'000, "run_queue"));
  const Correlation result = correlate(host, {{sent(1, 1'000, 1'005, 901'100)}}, 10);
  ASSERT_EQ(result.slowest.size(), 1u);
  const CorrelatedRequest& row = result.slowest[0];
  EXPECT_EQ(row.explained_by, ExplainedBy::kHost);
  EXPECT_EQ(row.stage, "run_queue");
  EXPECT_EQ(row.culprit, "who");
  EXPECT_EQ(row.client_ns, 900'100u);
  EXPECT_EQ(row.client_late_ns, 5u);
  EXPECT_EQ(*row.host_ns, 899'990u);
  EXPECT_EQ(row.client_late_ns + *row.host_ns + *row.rest_ns, row.client_ns);
  EXPECT_TRUE(result.shared_clock);
  EXPECT_EQ(*row.before_ns + *row.after_ns, *row.rest_ns);
}

TEST(Correlate, ClientLateDoesNotBlameTheServer) {
  const HostFile host = host_of(host_line(1, 900'010, 905'000, "app"));
  const Correlation result = correlate(host, {{sent(1, 1'000, 900'000, 905'100)}}, 10);
  const CorrelatedRequest& row = result.slowest[0];
  EXPECT_EQ(row.explained_by, ExplainedBy::kClient);
  EXPECT_EQ(row.stage, "");
  EXPECT_EQ(row.culprit, "");
  EXPECT_THAT(row.text, AllOf(HasSubstr("not to blame"), Not(HasSubstr("app"))));
}

TEST(Correlate, LatenessBehindAnOpenReplyIsPointedOut) {
  const HostFile host = host_of(host_line(1, 10, 4'900) + host_line(2, 5'010, 5'020));
  const ClientFile client = {{sent(1, 0, 0, 5'000), sent(2, 1'000, 5'001, 5'100)}};
  const Correlation result = correlate(host, client, 10);
  ASSERT_EQ(result.slowest.size(), 2u);
  EXPECT_EQ(result.slowest[0].explained_by, ExplainedBy::kHost);
  EXPECT_EQ(result.slowest[1].explained_by, ExplainedBy::kClient);
  EXPECT_EQ(*result.slowest[1].unanswered_predecessor, 1u);
  EXPECT_THAT(result.slowest[1].text, HasSubstr("id 1"));
}

TEST(Correlate, TheRestIsNeitherClientNorHost) {
  // Two hosts: their clocks have nothing in common.
  const HostFile host = host_of(host_line(1, 77'000'000, 77'000'100));
  const Correlation result = correlate(host, {{sent(1, 1'000, 1'000, 901'000)}}, 10);
  const CorrelatedRequest& row = result.slowest[0];
  EXPECT_EQ(row.explained_by, ExplainedBy::kRest);
  EXPECT_FALSE(result.shared_clock);
  EXPECT_FALSE(row.before_ns || row.after_ns);
  EXPECT_THAT(row.text, HasSubstr("outside this host or before the first mark"));
}

TEST(Correlate, ASharedClockTellsWhichEnd) {
  const HostFile host = host_of(host_line(1, 1'100, 1'200));
  const Correlation result = correlate(host, {{sent(1, 1'000, 1'000, 901'000)}}, 10);
  EXPECT_THAT(result.slowest[0].text, HasSubstr("after the reply had left"));
}

TEST(Correlate, IncompleteRecordsBlameNothing) {
  HostFile host = host_of(host_line(1, 1'100, 801'200));
  host.requests[0].complete = false;
  const Correlation result = correlate(host, {{sent(1, 1'000, 1'000, 901'000)}}, 10);
  EXPECT_EQ(result.slowest[0].explained_by, ExplainedBy::kUnknown);
  EXPECT_FALSE(result.slowest[0].host_ns);
  EXPECT_THAT(result.slowest[0].text, HasSubstr("nothing is blamed"));
}

TEST(Correlate, FiguresThatDoNotFitBlameNothing) {
  const HostFile host = host_of(host_line(1, 0, 5'000));
  const Correlation result = correlate(host, {{sent(1, std::nullopt, 1'000, 2'000)}}, 10);
  EXPECT_EQ(result.slowest[0].explained_by, ExplainedBy::kUnknown);
  EXPECT_FALSE(result.slowest[0].rest_ns);
}

TEST(Correlate, WithoutAScheduleFromSending) {
  const HostFile host = host_of(host_line(1, 1'010, 1'900));
  const Correlation result = correlate(host, {{sent(1, std::nullopt, 1'000, 2'000)}}, 10);
  EXPECT_FALSE(result.from_intended);
  EXPECT_EQ(result.slowest[0].client_ns, 1'000u);
  EXPECT_EQ(result.slowest[0].client_late_ns, 0u);
}

TEST(Correlate, CountsWhatIsOnOneSideOnlyOrTwice) {
  const HostFile host = host_of(host_line(1, 10, 20) + host_line(2, 10, 20) + host_line(3, 10, 20) +
                                host_line(3, 30, 40) + host_line(5, 10, 20));
  const ClientFile client = {{sent(1, 5, 5, 25), sent(3, 5, 5, 25), sent(4, 5, 5, 25),
                              sent(5, 5, 5, 25), sent(5, 6, 6, 26), sent(6, 5, 5, std::nullopt)}};
  const Correlation result = correlate(host, client, 10);
  EXPECT_EQ(result.joined, 1u);                // 1
  EXPECT_EQ(result.only_host, 1u);             // 2
  EXPECT_EQ(result.only_client, 2u);           // 4 and 6
  EXPECT_EQ(result.unanswered, 1u);            // 6
  EXPECT_EQ(result.duplicate_ids_host, 1u);    // 3
  EXPECT_EQ(result.duplicate_ids_client, 1u);  // 5
  ASSERT_EQ(result.slowest.size(), 1u);
  EXPECT_EQ(result.slowest[0].id, 1u);
  const std::string text = correlation_to_text(result);
  EXPECT_THAT(text, HasSubstr("1 joined"));
  EXPECT_THAT(text, HasSubstr("more than once: 1 ids at the responder, 1 at the client"));
}

TEST(Correlate, NothingInCommon) {
  const Correlation result = correlate(host_of(host_line(1, 10, 20)), {{sent(2, 5, 5, 25)}}, 10);
  EXPECT_EQ(result.joined, 0u);
  EXPECT_FALSE(result.shared_clock);
  EXPECT_THAT(correlation_to_text(result), HasSubstr("no request is on both sides"));
  EXPECT_EQ(correlate({}, {}, 10).joined, 0u);
}

TEST(Correlate, SlowestFirstAndNoMoreThanAsked) {
  std::string lines;
  ClientFile client;
  for (std::uint64_t id = 0; id < 50; ++id) {
    const std::uint64_t start = 1'000'000 * (id + 1);
    const std::uint64_t length = 1'000 + (id * 37 % 50) * 100;
    lines += host_line(id, start + 10, start + length);
    client.requests.push_back(sent(id, start, start, start + length + 10));
  }
  const Correlation result = correlate(host_of(lines), client, 7);
  ASSERT_EQ(result.slowest.size(), 7u);
  for (std::size_t i = 1; i < result.slowest.size(); ++i) {
    EXPECT_GE(result.slowest[i - 1].client_ns, result.slowest[i].client_ns);
  }
  EXPECT_EQ(result.slowest[0].client_ns, 1'000u + 4'900 + 10);
}

TEST(Correlate, JsonHasNullForUnknown) {
  const HostFile host = host_of(host_line(1, 77'000'000, 77'000'100));
  const auto json = correlation_to_json(correlate(host, {{sent(1, 0, 0, 900'000)}}, 10));
  EXPECT_EQ(json["schema"], "whylate.correlate/1");
  EXPECT_EQ(json["joined"], 1);
  EXPECT_TRUE(json["slowest"][0]["before_ns"].is_null());
  EXPECT_TRUE(json["slowest"][0]["stage"].is_null());
  EXPECT_EQ(json["slowest"][0]["explained_by"], "rest");
}

}  // namespace
}  // namespace whylate::cli
