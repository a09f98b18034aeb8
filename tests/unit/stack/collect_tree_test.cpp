// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A process as a tree of files: what is not on this machine, from captures and from sources.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "stack/collect.h"
#include "stack/collect/libraries.h"
#include "unit/host/temp_tree.h"

namespace whylate::stack {
namespace {

using ::testing::ElementsAre;

class CollectTree : public ::testing::Test {
 protected:
  static constexpr int kPid = 12;
  const std::string base_ = "/proc/12";

  CollectTree() {
    test::add_process(tree_, kPid, "server");
    tree_.write(base_ + "/maps", "");
    tree_.write(base_ + "/environ", "");
    tree_.write(base_ + "/cmdline", std::string("server\0-v\0", 10));
    tree_.write(base_ + "/net/snmp", "");
    tree_.write(base_ + "/net/protocols", "");
    std::filesystem::create_directories(tree_.root() + base_ + "/fd");
    std::filesystem::create_directories(tree_.root() + base_ + "/task/12/fd");
  }

  void add_fd(int fd, const std::string& link, const std::string& fdinfo = "") {
    const std::string name = std::to_string(fd);
    std::filesystem::create_symlink(link, tree_.root() + base_ + "/task/12/fd/" + name);
    if (!fdinfo.empty()) tree_.write(base_ + "/task/12/fdinfo/" + name, fdinfo);
  }

  Evidence collect() {
    Result<Evidence> evidence = collect_evidence(kPid, HostRoot{tree_.root()}, CollectOptions{});
    EXPECT_TRUE(evidence.ok()) << evidence.error().message;
    return std::move(*evidence);
  }

  test::TempTree tree_;
};

TEST_F(CollectTree, AnAfXdpProcessAsItWasCaptured) {
  add_fd(3, "socket:[48505]");
  add_fd(7, "anon_inode:bpf-prog", "prog_type:\t6\nprog_tag:\tdc1bcff258c01244\nprog_id:\t603\n");
  add_fd(11, "anon_inode:bpf-map", "map_type:\t17\nkey_size:\t4\nmax_entries:\t2\nmap_id:\t104\n");
  tree_.write(base_ + "/maps",
              "7f1000000000-7f1000009000 rw-s 80000000 00:08 48505                      "
              "socket:[48505]\n"
              "7f1000010000-7f1000019000 rw-s 00000000 00:08 48505                      "
              "socket:[48505]\n"
              "7f1000020000-7f1000029000 rw-s 180000000 00:08 48505                     "
              "socket:[48505]\n"
              "7f1000030000-7f1000039000 rw-s 100000000 00:08 48505                     "
              "socket:[48505]\n"
              "7f1000040000-7f1000049000 rw-p 00000000 00:00 0 \n");
  tree_.write(base_ + "/net/protocols", "XDP 1088 1 -1 NI 0 no kernel n\n");
  const Evidence evidence = collect();
  ASSERT_EQ(evidence.fds.size(), 3u);
  EXPECT_EQ(evidence.fds[0].kind, ObjectKind::kSocket);
  EXPECT_EQ(evidence.fds[0].inode, 48505u);
  EXPECT_EQ(evidence.fds[1].kind, ObjectKind::kBpfProgram);
  EXPECT_EQ(evidence.fds[2].kind, ObjectKind::kBpfMap);
  ASSERT_TRUE(evidence.fds[2].bpf);
  EXPECT_EQ(evidence.fds[2].bpf->type, 17u);
  ASSERT_EQ(evidence.maps.size(), 4u);
  EXPECT_EQ(evidence.maps[0].offset, 0x80000000u);
  EXPECT_EQ(evidence.maps[2].offset, 0x180000000u);
  EXPECT_EQ(evidence.maps[2].inode, 48505u);
  EXPECT_TRUE(evidence.maps[2].shared);
  ASSERT_EQ(evidence.protocols.size(), 1u);
  EXPECT_EQ(evidence.protocols[0].name, "XDP");
  EXPECT_EQ(evidence.process.pid, kPid);
}

TEST_F(CollectTree, RingsAndSocketsFromFiles) {
  add_fd(4, "anon_inode:[io_uring]",
         "SqThread:\t99\nUserFiles:\t4\n    0: socket:[192612]\nNAPI:\tenabled\n");
  add_fd(5, "socket:[4711]");
  tree_.write(base_ + "/net/tcp",
              "  sl  local_address rem_address st ...\n"
              "   0: 0100007F:232A 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 "
              "192612 1 0 100 0 0 10 0\n");
  tree_.write(base_ + "/net/udp",
              "  sl  local_address rem_address st ...\n"
              "   0: 00000000:2328 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 "
              "4711 2 0 3\n"
              "   1: 00000000:2329 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 "
              "4712 2 0 0\n");
  const Evidence evidence = collect();
  ASSERT_EQ(evidence.rings.size(), 1u);
  EXPECT_THAT(evidence.rings[0].registered_sockets, ElementsAre(192612u));
  EXPECT_EQ(evidence.rings[0].sq_thread, 99);
  EXPECT_EQ(evidence.rings[0].napi_busy_poll, true);
  ASSERT_EQ(evidence.diag.size(), 3u) << "two of the process, and one that nobody holds";
  EXPECT_TRUE(evidence.orphans_known);
  EXPECT_THAT(evidence.orphans, ElementsAre(4712u, 192612u));
}

TEST_F(CollectTree, OnloadDescriptorsAndStacks) {
  add_fd(5, "onload:[tcp:3:17]");
  add_fd(6, "socket:[1]");
  tree_.write("/sys/module/onload/version", "9.1.0\n");
  tree_.write("/proc/driver/onload/stacks",
              "3: 12 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 100 200\n");
  Evidence evidence = collect();
  EXPECT_EQ(evidence.fds[0].kind, ObjectKind::kOnloadSocket);
  ASSERT_TRUE(evidence.onload);
  EXPECT_EQ(evidence.onload->version, "9.1.0");
  tree_.write("/proc/driver/onload/stacks",
              "3: 12 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 130 220\n");
  collect_after(evidence, HostRoot{tree_.root()}, CollectOptions{});
  ASSERT_EQ(evidence.onload->stacks.size(), 1u);
  EXPECT_EQ(evidence.onload->stacks[0].rx_events.moved(), 30u);
  EXPECT_EQ(evidence.onload->stacks[0].tx_events.moved(), 20u);
}

TEST_F(CollectTree, WithoutTheModuleThereIsNoOnload) {
  EXPECT_FALSE(collect().onload);
  EXPECT_FALSE(collect().exasock);
  EXPECT_FALSE(collect().rdma);
  EXPECT_FALSE(collect().dpdk);
}

TEST_F(CollectTree, DpdkSecondary) {
  tree_.write("/run/dpdk/rte/config", "x");
  tree_.write("/run/dpdk/rte/fbarray_memseg-2048k-0-0_12", "x");
  add_fd(8, "/run/dpdk/rte/fbarray_memseg-2048k-0-0_12");
  tree_.write("/proc/locks", "");
  const Evidence evidence = collect();
  ASSERT_TRUE(evidence.dpdk);
  EXPECT_EQ(evidence.dpdk->run_directory, "/run/dpdk/rte");
  EXPECT_EQ(evidence.dpdk->primary, std::nullopt) << "nobody holds the lock";
}

TEST_F(CollectTree, RdmaDevicesAndCounters) {
  tree_.write("/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_packets", "100\n");
  tree_.write("/sys/class/infiniband/mlx5_0/device/net/eth9/mtu", "1500\n");
  tree_.write("/sys/class/infiniband_verbs/uverbs0/device/net/eth9/mtu", "1500\n");
  Evidence evidence = collect();
  ASSERT_TRUE(evidence.rdma);
  EXPECT_EQ(evidence.rdma->netdev_of.at("mlx5_0"), "eth9");
  EXPECT_EQ(evidence.rdma->netdev_of.at("uverbs0"), "eth9");
  tree_.write("/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_packets", "175\n");
  collect_after(evidence, HostRoot{tree_.root()}, CollectOptions{});
  EXPECT_EQ(evidence.rdma->counters.at("mlx5_0/1/port_rcv_packets").moved(), 75u);
}

TEST_F(CollectTree, NamesWithControlCharactersStayRaw) {
  add_fd(5, "/tmp/\x1b[31mred\n");
  const Evidence evidence = collect();
  ASSERT_EQ(evidence.fds.size(), 1u);
  EXPECT_EQ(evidence.fds[0].link, "/tmp/\x1b[31mred\n");
}

TEST_F(CollectTree, DamagedMapsAreSkipped) {
  tree_.write(base_ + "/maps",
              "garbage\n7f10-7f00 rw-s 0 00:08 1 socket:[1]\n7f10-7f20 rw 0 00:08 1 socket:[1]\n"
              "zz-7f20 rw-s 0 00:08 1 socket:[1]\n7f10-7f20 rw-s 0 0008 1 socket:[1]\n");
  EXPECT_TRUE(collect().maps.empty());
}

using collect::ElfFacts;
using collect::judge_library;

ElfFacts exporting(std::set<std::string> names, std::string soname = "") {
  ElfFacts facts;
  facts.exported = std::move(names);
  facts.soname = std::move(soname);
  return facts;
}

TEST(Libraries, ARenamedOneIsFoundByWhatItExports) {
  const ElfFacts onload = exporting({"onload_version", "recvmsg", "socket", "onload_is_present"});
  const auto found = judge_library("/opt/app/libfast.so", &onload);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, LibraryKind::kOnload);
  EXPECT_FALSE(found[0].name_matches);
  EXPECT_EQ(found[0].marks_match, true);
}

TEST(Libraries, ARenamedOneIsFoundByItsSoname) {
  const ElfFacts facts = exporting({"recvmsg"}, "libonload.so");
  const auto found = judge_library("/opt/app/x", &facts);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].marks_match, false) << "the soname alone proves nothing";
}

TEST(Libraries, TheExtensionStubsAreNotTheStacks) {
  const ElfFacts stub = exporting({"onload_is_present", "onload_fd_stat"}, "libonload_ext.so.2");
  const auto found = judge_library("/usr/lib/libonload_ext.so.2", &stub);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, LibraryKind::kOnloadExt);
  const ElfFacts exasock = exporting({"exasock_loaded", "exasock_tcp_get_device"});
  const auto stub2 = judge_library("/usr/lib/libexasock_ext.so", &exasock);
  ASSERT_EQ(stub2.size(), 1u);
  EXPECT_EQ(stub2[0].kind, LibraryKind::kExasockExt);
}

TEST(Libraries, TheCLibraryIsNone) {
  const auto libc = collect::read_elf("/proc/self/exe");
  ASSERT_TRUE(libc);
  EXPECT_TRUE(libc->has_interpreter);
  const ElfFacts facts = exporting(
      {"recvmsg", "epoll_pwait", "__res_iclose", "epoll_wait", "gnu_get_libc_version", "socket"},
      "libc.so.6");
  EXPECT_TRUE(judge_library("/lib/x86_64-linux-gnu/libc.so.6", &facts).empty());
}

TEST(Libraries, StaticDpdkByItsTracePoints) {
  ElfFacts facts;
  facts.has_rte_trace = true;
  const auto found = judge_library("/usr/local/bin/mdgw", &facts);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, LibraryKind::kDpdk);
  EXPECT_EQ(found[0].marks_match, true);
  EXPECT_FALSE(found[0].name_matches);
}

TEST(Libraries, AnUnreadableFileKeepsItsNameOnly) {
  const auto found = judge_library("/usr/lib/libvma.so.9", nullptr);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, LibraryKind::kVma);
  EXPECT_TRUE(found[0].name_matches);
  EXPECT_EQ(found[0].marks_match, std::nullopt);
  EXPECT_TRUE(judge_library("/usr/lib/libvmalloc.so", nullptr).empty());
}

TEST(Elf, DamagedFilesAreRefusedOrPartlyRead) {
  const test::TempTree tree;
  tree.write("/empty", "");
  tree.write("/text", std::string(200, 'x'));
  tree.write("/cut", std::string("\x7f"
                                 "ELF\x02\x01\x01",
                                 7) +
                         std::string(57, '\xff'));
  EXPECT_FALSE(collect::read_elf(tree.root() + "/empty"));
  EXPECT_FALSE(collect::read_elf(tree.root() + "/text"));
  EXPECT_FALSE(collect::read_elf(tree.root() + "/none"));
  EXPECT_FALSE(collect::read_elf(tree.root()));
  collect::read_elf(tree.root() + "/cut");
}

}  // namespace
}  // namespace whylate::stack
