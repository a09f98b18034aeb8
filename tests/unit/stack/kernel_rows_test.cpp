// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/stack/evidence_builder.h"

namespace whylate::stack {
namespace {

using testing::HasSubstr;

TEST(KernelRow, MovingPacketsMakeItCertain) {
  Scene scene;
  scene.udp(3, 100);
  scene.moved(100, 2000, 2000);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kKernel);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.fell_back, std::nullopt);
  EXPECT_FALSE(report.derived_from_source);
  ASSERT_EQ(report.sockets.size(), 1u);
  EXPECT_EQ(report.sockets[0].rx.tcpdump, Sight::kSees);
  EXPECT_EQ(report.sockets[0].tx.tcpdump, Sight::kSees);
  EXPECT_EQ(report.sockets[0].ss, Listing::kLists);
  EXPECT_EQ(report.tcpdump_rx, Sight::kSees);
  EXPECT_EQ(report.ss_listed, 1u);
  EXPECT_EQ(report.traffic.kernel_rx_packets, 2000u);
  ASSERT_EQ(report.shares.size(), 1u);
  EXPECT_DOUBLE_EQ(report.shares[0].share.value(), 1.0);
}

TEST(KernelRow, WithoutTrafficItIsLikelyOnly) {
  Scene scene;
  scene.udp(3, 100);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kKernel);
  EXPECT_EQ(report.confidence, Confidence::kLikely);
  EXPECT_EQ(report.shares[0].share, std::nullopt);
}

TEST(KernelRow, TcpInfoCountsWhereTracepointsDidNot) {
  Scene scene;
  scene.window.counting = false;
  DiagRow& row = scene.tcp(5, 200);
  row.tcp.emplace();
  row.tcp->segs_in = Scene::counter(40);
  row.tcp->segs_out = Scene::counter(39);
  row.tcp->bytes_received = Scene::counter(4000);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.sockets[0].rx.packets, 40u);
  EXPECT_EQ(report.sockets[0].rx.bytes, 4000u);
}

TEST(KernelRow, UncountedUdpIsUnknownAndNotZero) {
  Scene scene;
  scene.window.counting = false;
  scene.udp(3, 100);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.sockets[0].rx.packets, std::nullopt);
  EXPECT_EQ(report.traffic.kernel_rx_packets, std::nullopt);
  EXPECT_EQ(report.confidence, Confidence::kLikely);
  EXPECT_THAT(report.headline, HasSubstr("could not be counted"));
}

TEST(KernelRow, LostEventsLeaveSilentSocketsUnknown) {
  Scene scene;
  scene.window.lost = 3;
  scene.udp(3, 100);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.sockets[0].rx.packets, std::nullopt);
  EXPECT_TRUE(has_finding(report, "counts_incomplete"));
}

TEST(KernelRow, DuplicatedDescriptorsAreOneSocket) {
  Scene scene;
  scene.udp(3, 100);
  scene.socket(9, 100, "UDP");
  EXPECT_EQ(scene.judge().sockets.size(), 1u);
}

TEST(KernelRow, BoundInactiveTcpIsHiddenFromPlainSs) {
  Scene scene;
  scene.tcp(3, 100).state = 13;
  const StackReport report = scene.judge();
  EXPECT_EQ(report.sockets[0].ss, Listing::kHides);
  EXPECT_THAT(report.sockets[0].why_ss, HasSubstr("bound"));
}

TEST(KernelRow, UnboundSocketIsInNoTable) {
  Scene scene;
  scene.socket(3, 100, "UDP");
  const StackReport report = scene.judge();
  EXPECT_EQ(report.sockets[0].ss, Listing::kHides);
  EXPECT_THAT(report.sockets[0].why_ss, HasSubstr("neither bound nor connected"));
}

TEST(KernelRow, Ipv6NamesAreTheSameProtocol) {
  Scene scene;
  scene.socket(3, 100, "TCPv6");
  EXPECT_EQ(scene.judge().sockets[0].kind, "tcp");
}

TEST(BusyPollRow, EffectiveWithANapiId) {
  Scene scene;
  scene.udp(3, 100);
  scene.moved(100, 10, 10);
  SocketFacts& facts = scene.facts(100);
  facts.busy_poll_us = 50;
  facts.napi_id = 8193;
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kKernelBusyPoll);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_FALSE(has_finding(report, "busy_poll_without_effect"));
}

TEST(BusyPollRow, SetButNotEffectiveWithoutANapiId) {
  Scene scene;
  scene.udp(3, 100);
  scene.moved(100, 10, 10);
  SocketFacts& facts = scene.facts(100);
  facts.busy_poll_us = 50;
  facts.napi_id = 0;
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kKernel);
  EXPECT_TRUE(has_finding(report, "busy_poll_without_effect"));
}

TEST(BusyPollRow, SetOnTheEpollInstance) {
  Scene scene;
  scene.udp(3, 100);
  scene.moved(100, 10, 10);
  scene.fd(4, ObjectKind::kEventPoll, "anon_inode:[eventpoll]").epoll_fds = {3};
  scene.window.epolls.push_back({4, 64, 16, true});
  scene.facts(100).napi_id = 8193;
  EXPECT_EQ(scene.judge().verdict, Stack::kKernelBusyPoll);
}

TEST(IoUringRow, DirectDescriptorIsNoBypass) {
  Scene scene;
  scene.fd(3, ObjectKind::kIoUring, "anon_inode:[io_uring]");
  IoUring ring;
  ring.fd = 3;
  ring.sq_thread = 4712;
  ring.registered_sockets = {192612};
  scene.evidence.rings.push_back(ring);
  DiagRow& row = scene.row(192612, DiagFamily::kInet, "10.0.0.1:9002");
  row.protocol = 6;
  row.state = 10;
  scene.evidence.orphans = {192612};
  scene.moved(192612, 30, 30);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kIoUring);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  ASSERT_EQ(report.sockets.size(), 1u);
  EXPECT_EQ(report.sockets[0].fd, std::nullopt);
  EXPECT_EQ(report.sockets[0].ss, Listing::kLists);
  EXPECT_THAT(report.sockets[0].why_ss, HasSubstr("without a process"));
  EXPECT_EQ(report.tcpdump_rx, Sight::kSees);
}

TEST(SmcRow, CarriedBySmc) {
  Scene scene;
  scene.socket(3, 100, "SMC");
  scene.evidence.smc.push_back({100, false, "SMCR"});
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kSmc);
  EXPECT_EQ(report.confidence, Confidence::kLikely);
  EXPECT_EQ(report.tcpdump_rx, Sight::kBlind);
  EXPECT_TRUE(report.derived_from_source);
}

TEST(SmcRow, FellBackToTcp) {
  Scene scene;
  scene.socket(3, 100, "SMC");
  scene.evidence.smc.push_back({100, true, "TCP"});
  const StackReport report = scene.judge();
  EXPECT_EQ(report.sockets[0].stack, Stack::kKernel);
  EXPECT_EQ(report.fell_back, true);
}

TEST(MptcpRow, IsNamed) {
  Scene scene;
  scene.socket(3, 100, "MPTCP");
  scene.row(100, DiagFamily::kInet, "10.0.0.1:80").protocol = 262;
  scene.moved(100, 5, 5);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kMptcp);
  EXPECT_EQ(report.tcpdump_rx, Sight::kSees);
}

TEST(MptcpRow, SubflowsAreItsPackets) {
  Scene scene;
  scene.socket(3, 100, "MPTCP");
  for (int i = 0; i < 2; ++i) {
    DiagRow& subflow = scene.row(100, DiagFamily::kInet, "10.0.0.1:9000");
    subflow.protocol = 6;
    subflow.state = 1;
    subflow.tcp.emplace();
    subflow.tcp->segs_in = Scene::counter(30);
    subflow.tcp->segs_out = Scene::counter(20);
  }
  scene.row(100, DiagFamily::kInet, "10.0.0.1:9000").protocol = 262;
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kMptcp);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.sockets.at(0).rx.packets, 60u);
  EXPECT_EQ(report.sockets.at(0).tx.packets, 40u);
  EXPECT_EQ(report.sockets.at(0).ss_command, "ss -Manp");
}

TEST(MptcpRow, WithoutItsSubflowsItIsUncountedAndNotZero) {
  Scene scene;
  scene.socket(3, 100, "MPTCP");
  const StackReport report = scene.judge();
  EXPECT_FALSE(report.sockets.at(0).rx.packets);
  EXPECT_FALSE(report.sockets.at(0).tx.packets);
}

TEST(NoRow, ProcessWithoutSockets) {
  Scene scene;
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kNone);
  EXPECT_TRUE(report.sockets.empty());
}

TEST(NoRow, UnreadableDescriptorsAreUnknownAndNotNone) {
  Scene scene;
  scene.evidence.could_not_read.push_back({"/proc/4711/fd", "CAP_SYS_PTRACE is missing", "all"});
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kUnknown);
  EXPECT_EQ(report.confidence, Confidence::kUnknown);
}

TEST(NoRow, UnixAndNetlinkSocketsAreNotJudged) {
  Scene scene;
  scene.socket(3, 100, "UNIX");
  scene.socket(4, 101, "NETLINK");
  const StackReport report = scene.judge();
  EXPECT_TRUE(report.sockets.empty());
  EXPECT_EQ(report.unix_sockets, 1u);
  EXPECT_EQ(report.other_sockets, 1u);
  EXPECT_EQ(report.verdict, Stack::kNone);
}

}  // namespace
}  // namespace whylate::stack
