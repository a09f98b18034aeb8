// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/requests_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace whylate::echo {
namespace {

class RequestsFileTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  void write_text(const std::string& text) { std::ofstream(path_) << text; }

  const std::string path_ =
      std::filesystem::path(testing::TempDir()) /
      ("whylate_requests_" +
       std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
};

RequestsHeader some_header() {
  RequestsHeader header;
  header.proto = "udp";
  header.to = "[::1]:9000";
  header.rate_millihertz = 1'000'500;
  header.burst = 2;
  header.count = 4;
  header.size_bytes = 64;
  header.first_id = 7;
  header.seed = 3;
  header.start_ns = 123;
  header.start_realtime_ns = 1'700'000'000'000'000'123;
  header.timeout_ns = 1'000;
  header.stamps = true;
  return header;
}

TEST_F(RequestsFileTest, RoundTrip) {
  std::vector<RequestRecord> requests(4);
  requests[0] = {100, 110, 150, 1'700'000'000'000'000'200, kUnknownNs, false};
  requests[1] = {100, 120, kUnknownNs, kUnknownNs, kUnknownNs, false};
  // requests[2] was never sent: it has no line.
  requests[3] = {300, 300, 340, kUnknownNs, 5, true};
  ASSERT_TRUE(write_requests_file(path_, some_header(), requests).ok());

  auto file = read_requests_file(path_);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->header.to, "[::1]:9000");
  EXPECT_EQ(file->header.rate_millihertz, 1'000'500);
  EXPECT_EQ(file->header.start_realtime_ns, 1'700'000'000'000'000'123);
  ASSERT_EQ(file->requests.size(), 3U);
  EXPECT_EQ(file->requests[0].id, 7U);
  EXPECT_EQ(file->requests[0].record.tx_stamp_ns, 1'700'000'000'000'000'200);
  EXPECT_EQ(file->requests[0].record.rx_stamp_ns, kUnknownNs);
  EXPECT_EQ(file->requests[1].record.received_ns, kUnknownNs);
  EXPECT_EQ(file->requests[2].id, 10U);
  EXPECT_TRUE(file->requests[2].record.mismatch);
  EXPECT_EQ(latency_ns(file->requests[0].record, Origin::kIntended), 50);
}

TEST_F(RequestsFileTest, UnknownIsNull) {
  RequestRecord lost;
  lost.sent_ns = 5;
  const auto line = nlohmann::json::parse(request_line(1, lost, true));
  for (const char* key : {"intended_ns", "received_ns", "latency_ns", "latency_intended_ns",
                          "tx_stamp_ns", "rx_stamp_ns"}) {
    EXPECT_TRUE(line.at(key).is_null()) << key;
  }
  EXPECT_EQ(line.at("sent_ns"), 5);
  EXPECT_FALSE(nlohmann::json::parse(request_line(1, lost, false)).contains("tx_stamp_ns"));
  auto closed = some_header();
  closed.rate_millihertz.reset();
  EXPECT_TRUE(nlohmann::json::parse(header_line(closed)).at("rate").is_null());
}

TEST_F(RequestsFileTest, HeaderHasTheAgreedKeys) {
  const auto header = nlohmann::json::parse(header_line(some_header()));
  EXPECT_EQ(header.at("schema"), "whylate.client/1");
  EXPECT_EQ(header.at("clock"), "monotonic");
  EXPECT_EQ(header.at("rate"), 1000.5);
  EXPECT_EQ(header.at("start_ns"), 123);
}

TEST_F(RequestsFileTest, BadFilesNameTheLine) {
  EXPECT_EQ(read_requests_file("/nonexistent/file").error().code, ExitCode::kBadInput);
  const std::string head = header_line(some_header()) + "\n";
  const std::pair<std::string, std::string> cases[] = {
      {"", ":1:"},
      {"{}\n", ":1:"},
      {"not json\n", ":1:"},
      {"[]\n", ":1:"},
      {R"({"schema":"whylate.request/1"})"
       "\n",
       ":1:"},
      {R"({"schema":"whylate.client/1"})"
       "\n",
       ":1:"},
      {head + R"({"id":1)"
              "\n",
       ":2:"},
      {head + R"({"id":"x","sent_ns":1})"
              "\n",
       ":2:"},
      {head + R"({"id":1,"sent_ns":null})"
              "\n",
       ":2:"},
  };
  for (const auto& [text, where] : cases) {
    write_text(text);
    auto file = read_requests_file(path_);
    ASSERT_FALSE(file.ok()) << text;
    EXPECT_EQ(file.error().code, ExitCode::kBadInput);
    EXPECT_NE(file.error().message.find(where), std::string::npos) << file.error().message;
  }
}

}  // namespace
}  // namespace whylate::echo
