// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// On a quiet machine every request of the client is observed, complete, and nothing else is.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <set>

#include "support/host.h"
#include "support/trace.h"

namespace whylate::live {
namespace {

constexpr int kCount = 2000;

/// Requests that a context switch was missing for: some kernels do not report every one, and then
/// silence is right.
std::uint64_t lost_switches(const TraceResult& result) {
  std::uint64_t n = 0;
  for (const Record& record : result.records) {
    for (const std::string& flag : record.quality) n += flag == "lost_switch" ? 1 : 0;
  }
  return n;
}

/// `unsynced`: how many reads may come before the FIFO of the socket is in step.
void expect_whole(const TraceResult& result, std::uint64_t count, std::uint64_t unsynced = 0) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  ASSERT_FALSE(result.summary.is_null());
  EXPECT_EQ(result.observed() + result.unmatched_sum(), count) << result.summary["requests"].dump();
  EXPECT_LE(result.unmatched_sum(), unsynced) << result.summary["requests"].dump();
  EXPECT_EQ(result.incomplete(), lost_switches(result)) << result.summary["requests"].dump();
  EXPECT_EQ(result.complete() + result.incomplete(), result.observed());
  EXPECT_LE(result.incomplete() * 20, count);
  EXPECT_EQ(result.lost_sum(), 0u) << result.summary["lost"].dump();
  EXPECT_EQ(result.records.size(), result.observed());
}

/// One run: server, trace, client, all requests answered.
TraceResult trace_run(const Args& server_args, const Args& client_args,
                      const std::string& server_host, const SpawnOptions& at_server = {},
                      const SpawnOptions& at_client = {}) {
  Server server(server_args, at_server);
  Trace trace(server.trace_args());
  const Json client =
      run_client(Args{"--to", server.address(server_host)} + client_args, at_client);
  EXPECT_EQ(client["received"], client["count"]) << client.dump();
  return trace.stop();
}

struct Path {
  std::string proto;   // udp, tcp
  std::string family;  // v4, v6
  std::string device;  // lo, veth
  std::string mode;    // blocking, epoll
};

std::string name_of(const Path& path) {
  return path.proto + "_" + path.family + "_" + path.device + "_" + path.mode;
}

void PrintTo(const Path& path, std::ostream* out) { *out << name_of(path); }

class CountsOn : public ::testing::TestWithParam<Path> {};

TEST_P(CountsOn, EveryRequestIsObservedAndComplete) {
  const Path& path = GetParam();
  const bool v6 = path.family == "v6";
  std::unique_ptr<VethPair> veth;
  SpawnOptions at_server;
  SpawnOptions at_client;
  std::string host = v6 ? "[::1]" : "127.0.0.1";
  if (path.device == "veth") {
    veth = std::make_unique<VethPair>();
    at_server.netns_fd = veth->server().fd();
    at_client.netns_fd = veth->client().fd();
    host = v6 ? fmt::format("[{}]", VethPair::kServerAddress6) : VethPair::kServerAddress4;
  }
  const Args server_args = {"--proto",  path.proto, "--mode",
                            path.mode,  "--cpu",    std::to_string(cpus().server),
                            "--listen", host + ":0"};
  const Args client_args = {"--proto", path.proto, "--count", std::to_string(kCount),
                            "--wait",  "block",    "--cpu",   std::to_string(cpus().client)};
  TraceResult result;
  result = trace_run(server_args, client_args, host, at_server, at_client);
  expect_whole(result, kCount);
  for (const Record& record : result.records) {
    ASSERT_EQ(record.origin, "netif_rx") << "neither loopback nor veth has a hard interrupt";
    ASSERT_EQ(record.stage_ns("hard_irq"), 0u);
  }
}

std::vector<Path> all_paths() {
  std::vector<Path> paths;
  for (const char* proto : {"udp", "tcp"}) {
    for (const char* family : {"v4", "v6"}) {
      for (const char* device : {"lo", "veth"}) {
        for (const char* mode : {"blocking", "epoll"})
          paths.push_back({proto, family, device, mode});
      }
    }
  }
  return paths;
}

INSTANTIATE_TEST_SUITE_P(, CountsOn, ::testing::ValuesIn(all_paths()),
                         [](const auto& one) { return name_of(one.param); });

TEST(Counts, TwoThreadsOnOneUdpSocket) {
  for (const char* mode : {"blocking", "epoll"}) {
    TraceResult result;
    {
      result = trace_run({"--threads", "2", "--mode", mode},
                         {"--window", "4", "--count", "3000", "--wait", "block"}, "127.0.0.1");
    }
    // with two readers one may still be on its way out when the other proves the FIFO in step
    expect_whole(result, 3000, 4);
    std::set<pid_t> readers;
    for (const Record& record : result.records) readers.insert(record.tid);
    EXPECT_EQ(readers.size(), 2u) << mode;
  }
}

TEST(Counts, TcpEpollWithTwoThreadsAndEightConnections) {
  TraceResult result;
  {
    result = trace_run({"--proto", "tcp", "--mode", "epoll", "--threads", "2"},
                       {"--proto", "tcp", "--connections", "8", "--senders", "2", "--count", "4000",
                        "--wait", "block"},
                       "127.0.0.1");
  }
  expect_whole(result, 4000);
}

// Both the connections and the threads that serve them come after the attach.
TEST(Counts, TcpThreadPerConnection) {
  TraceResult result;
  {
    result = trace_run({"--proto", "tcp", "--mode", "blocking"},
                       {"--proto", "tcp", "--connections", "6", "--senders", "2", "--count", "3000",
                        "--wait", "block"},
                       "127.0.0.1");
  }
  expect_whole(result, 3000);
  std::set<pid_t> readers;
  for (const Record& record : result.records) readers.insert(record.tid);
  EXPECT_EQ(readers.size(), 6u);
}

TEST(Counts, AttachesInTheMiddleOfTraffic) {
  for (const char* proto : {"udp", "tcp"}) {
    Server server({"--proto", proto});
    Child client = start_client({"--proto", proto, "--to", server.address("127.0.0.1"), "--gap-us",
                                 "1000", "--wait", "block", "--count", "2500"});
    sleep_ms(300);
    Trace trace(server.trace_args({"--id-offset", "0"}));
    ASSERT_EQ(client.wait(60'000), 0) << client.err();
    const TraceResult result = trace.stop();
    ASSERT_FALSE(result.records.empty());
    EXPECT_LE(result.incomplete(), 1 + lost_switches(result)) << proto;
    EXPECT_EQ(result.lost_sum(), 0u);
    // At the moment of the attach one request can be under way.
    EXPECT_LE(result.unmatched_sum(), 1u) << result.summary["requests"].dump();
    std::uint64_t expected = result.records.front().id.value_or(0);
    EXPECT_GT(expected, 0u) << "the attach came before the traffic";
    for (const Record& record : result.records) ASSERT_EQ(record.id, expected++) << proto;
    EXPECT_EQ(expected, 2500u) << "the last request is not the client's last";
  }
}

/// The child of `parent`; 0 when there is none (yet).
pid_t child_of(pid_t parent) {
  std::ifstream in(fmt::format("/proc/{0}/task/{0}/children", parent));
  pid_t child = 0;
  in >> child;
  return child;
}

TEST(Counts, ServerInOtherNetworkAndPidNamespaces) {
  const VethPair veth;
  SpawnOptions at_server;
  at_server.netns_fd = veth.server().fd();
  SpawnOptions at_client;
  at_client.netns_fd = veth.client().fd();
  for (const char* proto : {"udp", "tcp"}) {
    TraceResult result;
    {
      Child outer =
          Child::spawn({"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", echo_path(),
                        "server", "--proto", proto, "--listen", "0.0.0.0:9000"},
                       at_server);
      const std::optional<std::string> ready = outer.wait_line("ready pid=");
      ASSERT_TRUE(ready) << outer.err();
      ASSERT_NE(ready->find("pid=1 "), std::string::npos) << *ready;
      Trace trace({"-p", std::to_string(child_of(outer.pid()))});
      const Json client =
          run_client({"--proto", proto, "--to", fmt::format("{}:9000", VethPair::kServerAddress4),
                      "--count", "2000", "--wait", "block"},
                     at_client);
      EXPECT_EQ(client["received"], 2000);
      result = trace.stop();
    }
    expect_whole(result, 2000);
  }
}

TEST(Counts, CommandLaunchedUnderTrace) {
  for (const char* proto : {"udp", "tcp"}) {
    TraceResult result;
    {
      Trace trace({"--", echo_path(), "server", "--proto", proto});
      const std::optional<std::string> ready = trace.child().wait_line("ready pid=");
      ASSERT_TRUE(ready);
      const std::string port = ready->substr(ready->find("port=") + 5, 5);
      sleep_ms(300);
      const Json client =
          run_client({"--proto", proto, "--to", fmt::format("127.0.0.1:{}", std::stoi(port)),
                      "--count", "2000", "--wait", "block"});
      EXPECT_EQ(client["received"], 2000);
      result = trace.stop();
    }
    expect_whole(result, 2000);
    EXPECT_EQ(result.summary["target"]["comm"], "whylate-echo");
  }
}

// A datagram can come before the tracer got to know the socket: that read, and no other, is
// unmatched, and it says so.
TEST(Counts, UdpSocketThatIsUsedAtOnce) {
  Trace trace({"--", echo_path(), "server"});
  const std::optional<std::string> ready = trace.child().wait_line("ready pid=");
  ASSERT_TRUE(ready);
  const int port = std::stoi(ready->substr(ready->find("port=") + 5));
  run_client({"--to", fmt::format("127.0.0.1:{}", port), "--count", "1000", "--wait", "block"});
  const TraceResult result = trace.stop();
  EXPECT_EQ(result.complete() + result.unmatched("new_socket") + result.unmatched("unsynced"),
            1000u)
      << result.summary["requests"].dump();
  EXPECT_LE(result.unmatched_sum(), 1u) << result.summary["requests"].dump();
  EXPECT_EQ(result.incomplete(), 0u);
}

TEST(Counts, MulticastGroup) {
  const VethPair veth;
  SpawnOptions at_server;
  at_server.netns_fd = veth.server().fd();
  SpawnOptions at_client;
  at_client.netns_fd = veth.client().fd();
  TraceResult result;
  {
    Server server(
        {"--listen", "0.0.0.0:0", "--group", "239.83.1.1", "--interface", VethPair::kServerDevice},
        at_server);
    Trace trace(server.trace_args());
    const Json client = run_client({"--to", server.address("239.83.1.1"), "--interface",
                                    VethPair::kClientDevice, "--count", "2000", "--wait", "block"},
                                   at_client);
    EXPECT_EQ(client["received"], 2000) << client.dump();
    result = trace.stop();
  }
  expect_whole(result, 2000);
  for (const Record& record : result.records) ASSERT_TRUE(record.is("multicast"));
}

}  // namespace
}  // namespace whylate::live
