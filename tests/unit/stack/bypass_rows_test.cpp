// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/stack_text.h"
#include "unit/stack/evidence_builder.h"

namespace whylate::stack {
namespace {

using testing::HasSubstr;

TEST(AfXdpRow, NativeCopyWithRedirects) {
  Scene scene;
  scene.xdp(3, 48505);
  Interface& interface = scene.interface(XdpMode::kNative);
  interface.xdp_program = 603;
  interface.xdp_maps = {105, 104};
  interface.xdp_maps_known = true;
  SocketFacts& facts = scene.facts(48505);
  facts.xdp_ifindex = Scene::kIfindex;
  facts.xdp_queue = 0;
  facts.xdp_zero_copy = false;
  scene.redirected(2000);
  InterfaceTraffic traffic;
  traffic.ifindex = Scene::kIfindex;
  traffic.tap_rx = 3;
  traffic.direct_tx = 2000;
  scene.window.interfaces.push_back(traffic);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kAfXdp);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.fell_back, false);
  const SocketVerdict socket = of_kind(report, "xdp");
  EXPECT_EQ(socket.rx.packets, 2000u);
  EXPECT_EQ(socket.tx.packets, 2000u);
  EXPECT_EQ(socket.rx.tcpdump, Sight::kBlind);
  EXPECT_EQ(socket.tx.tcpdump, Sight::kBlind);
  EXPECT_EQ(socket.ss, Listing::kHides);
  EXPECT_THAT(socket.detail, HasSubstr("native mode, copy"));
  EXPECT_THAT(socket.detail, HasSubstr("queue 0"));
  EXPECT_TRUE(has_finding(report, "redirected_not_delivered"));
  EXPECT_EQ(report.tcpdump_rx, Sight::kBlind);
  EXPECT_EQ(report.ss_listed, 0u);
}

TEST(AfXdpRow, GenericModeIsSaid) {
  Scene scene;
  scene.xdp(3, 48505);
  scene.interface(XdpMode::kGeneric);
  scene.redirected(20);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kAfXdp);
  EXPECT_TRUE(has_finding(report, "xdp_generic"));
  EXPECT_EQ(report.tcpdump_rx, Sight::kBlind);
}

TEST(AfXdpRow, ZeroCopyIsSaid) {
  Scene scene;
  scene.xdp(3, 48505);
  scene.interface(XdpMode::kNative);
  scene.facts(48505).xdp_zero_copy = true;
  scene.redirected(20);
  EXPECT_THAT(scene.judge().sockets[0].detail, HasSubstr("zero copy"));
}

TEST(AfXdpRow, WithoutTrafficItIsLikely) {
  Scene scene;
  scene.xdp(3, 48505);
  scene.interface(XdpMode::kNative);
  scene.udp(10, 100);  // an idle kernel socket beside it does not make it mixed
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kAfXdp);
  EXPECT_EQ(report.confidence, Confidence::kLikely);
  EXPECT_FALSE(of_kind(report, "xdp").fell_back);
  EXPECT_EQ(report.fell_back, std::nullopt);
  EXPECT_THAT(report.fell_back_why, HasSubstr("nothing moved"));
}

TEST(AfXdpRow, XdpDiagListsIt) {
  Scene scene;
  scene.xdp(3, 48505);
  scene.evidence.xdp_diag_available = true;
  DiagRow& row = scene.row(48505, DiagFamily::kXdp);
  row.ifindex = Scene::kIfindex;
  row.queue = 2;
  row.zero_copy = false;
  scene.interface(XdpMode::kNative);
  const SocketVerdict socket = scene.judge().sockets[0];
  EXPECT_EQ(socket.ss, Listing::kLists);
  EXPECT_THAT(socket.detail, HasSubstr("queue 2"));
}

TEST(AfXdpRow, OpenButTheKernelCarriesEmptySlot) {
  Scene scene;
  scene.xdp(3, 48505);
  Interface& interface = scene.interface(XdpMode::kNative);
  interface.xdp_maps = {104};
  interface.xdp_maps_known = true;
  scene.udp(10, 100);
  scene.moved(100, 500, 500);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kKernel);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.fell_back, true);
  const SocketVerdict socket = of_kind(report, "xdp");
  EXPECT_TRUE(socket.fell_back);
  EXPECT_EQ(socket.rx.stack, Stack::kKernel);
  EXPECT_EQ(socket.rx.tcpdump, Sight::kSees);
  EXPECT_THAT(socket.rx.why, HasSubstr("slot in the map is empty"));
  EXPECT_THAT(remedy_of(report, kFellBack), HasSubstr("ethtool -l, -x and -n vB"));
}

TEST(AfXdpRow, ThePathLeavesOutWhatCarriesNothing) {
  for (const std::uint64_t sent : {0, 500}) {
    Scene scene;
    scene.xdp(3, 48505);
    Interface& interface = scene.interface(XdpMode::kNative);
    interface.up = true;
    interface.xdp_maps = {104};
    interface.xdp_maps_known = true;
    scene.facts(48505).xdp_ifindex = Scene::kIfindex;
    scene.udp(10, 100);
    scene.moved(100, 500, 500);
    InterfaceTraffic traffic;
    traffic.ifindex = Scene::kIfindex;
    traffic.direct_tx = sent;
    scene.window.interfaces.push_back(traffic);
    const StackReport report = scene.judge();
    ASSERT_EQ(of_kind(report, "xdp").tx.packets, sent);
    EXPECT_EQ(stack_explain(report).find("==>+ AF_XDP (fd 3)") != std::string::npos, sent > 0)
        << stack_explain(report);
  }
}

TEST(AfXdpRow, OpenButNoProgramIsAttached) {
  Scene scene;
  scene.xdp(3, 48505);
  scene.interface(XdpMode::kNone);
  scene.facts(48505).xdp_ifindex = Scene::kIfindex;
  scene.evidence.snmp["Udp.NoPorts"] = Scene::counter(20);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.fell_back, true);
  EXPECT_THAT(of_kind(report, "xdp").rx.why, HasSubstr("no XDP program is attached to vB"));
}

TEST(AfXdpRow, OpenButTheProgramUsesOtherMaps) {
  Scene scene;
  scene.xdp(3, 48505);
  Interface& interface = scene.interface(XdpMode::kNative);
  interface.xdp_maps = {999};
  interface.xdp_maps_known = true;
  scene.facts(48505).xdp_ifindex = Scene::kIfindex;
  scene.udp(10, 100);
  scene.moved(100, 5, 5);
  EXPECT_THAT(of_kind(scene.judge(), "xdp").rx.why, HasSubstr("none of the maps"));
}

TEST(AfXdpRow, RedirectsIntoTheMapsOfOthersAreNotIts) {
  Scene scene;
  scene.xdp(3, 48505);
  scene.interface(XdpMode::kNative);
  scene.redirected(2000, 777);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.confidence, Confidence::kLikely);
  EXPECT_EQ(report.traffic.xdp_redirects, 0u);
}

TEST(AfXdpRow, FailedRedirectsAreNamed) {
  Scene scene;
  scene.xdp(3, 48505);
  scene.interface(XdpMode::kNative);
  scene.redirected(0, 104, 0, 50);
  const StackReport report = scene.judge();
  EXPECT_TRUE(has_finding(report, "redirects_failed"));
  EXPECT_EQ(report.fell_back, true);
}

TEST(AfXdpRow, TwoQueuesAreToldApartByTheSlot) {
  Scene scene;
  scene.xdp(3, 48505);
  scene.xdp(8, 48506);
  scene.interface(XdpMode::kNative);
  for (const std::uint32_t queue : {0u, 1u}) {
    SocketFacts& facts = scene.facts(48505 + queue);
    facts.xdp_ifindex = Scene::kIfindex;
    facts.xdp_queue = queue;
  }
  scene.redirected(300, 104, 0);
  scene.redirected(100, 104, 1);
  const StackReport report = scene.judge();
  ASSERT_EQ(report.sockets.size(), 2u);
  EXPECT_EQ(report.sockets[0].rx.packets, 300u);
  EXPECT_EQ(report.sockets[1].rx.packets, 100u);
  EXPECT_EQ(report.shares[0].packets, 400u);
}

TEST(AfXdpRow, TwoQueuesThatCannotBeToldApartShareTheSum) {
  Scene scene;
  scene.xdp(3, 48505);
  scene.xdp(8, 48506);
  scene.interface(XdpMode::kNative);
  scene.redirected(400);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.sockets[0].rx.packets, std::nullopt);
  EXPECT_EQ(report.shares[0].packets, 400u);
  EXPECT_EQ(report.verdict, Stack::kAfXdp);
}

TEST(AfPacketRow, QdiscBypassHidesOneDirection) {
  Scene scene;
  scene.socket(3, 51855, "PACKET");
  DiagRow& row = scene.row(51855, DiagFamily::kPacket);
  row.rx_ring = row.tx_ring = true;
  row.ifindex = Scene::kIfindex;
  scene.interface();
  scene.moved(51855, 20, 20);
  scene.facts(51855).qdisc_bypass = true;
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kAfPacket);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.sockets[0].rx.tcpdump, Sight::kSees);
  EXPECT_EQ(report.sockets[0].tx.tcpdump, Sight::kBlind);
  EXPECT_THAT(report.sockets[0].tx.why, HasSubstr("PACKET_QDISC_BYPASS"));
  EXPECT_EQ(report.sockets[0].ss, Listing::kLists);
  EXPECT_EQ(report.sockets[0].ss_command, "ss -0anp");
  EXPECT_THAT(report.sockets[0].why_ss, HasSubstr("no inet table"));
}

TEST(AfPacketRow, WhatPassesTheQdiscByIsCountedOnTheInterface) {
  Scene scene;
  scene.socket(3, 51855, "PACKET");
  scene.row(51855, DiagFamily::kPacket).ifindex = Scene::kIfindex;
  scene.facts(51855).qdisc_bypass = true;
  scene.moved(51855, 20, 0);
  EXPECT_EQ(scene.judge().sockets[0].tx.packets, std::nullopt);
  InterfaceTraffic traffic;
  traffic.ifindex = Scene::kIfindex;
  traffic.direct_tx = 19;
  scene.window.interfaces.push_back(traffic);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.sockets[0].tx.packets, 19u);
  EXPECT_THAT(report.sockets[0].detail, testing::Not(HasSubstr("a tap only")));
}

TEST(AfPacketRow, WithoutBypassBothDirectionsAreSeen) {
  Scene scene;
  scene.socket(3, 51855, "PACKET");
  scene.facts(51855).qdisc_bypass = false;
  scene.moved(51855, 20, 20);
  EXPECT_EQ(scene.judge().sockets[0].tx.tcpdump, Sight::kSees);
}

TEST(AfPacketRow, UnknownBypassIsUnknown) {
  Scene scene;
  scene.socket(3, 51855, "PACKET");
  EXPECT_EQ(scene.judge().sockets[0].tx.tcpdump, Sight::kUnknown);
}

TEST(AfPacketRow, ATapOnlyListens) {
  Scene scene;
  scene.socket(3, 51855, "PACKET");
  scene.facts(51855).qdisc_bypass = false;
  scene.moved(51855, 20, 0);
  EXPECT_THAT(scene.judge().sockets[0].detail, HasSubstr("a tap only"));
}

TEST(TunRow, CountsTheInterfaceTheOtherWayRound) {
  Scene scene;
  scene.fd(5, ObjectKind::kTun, "/dev/net/tun").interface = "dtap0";
  Interface& interface = scene.interface(XdpMode::kNone, "dtap0");
  interface.counters.tx_packets = Scene::counter(25);
  interface.counters.rx_packets = Scene::counter(10);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kTun);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.sockets[0].rx.packets, 25u);
  EXPECT_EQ(report.sockets[0].tx.packets, 10u);
}

TEST(TunRow, QueuesOfOneInterfaceAreCountedOnce) {
  Scene scene;
  for (const int number : {3, 4, 5}) {
    scene.fd(number, ObjectKind::kTun, "/dev/net/tun").interface = "dtap0";
  }
  Interface& interface = scene.interface(XdpMode::kNone, "dtap0");
  interface.counters.rx_packets = Scene::counter(900);
  interface.counters.tx_packets = Scene::counter(950);
  InterfaceTraffic traffic;
  traffic.ifindex = Scene::kIfindex;
  traffic.name = "dtap0";
  traffic.receive = 600;
  traffic.tap_tx = 610;
  scene.window.interfaces.push_back(traffic);
  const StackReport report = scene.judge();
  ASSERT_EQ(report.sockets.size(), 1u);
  EXPECT_EQ(report.sockets[0].rx.packets, 610u) << "the window's count, not the device's";
  EXPECT_EQ(report.sockets[0].tx.packets, 600u);
  EXPECT_THAT(report.sockets[0].detail, HasSubstr("3 queues"));
  EXPECT_THAT(report.use_instead, testing::Contains("tcpdump -i dtap0"));
}

TEST(TunRow, UnattachedPassesNothing) {
  Scene scene;
  scene.fd(5, ObjectKind::kTun, "/dev/net/tun");
  EXPECT_EQ(scene.judge().confidence, Confidence::kLikely);
}

TEST(Mixed, SharesAreOfCountedPackets) {
  Scene scene;
  scene.xdp(3, 48505);
  scene.interface(XdpMode::kNative);
  scene.redirected(750);
  scene.udp(10, 100);
  scene.moved(100, 250, 0);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kMixed);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  ASSERT_EQ(report.shares.size(), 2u);
  EXPECT_EQ(report.shares[0].stack, Stack::kAfXdp);
  EXPECT_DOUBLE_EQ(report.shares[0].share.value(), 0.75);
  EXPECT_DOUBLE_EQ(report.shares[1].share.value(), 0.25);
  EXPECT_EQ(report.tcpdump_rx, Sight::kPartly);
}

}  // namespace
}  // namespace whylate::stack
