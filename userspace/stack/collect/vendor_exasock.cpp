// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/vendor_exasock.h"

#include <arpa/inet.h>
#include <linux/genetlink.h>
#include <sys/socket.h>

#include "host/file.h"
#include "stack/collect/address_text.h"

namespace whylate::stack::collect {
namespace {

// Numbers of the family's interface, version 1 (exasock-genl.h).
constexpr std::uint8_t kGetSockList = 0;
constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kSocketTypes = 4;
enum : std::uint16_t { kSockType = 1, kSockExtended = 2, kListSock = 6 };
enum : std::uint16_t { kElement = 1 };
enum : std::uint16_t {
  kLocalAddress = 1,
  kPeerAddress = 2,
  kLocalPort = 3,
  kPeerPort = 4,
  kExtended = 8
};
enum : std::uint16_t { kPid = 2, kDescriptor = 3 };

ExasockSocket parse_socket(const nlattr* element) {
  ExasockSocket socket;
  std::uint32_t local = 0, peer = 0;
  std::uint16_t local_port = 0, peer_port = 0;
  each_nested(element, [&](const nlattr* attribute) {
    switch (mnl_attr_get_type(attribute)) {
      case kLocalAddress:
        local = value_at<std::uint32_t>(attribute).value_or(0);
        break;
      case kPeerAddress:
        peer = value_at<std::uint32_t>(attribute).value_or(0);
        break;
      case kLocalPort:
        local_port = value_at<std::uint16_t>(attribute).value_or(0);
        break;
      case kPeerPort:
        peer_port = value_at<std::uint16_t>(attribute).value_or(0);
        break;
      case kExtended:
        each_nested(attribute, [&](const nlattr* nested) {
          const auto value = value_at<std::uint32_t>(nested);
          if (!value) return;
          if (mnl_attr_get_type(nested) == kPid) socket.pid = static_cast<pid_t>(*value);
          if (mnl_attr_get_type(nested) == kDescriptor) socket.fd = static_cast<int>(*value);
        });
        break;
      default:
        break;
    }
  });
  // Addresses and ports are in network order, as the driver keeps them.
  socket.local = address_text(AF_INET, &local, ntohs(local_port));
  if (peer != 0 || peer_port != 0) {
    socket.remote = address_text(AF_INET, &peer, ntohs(peer_port));
  }
  return socket;
}

}  // namespace

std::vector<ExasockSocket> parse_exasock_list(const nlmsghdr* message) {
  std::vector<ExasockSocket> sockets;
  each_attribute_of<genlmsghdr>(message, [&](const nlattr* attribute) {
    if (mnl_attr_get_type(attribute) != kListSock) return;
    each_nested(attribute, [&](const nlattr* element) {
      if (mnl_attr_get_type(element) == kElement) sockets.push_back(parse_socket(element));
    });
  });
  return sockets;
}

void collect_exasock(const Context& context, Evidence& evidence) {
  if (!host::exists(context.path("/sys/module/exasock"))) return;
  ExasockEvidence exasock;
  exasock.module_loaded = true;
  if (context.live()) {
    const auto family = generic_family("exasock");
    exasock.family_registered = family.has_value();
    for (std::uint8_t type = 0; family && type < kSocketTypes; ++type) {
      genlmsghdr header = {};
      header.cmd = kGetSockList;
      header.version = kVersion;
      NetlinkRequest request(*family, 0, header);
      request.put_u8(kSockType, type);
      request.put_flag(kSockExtended);
      const int error = netlink_ask(NETLINK_GENERIC, request, [&](const nlmsghdr* message) {
        std::vector<ExasockSocket> more = parse_exasock_list(message);
        exasock.sockets.insert(exasock.sockets.end(), std::make_move_iterator(more.begin()),
                               std::make_move_iterator(more.end()));
      });
      if (error != 0) {
        context.cannot_read_errno("netlink family exasock", error, "CAP_NET_ADMIN",
                                  "which sockets exasock accelerates");
        break;
      }
    }
  }
  evidence.exasock = std::move(exasock);
}

}  // namespace whylate::stack::collect
