// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/stack/evidence_builder.h"

namespace whylate::stack {
namespace {

using testing::Contains;
using testing::HasSubstr;

OnloadEvidence onload_stack(std::uint64_t rx, std::uint64_t tx) {
  OnloadEvidence found;
  found.module_loaded = true;
  OnloadStack stack;
  stack.id = 3;
  stack.rx_events = Scene::counter(rx);
  stack.tx_events = Scene::counter(tx);
  found.stacks.push_back(stack);
  return found;
}

TEST(OnloadRow, AcceleratedAndMoving) {
  Scene scene;
  scene.fd(5, ObjectKind::kOnloadSocket, "onload:[stack:3]");
  scene.fd(6, ObjectKind::kOnloadSocket, "onload:[tcp:3:17]");
  scene.evidence.onload = onload_stack(900, 800);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kOnload);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.fell_back, false);
  EXPECT_TRUE(report.derived_from_source);
  EXPECT_EQ(report.sockets.size(), 1u);
  EXPECT_EQ(report.sockets[0].kind, "onload:tcp");
  EXPECT_EQ(report.sockets[0].rx.packets, 900u);
  EXPECT_EQ(report.sockets[0].ss, Listing::kShadow);
  EXPECT_THAT(report.use_instead, Contains("onload_stackdump lots"));
}

TEST(OnloadRow, SilentStackIsLikely) {
  Scene scene;
  scene.fd(6, ObjectKind::kOnloadSocket, "onload:[udp:3:17]");
  scene.evidence.onload = onload_stack(0, 0);
  EXPECT_EQ(scene.judge().confidence, Confidence::kLikely);
}

TEST(OnloadRow, EventsOfAStackAreNotDividedAmongSockets) {
  Scene scene;
  scene.fd(6, ObjectKind::kOnloadSocket, "onload:[tcp:3:17]");
  scene.fd(7, ObjectKind::kOnloadSocket, "onload:[tcp:3:18]");
  scene.evidence.onload = onload_stack(900, 800);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.sockets[0].rx.packets, std::nullopt);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
}

TEST(OnloadRow, HandedOverButBehindItsFile) {
  Scene scene;
  scene.fd(6, ObjectKind::kOnloadSocket, "onload:[os_sock:3:17]");
  const StackReport report = scene.judge();
  EXPECT_EQ(report.sockets[0].stack, Stack::kKernel);
  EXPECT_TRUE(report.sockets[0].fell_back);
  EXPECT_EQ(report.fell_back, true);
}

TEST(OnloadRow, FellBackToAPlainSocket) {
  Scene scene;
  scene.library(LibraryKind::kOnload, "/usr/lib/libonload.so");
  scene.preload("libonload.so");
  scene.udp(3, 100);
  scene.moved(100, 2000, 2000);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kKernel);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.fell_back, true);
  EXPECT_TRUE(report.sockets[0].fell_back);
}

TEST(OnloadRow, SomeAcceleratedLaterOnesKernel) {
  Scene scene;
  scene.library(LibraryKind::kOnload, "/usr/lib/libonload.so");
  scene.fd(6, ObjectKind::kOnloadSocket, "onload:[tcp:3:17]");
  scene.evidence.onload = onload_stack(300, 0);
  scene.tcp(7, 100);
  scene.moved(100, 100, 0);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kMixed);
  EXPECT_EQ(report.fell_back, true);
  EXPECT_EQ(report.shares[0].stack, Stack::kOnload);
  EXPECT_DOUBLE_EQ(report.shares[0].share.value(), 0.75);
}

TEST(OnloadRow, ByConfigurationIsNoFallBack) {
  Scene scene;
  scene.library(LibraryKind::kOnload, "/usr/lib/libonload.so");
  scene.evidence.process.environment.push_back("EF_DONT_ACCELERATE=1");
  scene.udp(3, 100);
  scene.moved(100, 20, 20);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.fell_back, false);
  EXPECT_TRUE(has_finding(report, "kernel_by_configuration"));
}

TEST(OnloadRow, LoopbackIsNoFallBack) {
  Scene scene;
  scene.library(LibraryKind::kOnload, "/usr/lib/libonload.so");
  scene.udp(3, 100, "127.0.0.1:9000");
  scene.moved(100, 20, 20);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.fell_back, false);
  EXPECT_TRUE(has_finding(report, "kernel_by_route"));
}

TEST(OnloadRow, PresentAndUnused) {
  Scene scene;
  scene.library(LibraryKind::kOnload, "/usr/lib/libonload.so");
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kNone);
  EXPECT_TRUE(has_finding(report, "loaded_not_used"));
}

TEST(TcpDirectRow, NeedsBothDevices) {
  Scene scene;
  scene.fd(5, ObjectKind::kSfcChar, "/dev/sfc_char");
  scene.fd(6, ObjectKind::kOnloadDevice, "/dev/onload");
  MapEntry map;
  map.kind = ObjectKind::kSfcChar;
  scene.evidence.maps.push_back(map);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kTcpDirect);
  EXPECT_EQ(report.confidence, Confidence::kLikely);
  EXPECT_EQ(report.tcpdump_tx, Sight::kBlind);
}

TEST(EfViRow, OneDeviceAlone) {
  Scene scene;
  scene.fd(5, ObjectKind::kSfcChar, "/dev/sfc_char");
  MapEntry map;
  map.kind = ObjectKind::kSfcChar;
  scene.evidence.maps.push_back(map);
  EXPECT_EQ(scene.judge().verdict, Stack::kEfVi);
}

TEST(ExasockRow, ListedByItsNetlinkFamily) {
  Scene scene;
  scene.library(LibraryKind::kExasock, "/usr/lib/libexasock_preload.so");
  scene.udp(3, 100);
  scene.fd(4, ObjectKind::kExasock, "/dev/exasock");
  scene.fd(5, ObjectKind::kExasock, "/dev/exasock");
  ExasockEvidence exasock;
  exasock.module_loaded = exasock.family_registered = true;
  exasock.sockets.push_back({Scene::kPid, 3, "", ""});
  scene.evidence.exasock = exasock;
  EXPECT_EQ(scene.judge().confidence, Confidence::kLikely);

  Interface& card = scene.interface();
  card.driver = "exanic";
  card.counters.rx_packets = Scene::counter(2000);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kExasock);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.sockets[0].ss, Listing::kShadow);
}

TEST(ExasockRow, NativeSocketThatMovesFellBack) {
  Scene scene;
  scene.library(LibraryKind::kExasock, "/usr/lib/libexasock_preload.so");
  scene.fd(4, ObjectKind::kExasock, "/dev/exasock");
  scene.udp(3, 100);
  scene.moved(100, 10, 10);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kKernel);
  EXPECT_EQ(report.fell_back, true);
}

OffloadStats offload(bool xlio, std::uint64_t inode, bool offloaded, std::uint64_t packets,
                     std::uint64_t os) {
  OffloadStats stats;
  stats.xlio = xlio;
  stats.version_known = true;
  OffloadSocket socket;
  socket.fd = 3;
  socket.inode = inode;
  socket.offloaded = offloaded;
  socket.offloaded_rx_packets = Scene::counter(packets);
  socket.offloaded_tx_packets = Scene::counter(packets);
  socket.os_rx_packets = Scene::counter(os);
  socket.os_tx_packets = Scene::counter(0);
  stats.sockets.push_back(socket);
  return stats;
}

TEST(VmaRow, OffloadedWithAHealthyLookingSsLine) {
  Scene scene;
  scene.library(LibraryKind::kVma, "/usr/lib/libvma.so");
  scene.fd(7, ObjectKind::kUverbs, "/dev/infiniband/uverbs0");
  scene.udp(3, 100);
  scene.evidence.offload_stats.push_back(offload(false, 100, true, 600, 0));
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kVma);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.fell_back, false);
  EXPECT_EQ(report.sockets[0].ss, Listing::kShadow);
  EXPECT_EQ(report.sockets[0].rx.tcpdump, Sight::kBlind);
}

TEST(VmaRow, NotOffloadedFellBack) {
  Scene scene;
  scene.library(LibraryKind::kVma, "/usr/lib/libvma.so");
  scene.fd(7, ObjectKind::kUverbs, "/dev/infiniband/uverbs0");
  scene.udp(3, 100);
  scene.moved(100, 600, 600);
  scene.evidence.offload_stats.push_back(offload(false, 100, false, 0, 600));
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kKernel);
  EXPECT_EQ(report.fell_back, true);
}

TEST(VmaRow, StatisticsWithoutADeviceProveNothing) {
  Scene scene;
  scene.udp(3, 100);
  scene.evidence.offload_stats.push_back(offload(false, 100, true, 600, 0));
  EXPECT_EQ(scene.judge().confidence, Confidence::kPossible);
}

TEST(VmaRow, WithoutStatisticsASilentSocketIsOnlyPossible) {
  Scene scene;
  scene.library(LibraryKind::kVma, "/usr/lib/libvma.so");
  scene.fd(7, ObjectKind::kUverbs, "/dev/infiniband/uverbs0");
  scene.udp(3, 100);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.sockets[0].stack, Stack::kVma);
  EXPECT_EQ(report.sockets[0].confidence, Confidence::kPossible);
  EXPECT_EQ(report.sockets[0].rx.tcpdump, Sight::kUnknown);
}

TEST(XlioRow, AcceptedConnectionIsAnEpollDescriptor) {
  Scene scene;
  scene.library(LibraryKind::kXlio, "/usr/lib/libxlio.so");
  scene.fd(7, ObjectKind::kUverbs, "/dev/infiniband/uverbs0");
  scene.fd(8, ObjectKind::kInfinibandEvent, "anon_inode:[infinibandevent]");
  scene.fd(9, ObjectKind::kEventPoll, "anon_inode:[eventpoll]").epoll_fds = {8};
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kXlio);
  EXPECT_EQ(report.confidence, Confidence::kLikely);
  EXPECT_EQ(of_kind(report, "xlio:accepted").ss, Listing::kHides);
}

TEST(XlioRow, OrdinaryEpollIsNone) {
  Scene scene;
  scene.library(LibraryKind::kXlio, "/usr/lib/libxlio.so");
  scene.udp(3, 100);
  scene.fd(9, ObjectKind::kEventPoll, "anon_inode:[eventpoll]").epoll_fds = {3};
  EXPECT_TRUE(of_kind(scene.judge(), "xlio:accepted").kind.empty());
}

TEST(XlioRow, OffloadedByStatistics) {
  Scene scene;
  scene.library(LibraryKind::kXlio, "/usr/lib/libxlio.so");
  scene.fd(7, ObjectKind::kUverbs, "/dev/infiniband/uverbs0");
  scene.tcp(3, 100);
  scene.evidence.offload_stats.push_back(offload(true, 100, true, 10, 0));
  EXPECT_EQ(scene.judge().verdict, Stack::kXlio);
}

TEST(RdmaRow, QueuePairsOfThisProcess) {
  Scene scene;
  scene.fd(7, ObjectKind::kUverbs, "/dev/infiniband/uverbs0");
  scene.evidence.rdma.emplace();
  scene.evidence.rdma->resources.push_back({"mlx5_0", "qp", "RC", 21});
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kRdma);
  EXPECT_EQ(report.confidence, Confidence::kLikely);
}

TEST(RdmaRow, RawPacketPairsAloneAreOnlyPossible) {
  Scene scene;
  scene.fd(7, ObjectKind::kUverbs, "/dev/infiniband/uverbs0");
  scene.evidence.rdma.emplace();
  scene.evidence.rdma->resources.push_back({"mlx5_0", "qp", "RAW_PACKET", 21});
  EXPECT_EQ(scene.judge().confidence, Confidence::kPossible);
}

TEST(RdmaRow, OpenDeviceWithoutQueuePairs) {
  Scene scene;
  scene.fd(7, ObjectKind::kUverbs, "/dev/infiniband/uverbs0");
  scene.evidence.rdma.emplace();
  scene.tcp(3, 100);
  scene.moved(100, 10, 10);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kKernel);
}

}  // namespace
}  // namespace whylate::stack
