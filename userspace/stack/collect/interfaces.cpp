// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/interfaces.h"

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "host/file.h"
#include "stack/collect/bpf_ids.h"
#include "stack/collect/ethtool.h"
#include "stack/collect/netns.h"

namespace whylate::stack::collect {
namespace {

void read_counters(const nlattr* attribute, DeviceCounters& counters) {
  const auto at = [&](std::size_t offset) { return value_at<std::uint64_t>(attribute, offset); };
  counters.rx_packets.before = at(offsetof(rtnl_link_stats64, rx_packets));
  counters.tx_packets.before = at(offsetof(rtnl_link_stats64, tx_packets));
  counters.rx_bytes.before = at(offsetof(rtnl_link_stats64, rx_bytes));
  counters.tx_bytes.before = at(offsetof(rtnl_link_stats64, tx_bytes));
  counters.rx_dropped.before = at(offsetof(rtnl_link_stats64, rx_dropped));
}

void read_xdp(const nlattr* nest, Interface& interface) {
  each_nested(nest, [&](const nlattr* attribute) {
    switch (mnl_attr_get_type(attribute)) {
      case IFLA_XDP_ATTACHED:
        switch (value_at<std::uint8_t>(attribute).value_or(XDP_ATTACHED_NONE)) {
          case XDP_ATTACHED_SKB:
            interface.xdp_mode = XdpMode::kGeneric;
            break;
          case XDP_ATTACHED_DRV:
          case XDP_ATTACHED_MULTI:  // several: the driver's is the first to see a packet
            interface.xdp_mode = XdpMode::kNative;
            break;
          case XDP_ATTACHED_HW:
            interface.xdp_mode = XdpMode::kOffload;
            break;
          default:
            break;
        }
        break;
      case IFLA_XDP_PROG_ID:
        interface.xdp_program = value_at<std::uint32_t>(attribute).value_or(0);
        break;
      case IFLA_XDP_DRV_PROG_ID:
        // With several programs only these name them.
        if (interface.xdp_program == 0) {
          interface.xdp_program = value_at<std::uint32_t>(attribute).value_or(0);
        }
        break;
      default:
        break;
    }
  });
}

int dump_links(std::vector<Interface>& interfaces) {
  ifinfomsg header = {};
  header.ifi_family = AF_UNSPEC;
  NetlinkRequest request(RTM_GETLINK, NLM_F_DUMP, header);
  return netlink_ask(NETLINK_ROUTE, request, [&](const nlmsghdr* message) {
    if (auto interface = parse_link(message)) interfaces.push_back(std::move(*interface));
  });
}

int dump_addresses(std::vector<Interface>& interfaces) {
  ifaddrmsg header = {};
  header.ifa_family = AF_UNSPEC;
  NetlinkRequest request(RTM_GETADDR, NLM_F_DUMP, header);
  return netlink_ask(NETLINK_ROUTE, request, [&](const nlmsghdr* message) {
    const auto address = header_of<ifaddrmsg>(message);
    if (message->nlmsg_type != RTM_NEWADDR || !address) return;
    const auto owner = std::find_if(interfaces.begin(), interfaces.end(), [&](const Interface& i) {
      return i.ifindex == address->ifa_index;
    });
    if (owner == interfaces.end()) return;
    std::string local, other;
    each_attribute_of<ifaddrmsg>(message, [&](const nlattr* attribute) {
      const std::size_t wanted = address->ifa_family == AF_INET ? 4 : 16;
      char text[INET6_ADDRSTRLEN];
      if (mnl_attr_get_payload_len(attribute) != wanted ||
          ::inet_ntop(address->ifa_family, mnl_attr_get_payload(attribute), text, sizeof(text)) ==
              nullptr) {
        return;
      }
      // On a point-to-point link IFA_ADDRESS is the other end.
      if (mnl_attr_get_type(attribute) == IFA_LOCAL) local = text;
      if (mnl_attr_get_type(attribute) == IFA_ADDRESS) other = text;
    });
    const std::string& text = local.empty() ? other : local;
    if (!text.empty()) owner->addresses.push_back(text);
  });
}

// In the target's network namespace.
int read_interfaces(std::vector<Interface>& interfaces) {
  if (const int error = dump_links(interfaces); error != 0) return error;
  dump_addresses(interfaces);
  EthtoolReader ethtool;
  for (Interface& interface : interfaces) {
    if (interface.loopback) continue;
    interface.driver = ethtool.driver(interface.name);
    for (const auto& [name, value] : ethtool.statistics(interface.name)) {
      interface.counters.ethtool[name].before = value;
    }
  }
  return 0;
}

int in_target(const Context& context, std::vector<Interface>& interfaces) {
  int error = 0;
  const int entered =
      in_net_namespace(context.proc() + "/ns/net", [&] { error = read_interfaces(interfaces); });
  return entered != 0 ? entered : error;
}

void copy_after(const Counter& from, Counter& to) { to.after = from.before; }

// Without netlink /proc/net/dev still tells names and counters.
std::vector<Interface> parse_net_dev(const std::string& text) {
  std::vector<Interface> interfaces;
  for (const std::string_view line : host::split_lines(text)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const auto words = host::split_words(line.substr(colon + 1));
    if (words.size() < 16) continue;
    Interface interface;
    interface.name = std::string(host::trim(line.substr(0, colon)));
    interface.loopback = interface.name == "lo";
    interface.up = true;
    interface.counters.rx_bytes.before = host::parse_u64(words[0]);
    interface.counters.rx_packets.before = host::parse_u64(words[1]);
    interface.counters.rx_dropped.before = host::parse_u64(words[3]);
    interface.counters.tx_bytes.before = host::parse_u64(words[8]);
    interface.counters.tx_packets.before = host::parse_u64(words[9]);
    interfaces.push_back(std::move(interface));
  }
  return interfaces;
}

std::vector<Interface> from_files(const Context& context) {
  const Result<std::string> text = host::read_file(context.proc() + "/net/dev");
  return text ? parse_net_dev(*text) : std::vector<Interface>();
}

std::vector<Interface> read_again(const Context& context, bool note) {
  std::vector<Interface> interfaces;
  if (!context.live()) return from_files(context);
  if (const int error = in_target(context, interfaces); error != 0) {
    if (note) {
      context.cannot_read_errno("the network namespace of the process", error, "CAP_SYS_ADMIN",
                                "XDP programs, addresses and driver counters of its interfaces");
    }
    interfaces = from_files(context);
  }
  return interfaces;
}

}  // namespace

std::optional<Interface> parse_link(const nlmsghdr* message) {
  const auto header = header_of<ifinfomsg>(message);
  if (message->nlmsg_type != RTM_NEWLINK || !header) return std::nullopt;
  Interface interface;
  interface.ifindex = static_cast<std::uint32_t>(header->ifi_index);
  interface.up = (header->ifi_flags & IFF_UP) != 0;
  interface.loopback = (header->ifi_flags & IFF_LOOPBACK) != 0;
  each_attribute_of<ifinfomsg>(message, [&](const nlattr* attribute) {
    switch (mnl_attr_get_type(attribute)) {
      case IFLA_IFNAME:
        interface.name = text_of(attribute);
        break;
      case IFLA_PROMISCUITY:
        interface.promiscuity = value_at<std::uint32_t>(attribute).value_or(0);
        break;
      case IFLA_STATS64:
        read_counters(attribute, interface.counters);
        break;
      case IFLA_XDP:
        read_xdp(attribute, interface);
        break;
      case IFLA_LINKINFO:
        each_nested(attribute, [&](const nlattr* nested) {
          if (mnl_attr_get_type(nested) == IFLA_INFO_KIND) interface.kind = text_of(nested);
        });
        break;
      default:
        break;
    }
  });
  return interface;
}

void collect_interfaces(const Context& context, Evidence& evidence) {
  evidence.interfaces = read_again(context, true);
  for (Interface& interface : evidence.interfaces) {
    if (interface.xdp_program == 0) continue;
    const BpfProgram program = describe_program(interface.xdp_program);
    if (program.error != 0) {
      context.cannot_read_errno("XDP program " + std::to_string(interface.xdp_program),
                                program.error, "CAP_SYS_ADMIN",
                                "which maps the XDP program on " + interface.name + " uses");
      continue;
    }
    interface.xdp_program_name = program.name;
    interface.xdp_maps = program.map_ids;
    interface.xdp_maps_known = true;
  }
}

void collect_interfaces_after(const Context& context, Evidence& evidence) {
  const std::vector<Interface> now = read_again(context, false);
  for (Interface& interface : evidence.interfaces) {
    const auto same = std::find_if(now.begin(), now.end(), [&](const Interface& i) {
      return i.ifindex == interface.ifindex && i.name == interface.name;
    });
    if (same == now.end()) continue;
    DeviceCounters& counters = interface.counters;
    copy_after(same->counters.rx_packets, counters.rx_packets);
    copy_after(same->counters.tx_packets, counters.tx_packets);
    copy_after(same->counters.rx_bytes, counters.rx_bytes);
    copy_after(same->counters.tx_bytes, counters.tx_bytes);
    copy_after(same->counters.rx_dropped, counters.rx_dropped);
    for (auto& [name, counter] : counters.ethtool) {
      const auto value = same->counters.ethtool.find(name);
      if (value != same->counters.ethtool.end()) counter.after = value->second.before;
    }
  }
}

}  // namespace whylate::stack::collect
