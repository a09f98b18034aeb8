// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <algorithm>

#include "stack/rules.h"

namespace whylate::stack {
namespace {

// Offsets at which the rings of an AF_XDP socket are mapped (include/uapi/linux/if_xdp.h).
constexpr std::uint64_t kRxRing = 0;
constexpr std::uint64_t kTxRing = 0x80000000;
constexpr std::uint64_t kFillRing = 0x100000000;
constexpr std::uint64_t kCompletionRing = 0x180000000;

struct Rings {
  bool rx = false;
  bool tx = false;
  bool fill = false;
  bool completion = false;
  bool known = true;

  bool any() const { return rx || tx || fill || completion; }
};

Rings rings_of(const View& view, std::uint64_t inode) {
  Rings rings;
  for (const MapEntry* map : view.maps_of(inode)) {
    rings.rx = rings.rx || map->offset == kRxRing;
    rings.tx = rings.tx || map->offset == kTxRing;
    rings.fill = rings.fill || map->offset == kFillRing;
    rings.completion = rings.completion || map->offset == kCompletionRing;
  }
  rings.known = rings.any() || !unreadable(view.evidence(), "/maps");
  return rings;
}

std::string rings_text(const Rings& rings) {
  std::string text;
  const auto add = [&text](bool there, const char* name) {
    if (!there) return;
    if (!text.empty()) text += ", ";
    text += name;
  };
  add(rings.rx, "rx");
  add(rings.tx, "tx");
  add(rings.fill, "fill");
  add(rings.completion, "completion");
  return text;
}

/// Where the socket sits, as far as it can be told.
struct Place {
  const Interface* interface = nullptr;
  std::optional<std::uint32_t> ifindex;
  std::optional<std::uint32_t> queue;
};

Place place_of(const View& view, std::uint64_t inode) {
  Place place;
  if (const SocketFacts* facts = view.facts(inode)) {
    place.ifindex = facts->xdp_ifindex;
    place.queue = facts->xdp_queue;
  }
  if (!place.ifindex && !view.own_redirects().empty()) {
    place.ifindex = view.own_redirects().front().from_ifindex;
  }
  for (const Interface& interface : view.evidence().interfaces) {
    if (place.ifindex) break;
    for (const std::uint32_t map : interface.xdp_maps) {
      if (view.xsk_maps().count(map) > 0) place.ifindex = interface.ifindex;
    }
  }
  if (place.ifindex) place.interface = view.interface(*place.ifindex);
  return place;
}

struct Redirected {
  std::uint64_t packets = 0;
  std::uint64_t failed = 0;
  bool exact = true;  ///< false: they are of all AF_XDP sockets of the process together
};

Redirected redirected_to(const View& view, const Place& place) {
  Redirected sum;
  const bool exact = place.ifindex && place.queue;
  sum.exact = exact || view.xdp_inodes().size() == 1;
  for (const RedirectTraffic& redirect : view.own_redirects()) {
    // The slot is the queue by convention only; a failed redirect is from an empty slot.
    const bool other_slot =
        redirect.from_ifindex != place.ifindex.value_or(redirect.from_ifindex) ||
        redirect.index != place.queue.value_or(redirect.index);
    if (exact && other_slot && view.xdp_inodes().size() > 1) continue;
    sum.packets += redirect.redirected;
    sum.failed += redirect.failed;
  }
  return sum;
}

std::string mode_text(const View& view, std::uint64_t inode, const Place& place) {
  std::string mode;
  const XdpMode xdp = place.interface != nullptr ? place.interface->xdp_mode : XdpMode::kNone;
  const SocketFacts* facts = view.facts(inode);
  const bool known = facts != nullptr && facts->xdp_zero_copy.has_value();
  const bool zero_copy = known && *facts->xdp_zero_copy;
  if (xdp == XdpMode::kGeneric) {
    mode = "generic mode (the sk_buff is built first, then copied)";
  } else if (xdp == XdpMode::kNative || xdp == XdpMode::kOffload) {
    mode = "native mode";
    mode += !known ? ", copy or zero copy not known" : zero_copy ? ", zero copy" : ", copy";
  } else {
    mode = zero_copy ? "zero copy" : "mode not known";
  }
  if (place.ifindex) mode += ", on " + interface_name(view, *place.ifindex);
  if (place.queue) mode += fmt::format(" queue {}", *place.queue);
  return mode;
}

/// Packets of kernel sockets of this process, and those nobody waited for.
std::uint64_t kernel_received(const View& view) {
  std::uint64_t sum = 0;
  std::vector<std::uint64_t> seen;
  for (const FdEntry& fd : view.evidence().fds) {
    if (fd.kind != ObjectKind::kSocket || fd.protocol == "XDP" || fd.protocol == "PACKET") continue;
    if (std::find(seen.begin(), seen.end(), fd.inode) != seen.end()) continue;
    seen.push_back(fd.inode);
    const DiagRow* row = view.diag(fd.inode);
    if (row == nullptr || row->family != DiagFamily::kInet) continue;
    if (is_loopback_address(row->local)) continue;
    sum += view.kernel_rx(fd.inode).value_or(0);
  }
  return sum;
}

/// Why nothing was redirected although the socket is open, and what to do about it.
struct Cause {
  std::string why;
  std::string remedy;
};

Cause why_kernel_carries(const View& view, const Place& place, const Redirected& redirected) {
  if (redirected.failed > 0) {
    return {fmt::format("{} failed to redirect: the slot of the map is empty or the ring is full",
                        packets_text(redirected.failed)),
            "put the socket into the slot of its queue, and refill the fill ring in time"};
  }
  bool program_somewhere = false;
  for (const Interface& interface : view.evidence().interfaces) {
    program_somewhere = program_somewhere || interface.xdp_mode != XdpMode::kNone;
  }
  if (place.interface != nullptr ? place.interface->xdp_mode == XdpMode::kNone
                                 : !program_somewhere) {
    return {fmt::format("no XDP program is attached to {}",
                        place.ifindex ? interface_name(view, *place.ifindex) : "any interface"),
            "attach an XDP program that redirects into the socket's map"};
  }
  if (place.interface != nullptr && place.interface->xdp_maps_known && !view.xsk_maps().empty()) {
    const auto& maps = place.interface->xdp_maps;
    const bool joined = std::any_of(maps.begin(), maps.end(), [&view](std::uint32_t map) {
      return view.xsk_maps().count(map) > 0;
    });
    if (!joined) {
      return {fmt::format("the XDP program on {} uses none of the maps this process holds",
                          interface_name(view, *place.ifindex)),
              "attach a program that uses this process's map, or put the socket into the map of "
              "the program that is attached"};
    }
  }
  return {
      "the XDP program passes the packets on (XDP_PASS): the socket's slot in the map is empty, "
      "or they arrive on another queue",
      fmt::format("have a socket on each queue that receives, or steer the packets to this one's "
                  "queue: ethtool -l, -x and -n {} show the queues and the rules",
                  place.ifindex ? interface_name(view, *place.ifindex) : "IFACE")};
}

void judge_receive(const View& view, const Place& place, const Redirected& redirected,
                   const Rings& rings, SocketVerdict& verdict) {
  const bool counting = view.traffic() != nullptr && view.traffic()->counting;
  if (redirected.packets > 0) {
    if (redirected.exact) verdict.rx.packets = redirected.packets;
    add_fact(
        verdict, "xdp_redirect",
        fmt::format("{} redirected into {} in the window", packets_text(redirected.packets),
                    redirected.exact ? "its map" : "the maps of this process's AF_XDP sockets"));
    return;
  }
  if (!rings.rx && rings.known) {
    verdict.rx.packets = 0;
    verdict.rx.why = "it has no receive ring: it only sends";
    return;
  }
  if (!counting) return;
  if (view.traffic()->lost == 0) verdict.rx.packets = 0;
  const std::uint64_t kernel = kernel_received(view);
  const Counter* no_port = nullptr;
  const auto found = view.evidence().snmp.find("Udp.NoPorts");
  if (found != view.evidence().snmp.end()) no_port = &found->second;
  const std::uint64_t unwanted = no_port != nullptr ? no_port->moved().value_or(0) : 0;
  if (kernel == 0 && unwanted == 0 && redirected.failed == 0) return;

  const auto [why, remedy] = why_kernel_carries(view, place, redirected);
  verdict.fell_back = true;
  verdict.remedy = remedy;
  verdict.rx.stack = Stack::kKernel;
  verdict.rx.tcpdump = Sight::kSees;
  verdict.rx.why = "XDP redirected nothing, so packets reach the receive tap: " + why;
  verdict.detail += "; open, but the kernel carries: " + why;
  add_fact(verdict, "xdp_redirect", "0 packets redirected in the window");
  if (kernel > 0) {
    add_fact(verdict, "tracepoints",
             fmt::format("{} delivered to kernel sockets of this process", packets_text(kernel)));
  }
  if (unwanted > 0) {
    add_fact(verdict, "/proc/net/snmp",
             fmt::format("Udp NoPorts grew by {}: the kernel got packets nobody waited for there",
                         unwanted));
  }
}

void judge_transmit(const View& view, const Subject& subject, const Place& place,
                    const Rings& rings, SocketVerdict& verdict) {
  if (!rings.tx && rings.known) {
    verdict.tx.packets = 0;
    verdict.tx.why = "it has no transmit ring: it only receives";
    return;
  }
  const SocketTraffic* counted = view.counted(subject.inode);
  if (counted != nullptr && counted->tx_packets) {
    verdict.tx.packets = counted->tx_packets;
  } else if (view.xdp_inodes().size() == 1 && place.ifindex) {
    const InterfaceTraffic* interface = view.interface_traffic(*place.ifindex);
    if (interface != nullptr) verdict.tx.packets = interface->direct_tx;
  }
  if (verdict.tx.packets.value_or(0) > 0) {
    add_fact(verdict, "tracepoints",
             fmt::format("{} handed to the driver past the transmit tap",
                         packets_text(*verdict.tx.packets)));
  }
}

}  // namespace

bool is_xdp(const View&, const Subject& subject) { return subject.protocol == "xdp"; }

void judge_xdp(const View& view, const Subject& subject, SocketVerdict& verdict) {
  use_traits(verdict, Stack::kAfXdp);
  const Rings rings = rings_of(view, subject.inode);
  const Place place = place_of(view, subject.inode);
  const Redirected redirected = redirected_to(view, place);

  if (subject.fd() != nullptr) {
    add_fact(verdict, fd_source(view, *subject.fd()),
             fmt::format("socket:[{}], system.sockprotoname XDP", subject.inode));
  }
  verdict.detail = mode_text(view, subject.inode, place);
  if (place.ifindex) verdict.interface = interface_name(view, *place.ifindex);
  if (view.evidence().xdp_diag_available) {
    verdict.ss = Listing::kLists;
    verdict.why_ss = "only ss --xdp lists it; it is in no inet table";
  } else {
    verdict.why_ss =
        "AF_XDP is no inet family, and this kernel has no xdp_diag (CONFIG_XDP_SOCKETS_DIAG): "
        "ss --xdp prints nothing, too";
  }
  if (rings.known && !rings.any()) {
    // Rings can only be used through a mapping, so the packets are somebody else's.
    verdict.confidence = Confidence::kPossible;
    verdict.detail +=
        "; this process holds the descriptor and maps none of its rings: whoever "
        "does carries the traffic";
    verdict.rx.packets = verdict.tx.packets = 0;
    return;
  }
  if (rings.any()) {
    add_fact(verdict, fmt::format("/proc/{}/maps", view.evidence().process.pid),
             "rings mapped: " + rings_text(rings));
  }
  verdict.confidence = Confidence::kLikely;
  judge_receive(view, place, redirected, rings, verdict);
  judge_transmit(view, subject, place, rings, verdict);
  if (redirected.packets > 0 || verdict.tx.packets.value_or(0) > 0) {
    verdict.confidence = Confidence::kCertain;
  }
  const SocketFacts* facts = view.facts(subject.inode);
  if (facts != nullptr && facts->xdp_rx_dropped.value_or(0) > 0) {
    add_fact(verdict, facts->source,
             fmt::format("{} dropped at the socket so far", packets_text(*facts->xdp_rx_dropped)));
  }
}

}  // namespace whylate::stack
