// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/stack_json.h"
#include "report/stack_text.h"
#include "unit/stack/evidence_builder.h"

namespace whylate::stack {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;

TEST(FalseFriend, LibrariesMappedButUnused) {
  Scene scene;
  scene.library(LibraryKind::kDpdk, "/usr/lib/librte_eal.so.23");
  scene.library(LibraryKind::kVerbs, "/usr/lib/libibverbs.so.1");
  scene.library(LibraryKind::kVerbs, "/usr/lib/libmlx5.so.1", false);
  scene.library(LibraryKind::kXdp, "/usr/lib/libxdp.so.1");
  scene.library(LibraryKind::kEfVi, "/usr/lib/libciul.so.1");
  scene.udp(3, 100);
  scene.moved(100, 10, 10);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kKernel);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.fell_back, std::nullopt);
  EXPECT_FALSE(has_finding(report, "name_only"));
}

TEST(FalseFriend, LibrariesAloneNeverGetBeyondPossible) {
  Scene scene;
  for (const LibraryKind kind :
       {LibraryKind::kOnload, LibraryKind::kVma, LibraryKind::kXlio, LibraryKind::kExasock,
        LibraryKind::kDpdk, LibraryKind::kTcpDirect, LibraryKind::kVppSession}) {
    scene.library(kind, "/usr/lib/some.so");
  }
  scene.preload("libonload.so");
  scene.thread("rte-worker-1", 200, 0);
  scene.udp(3, 100);
  const StackReport report = scene.judge();
  for (const SocketVerdict& socket : report.sockets) {
    EXPECT_FALSE(traits(socket.stack).bypass && socket.confidence > Confidence::kPossible);
  }
  EXPECT_EQ(report.verdict, Stack::kKernel);
}

TEST(FalseFriend, StaticProgramIgnoresThePreload) {
  Scene scene;
  scene.preload("/usr/lib/libonload.so");
  scene.evidence.process.statically_linked = true;
  scene.udp(3, 100);
  scene.moved(100, 10, 10);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kKernel);
  EXPECT_EQ(report.fell_back, true);
  EXPECT_THAT(report.fell_back_why, HasSubstr("linked statically"));
  EXPECT_EQ(remedy_of(report, kFellBack), "link the program dynamically");
}

TEST(FalseFriend, SetuidProgramIgnoresThePreload) {
  Scene scene;
  scene.preload("libvma.so");
  scene.evidence.process.secure_exec = true;
  scene.udp(3, 100);
  scene.moved(100, 10, 10);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.fell_back, true);
  EXPECT_THAT(report.fell_back_why, HasSubstr("AT_SECURE"));
}

TEST(FalseFriend, ShimThatOnlyCarriesTheNameOfOnload) {
  Scene scene;
  scene.preload("/tmp/libonload.so");
  scene.library(LibraryKind::kOnload, "/tmp/libonload.so", false);
  scene.udp(3, 100);
  scene.moved(100, 10, 10);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kKernel);
  EXPECT_EQ(report.confidence, Confidence::kCertain);
  EXPECT_EQ(report.fell_back, std::nullopt);
  EXPECT_FALSE(report.sockets[0].fell_back);
  EXPECT_TRUE(has_finding(report, "name_only"));
}

TEST(FalseFriend, RenamedRealLibraryCounts) {
  Scene scene;
  Library& library = scene.library(LibraryKind::kOnload, "/opt/x/libfast.so");
  library.name_matches = false;
  library.soname = "libcitransport0.so";
  scene.udp(3, 100);
  scene.moved(100, 10, 10);
  EXPECT_EQ(scene.judge().fell_back, true);
}

TEST(FalseFriend, StubsAreNoAccelerators) {
  Scene scene;
  scene.library(LibraryKind::kOnloadExt, "/usr/lib/libonload_ext.so.1");
  scene.udp(3, 100);
  scene.moved(100, 10, 10);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.fell_back, std::nullopt);
  EXPECT_TRUE(has_finding(report, "stub_only"));
}

TEST(FalseFriend, InheritedAfXdpSocketWithoutMappedRings) {
  Scene scene;
  scene.socket(3, 48505, "XDP").shared_with_others = true;
  scene.fd(4, ObjectKind::kBpfMap, "anon_inode:bpf-map").bpf = BpfObject{17, 104};
  scene.interface(XdpMode::kNative);
  scene.redirected(2000);
  const StackReport report = scene.judge();
  const SocketVerdict socket = of_kind(report, "xdp");
  EXPECT_EQ(socket.confidence, Confidence::kPossible);
  EXPECT_THAT(socket.detail, HasSubstr("maps none of its rings"));
  EXPECT_NE(report.confidence, Confidence::kCertain);
}

TEST(FalseFriend, SharedKernelSocketIsSaid) {
  Scene scene;
  scene.udp(3, 100);
  scene.evidence.fds[0].shared_with_others = true;
  scene.moved(100, 10, 10);
  EXPECT_THAT(scene.judge().sockets[0].detail, HasSubstr("another process holds it"));
}

TEST(FalseFriend, ContainerIsSeenFromItsOwnNamespace) {
  Scene scene;
  scene.evidence.process.other_net_namespace = true;
  scene.evidence.process.nspid = {Scene::kPid, 7};
  ExasockEvidence exasock;
  exasock.family_registered = true;
  exasock.sockets.push_back({7, 3, "", ""});  // the inner pid
  scene.evidence.exasock = exasock;
  scene.udp(3, 100);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.sockets[0].stack, Stack::kExasock);
  EXPECT_TRUE(has_finding(report, "other_namespace"));
}

TEST(FalseFriend, RegularFileCalledLikeTheDevice) {
  Scene scene;
  scene.fd(5, ObjectKind::kOther, "/dev/sfc_char");
  scene.fd(6, ObjectKind::kOther, "/tmp/onload:[tcp:1:2]");
  EXPECT_EQ(scene.judge().verdict, Stack::kNone);
}

TEST(FalseFriend, SpinningAloneProvesNothing) {
  Scene scene;
  scene.thread("spinner", 200, 0);
  scene.udp(3, 100);
  scene.moved(100, 10, 10);
  const StackReport report = scene.judge();
  EXPECT_EQ(report.verdict, Stack::kKernel);
  EXPECT_TRUE(has_finding(report, "spinning"));
}

TEST(FalseFriend, ThreadNamesAloneProveNothing) {
  Scene scene;
  scene.thread("rte-worker-1", 200, 0);
  scene.thread("vpp_main", 200, 0);
  scene.udp(3, 100);
  scene.moved(100, 10, 10);
  EXPECT_EQ(scene.judge().verdict, Stack::kKernel);
}

TEST(FalseFriend, OpenSfcDeviceWithoutMappedRings) {
  Scene scene;
  scene.fd(5, ObjectKind::kSfcChar, "/dev/sfc_char");
  EXPECT_EQ(scene.judge().confidence, Confidence::kPossible);
}

TEST(HostileNames, ControlCharactersNeverReachTheOutput) {
  Scene scene;
  const std::string evil = "a\x1b[2J\r\n\x07\xff";
  scene.evidence.process.comm = evil;
  scene.preload("/tmp/" + evil + "/libonload.so");
  scene.library(LibraryKind::kOnload, "/tmp/" + evil + "/libonload.so");
  scene.library(LibraryKind::kVma, evil, false);
  scene.fd(5, ObjectKind::kTun, "/dev/net/tun").interface = evil;
  scene.fd(6, ObjectKind::kOnloadSocket, "onload:[" + evil + ":3:1]");
  scene.fd(7, ObjectKind::kVfioGroup, evil);
  scene.interface(XdpMode::kNative, evil).up = true;
  scene.evidence.interfaces[0].counters.rx_packets = Scene::counter(5);
  scene.socket(8, 200, evil);
  scene.udp(3, 100, evil);
  scene.moved(100, 10, 10);
  scene.thread(evil, 200, 0);
  scene.evidence.could_not_read.push_back({evil, evil, evil});
  scene.evidence.dpdk.emplace();
  scene.evidence.dpdk->run_directory = evil;
  const StackReport report = scene.judge();
  const std::string json = stack_to_json(report).dump();
  for (const std::string& text : {stack_to_text(report) + stack_explain(report), json}) {
    for (const char c : text) {
      ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << "byte " << static_cast<int>(c);
    }
  }
}

TEST(Scale, TenThousandSocketsAreJudgedAtOnce) {
  Scene scene;
  scene.library(LibraryKind::kOnload, "/usr/lib/libonload.so");
  for (int i = 0; i < 10'000; ++i) {
    scene.tcp(i + 3, static_cast<std::uint64_t>(1000 + i), "127.0.0.1:9000");
    scene.moved(static_cast<std::uint64_t>(1000 + i), 1, 1);
  }
  const StackReport report = scene.judge();
  EXPECT_EQ(report.sockets.size(), 10'000u);
  EXPECT_EQ(report.shares[0].packets, 20'000u);
  EXPECT_LT(report.findings.size(), 20u);
}

TEST(Table, EveryStackHasItsTraits) {
  for (int i = 0; i <= static_cast<int>(Stack::kRdma); ++i) {
    const StackTraits& row = traits(static_cast<Stack>(i));
    EXPECT_EQ(static_cast<int>(row.stack), i);
    EXPECT_NE(std::string(row.why_rx), "");
    EXPECT_NE(std::string(row.why_ss), "");
    EXPECT_FALSE(row.bypass && std::string(row.use_instead).empty()) << row.name;
  }
}

}  // namespace
}  // namespace whylate::stack
