// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the window alone knows: sockets that came and went in it, and what the tools need to be
// told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/stack/evidence_builder.h"

namespace whylate::stack {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

SocketTraffic closed(std::uint64_t inode, const char* protocol, std::uint64_t rx,
                     std::uint64_t tx) {
  SocketTraffic traffic;
  traffic.inode = inode;
  traffic.protocol = protocol;
  traffic.opened = traffic.closed = true;
  traffic.rx_packets = rx;
  traffic.tx_packets = tx;
  return traffic;
}

TEST(ClosedInTheWindow, ShortConnectionsAreTheProcessesTraffic) {
  Scene scene;
  DiagRow& listener = scene.tcp(3, 100, "10.0.0.1:80");
  listener.state = 10;
  listener.remote = "";
  scene.moved(100, 0, 0);
  for (std::uint64_t i = 0; i < 300; ++i) {
    scene.window.sockets.push_back(closed(1000 + i, "tcp", 5, 3));
  }
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kKernel);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  ASSERT_EQ(report.sockets.size(), 2u) << "one line for all of them";
  const SocketVerdict& sum = report.sockets[1];
  EXPECT_EQ(sum.count, 300u);
  EXPECT_EQ(sum.rx.packets, 1500u);
  EXPECT_EQ(sum.tx.packets, 900u);
  EXPECT_EQ(sum.ss, Listing::kHides);
  EXPECT_EQ(report.traffic.kernel_rx_packets, 1500u);
  EXPECT_EQ(report.traffic.kernel_tx_packets, 900u);
  ASSERT_EQ(report.shares.size(), 1u);
  EXPECT_EQ(report.shares[0].sockets, 301u);
  EXPECT_EQ(report.ss_listed, 1u);
  EXPECT_THAT(report.ss_commands, ElementsAre("ss -tanp"));
}

TEST(ClosedInTheWindow, WhatIsStillInATableIsNotCountedTwice) {
  Scene scene;
  scene.udp(3, 100);
  SocketTraffic traffic = closed(100, "udp", 7, 7);
  traffic.closed = false;
  scene.window.sockets.push_back(traffic);
  const StackReport report = scene.judge();
  ASSERT_EQ(report.sockets.size(), 1u);
  EXPECT_EQ(report.traffic.kernel_rx_packets, 7u);
}

TEST(ClosedInTheWindow, UncountedDirectionsStayUnknown) {
  Scene scene;
  SocketTraffic traffic = closed(100, "tcp", 0, 2);
  traffic.rx_packets.reset();
  scene.window.sockets.push_back(traffic);
  const StackReport report = scene.judge();
  ASSERT_EQ(report.sockets.size(), 1u);
  EXPECT_FALSE(report.sockets[0].rx.packets);
  EXPECT_FALSE(report.shares.at(0).countable);
}

TEST(ClosedInTheWindow, AnAcceleratorThatWasAskedForFellBack) {
  Scene scene;
  scene.library(LibraryKind::kOnload, "/usr/lib/libonload.so");
  scene.window.sockets.push_back(closed(100, "tcp", 5, 3));
  EXPECT_EQ(scene.judge().fell_back, true);

  Scene loopback;
  loopback.library(LibraryKind::kOnload, "/usr/lib/libonload.so");
  loopback.window.sockets.push_back(closed(100, "tcp", 5, 3));
  loopback.window.sockets.back().loopback = true;
  const StackReport report = loopback.judge();
  EXPECT_EQ(report.fell_back, false);
  EXPECT_TRUE(has_finding(report, "kernel_by_route"));
}

TEST(ClosedInTheWindow, PacketSocketsKeepTheirStack) {
  Scene scene;
  scene.window.sockets.push_back(closed(100, "packet", 5, 0));
  EXPECT_EQ(scene.judge().verdict, Stack::kAfPacket);
}

TEST(SsCommand, NamesTheOneThatListsASocket) {
  Scene scene;
  scene.udp(3, 100);
  scene.tcp(4, 101);
  scene.socket(5, 102, "PACKET");
  scene.row(102, DiagFamily::kPacket);
  scene.xdp(6, 103);
  scene.evidence.xdp_diag_available = true;
  const StackReport report = scene.judge();
  EXPECT_EQ(of_kind(report, "udp").ss_command, "ss -uanp");
  EXPECT_EQ(of_kind(report, "tcp").ss_command, "ss -tanp");
  EXPECT_EQ(of_kind(report, "packet").ss_command, "ss -0anp");
  EXPECT_EQ(of_kind(report, "xdp").ss_command, "ss --xdp -anp");
  EXPECT_EQ(report.ss_listed, 4u);
}

TEST(SsCommand, NoneWhereNoneListsIt) {
  Scene scene;
  scene.xdp(6, 103);
  const StackReport report = scene.judge();
  EXPECT_EQ(of_kind(report, "xdp").ss, Listing::kHides);
  EXPECT_EQ(of_kind(report, "xdp").ss_command, "");
  EXPECT_TRUE(report.ss_commands.empty());
}

TEST(Tools, AreToldTheInterface) {
  Scene scene;
  scene.xdp(3, 48505);
  scene.interface(XdpMode::kNative, "eth1").xdp_maps = {104};
  scene.redirected(20);
  const StackReport report = scene.judge();
  EXPECT_THAT(report.use_instead, Contains("xdpdump -i eth1 (receive only)"));
  EXPECT_THAT(report.use_instead, Contains("ethtool -S eth1"));
}

TEST(Tools, AreLeftOutWhereThereIsNoInterfaceToName) {
  Scene scene;
  scene.xdp(3, 48505);
  for (const std::string& tool : scene.judge().use_instead)
    EXPECT_THAT(tool, Not(HasSubstr("IFACE")));
}

TEST(Tools, TheBusiestInterfaceStandsForSocketsThatAreBoundToNone) {
  Scene scene;
  scene.socket(3, 51855, "PACKET");
  scene.row(51855, DiagFamily::kPacket);
  scene.interface(XdpMode::kNone, "idle");
  scene.interface(XdpMode::kNone, "busy").counters.rx_packets = Scene::counter(9);
  EXPECT_THAT(scene.judge().use_instead, Contains("tcpdump -i busy"));
}

}  // namespace
}  // namespace whylate::stack
