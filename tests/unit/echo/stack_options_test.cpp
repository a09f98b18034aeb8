// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "echo/options.h"

namespace whylate::echo {
namespace {

using ::testing::HasSubstr;

Result<Command> parse(std::vector<const char*> arguments, const char* listen = "10.0.0.2:7777") {
  arguments.insert(arguments.begin(), {"whylate-echo", "server", "--listen", listen});
  return parse_args(static_cast<int>(arguments.size()), arguments.data());
}

StackOptions stack(std::vector<const char*> arguments) {
  auto command = parse(std::move(arguments));
  EXPECT_TRUE(command.ok()) << (command.ok() ? "" : command.error().message);
  return std::get<ServerOptions>(*command).stack;
}

void expect_refused(std::vector<const char*> arguments, const char* why,
                    const char* listen = "10.0.0.2:7777") {
  auto command = parse(std::move(arguments), listen);
  ASSERT_FALSE(command.ok()) << why;
  EXPECT_EQ(command.error().code, ExitCode::kUsage);
  EXPECT_THAT(command.error().message, HasSubstr(why));
}

TEST(StackOptions, DefaultIsTheKernel) {
  EXPECT_EQ(stack({}).kind, StackKind::kKernel);
  EXPECT_FALSE(takes_frames(StackKind::kKernel));
  EXPECT_FALSE(takes_frames(StackKind::kBusyPoll));
}

TEST(StackOptions, EveryStack) {
  const auto xdp = stack({"--stack", "af-xdp", "--device", "eth0", "--xdp-mode", "native",
                          "--queue", "3", "--kernel-socket"});
  EXPECT_EQ(xdp.kind, StackKind::kAfXdp);
  EXPECT_TRUE(takes_frames(xdp.kind));
  EXPECT_EQ(xdp.device, "eth0");
  EXPECT_TRUE(xdp.native);
  EXPECT_EQ(xdp.queue, 3U);
  EXPECT_TRUE(xdp.kernel_socket);
  EXPECT_FALSE(stack({"--stack", "af-xdp"}).native);

  const auto packet =
      stack({"--stack", "packet", "--packet-ring", "--qdisc-bypass", "--mode", "spin"});
  EXPECT_EQ(packet.kind, StackKind::kPacket);
  EXPECT_TRUE(packet.ring);
  EXPECT_TRUE(packet.qdisc_bypass);

  EXPECT_EQ(stack({"--stack", "busy-poll"}).busy_poll_us, 50);
  EXPECT_EQ(
      stack({"--stack", "busy-poll", "--busy-poll-us", "9", "--mode", "epoll", "--threads", "2"})
          .busy_poll_us,
      9);
}

TEST(StackOptions, RefusesWhatDoesNotGoTogether) {
  expect_refused({"--stack", "dpdk"}, "dpdk");
  expect_refused({"--device", "eth0"}, "--device needs --stack af-xdp, packet or tap");
  expect_refused({"--stack", "packet", "--queue", "1"}, "--queue needs --stack af-xdp");
  expect_refused({"--stack", "af-xdp", "--packet-ring"}, "--packet-ring needs --stack packet");
  expect_refused({"--stack", "af-xdp", "--queue", "64"}, "--queue");
  expect_refused({"--busy-poll-us", "9"}, "--busy-poll-us needs --stack busy-poll");
  expect_refused({"--stack", "busy-poll", "--proto", "tcp"}, "needs --proto udp");
  expect_refused({"--stack", "packet", "--threads", "2"}, "has one thread");
  expect_refused({"--stack", "packet", "--mode", "epoll"}, "blocking or spin");
  expect_refused({"--stack", "af-xdp", "--group", "239.1.1.1"}, "not a group");
  expect_refused({"--stack", "af-xdp", "--rcvbuf", "9000"}, "--rcvbuf");
  expect_refused({"--stack", "af-xdp"}, "needs a port", "10.0.0.2:0");
}

}  // namespace
}  // namespace whylate::echo
