// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// `whylate stack` on ordinary servers, beside what tcpdump and ss really show in the same seconds.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "support/host.h"
#include "support/trace.h"
#include "support/witness.h"

namespace whylate::live {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

struct Plain {
  const char* name;
  int type;  ///< SOCK_STREAM or SOCK_DGRAM
  int port;
  std::string request;
  Args (*command)(int port);
};

Args redis(int port) {
  // redis-tools has the server under another name; it looks at its own.
  const std::string link = scratch_path("redis-server");
  [[maybe_unused]] const int done = ::symlink("/usr/bin/redis-check-rdb", link.c_str());
  return {link,     "--port", std::to_string(port), "--bind", VethPair::kServerAddress4,
          "--save", "",       "--appendonly",       "no",     "--protected-mode",
          "no",     "--dir",  scratch_path("")};
}

Args nginx(int port) {
  const std::string directory = scratch_path("nginx");
  ::mkdir(directory.c_str(), 0755);
  const std::string file = directory + "/nginx.conf";
  [[maybe_unused]] const int fd = ::open(file.c_str(), O_CREAT | O_WRONLY, 0644);
  write_text(file,
             fmt::format("daemon off; master_process off; user root; pid {0}/pid;\n"
                         "error_log {0}/error.log;\n"
                         "events {{ worker_connections 64; }}\n"
                         "http {{ access_log off; client_body_temp_path {0}/b; proxy_temp_path "
                         "{0}/p;\n fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u; "
                         "scgi_temp_path {0}/s;\n keepalive_requests 100000;\n"
                         " server {{ listen {1}:{2}; return 200 'ok'; }} }}\n",
                         directory, VethPair::kServerAddress4, port));
  return {"nginx", "-p", directory, "-c", file};
}

Args dnsmasq(int port) {
  return {"dnsmasq",
          "--no-daemon",
          "--conf-file=/dev/null",
          "--no-resolv",
          "--no-hosts",
          fmt::format("--port={}", port),
          fmt::format("--listen-address={}", VethPair::kServerAddress4),
          "--bind-interfaces",
          "--user=root",
          "--address=/x.test/192.0.2.1",
          fmt::format("--pid-file={}", scratch_path("dnsmasq.pid"))};
}

// A question for the address of x.test.
std::string dns_question() {
  return std::string(
      "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
      "\x01x\x04test\x00\x00\x01\x00\x01",
      24);
}

const std::vector<Plain>& servers() {
  static const std::vector<Plain> kServers = {
      {"redis", SOCK_STREAM, 6379, "PING\r\n", redis},
      {"nginx", SOCK_STREAM, 8080, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", nginx},
      {"dnsmasq", SOCK_DGRAM, 5353, dns_question(), dnsmasq},
  };
  return kServers;
}

bool installed(const Plain& plain) {
  const std::string program = plain.name == std::string("redis") ? "redis-check-rdb" : plain.name;
  return Child::run({"sh", "-c", "command -v " + program}).exit_code() == 0;
}

/// Asks one request after the other until it is ended; every answer counts.
/// `each_anew`: with a connection, or a socket, for every request.
Child start_asking(const NetNs& space, const Plain& plain, bool each_anew = false) {
  return Child::fork([&] {
    if (::setns(space.fd(), CLONE_NEWNET) != 0) ::_exit(1);
    const timeval patience = {1, 0};
    const auto open_socket = [&] {
      const int fd = ::socket(AF_INET, plain.type, 0);
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
      return fd;
    };
    int fd = open_socket();
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(plain.port));
    ::inet_pton(AF_INET, VethPair::kServerAddress4, &address.sin_addr);
    bool connected = false;
    for (int i = 0; i < 100 && !connected; ++i) {
      connected = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
      if (!connected) sleep_ms(100);
    }
    char answer[4096];
    while (connected) {
      ::send(fd, plain.request.data(), plain.request.size(), MSG_NOSIGNAL);
      if (::recv(fd, answer, sizeof(answer), 0) <= 0) sleep_ms(50);
      sleep_ms(2);
      if (!each_anew) continue;
      ::close(fd);
      fd = open_socket();
      connected = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    }
  });
}

Json run_stack(pid_t pid) {
  const Child child = Child::run(
      {whylate_path(), "stack", "-p", std::to_string(pid), "-w", "2s", "--json"}, {}, 30'000);
  EXPECT_EQ(child.exit_code(), 0) << child.err();
  Json json = Json::parse(child.out(), nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << child.out();
  return json;
}

class PlainServer : public ::testing::TestWithParam<int> {};

TEST_P(PlainServer, IsSeenByBothAndSaidToBe) {
  const Plain& plain = servers().at(static_cast<std::size_t>(GetParam()));
  ASSERT_TRUE(installed(plain)) << plain.name;
  const VethPair pair;
  SpawnOptions inside;
  inside.netns_fd = pair.server().fd();
  Child server = Child::spawn(plain.command(plain.port), inside);
  const Child asking = start_asking(pair.client(), plain);
  const std::string filter = fmt::format("port {}", plain.port);
  Capture in(pair.server(), "in", filter);
  Capture out(pair.server(), "out", filter);
  ASSERT_TRUE(out.wait_packets(20)) << server.err() << server.out();
  const Json report = run_stack(server.pid());
  const Child ss = Child::run({"ss", "-H", "-tuanp"}, inside);
  const std::size_t captured_in = in.stop();
  const std::size_t captured_out = out.stop();

  // What is so.
  ASSERT_GT(captured_in, 10u);
  ASSERT_GT(captured_out, 10u);
  const std::vector<std::string> lines = split_lines(ss.out());
  EXPECT_THAT(lines, Contains(::testing::AllOf(HasSubstr(fmt::format("pid={},", server.pid())),
                                               HasSubstr(fmt::format(":{}", plain.port)))));
  // What is said.
  EXPECT_EQ(report["verdict"], "kernel") << report.dump(1);
  EXPECT_EQ(report["confidence"], "certain");
  EXPECT_EQ(report["tcpdump"]["rx"], "sees");
  EXPECT_EQ(report["tcpdump"]["tx"], "sees");
  EXPECT_EQ(report["fell_back"].is_boolean() && report["fell_back"].get<bool>(), false);
  bool found = false;
  for (const Json& socket : report["sockets"]) {
    const std::string port = fmt::format(":{}", plain.port);
    if (!socket["local"].is_string() ||
        socket["local"].get<std::string>().find(port) == std::string::npos) {
      continue;
    }
    found = true;
    EXPECT_EQ(socket["stack"], "kernel");
    EXPECT_EQ(socket["ss"], "lists") << socket.dump(1);
  }
  EXPECT_TRUE(found) << report.dump(1);
  EXPECT_GT(report["traffic"]["kernel_rx_packets"].get<std::uint64_t>(), 10u);
}

TEST(ShortConnections, AreCountedFromZero) {
  // Every connection is opened and closed within the window: no table ever shows them to us.
  const Plain& plain = servers().at(0);
  ASSERT_TRUE(installed(plain)) << plain.name;
  const VethPair pair;
  SpawnOptions inside;
  inside.netns_fd = pair.server().fd();
  Child server = Child::spawn(plain.command(plain.port), inside);
  const Child asking = start_asking(pair.client(), plain, true);
  const std::string filter = fmt::format("port {}", plain.port);
  Capture in(pair.server(), "in", filter);
  Capture out(pair.server(), "out", filter);
  ASSERT_TRUE(out.wait_packets(20)) << server.err() << server.out();
  const Json report = run_stack(server.pid());
  const std::size_t captured_in = in.stop();
  const std::size_t captured_out = out.stop();

  EXPECT_EQ(report["verdict"], "kernel") << report.dump(1);
  EXPECT_EQ(report["confidence"], "certain") << "it is no idle server";
  const std::uint64_t received = report["traffic"]["kernel_rx_packets"];
  const std::uint64_t sent = report["traffic"]["kernel_tx_packets"];
  EXPECT_GT(received, 50u);
  EXPECT_GT(sent, 50u);
  EXPECT_LE(received, captured_in);
  EXPECT_LE(sent, captured_out);
  std::uint64_t closed = 0;
  for (const Json& socket : report["sockets"]) {
    if (socket["count"] > 1) closed += socket["count"].get<std::uint64_t>();
  }
  EXPECT_GT(closed, 20u) << report.dump(1);
}

/// Debian's package of nginx starts a service, so it is not asked for: without it there is no such
/// case, rather than one that has passed. The others must be there.
std::vector<int> servers_to_try() {
  std::vector<int> indices;
  for (std::size_t i = 0; i < servers().size(); ++i) {
    const Plain& plain = servers()[i];
    if (plain.name == std::string("nginx") && !installed(plain)) continue;
    indices.push_back(static_cast<int>(i));
  }
  return indices;
}

INSTANTIATE_TEST_SUITE_P(Servers, PlainServer, ::testing::ValuesIn(servers_to_try()),
                         [](const ::testing::TestParamInfo<int>& server) {
                           return std::string(
                               servers().at(static_cast<std::size_t>(server.param)).name);
                         });

}  // namespace
}  // namespace whylate::live
