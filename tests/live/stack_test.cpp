// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What `whylate stack` says of a stack, against what real tcpdump and real ss show of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "support/attached.h"
#include "support/host.h"
#include "support/trace.h"

namespace whylate::live {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Everything that looked at one server under load.
struct Seen {
  Json client;
  Json stack;  ///< whylate.stack/1
  std::size_t tcpdump_in = 0;
  std::size_t tcpdump_out = 0;
  std::string ss_inet;    ///< ss -tuanp in the server's namespace
  std::string ss_packet;  ///< ss -0anp
};

std::size_t packet_lines(const std::string& text) {
  const std::vector<std::string> lines = split_lines(text);
  return static_cast<std::size_t>(
      std::count_if(lines.begin(), lines.end(),
                    [](const std::string& line) { return line.find("UDP") != std::string::npos; }));
}

Child capture(const SpawnOptions& at_server, const char* direction, int port) {
  Child child =
      Child::spawn({"tcpdump", "-p", "-nn", "-l", "--immediate-mode", "-i", VethPair::kServerDevice,
                    "-Q", direction, "udp", "port", std::to_string(port)},
                   at_server);
  EXPECT_TRUE(child.wait_line("listening on")) << child.err();
  return child;
}

class StackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    at_server_.netns_fd = pair_.server().fd();
    at_client_.netns_fd = pair_.client().fd();
    before_ = tracer_programs();
  }
  void TearDown() override { EXPECT_TRUE(only_left(before_)); }

  Seen look(const Args& server_args, const std::string& host = VethPair::kServerAddress4) {
    Seen seen;
    // A port of its own: these namespaces hold nothing else, and stacks without a socket need one.
    Server server(Args{"--listen", host + ":9000"} + server_args, at_server_);
    Child in = capture(at_server_, "in", server.port());
    Child out = capture(at_server_, "out", server.port());
    Child client = start_client(
        {"--to", server.address(host), "--wait", "block", "--gap-us", "500", "--count", "8000"},
        at_client_);
    sleep_ms(500);
    Child stack = Child::run(
        {whylate_path(), "stack", "-p", std::to_string(server.pid()), "-w", "2s", "--json"});
    EXPECT_EQ(stack.exit_code(), 0) << stack.err();
    seen.stack = Json::parse(stack.out(), nullptr, false);
    EXPECT_FALSE(seen.stack.is_discarded()) << stack.out();
    seen.ss_inet = Child::run({"ss", "-tuanp"}, at_server_).out();
    seen.ss_packet = Child::run({"ss", "-0anp"}, at_server_).out();
    client.wait(60'000);
    seen.client = Json::parse(client.out(), nullptr, false);
    for (Child* child : {&in, &out}) {
      child->send(SIGINT);
      child->wait();
    }
    seen.tcpdump_in = packet_lines(in.out());
    seen.tcpdump_out = packet_lines(out.out());
    return seen;
  }

  /// The traffic was real: without replies nothing below would mean anything.
  static void expect_answered(const Seen& seen) {
    ASSERT_TRUE(seen.client.is_object());
    EXPECT_GT(seen.client["received"].get<std::uint64_t>(), 4000u) << seen.client.dump();
  }

  /// tcpdump saw a direction, or nothing of it, and the verdict says the same.
  static void expect_sight(const Seen& seen, bool sees_in, bool sees_out) {
    EXPECT_EQ(seen.tcpdump_in > 0, sees_in) << seen.tcpdump_in;
    EXPECT_EQ(seen.tcpdump_out > 0, sees_out) << seen.tcpdump_out;
    EXPECT_EQ(seen.stack["tcpdump"]["rx"], sees_in ? "sees" : "blind") << seen.stack.dump(1);
    EXPECT_EQ(seen.stack["tcpdump"]["tx"], sees_out ? "sees" : "blind") << seen.stack.dump(1);
  }

  VethPair pair_;
  SpawnOptions at_server_;
  SpawnOptions at_client_;
  std::set<int> before_;
};

TEST_F(StackTest, KernelSocket) {
  const Seen seen = look({});
  expect_answered(seen);
  EXPECT_EQ(seen.stack["verdict"], "kernel") << seen.stack.dump(1);
  EXPECT_EQ(seen.stack["confidence"], "certain");
  EXPECT_GT(seen.stack["traffic"]["kernel_rx_packets"].get<std::uint64_t>(), 500u);
  EXPECT_GT(seen.stack["traffic"]["kernel_tx_packets"].get<std::uint64_t>(), 500u);
  expect_sight(seen, true, true);
  EXPECT_THAT(seen.ss_inet, HasSubstr("whylate-echo"));
  EXPECT_GT(seen.stack["ss"]["lists"].get<int>(), 0);
}

class AfXdpTest : public StackTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(AfXdpTest, IsInvisibleToTcpdumpAndSs) {
  const Seen seen =
      look({"--stack", "af-xdp", "--device", VethPair::kServerDevice, "--xdp-mode", GetParam()});
  expect_answered(seen);
  EXPECT_EQ(seen.stack["verdict"], "af_xdp") << seen.stack.dump(1);
  EXPECT_EQ(seen.stack["confidence"], "certain") << seen.stack.dump(1);
  EXPECT_EQ(seen.stack["fell_back"], false);
  EXPECT_GT(seen.stack["traffic"]["xdp_redirects"].get<std::uint64_t>(), 500u);
  EXPECT_EQ(seen.stack["traffic"]["kernel_rx_packets"], 0);
  expect_sight(seen, false, false);
  EXPECT_THAT(seen.ss_inet, Not(HasSubstr("whylate-echo")));
  EXPECT_EQ(seen.stack["ss"]["lists"], 0);
  bool mode_named = false;
  for (const Json& socket : seen.stack["sockets"]) {
    if (socket["kind"] != "xdp") continue;
    mode_named = socket["detail"].get<std::string>().find(GetParam()) != std::string::npos;
  }
  EXPECT_TRUE(mode_named) << seen.stack.dump(1);
}

INSTANTIATE_TEST_SUITE_P(Modes, AfXdpTest, ::testing::Values("generic", "native"),
                         [](const auto& param) { return std::string(param.param); });

TEST_F(StackTest, AfXdpOnTheWrongQueueFallsBackToTheKernel) {
  // The client's packets come in on queue 0; nothing is ever redirected to the socket of queue 1.
  Child channels =
      Child::run({"ethtool", "-L", VethPair::kServerDevice, "rx", "2", "tx", "2"}, at_server_);
  if (channels.exit_code() != 0) GTEST_SKIP() << "no second queue: " << channels.err();
  const Seen seen = look({"--stack", "af-xdp", "--device", VethPair::kServerDevice, "--queue", "1",
                          "--kernel-socket"});
  expect_answered(seen);
  EXPECT_EQ(seen.stack["verdict"], "kernel") << seen.stack.dump(1);
  EXPECT_EQ(seen.stack["fell_back"], true) << seen.stack.dump(1);
  EXPECT_EQ(seen.stack["traffic"]["xdp_redirects"], 0);
  EXPECT_GT(seen.tcpdump_in, 0u);
  EXPECT_EQ(seen.stack["tcpdump"]["rx"], "sees");
}

class PacketTest : public StackTest, public ::testing::WithParamInterface<bool> {};

TEST_P(PacketTest, TheQueueingDisciplineDecidesAboutOneDirection) {
  const bool bypass = GetParam();
  // An address that the kernel does not own: it would answer for its own ones with ICMP.
  const Seen seen = look(Args{"--stack", "packet", "--device", VethPair::kServerDevice} +
                             (bypass ? Args{"--qdisc-bypass"} : Args{}),
                         "10.83.0.9");
  expect_answered(seen);
  EXPECT_EQ(seen.stack["verdict"], "af_packet") << seen.stack.dump(1);
  EXPECT_EQ(seen.stack["confidence"], "certain") << seen.stack.dump(1);
  expect_sight(seen, true, !bypass);
  EXPECT_THAT(seen.ss_inet, Not(HasSubstr("whylate-echo")));
  EXPECT_THAT(seen.ss_packet, HasSubstr("whylate-echo"));
}

INSTANTIATE_TEST_SUITE_P(Bypass, PacketTest, ::testing::Bool(), [](const auto& param) {
  return std::string(param.param ? "past_the_qdisc" : "through_the_qdisc");
});

TEST_F(StackTest, BusyPollThatIsSetButHasNoEffect) {
  const Seen seen = look({"--stack", "busy-poll"});
  expect_answered(seen);
  bool named = seen.stack["verdict"] == "kernel_busy_poll";
  for (const Json& finding : seen.stack["findings"]) {
    named = named || finding["id"] == "busy_poll_without_effect";
  }
  EXPECT_TRUE(named) << seen.stack.dump(1);
  expect_sight(seen, true, true);
}

TEST_F(StackTest, TraceRefusesWithTheVerdict) {
  // AF_XDP alone can be followed without a socket of the kernel's (xsk_trace_test.cpp).
  Server server(
      {"--listen", "10.83.0.9:9000", "--stack", "packet", "--device", VethPair::kServerDevice},
      at_server_);
  Child trace =
      Child::run({whylate_path(), "trace", "-p", std::to_string(server.pid()), "-d", "1s"});
  EXPECT_EQ(trace.exit_code(), 3) << trace.err();
  EXPECT_EQ(trace.out(), "");
  EXPECT_THAT(trace.err(), HasSubstr("is carried by AF_PACKET"));
  EXPECT_THAT(trace.err(), HasSubstr("use instead: ss -0anpe"));
}

TEST_F(StackTest, Refusals) {
  const auto refused = [](const Args& args, int code, const char* why) {
    Child child = Child::run(Args{whylate_path(), "stack"} + args);
    EXPECT_EQ(child.exit_code(), code) << child.err();
    EXPECT_EQ(child.out(), "");
    EXPECT_THAT(child.err(), HasSubstr(why));
  };
  Child ended = Child::run({"true"});
  refused({"-p", std::to_string(ended.pid())}, 2, "no such process");
  refused({"-p", "2"}, 2, "kernel thread");
  refused({"--comm", "no such name"}, 2, "no process is named");
}

}  // namespace
}  // namespace whylate::live
