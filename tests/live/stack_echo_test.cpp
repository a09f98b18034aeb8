// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What `whylate stack` says of a responder, held against what the real tcpdump and the real ss show
// of it during the same requests.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "support/attached.h"
#include "support/host.h"
#include "support/trace.h"
#include "support/witness.h"

namespace whylate::live {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kPort = 7777;
constexpr std::uint64_t kRequests = 2'000;
// Six seconds of requests around a window of two: whatever attaching takes, traffic flows in it.
constexpr int kRequestsPerSecond = 333;
// An address the kernel does not own: it would refuse what a packet socket answers.
constexpr const char* kFreeAddress = "10.83.0.9";

SpawnOptions in(const NetNs& where) {
  SpawnOptions options;
  options.netns_fd = where.fd();
  return options;
}

/// One run: the requests, and what each witness says.
struct Seen {
  std::uint64_t answered = 0;
  Json stack;
  Tcpdump::Captured tcpdump;
  std::size_t ss_udp = 0;
  std::vector<std::string> ss_of_anybody;  ///< ss --udp, of the port, whoever has it
  std::size_t ss_packet = 0;
  std::size_t ss_xdp = 0;
  std::string server_says;

  /// The socket of that kind, of which there must be one.
  const Json& socket(const std::string& kind) const {
    static const Json none;
    const Json* found = nullptr;
    for (const Json& socket : stack["sockets"]) {
      if (socket["kind"] != kind) continue;
      EXPECT_EQ(found, nullptr) << "two sockets of kind " << kind;
      found = &socket;
    }
    EXPECT_NE(found, nullptr) << "no socket of kind " << kind << ": " << stack.dump(1);
    return found != nullptr ? *found : none;
  }
};

class StackEcho : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(only_left(before_)); }

  Seen run(const Args& server_args, const std::string& address = VethPair::kServerAddress4,
           const std::function<void()>& in_server = {}) {
    return run_between(pair_.client(), VethPair::kServerDevice, server_args, address, in_server);
  }

  /// The same with the client elsewhere and tcpdump on another device of the server's namespace.
  Seen run_between(const NetNs& client_space, const std::string& device, const Args& server_args,
                   const std::string& address, const std::function<void()>& in_server = {}) {
    Seen run;
    const std::string listen = fmt::format("{}:{}", address, kPort);
    SpawnOptions options = in(pair_.server());
    options.in_child = in_server;
    wait_for_port();
    Server server(Args{"--listen", listen} + server_args, options);
    Tcpdump tcpdump(pair_.server(), device, address, kPort);
    Child client = start_client({"--to", listen, "--rate", std::to_string(kRequestsPerSecond),
                                 "--count", std::to_string(kRequests)},
                                in(client_space));
    sleep_ms(500);
    const Child stack = Child::run(
        {whylate_path(), "stack", "-p", std::to_string(server.pid()), "-w", "2s", "--json"});
    EXPECT_THAT(stack.exit_code(), AnyOf(0, 1)) << stack.err();
    run.stack = Json::parse(stack.out(), nullptr, false);
    EXPECT_FALSE(run.stack.is_discarded()) << stack.out() << stack.err();
    run.ss_udp = ss_lines(pair_.server(), "--udp", server.pid());
    run.ss_of_anybody = ss_lines_of_port(pair_.server(), "--udp", kPort);
    run.ss_packet = ss_lines(pair_.server(), "--packet", server.pid());
    run.ss_xdp = ss_lines(pair_.server(), "--xdp", server.pid());
    client.wait(60'000);
    const Json summary = Json::parse(client.out(), nullptr, false);
    EXPECT_FALSE(summary.is_discarded()) << client.err();
    run.answered = summary.value("received", std::uint64_t{0});
    EXPECT_EQ(run.answered, kRequests);
    run.tcpdump = tcpdump.stop(client_space);
    server.stop();
    run.server_says = server.child().err();
    return run;
  }

  /// io_uring gives back the sockets of its own table some time after its process has ended.
  void wait_for_port() const {
    for (int i = 0; i < 100; ++i) {
      if (ss_lines_of_port(pair_.server(), "--udp", kPort).empty()) return;
      sleep_ms(50);
    }
    ADD_FAILURE() << "port " << kPort << " is still in use";
  }

  /// A direction of a socket: blind means that tcpdump captured nothing, sees that it captured all.
  void expect_sight(const Json& direction, std::uint64_t captured, const char* stack) {
    EXPECT_EQ(direction["stack"], stack) << direction;
    EXPECT_EQ(direction["tcpdump"], captured == 0 ? "blind" : "sees") << direction;
    EXPECT_THAT(captured, AnyOf(0U, kRequests));
    EXPECT_NE(direction["why"], "");
    ASSERT_TRUE(direction["packets"].is_number()) << direction;
    EXPECT_GT(direction["packets"], 0) << direction;
    EXPECT_LE(direction["packets"], kRequests + 10) << direction;
  }

  VethPair pair_;

 private:
  std::set<int> before_ = tracer_programs();
};

class AfXdpResponder : public StackEcho, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Modes, AfXdpResponder, ::testing::Values("generic", "native"));

TEST_P(AfXdpResponder, IsSeenByNeither) {
  const std::string mode = GetParam();
  const Seen seen = run({"--stack", "af-xdp", "--xdp-mode", mode});
  EXPECT_EQ(seen.tcpdump.in, 0U);
  EXPECT_EQ(seen.tcpdump.out, 0U);
  EXPECT_EQ(seen.ss_udp, 0U);
  EXPECT_EQ(seen.ss_packet, 0U);

  EXPECT_EQ(seen.stack["verdict"], "af_xdp");
  EXPECT_EQ(seen.stack["confidence"], "certain");
  EXPECT_NE(seen.stack["fell_back"], true);
  const Json& socket = seen.socket("xdp");
  expect_sight(socket["rx"], seen.tcpdump.in, "af_xdp");
  expect_sight(socket["tx"], seen.tcpdump.out, "af_xdp");
  EXPECT_THAT(socket["detail"].get<std::string>(), HasSubstr(mode));
  // ss --xdp lists it only where the kernel has xdp_diag.
  EXPECT_EQ(socket["ss"], seen.ss_xdp > 0 ? "lists" : "hides");
  EXPECT_GT(seen.stack["traffic"]["xdp_redirects"], 0);
  EXPECT_EQ(seen.stack["traffic"]["kernel_rx_packets"], 0);
  EXPECT_EQ(seen.stack["tcpdump"]["rx"], "blind");
  EXPECT_EQ(seen.stack["tcpdump"]["tx"], "blind");
}

TEST_P(AfXdpResponder, OnTheWrongQueueTheKernelCarries) {
  const Child queues =
      Child::run({"ethtool", "-L", VethPair::kServerDevice, "rx", "2"}, in(pair_.server()));
  if (queues.exit_code() != 0) GTEST_SKIP() << "one queue only: " << queues.err();
  const Seen seen =
      run({"--stack", "af-xdp", "--xdp-mode", GetParam(), "--queue", "1", "--kernel-socket"});
  EXPECT_EQ(seen.tcpdump.in, kRequests);
  EXPECT_EQ(seen.tcpdump.out, kRequests);
  EXPECT_EQ(seen.ss_udp, 1U);
  EXPECT_THAT(seen.server_says, HasSubstr(fmt::format("ordinary socket: {}", kRequests)));

  EXPECT_EQ(seen.stack["verdict"], "kernel");
  EXPECT_EQ(seen.stack["fell_back"], true);
  EXPECT_EQ(seen.socket("xdp")["fell_back"], true);
  const Json& udp = seen.socket("udp");
  expect_sight(udp["rx"], seen.tcpdump.in, "kernel");
  expect_sight(udp["tx"], seen.tcpdump.out, "kernel");
  EXPECT_EQ(udp["ss"], "lists");
  EXPECT_EQ(seen.stack["traffic"]["xdp_redirects"], 0);
}

TEST_F(StackEcho, APacketSocketIsSeenBothWays) {
  for (const bool ring : {false, true}) {
    Args args = {"--stack", "packet", "--device", VethPair::kServerDevice};
    if (ring) args.push_back("--packet-ring");
    const Seen seen = run(args, kFreeAddress);
    EXPECT_EQ(seen.tcpdump.in, kRequests);
    EXPECT_EQ(seen.tcpdump.out, kRequests);
    EXPECT_EQ(seen.ss_udp, 0U);
    EXPECT_EQ(seen.ss_packet, 1U);
    EXPECT_EQ(seen.socket("packet")["ss"], "lists");
    EXPECT_EQ(seen.socket("packet")["ss_command"], "ss -0anp");

    EXPECT_EQ(seen.stack["verdict"], "af_packet");
    EXPECT_EQ(seen.stack["confidence"], "certain");
    const Json& socket = seen.socket("packet");
    expect_sight(socket["rx"], seen.tcpdump.in, "af_packet");
    expect_sight(socket["tx"], seen.tcpdump.out, "af_packet");
    EXPECT_NE(socket["why_ss"], "");
  }
}

TEST_F(StackEcho, WithoutTheQueueTcpdumpSeesOneDirection) {
  for (const bool ring : {false, true}) {
    Args args = {"--stack", "packet", "--device", VethPair::kServerDevice, "--qdisc-bypass"};
    if (ring) args.push_back("--packet-ring");
    const Seen seen = run(args, kFreeAddress);
    EXPECT_EQ(seen.tcpdump.in, kRequests);
    EXPECT_EQ(seen.tcpdump.out, 0U);

    EXPECT_EQ(seen.stack["verdict"], "af_packet");
    const Json& socket = seen.socket("packet");
    EXPECT_EQ(socket["rx"]["tcpdump"], "sees");
    EXPECT_EQ(socket["tx"]["tcpdump"], "blind");
    EXPECT_THAT(socket["tx"]["why"].get<std::string>(), HasSubstr("QDISC_BYPASS"));
    EXPECT_GT(seen.stack["traffic"]["direct_tx_packets"], 0);
  }
}

TEST_F(StackEcho, ThePlainKernelIsSeenByBoth) {
  const Seen seen = run({});
  EXPECT_EQ(seen.ss_udp, 1U);
  EXPECT_EQ(seen.stack["verdict"], "kernel");
  EXPECT_EQ(seen.stack["confidence"], "certain");
  EXPECT_NE(seen.stack["fell_back"], true);
  const Json& udp = seen.socket("udp");
  expect_sight(udp["rx"], seen.tcpdump.in, "kernel");
  expect_sight(udp["tx"], seen.tcpdump.out, "kernel");
  EXPECT_EQ(seen.tcpdump.in, kRequests);
  EXPECT_EQ(seen.tcpdump.out, kRequests);
  EXPECT_EQ(udp["ss"], "lists");
}

TEST_F(StackEcho, BusyPollingWithoutNapiHasNoEffect) {
  const Seen seen = run({"--stack", "busy-poll"});
  EXPECT_THAT(seen.server_says, HasSubstr("not effective"));
  EXPECT_EQ(seen.tcpdump.in, kRequests);
  EXPECT_EQ(seen.stack["verdict"], "kernel");
  // It was asked for, and that must be said.
  EXPECT_THAT(seen.stack.dump(), HasSubstr("SO_BUSY_POLL"));
  EXPECT_EQ(seen.socket("udp")["ss"], "lists");
}

TEST_F(StackEcho, BusyPollingThroughNapiHasAnEffect) {
  const Child napi = Child::run(
      {"ethtool", "-K", VethPair::kServerDevice, "gro", "on", "rx-udp-gro-forwarding", "on"},
      in(pair_.server()));
  if (napi.exit_code() != 0) GTEST_SKIP() << "this veth has no NAPI: " << napi.err();
  for (const char* mode : {"blocking", "epoll"}) {
    const Seen seen = run({"--stack", "busy-poll", "--mode", mode});
    EXPECT_THAT(seen.server_says, HasSubstr(": effective"));
    EXPECT_EQ(seen.tcpdump.in, kRequests);
    EXPECT_EQ(seen.tcpdump.out, kRequests);
    EXPECT_EQ(seen.stack["verdict"], "kernel_busy_poll") << seen.stack.dump(1);
    const Json& udp = seen.socket("udp");
    expect_sight(udp["rx"], seen.tcpdump.in, "kernel_busy_poll");
    EXPECT_EQ(udp["ss"], "lists");
  }
}

TEST_F(StackEcho, ADirectDescriptorIsListedWithoutItsProcess) {
  for (const Args& way : {Args{}, Args{"--uring-multishot"}, Args{"--uring-sqpoll"}}) {
    const Seen seen = run(Args{"--mode", "io_uring", "--send", "io_uring", "--uring-direct"} + way);
    EXPECT_EQ(seen.tcpdump.in, kRequests);
    EXPECT_EQ(seen.tcpdump.out, kRequests);
    // What makes it look like a bypass: ss has the socket and finds no process for it.
    EXPECT_EQ(seen.ss_udp, 0U);
    ASSERT_EQ(seen.ss_of_anybody.size(), 1U);
    EXPECT_THAT(seen.ss_of_anybody[0], ::testing::Not(HasSubstr("pid=")));

    EXPECT_EQ(seen.stack["verdict"], "io_uring") << seen.stack.dump(1);
    EXPECT_EQ(seen.stack["confidence"], "certain");
    const Json& udp = seen.socket("udp");
    EXPECT_TRUE(udp["fd"].is_null());
    EXPECT_EQ(udp["local"], fmt::format("{}:{}", VethPair::kServerAddress4, kPort));
    expect_sight(udp["rx"], seen.tcpdump.in, "io_uring");
    expect_sight(udp["tx"], seen.tcpdump.out, "io_uring");
    EXPECT_EQ(udp["ss"], "lists");
    EXPECT_EQ(udp["ss_command"], "ss -uan");
    EXPECT_THAT(udp["why_ss"].get<std::string>(), HasSubstr("without a process"));
  }
}

TEST_F(StackEcho, ATapInterfaceIsSeenThereAlone) {
  constexpr const char* kDevice = "wltap0";
  pair_.server().ip(fmt::format("tuntap add dev {} mode tap", kDevice));
  pair_.server().ip(fmt::format("addr add 10.84.0.1/24 dev {}", kDevice));
  const Seen seen =
      run_between(pair_.server(), kDevice, {"--stack", "tap", "--device", kDevice}, "10.84.0.2");
  EXPECT_EQ(seen.tcpdump.in, kRequests);
  EXPECT_EQ(seen.tcpdump.out, kRequests);
  EXPECT_EQ(seen.ss_udp, 0U);
  EXPECT_EQ(seen.ss_packet, 0U);

  EXPECT_EQ(seen.stack["verdict"], "tun_tap") << seen.stack.dump(1);
  EXPECT_EQ(seen.stack["confidence"], "certain");
  const Json& tap = seen.socket("tun");
  expect_sight(tap["rx"], seen.tcpdump.in, "tun_tap");
  expect_sight(tap["tx"], seen.tcpdump.out, "tun_tap");
  EXPECT_EQ(tap["ss"], "hides");
  EXPECT_EQ(tap["interface"], kDevice);
  EXPECT_THAT(seen.stack["use_instead"],
              ::testing::Contains(fmt::format("tcpdump -i {}", kDevice)));
}

TEST_F(StackEcho, ALibraryThatOnlyHasTheNameOfOnloadCarriesNothing) {
  const std::string shim = onload_shim_path();
  const Seen seen =
      run({}, VethPair::kServerAddress4, [&shim] { ::setenv("LD_PRELOAD", shim.c_str(), 1); });
  EXPECT_EQ(seen.tcpdump.in, kRequests);
  EXPECT_EQ(seen.tcpdump.out, kRequests);
  EXPECT_EQ(seen.ss_udp, 1U);

  EXPECT_EQ(seen.stack["verdict"], "kernel") << seen.stack.dump(1);
  EXPECT_EQ(seen.stack["confidence"], "certain");
  EXPECT_NE(seen.stack["fell_back"], true);
  const Json& udp = seen.socket("udp");
  expect_sight(udp["rx"], seen.tcpdump.in, "kernel");
  expect_sight(udp["tx"], seen.tcpdump.out, "kernel");
  EXPECT_EQ(udp["ss"], "lists");
  bool named = false;
  for (const Json& finding : seen.stack["findings"]) {
    if (finding["id"] != "name_only") continue;
    named = true;
    EXPECT_THAT(finding["text"].get<std::string>(), HasSubstr(shim));
    EXPECT_THAT(finding["text"].get<std::string>(), HasSubstr("used by no socket"));
  }
  EXPECT_TRUE(named) << seen.stack["findings"].dump(1);
}

}  // namespace
}  // namespace whylate::live
