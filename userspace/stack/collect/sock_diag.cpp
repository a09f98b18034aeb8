// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/sock_diag.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/packet_diag.h>
#include <linux/smc_diag.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <linux/unix_diag.h>
#include <linux/xdp_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "stack/collect/address_text.h"

namespace whylate::stack::collect {
namespace {

constexpr int kAfSmc = 43;
constexpr int kAfXdp = 44;
constexpr int kMptcp = 262;
// States of net/tcp_states.h that an open descriptor can be in: all but SYN_RECV (3), TIME_WAIT (6)
// and NEW_SYN_RECV (12). Bit 13 asks for sockets that are bound and no more (6.8 and later; older
// kernels ignore it).
constexpr std::uint32_t kStates = 0x3fff & ~((1u << 0) | (1u << 3) | (1u << 6) | (1u << 12));

std::uint64_t cookie_of(const std::uint32_t (&cookie)[2]) {
  return std::uint64_t{cookie[0]} | (std::uint64_t{cookie[1]} << 32u);
}

bool is_any(int family, const std::uint32_t (&address)[4]) {
  return address[0] == 0 &&
         (family == AF_INET || (address[1] == 0 && address[2] == 0 && address[3] == 0));
}

void set_before(Counter& counter, std::optional<std::uint64_t> value) { counter.before = value; }

TcpBytes tcp_bytes(const nlattr* info) {
  TcpBytes bytes;
  set_before(bytes.bytes_acked,
             value_at<std::uint64_t>(info, offsetof(tcp_info, tcpi_bytes_acked)));
  set_before(bytes.bytes_received,
             value_at<std::uint64_t>(info, offsetof(tcp_info, tcpi_bytes_received)));
  set_before(bytes.segs_out, value_at<std::uint32_t>(info, offsetof(tcp_info, tcpi_segs_out)));
  set_before(bytes.segs_in, value_at<std::uint32_t>(info, offsetof(tcp_info, tcpi_segs_in)));
  return bytes;
}

void read_memory(const nlattr* attribute, DiagRow& row) {
  const auto at = [&](unsigned index) {
    return value_at<std::uint32_t>(attribute, index * sizeof(std::uint32_t));
  };
  if (const auto drops = at(SK_MEMINFO_DROPS)) set_before(row.drops, *drops);
}

int dump_inet(int family, int protocol, std::vector<DiagRow>& rows) {
  inet_diag_req_v2 header = {};
  header.sdiag_family = static_cast<std::uint8_t>(family);
  header.sdiag_protocol = static_cast<std::uint8_t>(protocol);
  header.idiag_ext = 1u << (INET_DIAG_SKMEMINFO - 1);
  if (protocol != IPPROTO_UDP) header.idiag_ext |= 1u << (INET_DIAG_INFO - 1);
  header.idiag_states = kStates;
  NetlinkRequest request(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, header);
  if (protocol > 255) {
    request.put_u32(INET_DIAG_REQ_PROTOCOL, static_cast<std::uint32_t>(protocol));
  }
  return netlink_ask(NETLINK_SOCK_DIAG, request, [&](const nlmsghdr* message) {
    if (auto row = parse_inet_row(message, protocol)) rows.push_back(std::move(*row));
  });
}

int dump_packet(std::vector<DiagRow>& rows) {
  packet_diag_req header = {};
  header.sdiag_family = AF_PACKET;
  header.pdiag_show =
      PACKET_SHOW_INFO | PACKET_SHOW_RING_CFG | PACKET_SHOW_FANOUT | PACKET_SHOW_MEMINFO;
  NetlinkRequest request(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, header);
  return netlink_ask(NETLINK_SOCK_DIAG, request, [&](const nlmsghdr* message) {
    if (auto row = parse_packet_row(message)) rows.push_back(std::move(*row));
  });
}

int dump_unix(std::vector<DiagRow>& rows) {
  unix_diag_req header = {};
  header.sdiag_family = AF_UNIX;
  header.udiag_states = ~0u;
  header.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_PEER;
  NetlinkRequest request(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, header);
  return netlink_ask(NETLINK_SOCK_DIAG, request, [&](const nlmsghdr* message) {
    if (auto row = parse_unix_row(message)) rows.push_back(std::move(*row));
  });
}

int dump_xdp(DiagAnswer& answer) {
  xdp_diag_req header = {};
  header.sdiag_family = kAfXdp;
  header.xdiag_show = XDP_SHOW_INFO | XDP_SHOW_RING_CFG | XDP_SHOW_UMEM | XDP_SHOW_STATS;
  NetlinkRequest request(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, header);
  return netlink_ask(NETLINK_SOCK_DIAG, request, [&](const nlmsghdr* message) {
    SocketFacts facts;
    if (auto row = parse_xdp_row(message, &facts)) {
      answer.rows.push_back(std::move(*row));
      answer.facts.push_back(std::move(facts));
    }
  });
}

int dump_smc(std::vector<SmcRow>& rows) {
  smc_diag_req header = {};
  header.diag_family = kAfSmc;
  header.diag_ext = 1u << (SMC_DIAG_FALLBACK - 1);
  NetlinkRequest request(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, header);
  return netlink_ask(NETLINK_SOCK_DIAG, request, [&](const nlmsghdr* message) {
    if (auto row = parse_smc_row(message)) rows.push_back(std::move(*row));
  });
}

}  // namespace

std::optional<DiagRow> parse_inet_row(const nlmsghdr* message, int protocol) {
  const auto header = header_of<inet_diag_msg>(message);
  if (!header) return std::nullopt;
  DiagRow row;
  row.family = DiagFamily::kInet;
  row.inode = header->idiag_inode;
  row.cookie = cookie_of(header->id.idiag_cookie);
  row.address_family = header->idiag_family;
  row.protocol = protocol;
  row.state = header->idiag_state;
  row.local_port = ntohs(header->id.idiag_sport);
  row.remote_port = ntohs(header->id.idiag_dport);
  row.local = address_text(row.address_family, header->id.idiag_src, row.local_port);
  if (row.remote_port != 0 || !is_any(row.address_family, header->id.idiag_dst)) {
    row.remote = address_text(row.address_family, header->id.idiag_dst, row.remote_port);
  }
  row.rx_queue_bytes = header->idiag_rqueue;
  row.tx_queue_bytes = header->idiag_wqueue;
  row.ifindex = header->id.idiag_if;
  each_attribute_of<inet_diag_msg>(message, [&](const nlattr* attribute) {
    if (mnl_attr_get_type(attribute) == INET_DIAG_INFO && protocol == IPPROTO_TCP) {
      row.tcp = tcp_bytes(attribute);
    } else if (mnl_attr_get_type(attribute) == INET_DIAG_SKMEMINFO) {
      read_memory(attribute, row);
    }
  });
  return row;
}

std::optional<DiagRow> parse_packet_row(const nlmsghdr* message) {
  const auto header = header_of<packet_diag_msg>(message);
  if (!header) return std::nullopt;
  DiagRow row;
  row.family = DiagFamily::kPacket;
  row.address_family = AF_PACKET;
  row.inode = header->pdiag_ino;
  row.cookie = cookie_of(header->pdiag_cookie);
  row.protocol = header->pdiag_num;
  each_attribute_of<packet_diag_msg>(message, [&](const nlattr* attribute) {
    switch (mnl_attr_get_type(attribute)) {
      case PACKET_DIAG_INFO:
        row.ifindex =
            value_at<std::uint32_t>(attribute, offsetof(packet_diag_info, pdi_index)).value_or(0);
        break;
      case PACKET_DIAG_RX_RING:
        row.rx_ring = true;
        break;
      case PACKET_DIAG_TX_RING:
        row.tx_ring = true;
        break;
      case PACKET_DIAG_FANOUT:
        // Id in the low half, type in the high half (net/packet/diag.c).
        if (const auto value = value_at<std::uint32_t>(attribute)) {
          row.fanout_id = *value & 0xffffu;
        }
        break;
      case PACKET_DIAG_MEMINFO:
        read_memory(attribute, row);
        break;
      default:
        break;
    }
  });
  return row;
}

std::optional<DiagRow> parse_unix_row(const nlmsghdr* message) {
  const auto header = header_of<unix_diag_msg>(message);
  if (!header) return std::nullopt;
  DiagRow row;
  row.family = DiagFamily::kUnix;
  row.address_family = AF_UNIX;
  row.inode = header->udiag_ino;
  row.cookie = cookie_of(header->udiag_cookie);
  row.state = header->udiag_state;
  each_attribute_of<unix_diag_msg>(message, [&](const nlattr* attribute) {
    if (mnl_attr_get_type(attribute) == UNIX_DIAG_PEER) {
      row.peer_inode = value_at<std::uint32_t>(attribute).value_or(0);
    } else if (mnl_attr_get_type(attribute) == UNIX_DIAG_NAME) {
      const auto* const name = static_cast<const char*>(mnl_attr_get_payload(attribute));
      const std::size_t bytes = mnl_attr_get_payload_len(attribute);
      if (bytes > 0 && name[0] == '\0') {
        row.local = "@" + std::string(name + 1, bytes - 1);
      } else {
        row.local = std::string(name, ::strnlen(name, bytes));
      }
    }
  });
  return row;
}

std::optional<DiagRow> parse_xdp_row(const nlmsghdr* message, SocketFacts* facts) {
  const auto header = header_of<xdp_diag_msg>(message);
  if (!header) return std::nullopt;
  DiagRow row;
  row.family = DiagFamily::kXdp;
  row.address_family = kAfXdp;
  row.inode = header->xdiag_ino;
  row.cookie = cookie_of(header->xdiag_cookie);
  facts->inode = row.inode;
  facts->source = "xdp_diag";
  each_attribute_of<xdp_diag_msg>(message, [&](const nlattr* attribute) {
    switch (mnl_attr_get_type(attribute)) {
      case XDP_DIAG_INFO:
        if (const auto info = value_at<xdp_diag_info>(attribute)) {
          row.ifindex = info->ifindex;
          row.queue = info->queue_id;
          facts->xdp_ifindex = info->ifindex;
          facts->xdp_queue = info->queue_id;
        }
        break;
      case XDP_DIAG_RX_RING:
        row.rx_ring = true;
        break;
      case XDP_DIAG_TX_RING:
        row.tx_ring = true;
        break;
      case XDP_DIAG_UMEM:
        if (const auto flags = value_at<std::uint32_t>(attribute, offsetof(xdp_diag_umem, flags))) {
          row.zero_copy = (*flags & XDP_DU_F_ZEROCOPY) != 0;
          facts->xdp_zero_copy = row.zero_copy;
        }
        break;
      case XDP_DIAG_STATS:
        facts->xdp_rx_dropped =
            value_at<std::uint64_t>(attribute, offsetof(xdp_diag_stats, n_rx_dropped));
        facts->xdp_ring_full =
            value_at<std::uint64_t>(attribute, offsetof(xdp_diag_stats, n_rx_full));
        break;
      default:
        break;
    }
  });
  return row;
}

std::optional<SmcRow> parse_smc_row(const nlmsghdr* message) {
  const auto header = header_of<smc_diag_msg>(message);
  if (!header) return std::nullopt;
  SmcRow row;
  row.inode = header->diag_inode;
  constexpr std::array<const char*, 3> kModes = {"SMCR", "TCP", "SMCD"};
  if (header->diag_mode < kModes.size()) {
    row.mode = kModes[header->diag_mode];
    row.fell_back = header->diag_mode == SMC_DIAG_MODE_FALLBACK_TCP;
  }
  return row;
}

DiagAnswer dump_sockets(const DiagQuery& query) {
  DiagAnswer answer;
  const auto note = [&](const char* family, int error) {
    if (error != 0) answer.errors.push_back(DiagError{family, error});
  };
  if (query.inet) {
    for (const int family : {AF_INET, AF_INET6}) {
      note("inet_diag tcp", dump_inet(family, IPPROTO_TCP, answer.rows));
      note("inet_diag udp", dump_inet(family, IPPROTO_UDP, answer.rows));
      note("inet_diag raw", dump_inet(family, IPPROTO_RAW, answer.rows));
      if (query.mptcp) note("inet_diag mptcp", dump_inet(family, kMptcp, answer.rows));
    }
  }
  if (query.packet) note("packet_diag", dump_packet(answer.rows));
  if (query.unix_sockets) note("unix_diag", dump_unix(answer.rows));
  if (query.xdp) note("xdp_diag", dump_xdp(answer));
  if (query.smc) note("smc_diag", dump_smc(answer.smc));
  return answer;
}

}  // namespace whylate::stack::collect
