// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/stack/evidence_builder.h"

namespace whylate::stack {
namespace {

using testing::Contains;
using testing::HasSubstr;

DpdkEvidence dpdk(bool primary = true) {
  DpdkEvidence found;
  found.run_directory = "/run/dpdk/rte";
  found.primary = primary;
  return found;
}

TEST(DpdkRow, VfioIsLikelyAndWithTelemetryCertain) {
  Scene scene;
  scene.fd(7, ObjectKind::kVfioGroup, "/dev/vfio/12");
  scene.fd(8, ObjectKind::kVfioDevice, "anon_inode:[vfio-device]");
  scene.evidence.user_devices.push_back({"0000:3b:00.0", "vfio-pci", "0x020000", false});
  scene.evidence.dpdk = dpdk();
  StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kDpdk);
  EXPECT_EQ(report.confidence, Confidence::kLikely);
  EXPECT_EQ(report.tcpdump_rx, Sight::kBlind);
  EXPECT_EQ(report.sockets.size(), 1u);
  EXPECT_TRUE(report.derived_from_source);

  DpdkPort port;
  port.name = "0000:3b:00.0";
  port.driver = "net_ixgbe";
  port.rx_packets = Scene::counter(5000);
  port.tx_packets = Scene::counter(4000);
  scene.evidence.dpdk->ports.push_back(port);
  scene.evidence.dpdk->telemetry_answered = true;
  report = scene.judge();
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.sockets[0].rx.packets, 5000u);
}

TEST(DpdkRow, UioIsADeviceToo) {
  Scene scene;
  scene.fd(7, ObjectKind::kUio, "/dev/uio0");
  scene.evidence.dpdk = dpdk();
  EXPECT_EQ(scene.judge().verdict, Stack::kDpdk);
}

TEST(DpdkRow, OverAfXdpIsNamedDpdk) {
  Scene scene;
  scene.xdp(20, 48505);
  scene.interface(XdpMode::kNative);
  scene.redirected(20);
  scene.evidence.dpdk = dpdk();
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kDpdk);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.sockets[0].stack, Stack::kAfXdp);
  EXPECT_FALSE(report.derived_from_source);
  EXPECT_THAT(report.headline, HasSubstr("DPDK over AF_XDP"));
}

TEST(DpdkRow, OverAfPacketKeepsTheSightOfThePacketSocket) {
  Scene scene;
  scene.socket(20, 51855, "PACKET");
  scene.facts(51855).qdisc_bypass = true;
  scene.moved(51855, 20, 20);
  scene.evidence.dpdk = dpdk();
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kDpdk);
  EXPECT_EQ(report.tcpdump_rx, Sight::kSees);
  EXPECT_EQ(report.tcpdump_tx, Sight::kBlind);
}

TEST(DpdkRow, OverTap) {
  Scene scene;
  scene.fd(5, ObjectKind::kTun, "/dev/net/tun").interface = "dtap0";
  scene.interface(XdpMode::kNone, "dtap0").counters.tx_packets = Scene::counter(25);
  scene.evidence.dpdk = dpdk();
  EXPECT_EQ(scene.judge().verdict, Stack::kDpdk);
}

TEST(DpdkRow, SecondaryPointsAtItsPrimary) {
  Scene scene;
  scene.evidence.dpdk = dpdk(false);
  scene.evidence.dpdk->primary_pid = 4000;
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kDpdk);
  EXPECT_EQ(report.confidence, Confidence::kLikely);
  EXPECT_THAT(of_kind(report, "dpdk:secondary").detail, HasSubstr("4000"));
}

TEST(DpdkRow, StaticRenamedBinaryIsPossibleByItsThreads) {
  Scene scene;
  scene.evidence.process.comm = "mdgw";
  scene.evidence.process.statically_linked = true;
  scene.thread("rte-worker-1", 200, 1);
  scene.fd(7, ObjectKind::kVfioGroup, "/dev/vfio/12");
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kDpdk);
  EXPECT_EQ(report.confidence, Confidence::kLikely);  // the device is the kernel's object
}

TEST(DpdkRow, OutOfBuffersIsSaid) {
  Scene scene;
  scene.xdp(20, 48505);
  scene.redirected(20);
  scene.evidence.dpdk = dpdk();
  scene.evidence.dpdk->telemetry_answered = true;
  DpdkPort port;
  port.name = "net_af_xdp0";
  port.driver = "net_af_xdp";
  port.rx_no_buffer = Scene::counter(4900);
  scene.evidence.dpdk->ports.push_back(port);
  EXPECT_TRUE(has_finding(scene.judge(), "dpdk_no_buffers"));
}

TEST(DpdkRow, NoPortIsSaid) {
  Scene scene;
  scene.evidence.dpdk = dpdk();
  scene.evidence.dpdk->telemetry_answered = true;
  EXPECT_TRUE(has_finding(scene.judge(), "dpdk_without_ports"));
}

TEST(DpdkRow, BifurcatedKeepsItsNetdev) {
  Scene scene;
  scene.fd(7, ObjectKind::kUverbs, "/dev/infiniband/uverbs0");
  scene.evidence.rdma.emplace();
  scene.evidence.rdma->resources.push_back({"mlx5_0", "qp", "RAW_PACKET", 17});
  scene.evidence.dpdk = dpdk();
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kDpdk);
  EXPECT_THAT(report.sockets[0].detail, HasSubstr("netdev stays"));
}

TEST(UserDriverRow, WithoutMarksItIsNotCalledDpdk) {
  Scene scene;
  scene.fd(7, ObjectKind::kVfioGroup, "/dev/vfio/12");
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kUserDriver);
  EXPECT_THAT(report.sockets[0].detail, HasSubstr("SPDK"));
}

TEST(UserDriverRow, StorageIsNoNetwork) {
  Scene scene;
  scene.fd(7, ObjectKind::kVfioGroup, "/dev/vfio/12");
  scene.evidence.user_devices.push_back({"0000:01:00.0", "vfio-pci", "0x010802", false});
  scene.udp(3, 100);
  scene.moved(100, 5, 5);
  EXPECT_EQ(scene.judge().verdict, Stack::kKernel);
}

TEST(VppRow, DaemonOverAfXdp) {
  Scene scene;
  scene.thread("vpp_main", 200, 1);
  scene.thread("vpp_wk_0", 200, 1);
  scene.xdp(20, 48505);
  scene.redirected(20);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kVpp);
  EXPECT_EQ(report.confidence, Confidence::kLikely);
  EXPECT_TRUE(report.derived_from_source);
}

TEST(VppRow, ApplicationFollowsItsUnixPeer) {
  Scene scene;
  scene.library(LibraryKind::kVppSession, "/usr/lib/libvcl_ldpreload.so");
  scene.socket(3, 100, "UNIX");
  DiagRow& row = scene.row(100, DiagFamily::kUnix);
  row.remote = "/run/vpp/app_ns_sockets/default";
  row.peer_pid = 900;
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kVpp);
  EXPECT_THAT(of_kind(report, "vpp:session").detail, HasSubstr("-p 900"));
}

TEST(FStackRow, DpdkWithItsMarks) {
  Scene scene;
  scene.fd(7, ObjectKind::kVfioGroup, "/dev/vfio/12");
  scene.evidence.dpdk = dpdk();
  scene.library(LibraryKind::kFStack, "/srv/app");
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kFStack);
  EXPECT_THAT(report.use_instead, Contains("ff_netstat"));
}

}  // namespace
}  // namespace whylate::stack
