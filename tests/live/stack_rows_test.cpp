// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Kinds of sockets that no responder of ours uses, beside what tcpdump and ss show of them; and
// what a target may do to us.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <set>
#include <sstream>
#include <utility>

#include "support/host.h"
#include "support/trace.h"
#include "support/witness.h"

namespace whylate::live {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kPort = 7000;

sockaddr_in server_address() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  ::inet_pton(AF_INET, VethPair::kServerAddress4, &address.sin_addr);
  return address;
}

/// Both ends of an MPTCP connection that echoes; the server is `first`.
std::pair<Child, Child> start_mptcp(const VethPair& pair) {
  Child server = Child::fork([&] {
    if (::setns(pair.server().fd(), CLONE_NEWNET) != 0) ::_exit(1);
    const int listener = ::socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
    const sockaddr_in address = server_address();
    if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(listener, 1) != 0) {
      ::_exit(2);
    }
    const int fd = ::accept(listener, nullptr, nullptr);
    char bytes[64];
    ssize_t got = 0;
    while ((got = ::recv(fd, bytes, sizeof(bytes), 0)) > 0) {
      ::send(fd, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL);
    }
  });
  Child client = Child::fork([&] {
    if (::setns(pair.client().fd(), CLONE_NEWNET) != 0) ::_exit(1);
    const int fd = ::socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
    const sockaddr_in address = server_address();
    bool connected = false;
    for (int i = 0; i < 100 && !connected; ++i) {
      connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
      if (!connected) sleep_ms(50);
    }
    char bytes[64] = {};
    while (connected && ::send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0) {
      ::recv(fd, bytes, sizeof(bytes), 0);
      sleep_ms(3);
    }
  });
  return {std::move(server), std::move(client)};
}

Json stack_of(pid_t pid, const Args& more = {}) {
  const Child child = Child::run(
      Args{whylate_path(), "stack", "-p", std::to_string(pid), "-w", "2s", "--json"} + more);
  EXPECT_EQ(child.exit_code(), 0) << child.err();
  Json json = Json::parse(child.out(), nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << child.out();
  return json;
}

TEST(StackRow, MptcpIsTheKernelsAndItsSubflowsAreSeen) {
  const int probe = ::socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
  if (probe < 0) GTEST_SKIP() << "this kernel has no MPTCP";
  ::close(probe);
  const VethPair pair;
  Capture in(pair.server(), "in", fmt::format("tcp port {}", kPort));
  Capture out(pair.server(), "out", fmt::format("tcp port {}", kPort));
  const auto [server, client] = start_mptcp(pair);
  ASSERT_TRUE(out.wait_packets(20));
  const Json report = stack_of(server.pid());
  const std::size_t listed = ss_lines(pair.server(), "--mptcp", server.pid());
  const std::size_t captured_in = in.stop();
  const std::size_t captured_out = out.stop();

  EXPECT_EQ(listed, 2u) << "the listening one and the connection";
  EXPECT_EQ(report["verdict"], "mptcp") << report.dump(1);
  EXPECT_EQ(report["confidence"], "certain");
  EXPECT_EQ(report["derived_from_source"], false);
  EXPECT_EQ(report["tcpdump"]["rx"], captured_in > 0 ? "sees" : "blind");
  EXPECT_EQ(report["tcpdump"]["tx"], captured_out > 0 ? "sees" : "blind");
  const Json& shares = report["shares"];
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_GT(shares[0]["packets"], 100);
  EXPECT_LE(shares[0]["packets"], captured_in + captured_out);
  for (const Json& socket : report["sockets"]) {
    EXPECT_EQ(socket["kind"], "mptcp");
    EXPECT_EQ(socket["ss"], "lists");
    EXPECT_EQ(socket["ss_command"], "ss -Manp");
  }
}

TEST(StackRow, ARawSocketIsCounted) {
  const VethPair pair;
  SpawnOptions inside;
  inside.netns_fd = pair.server().fd();
  Capture in(pair.server(), "in", "icmp");
  Capture out(pair.server(), "out", "icmp");
  // ping by a raw socket, or by one of the kind made for it: whichever it may have.
  const Child ping = Child::fork([&] {
    if (::setns(pair.server().fd(), CLONE_NEWNET) != 0) ::_exit(1);
    const int fd = ::socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    ::inet_pton(AF_INET, VethPair::kClientAddress4, &to.sin_addr);
    std::uint8_t request[16] = {8};  // echo request
    for (std::uint16_t sequence = 0;; ++sequence) {
      request[6] = static_cast<std::uint8_t>(sequence >> 8);
      request[7] = static_cast<std::uint8_t>(sequence);
      request[2] = request[3] = 0;
      std::uint32_t sum = 0;
      for (int i = 0; i < 16; i += 2)
        sum += static_cast<std::uint32_t>(request[i] << 8 | request[i + 1]);
      while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
      request[2] = static_cast<std::uint8_t>(~sum >> 8);
      request[3] = static_cast<std::uint8_t>(~sum);
      ::sendto(fd, request, sizeof(request), 0, reinterpret_cast<sockaddr*>(&to), sizeof(to));
      char answer[256];
      ::recv(fd, answer, sizeof(answer), 0);
      sleep_ms(5);
    }
  });
  ASSERT_TRUE(out.wait_packets(10));
  const Json report = stack_of(ping.pid());
  const std::size_t listed = ss_lines(pair.server(), "--raw", ping.pid());
  const std::size_t captured_in = in.stop();
  const std::size_t captured_out = out.stop();
  EXPECT_EQ(listed, 1u);
  EXPECT_EQ(report["verdict"], "kernel") << report.dump(1);
  EXPECT_EQ(report["confidence"], "certain");
  const std::uint64_t received = report["traffic"]["kernel_rx_packets"];
  const std::uint64_t sent = report["traffic"]["kernel_tx_packets"];
  EXPECT_GT(received, 20u);
  EXPECT_GT(sent, 20u);
  EXPECT_LE(received, captured_in);
  EXPECT_LE(sent, captured_out);
  ASSERT_EQ(report["sockets"].size(), 1u);
  EXPECT_EQ(report["sockets"][0]["ss_command"], "ss -wanp");
}

TEST(BadInput, ATargetThatOpensAndClosesAllTheWhile) {
  const Child busy = Child::fork([] {
    while (true) {
      int fds[64];
      for (int& fd : fds) {
        fd = ::socket(AF_INET, SOCK_DGRAM, 0);
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
      }
      for (const int fd : fds) ::close(fd);
      ::usleep(500);
    }
  });
  const Json report = stack_of(busy.pid());
  EXPECT_THAT(report["verdict"].get<std::string>(), AnyOf("kernel", "none")) << report.dump(1);
  EXPECT_NE(report["confidence"], "unknown");
}

TEST(BadInput, AnEndedTargetIsAFinding) {
  Child target = Child::fork([] {
    const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
    sleep_ms(1500);
    ::close(fd);
  });
  Child stack = Child::spawn(
      {whylate_path(), "stack", "-p", std::to_string(target.pid()), "-w", "3s", "--json"});
  // Reaped, as a parent does: a zombie would keep its number.
  target.wait();
  EXPECT_EQ(stack.wait(), 1) << stack.err();
  const Json report = Json::parse(stack.out(), nullptr, false);
  ASSERT_FALSE(report.is_discarded()) << stack.out();
  EXPECT_THAT(report["findings"].dump(), HasSubstr("process_ended"));
}

TEST(BadInput, AZombieIsRefused) {
  Child parent = Child::fork([] {
    if (::fork() == 0) ::_exit(0);
    ::pause();
  });
  pid_t zombie = 0;
  for (int i = 0; i < 100 && zombie == 0; ++i) {
    sleep_ms(20);
    const std::string children =
        read_text(fmt::format("/proc/{0}/task/{0}/children", parent.pid()));
    if (!children.empty()) zombie = std::stoi(children);
  }
  ASSERT_NE(zombie, 0);
  sleep_ms(100);
  const Child stack = Child::run({whylate_path(), "stack", "-p", std::to_string(zombie)});
  EXPECT_EQ(stack.exit_code(), 2);
  EXPECT_EQ(stack.out(), "");
  EXPECT_THAT(stack.err(), HasSubstr("zombie"));
}

TEST(BadInput, ANameFullOfControlCharactersStaysOneLine) {
  const Child target = Child::fork([] {
    ::prctl(PR_SET_NAME, "a\x1b[31m\nb\r\tc");
    const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
    static_cast<void>(fd);
    ::pause();
  });
  sleep_ms(100);
  const Child stack = Child::run(
      {whylate_path(), "stack", "-p", std::to_string(target.pid()), "-w", "100ms", "--explain"});
  EXPECT_EQ(stack.exit_code(), 0) << stack.err();
  EXPECT_THAT(stack.out(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(stack.out(), Not(HasSubstr("\r")));
  EXPECT_THAT(split_lines(stack.out()).at(0), HasSubstr(fmt::format("[{}]", target.pid())));
}

TEST(BadInput, TenThousandSocketsTakeTheWindowAndNotMuchMore) {
  const std::string ready = scratch_path("ready");
  const Child target = Child::fork([&] {
    const rlimit limit = {20'000, 20'000};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::_exit(1);
    for (int i = 0; i < 10'000; ++i) {
      const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
      sockaddr_in address = {};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) ::_exit(2);
    }
    ::fclose(::fopen(ready.c_str(), "w"));
    ::pause();
  });
  for (int i = 0; i < 100 && ::access(ready.c_str(), F_OK) != 0; ++i) sleep_ms(100);
  ASSERT_EQ(::access(ready.c_str(), F_OK), 0);
  const Json report = stack_of(target.pid());
  ASSERT_EQ(report["sockets"].size(), 10'000u);
  std::printf("10,000 sockets: both readings took %.0f ms\n",
              report["collect_ns"].get<double>() / 1e6);
}

/// A process of that name which sends datagrams to itself.
Child start_talking_to_itself(const char* name) {
  return Child::fork([name] {
    ::prctl(PR_SET_NAME, name);
    const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
    sockaddr_in self = {};
    self.sin_family = AF_INET;
    self.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(self);
    ::bind(fd, reinterpret_cast<const sockaddr*>(&self), size);
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&self), &size);
    ::connect(fd, reinterpret_cast<const sockaddr*>(&self), size);
    char bytes[64] = {};
    while (::send(fd, bytes, sizeof(bytes), 0) > 0 && ::recv(fd, bytes, sizeof(bytes), 0) > 0) {
      sleep_ms(3);
    }
  });
}

TEST(StackProcesses, ShareOneWindow) {
  constexpr const char* kName = "wl-to-itself";
  const Child children[] = {start_talking_to_itself(kName), start_talking_to_itself(kName),
                            start_talking_to_itself(kName)};
  sleep_ms(200);
  const std::uint64_t begin_ns = monotonic_ns();
  const Child stack =
      Child::run(Args{whylate_path(), "stack", "--comm", kName, "-w", "3s", "--json"});
  const std::uint64_t run_ns = monotonic_ns() - begin_ns;
  EXPECT_EQ(stack.exit_code(), 0) << stack.err();
  std::set<pid_t> seen;
  std::uint64_t windows_ns = 0;
  std::istringstream lines(stack.out());
  for (std::string line; std::getline(lines, line);) {
    const Json report = Json::parse(line, nullptr, false);
    ASSERT_FALSE(report.is_discarded()) << line;
    seen.insert(report["pid"].get<pid_t>());
    windows_ns += report["traffic"]["window_ns"].get<std::uint64_t>();
    EXPECT_EQ(report["verdict"], "kernel") << report.dump(1);
    EXPECT_EQ(report["confidence"], "certain") << report.dump(1);
    EXPECT_GT(report["traffic"]["kernel_rx_packets"], 20) << report.dump(1);
  }
  std::set<pid_t> wanted;
  for (const Child& child : children) wanted.insert(child.pid());
  EXPECT_EQ(seen, wanted);
  EXPECT_LT(run_ns, windows_ns) << "one window after the other";
}

}  // namespace
}  // namespace whylate::live
