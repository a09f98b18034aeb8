// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The texts that the kernel and vendors' drivers publish, as captured or as their source writes
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>

#include "stack/collect/fd_table.h"
#include "stack/collect/net_files.h"
#include "stack/collect/object_kind.h"
#include "stack/collect/process_facts.h"
#include "stack/collect/vendor_dpdk.h"
#include "stack/collect/vendor_onload.h"
#include "unit/host/temp_tree.h"

namespace whylate::stack::collect {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(IoUringFdinfo, ListsDirectDescriptorsThatNoTableShows) {
  bool complete = false;
  const IoUring ring = parse_io_uring(4,
                                      "pos:\t0\nSqMask:\t0x7\nSqThread:\t12810\nSqThreadCpu:\t1\n"
                                      "UserFiles:\t4\n    0: socket:[192612]\n    2: /tmp/file\n"
                                      "UserBufs:\t0\nPollList:\nNAPI:\tdisabled\n",
                                      &complete);
  EXPECT_TRUE(complete);
  EXPECT_EQ(ring.fd, 4);
  EXPECT_EQ(ring.sq_thread, 12810);
  EXPECT_THAT(ring.registered_files, ElementsAre("socket:[192612]", "/tmp/file"));
  EXPECT_THAT(ring.registered_sockets, ElementsAre(192612u));
  EXPECT_EQ(ring.napi_busy_poll, false);
}

TEST(IoUringFdinfo, WithoutSqThreadAndOfAnOldKernel) {
  bool complete = false;
  const IoUring ring = parse_io_uring(
      3, "SqThread:\t-1\nUserFiles:\t2\n    0: <none>\n    1: <none>\nUserBufs:\t0\n", &complete);
  EXPECT_TRUE(complete);
  EXPECT_EQ(ring.sq_thread, std::nullopt);
  EXPECT_THAT(ring.registered_files, IsEmpty());
  EXPECT_EQ(ring.napi_busy_poll, std::nullopt);
}

TEST(IoUringFdinfo, ABusyInstanceLeavesItsListOut) {
  bool complete = true;
  parse_io_uring(3, "pos:\t0\nflags:\t02\n", &complete);
  EXPECT_FALSE(complete);
  parse_io_uring(3, "UserFiles:\t8\nUserBufs:\t0\n", &complete);
  EXPECT_FALSE(complete) << "eight slots, no line of them";
}

TEST(IoUringFdinfo, BuffersAreNoFiles) {
  bool complete = false;
  const IoUring ring = parse_io_uring(
      3, "UserFiles:\t0\nUserBufs:\t1\n    0: 0x7f0000/4096\nNAPI:\tenabled\n", &complete);
  EXPECT_TRUE(complete);
  EXPECT_THAT(ring.registered_files, IsEmpty());
  EXPECT_EQ(ring.napi_busy_poll, true);
}

TEST(BpfFdinfo, MapAndProgram) {
  const auto map = parse_bpf_fdinfo("pos:\t0\nmap_type:\t17\nkey_size:\t4\nmap_id:\t104\n");
  ASSERT_TRUE(map);
  EXPECT_EQ(map->type, 17u);
  EXPECT_EQ(map->id, 104u);
  const auto program =
      parse_bpf_fdinfo("prog_type:\t6\nprog_tag:\tdc1bcff258c01244\nprog_id:\t603\n");
  ASSERT_TRUE(program);
  EXPECT_EQ(program->type, 6u);
  EXPECT_EQ(program->id, 603u);
  EXPECT_FALSE(parse_bpf_fdinfo("pos:\t0\n"));
}

TEST(NetFiles, ProtocolsWithSocketsOnly) {
  const auto rows = parse_protocols(
      "protocol  size sockets  memory press maxhdr  slab module     cl co\n"
      "PACKET    1600      2      -1   NI       0   no   kernel      n  n\n"
      "UDP       1344      0       0   NI       0   yes  kernel      y  y\n"
      "XDP       1088      1      -1   NI       0   no   kernel      n  n\n");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "PACKET");
  EXPECT_EQ(rows[0].sockets, 2u);
  EXPECT_EQ(rows[1].name, "XDP");
}

TEST(NetFiles, SnmpPairsNamesWithValues) {
  const auto values = parse_snmp(
      "Ip: Forwarding DefaultTTL\nIp: 1 64\nUdp: InDatagrams NoPorts\nUdp: 20 3\n"
      "Tcp: MaxConn InSegs\nTcp: -1 7\n");
  EXPECT_EQ(values.at("Udp.InDatagrams"), 20u);
  EXPECT_EQ(values.at("Udp.NoPorts"), 3u);
  EXPECT_EQ(values.at("Tcp.InSegs"), 7u);
  EXPECT_EQ(values.count("Tcp.MaxConn"), 0u) << "negative: no counter";
}

TEST(NetFiles, InetRows) {
  const auto rows = parse_inet_file(
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
      "inode ref pointer drops\n"
      "   0: 0100007F:2328 00000000:0000 0A 00000000:00000005 00:00000000 00000000     0        0 "
      "4711 1 0000000000000000 100 0 0 10 0\n"
      "   1: 0100007F:1F90 0200007F:0050 06 00000000:00000000 00:00000000 00000000     0        0 "
      "0 "
      "1 0000000000000000\n"
      "garbage\n",
      AF_INET, IPPROTO_TCP);
  ASSERT_EQ(rows.size(), 1u) << "a socket without an inode belongs to nobody";
  EXPECT_EQ(rows[0].inode, 4711u);
  EXPECT_EQ(rows[0].state, 10);
  EXPECT_EQ(rows[0].local, "127.0.0.1:9000");
  EXPECT_EQ(rows[0].local_port, 9000);
  EXPECT_EQ(rows[0].remote, "");
  EXPECT_EQ(rows[0].rx_queue_bytes, 5u);
}

TEST(NetFiles, PacketRows) {
  const auto rows = parse_packet_file(
      "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n"
      "0000000000000000 3      3    0003   4     1 0      0      51855 \n");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].protocol, 3);
  EXPECT_EQ(rows[0].ifindex, 4u);
  EXPECT_EQ(rows[0].inode, 51855u);
}

TEST(ObjectKinds, NamesAUserCanChooseAreNotDevices) {
  EXPECT_EQ(kind_of_link("/dev/onload", false), ObjectKind::kOther);
  EXPECT_EQ(kind_of_link("/dev/infiniband/uverbs0", false), ObjectKind::kOther);
  EXPECT_EQ(kind_of_link("/tmp/socket:[12]", false), ObjectKind::kOther);
  EXPECT_EQ(kind_of_link("/tmp/onload:[tcp:1:2]", false), ObjectKind::kOther);
  EXPECT_EQ(kind_of_link("onload:[tcp:1:2]", false), ObjectKind::kOnloadSocket);
  EXPECT_EQ(kind_of_link("socket:[12]", false), ObjectKind::kSocket);
  EXPECT_EQ(kind_of_link("/memfd:nohuge (deleted)", false), ObjectKind::kMemfd);
  EXPECT_EQ(kind_of_link("/memfd:rtemap_0 (deleted)", true), ObjectKind::kHugePages);
  EXPECT_EQ(kind_of_link("/run/dpdk/rte/config", false), ObjectKind::kDpdkRuntime);
  EXPECT_EQ(kind_of_link("/tmp/vmastat.4711", false), ObjectKind::kStatsFile);
  EXPECT_EQ(kind_of_link("/tmp/vmastat.log", false), ObjectKind::kOther);
  EXPECT_EQ(kind_of_link("/sys/devices/pci0000:00/0000:00:03.0/resource0", false),
            ObjectKind::kPciResource);
  EXPECT_EQ(kind_of_link("", false), ObjectKind::kOther);
}

TEST(ObjectKinds, DevicesByTheirRegisteredName) {
  test::TempTree tree;
  tree.write("/proc/devices",
             "Character devices:\n  1 mem\n 10 misc\n240 uio\n241 vfio\n242 onload\n"
             "243 sfc_char\n244 infiniband_verbs\n\nBlock devices:\n242 loop\n");
  tree.write("/proc/misc", "196 vfio\n200 tun\n 55 exasock\n 56 exanic0\n 57 exanic\n");
  const DeviceNames names = DeviceNames::read(tree.root());
  EXPECT_EQ(names.kind(makedev(10, 200)), ObjectKind::kTun);
  EXPECT_EQ(names.kind(makedev(10, 196)), ObjectKind::kVfioContainer);
  EXPECT_EQ(names.kind(makedev(241, 3)), ObjectKind::kVfioGroup);
  EXPECT_EQ(names.kind(makedev(240, 0)), ObjectKind::kUio);
  EXPECT_EQ(names.kind(makedev(242, 0)), ObjectKind::kOnloadDevice);
  EXPECT_EQ(names.kind(makedev(243, 0)), ObjectKind::kSfcChar);
  EXPECT_EQ(names.kind(makedev(244, 1)), ObjectKind::kUverbs);
  EXPECT_EQ(names.kind(makedev(10, 55)), ObjectKind::kExasock);
  EXPECT_EQ(names.kind(makedev(10, 56)), ObjectKind::kExanic);
  EXPECT_EQ(names.kind(makedev(10, 57)), ObjectKind::kOther);
  EXPECT_EQ(names.kind(makedev(1, 3)), ObjectKind::kOther);
  EXPECT_EQ(names.kind(0), ObjectKind::kOther);
}

TEST(Environment, OnlyWhatNetworkStacksRead) {
  using std::string_literals::operator""s;
  EXPECT_THAT(stack_variables("HOME=/root\0LD_PRELOAD=libonload.so\0EF_POLL_USEC=1\0SECRET=x\0"s),
              ElementsAre("LD_PRELOAD=libonload.so", "EF_POLL_USEC=1"));
  EXPECT_THAT(stack_variables(""), IsEmpty());
}

TEST(Onload, StacksAsTheDriverWritesThem) {
  const auto stacks = parse_onload_stacks(
      "3: 4711 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 1001 2002\n"
      "nonsense\n7: 0 99 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
  ASSERT_EQ(stacks.size(), 2u);
  EXPECT_EQ(stacks[0].id, 3u);
  EXPECT_EQ(stacks[0].pid, 4711);
  EXPECT_EQ(stacks[0].rx_events.before, 1001u);
  EXPECT_EQ(stacks[0].tx_events.before, 2002u);
  EXPECT_EQ(stacks[1].id, 7u);
  EXPECT_EQ(stacks[1].pid, 0) << "another pid namespace";
}

TEST(Dpdk, RunDirectories) {
  EXPECT_EQ(dpdk_directory("/run/dpdk/rte/fbarray_memzone"), "/run/dpdk/rte");
  EXPECT_EQ(dpdk_directory("/var/run/dpdk/pg1/dpdk_telemetry.v2"), "/var/run/dpdk/pg1");
  EXPECT_EQ(dpdk_directory("/run/dpdk/config"), "");
  EXPECT_EQ(dpdk_directory("dpdk/rte/config"), "");
}

TEST(Dpdk, ThePrimaryHoldsTheLockOnConfig) {
  const char* const locks =
      "1: FLOCK  ADVISORY  READ 25267 fe:00:10747910 0 EOF\n"
      "1: FLOCK  ADVISORY  WRITE 7 fe:00:10747907 0 EOF\n"
      "3: POSIX  ADVISORY  WRITE 25267 fe:00:10747907 136 17543\n"
      "4: -> POSIX  ADVISORY  WRITE 999 fe:00:10747907 136 17543\n";
  EXPECT_EQ(posix_lock_holder(locks, makedev(0xfe, 0), 10747907), 25267);
  EXPECT_EQ(posix_lock_holder(locks, makedev(0xfe, 0), 10747910), 0);
  EXPECT_EQ(posix_lock_holder("", makedev(0xfe, 0), 10747907), 0);
}

TEST(Dpdk, TelemetryAnswersOfRelease22) {
  EXPECT_THAT(*parse_port_list(R"({"/ethdev/list":[0,2]})"), ElementsAre(0u, 2u));
  EXPECT_FALSE(parse_port_list("not JSON"));
  EXPECT_FALSE(parse_port_list(R"({"/ethdev/list":null})"));
  DpdkPort port;
  parse_port_info(R"({"/ethdev/info":{"name":"net_af_xdp0","state":1}})", port);
  EXPECT_EQ(port.name, "net_af_xdp0");
  EXPECT_EQ(port.driver, "net_af_xdp");
  parse_port_statistics(R"({"/ethdev/stats":{"ipackets":20,"opackets":19,"rx_nombuf":0}})",
                        Reading::kBefore, port);
  parse_port_statistics(R"({"/ethdev/stats":{"ipackets":25,"opackets":-1}})", Reading::kAfter,
                        port);
  EXPECT_EQ(port.rx_packets.moved(), 5u);
  EXPECT_EQ(port.tx_packets.moved(), std::nullopt) << "a number that cannot be is no number";
  EXPECT_EQ(port.rx_no_buffer.before, 0u);
  parse_port_info("[]", port);
  EXPECT_EQ(port.name, "net_af_xdp0");
}

TEST(Dpdk, APciAddressDoesNotTellTheDriver) {
  DpdkPort port;
  parse_port_info(R"({"/ethdev/info":{"name":"0000:3b:00.0"}})", port);
  EXPECT_EQ(port.driver, "");
}

}  // namespace
}  // namespace whylate::stack::collect
