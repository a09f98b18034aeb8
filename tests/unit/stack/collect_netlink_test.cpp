// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Answers of the kernel's and of drivers' netlink families, put together byte by byte as their
// sources write them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/genetlink.h>
#include <linux/inet_diag.h>
#include <linux/packet_diag.h>
#include <linux/smc_diag.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <linux/unix_diag.h>
#include <linux/xdp_diag.h>
#include <netinet/in.h>
#include <rdma/rdma_netlink.h>

#include <array>

#include "stack/collect/sock_diag.h"
#include "stack/collect/vendor_exasock.h"
#include "stack/collect/vendor_rdma.h"

namespace whylate::stack::collect {
namespace {

using ::testing::IsEmpty;

/// A message under construction.
class Message {
 public:
  template <typename Header>
  explicit Message(const Header& header) {
    mnl_nlmsg_put_header(bytes_.data());
    std::memcpy(mnl_nlmsg_put_extra_header(get(), sizeof(header)), &header, sizeof(header));
  }
  Message() { mnl_nlmsg_put_header(bytes_.data()); }

  nlmsghdr* get() { return reinterpret_cast<nlmsghdr*>(bytes_.data()); }
  template <typename Value>
  Message& put(std::uint16_t type, const Value& value) {
    mnl_attr_put(get(), type, sizeof(value), &value);
    return *this;
  }
  Message& text(std::uint16_t type, const std::string& value) {
    mnl_attr_put_strz(get(), type, value.c_str());
    return *this;
  }
  template <typename Fill>
  Message& nest(std::uint16_t type, const Fill& fill) {
    nlattr* const start = mnl_attr_nest_start(get(), type);
    fill(*this);
    mnl_attr_nest_end(get(), start);
    return *this;
  }
  /// Ends the message in the middle of its last attribute.
  Message& cut(std::uint32_t bytes) {
    get()->nlmsg_len -= bytes;
    return *this;
  }

 private:
  alignas(nlmsghdr) std::array<char, 4096> bytes_{};
};

// Attributes of exasock-genl.h.
constexpr std::uint16_t kListSock = 6;
constexpr std::uint16_t kElement = 1;
enum : std::uint16_t { kLocal = 1, kPeer = 2, kLocalPort = 3, kPeerPort = 4, kExtended = 8 };
enum : std::uint16_t { kPid = 2, kFd = 3 };

void exasock_element(Message& message, std::uint32_t peer, std::uint16_t peer_port,
                     std::uint32_t fd) {
  message.nest(kElement, [&](Message& element) {
    element.put(kLocal, htonl(0x0a000001)).put(kLocalPort, htons(9000));
    element.put(kPeer, htonl(peer)).put(kPeerPort, htons(peer_port));
    element.nest(kExtended,
                 [&](Message& extended) { extended.put(kPid, std::uint32_t{4711}).put(kFd, fd); });
  });
}

TEST(ExasockList, SocketsWithProcessAndDescriptor) {
  Message message{genlmsghdr{}};
  message.nest(kListSock, [](Message& list) {
    exasock_element(list, 0x0a000002, 40000, 5);
    exasock_element(list, 0, 0, 6);
  });
  const std::vector<ExasockSocket> sockets = parse_exasock_list(message.get());
  ASSERT_EQ(sockets.size(), 2u);
  EXPECT_EQ(sockets[0].pid, 4711);
  EXPECT_EQ(sockets[0].fd, 5);
  EXPECT_EQ(sockets[0].local, "10.0.0.1:9000");
  EXPECT_EQ(sockets[0].remote, "10.0.0.2:40000");
  EXPECT_EQ(sockets[1].fd, 6);
  EXPECT_EQ(sockets[1].remote, "") << "it is not connected";
}

TEST(ExasockList, WithoutTheExtendedPartTheOwnerIsUnknown) {
  Message message{genlmsghdr{}};
  message.nest(kListSock, [](Message& list) {
    list.nest(kElement, [](Message& element) { element.put(kLocal, htonl(0x0a000001)); });
  });
  const std::vector<ExasockSocket> sockets = parse_exasock_list(message.get());
  ASSERT_EQ(sockets.size(), 1u);
  EXPECT_EQ(sockets[0].pid, 0);
  EXPECT_EQ(sockets[0].fd, -1);
}

TEST(ExasockList, DamagedAnswersEndWhereTheyAreDamaged) {
  Message message{genlmsghdr{}};
  message.nest(kListSock, [](Message& list) {
    exasock_element(list, 0, 0, 5);
    exasock_element(list, 0, 0, 6);
  });
  message.cut(8);
  EXPECT_LE(parse_exasock_list(message.get()).size(), 2u);
  Message empty{genlmsghdr{}};
  EXPECT_THAT(parse_exasock_list(empty.get()), IsEmpty());
  Message headless;
  EXPECT_THAT(parse_exasock_list(headless.get()), IsEmpty());
  Message strange{genlmsghdr{}};
  strange.put(kListSock, std::uint8_t{1}).put(99, std::uint64_t{1});
  EXPECT_THAT(parse_exasock_list(strange.get()), IsEmpty());
}

TEST(RdmaResources, QueuePairsAndTheirOwners) {
  Message message;
  message.put(RDMA_NLDEV_ATTR_DEV_INDEX, std::uint32_t{0});
  message.text(RDMA_NLDEV_ATTR_DEV_NAME, "mlx5_0");
  message.nest(RDMA_NLDEV_ATTR_RES_QP, [](Message& list) {
    list.nest(RDMA_NLDEV_ATTR_RES_QP_ENTRY, [](Message& entry) {
      entry.put(RDMA_NLDEV_ATTR_RES_LQPN, std::uint32_t{187});
      entry.put(RDMA_NLDEV_ATTR_RES_TYPE, std::uint8_t{8});
      entry.put(RDMA_NLDEV_ATTR_RES_PID, std::uint32_t{4711});
    });
    list.nest(RDMA_NLDEV_ATTR_RES_QP_ENTRY, [](Message& entry) {
      entry.put(RDMA_NLDEV_ATTR_RES_LQPN, std::uint32_t{1});
      entry.put(RDMA_NLDEV_ATTR_RES_TYPE, std::uint8_t{1});
      entry.text(RDMA_NLDEV_ATTR_RES_KERN_NAME, "ib_core");  // the kernel's have no pid
    });
  });
  const std::vector<OwnedResource> found = parse_rdma_resources(message.get());
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].pid, 4711);
  EXPECT_EQ(found[0].resource.device, "mlx5_0");
  EXPECT_EQ(found[0].resource.kind, "qp");
  EXPECT_EQ(found[0].resource.type, "RAW_PACKET");
  EXPECT_EQ(found[0].resource.number, 187u);
  EXPECT_EQ(found[1].pid, 0);
  EXPECT_EQ(found[1].resource.type, "GSI");
}

TEST(RdmaResources, ConnectionIdentifiers) {
  Message message;
  message.text(RDMA_NLDEV_ATTR_DEV_NAME, "rxe0");
  message.nest(RDMA_NLDEV_ATTR_RES_CM_ID, [](Message& list) {
    list.nest(RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, [](Message& entry) {
      entry.put(RDMA_NLDEV_ATTR_RES_LQPN, std::uint32_t{17});
      entry.put(RDMA_NLDEV_ATTR_RES_TYPE, std::uint8_t{2});
      entry.put(RDMA_NLDEV_ATTR_RES_CM_IDN, std::uint32_t{5});
      entry.put(RDMA_NLDEV_ATTR_RES_PID, std::uint32_t{4711});
    });
  });
  const std::vector<OwnedResource> found = parse_rdma_resources(message.get());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].resource.kind, "cm_id");
  EXPECT_EQ(found[0].resource.type, "RC");
  EXPECT_EQ(found[0].resource.number, 5u);
}

TEST(RdmaResources, DamagedAndUnknown) {
  Message unknown;
  unknown.text(RDMA_NLDEV_ATTR_DEV_NAME, "mlx5_0");
  unknown.nest(RDMA_NLDEV_ATTR_RES_QP, [](Message& list) {
    list.nest(RDMA_NLDEV_ATTR_RES_QP_ENTRY,
              [](Message& entry) { entry.put(RDMA_NLDEV_ATTR_RES_TYPE, std::uint8_t{77}); });
  });
  ASSERT_EQ(parse_rdma_resources(unknown.get()).size(), 1u);
  EXPECT_EQ(parse_rdma_resources(unknown.get())[0].resource.type, "type 77");
  unknown.cut(4);
  EXPECT_LE(parse_rdma_resources(unknown.get()).size(), 1u);
  Message empty;
  EXPECT_THAT(parse_rdma_resources(empty.get()), IsEmpty());
}

TEST(DiagRows, ATcpConnectionWithItsCounters) {
  inet_diag_msg header = {};
  header.idiag_family = AF_INET;
  header.idiag_state = 1;
  header.idiag_inode = 100;
  header.id.idiag_sport = htons(9000);
  header.id.idiag_src[0] = htonl(0x0a000001);
  header.id.idiag_dport = htons(40000);
  header.id.idiag_dst[0] = htonl(0x0a000002);
  Message message{header};
  tcp_info info = {};
  info.tcpi_bytes_received = 1234;
  info.tcpi_segs_in = 9;
  message.put(INET_DIAG_INFO, info);
  std::uint32_t memory[SK_MEMINFO_VARS] = {};
  memory[SK_MEMINFO_DROPS] = 3;
  message.put(INET_DIAG_SKMEMINFO, memory);
  const auto row = parse_inet_row(message.get(), IPPROTO_TCP);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->inode, 100u);
  EXPECT_EQ(row->local, "10.0.0.1:9000");
  EXPECT_EQ(row->remote, "10.0.0.2:40000");
  ASSERT_TRUE(row->tcp);
  EXPECT_EQ(row->tcp->bytes_received.before, 1234u);
  EXPECT_EQ(row->tcp->segs_in.before, 9u);
  EXPECT_EQ(row->drops.before, 3u);
}

TEST(DiagRows, AnOldKernelsShorterTcpInfoLeavesItsCountersUnknown) {
  Message message{inet_diag_msg{}};
  const std::array<char, 104> old{};  // before 4.1: no byte counters
  message.put(INET_DIAG_INFO, old);
  const auto row = parse_inet_row(message.get(), IPPROTO_TCP);
  ASSERT_TRUE(row && row->tcp);
  EXPECT_FALSE(row->tcp->bytes_received.before);
}

TEST(DiagRows, APacketSocketWithRings) {
  packet_diag_msg header = {};
  header.pdiag_ino = 55;
  Message message{header};
  packet_diag_info info = {};
  info.pdi_index = 7;
  message.put(PACKET_DIAG_INFO, info);
  message.put(PACKET_DIAG_RX_RING, packet_diag_ring{});
  message.put(PACKET_DIAG_FANOUT, std::uint32_t{0x00010007});
  const auto row = parse_packet_row(message.get());
  ASSERT_TRUE(row);
  EXPECT_EQ(row->ifindex, 7u);
  EXPECT_TRUE(row->rx_ring);
  EXPECT_FALSE(row->tx_ring);
  EXPECT_EQ(row->fanout_id, 7u);
}

TEST(DiagRows, AnAfXdpSocketInZeroCopy) {
  xdp_diag_msg header = {};
  header.xdiag_ino = 77;
  Message message{header};
  message.put(XDP_DIAG_INFO, xdp_diag_info{7, 3});
  xdp_diag_umem umem = {};
  umem.flags = XDP_DU_F_ZEROCOPY;
  message.put(XDP_DIAG_UMEM, umem);
  SocketFacts facts;
  const auto row = parse_xdp_row(message.get(), &facts);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->queue, 3u);
  EXPECT_EQ(facts.xdp_ifindex, 7u);
  EXPECT_EQ(facts.xdp_zero_copy, true);
}

TEST(DiagRows, SmcModes) {
  for (const auto& [mode, name, fell_back] :
       {std::tuple<std::uint8_t, const char*, bool>(SMC_DIAG_MODE_SMCR, "SMCR", false),
        {SMC_DIAG_MODE_FALLBACK_TCP, "TCP", true},
        {SMC_DIAG_MODE_SMCD, "SMCD", false}}) {
    smc_diag_msg header = {};
    header.diag_mode = mode;
    Message message{header};
    const auto row = parse_smc_row(message.get());
    ASSERT_TRUE(row);
    EXPECT_EQ(row->mode, name);
    EXPECT_EQ(row->fell_back, fell_back);
  }
}

TEST(DiagRows, TooShortMessagesAreNone) {
  Message message;
  SocketFacts facts;
  EXPECT_FALSE(parse_inet_row(message.get(), IPPROTO_TCP));
  EXPECT_FALSE(parse_packet_row(message.get()));
  EXPECT_FALSE(parse_unix_row(message.get()));
  EXPECT_FALSE(parse_xdp_row(message.get(), &facts));
  EXPECT_FALSE(parse_smc_row(message.get()));
}

}  // namespace
}  // namespace whylate::stack::collect
