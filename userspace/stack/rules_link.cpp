// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include "base/escape.h"
#include "stack/rules.h"

namespace whylate::stack {
namespace {

/// Whether frames skip the queueing discipline; nothing when it could not be read.
std::optional<bool> bypasses_qdisc(const View& view, std::uint64_t inode) {
  const SocketFacts* facts = view.facts(inode);
  return facts == nullptr ? std::nullopt : facts->qdisc_bypass;
}

bool is_only_packet_socket(const View& view, std::uint64_t inode) {
  for (const FdEntry& fd : view.evidence().fds) {
    if (fd.kind == ObjectKind::kSocket && fd.protocol == "PACKET" && fd.inode != inode)
      return false;
  }
  return true;
}

/// Packets a packet socket passed. What it sends is counted behind the queueing discipline; past it
/// only for the interface, which is the socket's own count where it is the only one that can.
void count_packet(const View& view, const Subject& subject, SocketVerdict& verdict) {
  const SocketTraffic* counted = view.counted(subject.inode);
  if (counted == nullptr) return;
  verdict.rx.packets = counted->rx_packets;
  verdict.rx.bytes = counted->rx_bytes;
  const std::optional<bool> bypass = bypasses_qdisc(view, subject.inode);
  const bool sent = counted->tx_packets.value_or(0) > 0;
  if (sent || (bypass.has_value() && !bypass.value())) {
    verdict.tx.packets = counted->tx_packets;
    verdict.tx.bytes = counted->tx_bytes;
  } else if (bypass.value_or(false) && subject.row != nullptr && subject.row->ifindex != 0 &&
             is_only_packet_socket(view, subject.inode) && view.xdp_inodes().empty()) {
    const InterfaceTraffic* interface = view.interface_traffic(subject.row->ifindex);
    if (interface != nullptr) verdict.tx.packets = interface->direct_tx;
  }
}

}  // namespace

bool is_packet(const View&, const Subject& subject) { return subject.protocol == "packet"; }

void judge_packet(const View& view, const Subject& subject, SocketVerdict& verdict) {
  use_traits(verdict, Stack::kAfPacket);
  const DiagRow* row = subject.row;
  if (subject.fd() != nullptr) {
    add_fact(verdict, fd_source(view, *subject.fd()),
             fmt::format("socket:[{}], system.sockprotoname PACKET", subject.inode));
  }
  std::string ring = "no ring";
  if (row != nullptr && (row->rx_ring || row->tx_ring)) {
    ring = row->rx_ring && row->tx_ring ? "rx and tx ring" : row->rx_ring ? "rx ring" : "tx ring";
    add_fact(verdict, "packet_diag", ring);
  } else if (!view.maps_of(subject.inode).empty()) {
    ring = "a ring is mapped";
    add_fact(verdict, fmt::format("/proc/{}/maps", view.evidence().process.pid), ring);
  }
  verdict.detail = ring;
  if (row != nullptr && row->ifindex != 0) {
    verdict.interface = interface_name(view, row->ifindex);
    verdict.detail += ", on " + verdict.interface;
  }

  count_packet(view, subject, verdict);
  const bool moved = verdict.moved().value_or(0) > 0;
  verdict.confidence = moved ? Confidence::kCertain : Confidence::kLikely;
  if (moved) {
    add_fact(
        verdict, "tracepoints",
        fmt::format("{} in and {} out in the window", packets_text(verdict.rx.packets.value_or(0)),
                    verdict.tx.packets ? packets_text(*verdict.tx.packets)
                                       : std::string("an unknown number")));
  }

  const SocketFacts* facts = view.facts(subject.inode);
  const bool known = facts != nullptr && facts->qdisc_bypass.has_value();
  if (known && *facts->qdisc_bypass) {
    verdict.tx.tcpdump = Sight::kBlind;
    verdict.tx.why =
        "PACKET_QDISC_BYPASS is set: packet_direct_xmit hands the frame to the driver and skips "
        "dev_queue_xmit_nit, so tcpdump sees one direction only";
    verdict.detail += ", queueing discipline bypassed";
    add_fact(verdict, facts->source, "PACKET_QDISC_BYPASS is 1");
  } else if (!known) {
    verdict.tx.tcpdump = Sight::kUnknown;
    verdict.tx.why = "whether PACKET_QDISC_BYPASS is set could not be read";
  }
  if (moved && verdict.tx.packets == std::optional<std::uint64_t>(0)) {
    verdict.detail += ", a tap only: it gets copies and sends nothing";
  }
}

bool is_tun(const View&, const Subject& subject) { return subject.object == ObjectKind::kTun; }

void judge_tun(const View& view, const Subject& subject, SocketVerdict& verdict) {
  use_traits(verdict, Stack::kTun);
  verdict.confidence = Confidence::kLikely;
  const FdEntry& fd = *subject.fd();
  add_fact(verdict, fd_source(view, fd),
           fd.interface.empty() ? "/dev/net/tun, attached to no interface"
                                : "/dev/net/tun, attached to " + escape(fd.interface));
  if (fd.interface.empty()) {
    verdict.detail = "attached to no interface: it passes nothing";
    verdict.rx.packets = verdict.tx.packets = 0;
    return;
  }
  verdict.interface = escape(fd.interface);
  verdict.detail = "interface " + verdict.interface;
  if (subject.fds.size() > 1) {
    verdict.detail += fmt::format(", {} queues", subject.fds.size());
  }
  // What the process reads is what the kernel transmits on the interface.
  const char* source = "/proc/net/dev";
  for (const Interface& interface : view.evidence().interfaces) {
    if (interface.name != fd.interface) continue;
    verdict.rx.packets = interface.counters.tx_packets.moved();
    verdict.tx.packets = interface.counters.rx_packets.moved();
    const InterfaceTraffic* counted = view.interface_traffic(interface.ifindex);
    if (counted == nullptr || !counted->tap_tx || !counted->receive) continue;
    // Counted in the window alone; the device's readings lie around it.
    verdict.rx.packets = counted->tap_tx;
    verdict.tx.packets = counted->receive;
    source = "tracepoints";
  }
  if (verdict.moved().value_or(0) > 0) {
    verdict.confidence = Confidence::kCertain;
    add_fact(verdict, source,
             fmt::format("{} read and {} written by this process through {}",
                         packets_text(verdict.rx.packets.value_or(0)),
                         packets_text(verdict.tx.packets.value_or(0)), escape(fd.interface)));
  }
}

}  // namespace whylate::stack
