// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/stack_window.h"

#include <gtest/gtest.h>

#include <cstring>

namespace whylate::capture {
namespace {

constexpr std::uint64_t kNamespace = 4026532000;
constexpr std::uint32_t kCpus = 4;

wl_window_line line(std::uint64_t inode, std::uint32_t kind, std::uint64_t rx, std::uint64_t tx) {
  wl_window_line line{};
  line.inode = inode;
  line.kind = kind;
  line.rx_count = rx;
  line.tx_count = tx;
  line.known = WL_WINDOW_KNOWS_COUNTS | WL_WINDOW_KNOWS_BUSY_POLL;
  return line;
}

wl_window_socket counts(std::uint32_t kind, std::uint64_t ready, std::uint64_t reads,
                        std::uint64_t rx_bytes, std::uint64_t tx_packets) {
  wl_window_socket counts{};
  counts.kind = kind;
  counts.ready = ready;
  counts.reads = reads;
  counts.rx_bytes = rx_bytes;
  counts.tx_packets = tx_packets;
  return counts;
}

wl_window_device device(const char* name, std::uint64_t receive, std::uint64_t taken,
                        std::uint64_t tap_tx, std::uint64_t segments) {
  wl_window_device device{};
  std::strncpy(device.name, name, sizeof device.name);
  device.receive = receive;
  device.generic_redirect = taken;
  device.tap_tx = tap_tx;
  device.tap_tx_segments = segments;
  return device;
}

stack::TrafficWindow between(const WindowReading& before, const WindowReading& after) {
  return window_between(before, after, kNamespace, kCpus);
}

stack::SocketTraffic only_socket(const WindowReading& before, const WindowReading& after) {
  const auto window = between(before, after);
  EXPECT_EQ(window.sockets.size(), 1U);
  return window.sockets.at(0);
}

TEST(StackWindow, ADatagramSocketIsCountedByTheHooks) {
  WindowReading before;
  WindowReading after;
  before.sockets[7] = counts(WL_WINDOW_UDP, 1, 1, 64, 1);
  after.sockets[7] = counts(WL_WINDOW_UDP, 501, 500, 32'000, 499);
  const auto socket = only_socket(before, after);
  EXPECT_EQ(socket.inode, 7U);
  EXPECT_EQ(socket.rx_packets, 500U);
  EXPECT_EQ(socket.rx_bytes, 31'936U);
  EXPECT_EQ(socket.tx_packets, 498U);
}

TEST(StackWindow, AConnectionIsCountedByItself) {
  WindowReading before;
  WindowReading after;
  // Several descriptors of one socket are one; its counters are 32 bits wide.
  before.lines = {line(7, WL_WINDOW_TCP, 0xfffffff0, 3), line(7, WL_WINDOW_TCP, 0xfffffff0, 3)};
  after.lines = {line(7, WL_WINDOW_TCP, 0x10, 9)};
  after.sockets[7] = counts(WL_WINDOW_TCP, 99, 5, 300, 6);
  const auto socket = only_socket(before, after);
  EXPECT_EQ(socket.rx_packets, 0x20U);
  EXPECT_EQ(socket.tx_packets, 6U);
}

TEST(StackWindow, AConnectionMadeInTheWindowBeganAtZeroAndOneThatEndedIsNotCounted) {
  WindowReading before;
  WindowReading after;
  after.lines = {line(7, WL_WINDOW_TCP, 12, 9)};
  after.sockets[7] = counts(WL_WINDOW_TCP, 0, 5, 300, 6);
  EXPECT_EQ(only_socket(before, after).rx_packets, 12U);
  after.lines.clear();
  const auto gone = only_socket(before, after);
  EXPECT_EQ(gone.rx_packets, std::nullopt);
  EXPECT_EQ(gone.rx_bytes, 300U);
}

TEST(StackWindow, ARingCountsForAnAfXdpSocket) {
  WindowReading before;
  WindowReading after;
  before.lines = {line(7, WL_WINDOW_XDP, 100, 90)};
  after.lines = {line(7, WL_WINDOW_XDP, 600, 590)};
  after.lines[0].known |= WL_WINDOW_KNOWS_DEVICE;
  after.lines[0].ifindex = 2;
  after.lines[0].queue = 1;
  after.lines[0].rx_dropped = 3;
  after.sockets[7] = counts(WL_WINDOW_XDP, 20, 0, 0, 0);
  const auto socket = only_socket(before, after);
  EXPECT_EQ(socket.rx_packets, 500U);
  EXPECT_EQ(socket.tx_packets, 500U);
  EXPECT_EQ(socket.rx_bytes, std::nullopt);
  const auto window = between(before, after);
  ASSERT_EQ(window.socket_facts.size(), 1U);
  EXPECT_EQ(window.socket_facts[0].xdp_ifindex, 2U);
  EXPECT_EQ(window.socket_facts[0].xdp_queue, 1U);
  EXPECT_EQ(window.socket_facts[0].xdp_zero_copy, false);
  EXPECT_EQ(window.socket_facts[0].xdp_rx_dropped, 3U);
  // Not bound: where it sits is not known.
  after.lines[0].known = WL_WINDOW_KNOWS_COUNTS;
  EXPECT_EQ(between(before, after).socket_facts[0].xdp_ifindex, std::nullopt);
}

TEST(StackWindow, APacketSocketWhoseStatisticsWereResetIsNotCounted) {
  WindowReading before;
  WindowReading after;
  before.lines = {line(7, WL_WINDOW_PACKET, 100, 0)};
  after.lines = {line(7, WL_WINDOW_PACKET, 130, 0)};
  after.sockets[7] = counts(WL_WINDOW_PACKET, 30, 0, 0, 30);
  EXPECT_EQ(only_socket(before, after).rx_packets, 30U);
  EXPECT_EQ(only_socket(before, after).rx_bytes, std::nullopt);
  after.lines[0].rx_count = 5;
  EXPECT_EQ(only_socket(before, after).rx_packets, std::nullopt);
}

TEST(StackWindow, ANapiNumberThatIsACpuIsNone) {
  WindowReading after;
  after.lines = {line(7, WL_WINDOW_UDP, 0, 0)};
  after.lines[0].napi_id = kCpus;
  after.lines[0].busy_poll_us = 50;
  EXPECT_EQ(between({}, after).socket_facts[0].napi_id, 0U);
  EXPECT_EQ(between({}, after).socket_facts[0].busy_poll_us, 50U);
  after.lines[0].napi_id = 8193;
  EXPECT_EQ(between({}, after).socket_facts[0].napi_id, 8193U);
  after.lines[0].known = 0;
  EXPECT_EQ(between({}, after).socket_facts[0].napi_id, std::nullopt);
}

TEST(StackWindow, AnEpollIsListedOnlyWhenItPolls) {
  WindowReading after;
  after.lines = {line(0, WL_WINDOW_EPOLL, 0, 0)};
  after.lines[0].fd = 5;
  EXPECT_TRUE(between({}, after).epolls.empty());
  after.lines[0].busy_poll_us = 64;
  after.lines[0].prefer_busy_poll = 1;
  const auto window = between({}, after);
  ASSERT_EQ(window.epolls.size(), 1U);
  EXPECT_EQ(window.epolls[0].fd, 5);
  EXPECT_TRUE(window.epolls[0].prefer);
  EXPECT_TRUE(window.socket_facts.empty());
}

TEST(StackWindow, WhatGenericXdpTakesNeverReachesTheTap) {
  WindowReading before;
  WindowReading after;
  before.devices[2] = device("veth0", 10, 10, 5, 5);
  after.devices[2] = device("veth0", 520, 510, 6, 6);
  after.devices[2].generic_program = 1;
  before.device_tx["veth0"] = 100;
  after.device_tx["veth0"] = 601;
  const auto window = between(before, after);
  ASSERT_EQ(window.interfaces.size(), 1U);
  EXPECT_EQ(window.interfaces[0].name, "veth0");
  EXPECT_EQ(window.interfaces[0].net_namespace, kNamespace);
  EXPECT_EQ(window.interfaces[0].receive, 510U);
  EXPECT_EQ(window.interfaces[0].tap_rx, 10U);
  EXPECT_EQ(window.interfaces[0].tap_tx, 1U);
  EXPECT_EQ(window.interfaces[0].direct_tx, 500U);
  ASSERT_EQ(window.not_counted.size(), 1U);
}

TEST(StackWindow, DirectTransmitsAreNeverInvented) {
  WindowReading before;
  WindowReading after;
  // One packet of 40 segments; the device counts it as one.
  after.devices[2] = device("veth0", 0, 0, 1, 40);
  before.device_tx["veth0"] = 100;
  after.device_tx["veth0"] = 101;
  EXPECT_EQ(between(before, after).interfaces[0].direct_tx, 0U);
  after.device_tx["veth0"] = 99;  // the device was made anew
  EXPECT_EQ(between(before, after).interfaces[0].direct_tx, std::nullopt);
  after.device_tx.clear();
  EXPECT_EQ(between(before, after).interfaces[0].direct_tx, std::nullopt);
}

TEST(StackWindow, OnlyRedirectsOfTheWindowAreListed) {
  WindowReading before;
  WindowReading after;
  before.redirects[{2, 50, 17, 0}] = {100, 1};
  after.redirects[{2, 50, 17, 0}] = {100, 1};
  after.redirects[{2, 50, 17, 1}] = {30, 4};
  const auto window = between(before, after);
  ASSERT_EQ(window.redirects.size(), 1U);
  EXPECT_EQ(window.redirects[0].from_ifindex, 2U);
  EXPECT_EQ(window.redirects[0].map_id, 50U);
  EXPECT_EQ(window.redirects[0].map_type, 17U);
  EXPECT_EQ(window.redirects[0].index, 1U);
  EXPECT_EQ(window.redirects[0].redirected, 30U);
  EXPECT_EQ(window.redirects[0].failed, 4U);
}

TEST(StackWindow, AConnectionThatCameAndWentIsCountedFromZero) {
  WindowReading before;
  WindowReading after;
  after.sockets[9] = counts(WL_WINDOW_TCP, 1, 1, 18, 3);
  after.sockets[9].segs_in = 5;
  after.sockets[9].segs_out = 4;
  const auto socket = only_socket(before, after);
  EXPECT_EQ(socket.protocol, "tcp");
  EXPECT_TRUE(socket.opened);
  EXPECT_TRUE(socket.closed);
  EXPECT_EQ(socket.rx_packets, 5U);
  EXPECT_EQ(socket.tx_packets, 3U);
}

TEST(StackWindow, AConnectionThatIsClosedKeepsWhatItCountedInTheWindow) {
  WindowReading before;
  WindowReading after;
  before.lines = {line(9, WL_WINDOW_TCP, 100, 90)};
  before.sockets[9] = after.sockets[9] = counts(WL_WINDOW_TCP, 0, 0, 0, 0);
  before.sockets[9].found = after.sockets[9].found = 1;
  before.sockets[9].segs_in = 100;
  after.sockets[9].segs_in = 107;
  const auto socket = only_socket(before, after);
  EXPECT_FALSE(socket.opened);
  EXPECT_TRUE(socket.closed);
  EXPECT_EQ(socket.rx_packets, 7U);
}

TEST(StackWindow, ADatagramThatCameBeforeTheFirstCallIsCountedByItsRead) {
  WindowReading before;
  WindowReading after;
  after.lines = {line(7, WL_WINDOW_UDP, 0, 0)};
  after.sockets[7] = counts(WL_WINDOW_UDP, 0, 1, 64, 1);
  const auto socket = only_socket(before, after);
  EXPECT_TRUE(socket.opened);
  EXPECT_FALSE(socket.closed);
  EXPECT_EQ(socket.rx_packets, 1U);
}

TEST(StackWindow, ASilentInterfaceWasCounted) {
  WindowReading before;
  WindowReading after;
  before.device_tx["eth0"] = after.device_tx["eth0"] = 4;
  const auto window = window_between(before, after, kNamespace, kCpus, {{3, "eth0"}});
  ASSERT_EQ(window.interfaces.size(), 1U);
  EXPECT_EQ(window.interfaces[0].ifindex, 3U);
  EXPECT_EQ(window.interfaces[0].receive, 0U);
  EXPECT_EQ(window.interfaces[0].tap_rx, 0U);
  EXPECT_EQ(window.interfaces[0].tap_tx, 0U);
  EXPECT_EQ(window.interfaces[0].direct_tx, 0U);
}

TEST(StackWindow, WhatNoHookCountedIsNotZero) {
  WindowReading before;
  WindowReading after;
  after.sockets[7] = counts(WL_WINDOW_UDP, 5, 5, 64, 1);
  auto window = window_between(before, after, kNamespace, kCpus, {{3, "eth0"}});
  forget_uncounted(window, "netif_receive_skb");
  forget_uncounted(window, "sk_data_ready");
  EXPECT_FALSE(window.interfaces.at(0).receive);
  EXPECT_FALSE(window.interfaces.at(0).tap_rx);
  EXPECT_EQ(window.interfaces.at(0).tap_tx, 0U);
  EXPECT_FALSE(window.sockets.at(0).rx_packets);
  EXPECT_EQ(window.sockets.at(0).tx_packets, 1U);
  forget_uncounted(window, "net_dev_start_xmit");
  EXPECT_FALSE(window.interfaces.at(0).tap_tx);
  EXPECT_FALSE(window.sockets.at(0).tx_packets);
}

}  // namespace
}  // namespace whylate::capture
