// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/stack_window.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

namespace whylate::capture {
namespace {

using stack::SocketTraffic;

using Lines = std::map<std::uint64_t, const wl_window_line*>;

/// A socket that several descriptors name is one.
Lines sockets_of(const WindowReading& reading) {
  Lines lines;
  for (const wl_window_line& line : reading.lines) {
    if (line.kind != WL_WINDOW_EPOLL) lines.emplace(line.inode, &line);
  }
  return lines;
}

const wl_window_line* find(const Lines& lines, std::uint64_t inode) {
  const auto found = lines.find(inode);
  return found == lines.end() ? nullptr : found->second;
}

/// Growth of a counter that is 32 bits wide in the kernel.
std::uint64_t growth32(std::uint64_t before, std::uint64_t after) {
  return static_cast<std::uint32_t>(after - before);
}

std::string name_of(const wl_window_device& device) {
  return {device.name, strnlen(device.name, sizeof device.name)};
}

/// The socket's own counters, where it has some.
void add_own_counts(SocketTraffic& traffic, const wl_window_socket& end,
                    const wl_window_line* before, const wl_window_line* after) {
  const std::uint32_t kind = end.kind;
  if (after == nullptr) {
    // Closed in the window: TCP tells its last counts when it ends.
    if (kind != WL_WINDOW_TCP || end.segs_in + end.segs_out == 0) return;
    traffic.rx_packets = growth32(before != nullptr ? before->rx_count : 0, end.segs_in);
    return;
  }
  if ((after->known & WL_WINDOW_KNOWS_COUNTS) == 0) return;
  // Opened in the window: it began at 0.
  const std::uint64_t rx = before != nullptr ? before->rx_count : 0;
  const std::uint64_t tx = before != nullptr ? before->tx_count : 0;
  switch (kind) {
    case WL_WINDOW_TCP:
      traffic.rx_packets = growth32(rx, after->rx_count);
      break;
    case WL_WINDOW_PACKET:
      // Reading PACKET_STATISTICS, which the target may do, starts it again.
      if (after->rx_count >= rx) traffic.rx_packets = after->rx_count - rx;
      break;
    case WL_WINDOW_XDP:
      traffic.rx_packets = growth32(rx, after->rx_count);
      traffic.tx_packets = growth32(tx, after->tx_count);
      break;
    default:
      break;
  }
}

const char* protocol_of(std::uint32_t kind) {
  switch (kind) {
    case WL_WINDOW_TCP:
      return "tcp";
    case WL_WINDOW_UDP:
      return "udp";
    case WL_WINDOW_RAW:
      return "raw";
    case WL_WINDOW_PACKET:
      return "packet";
    case WL_WINDOW_XDP:
      return "xdp";
    default:
      return "";
  }
}

SocketTraffic socket_traffic(std::uint64_t inode, const wl_window_socket& start,
                             const wl_window_socket& end, const wl_window_line* before,
                             const wl_window_line* after) {
  SocketTraffic traffic;
  traffic.inode = inode;
  traffic.protocol = protocol_of(end.kind);
  traffic.opened = before == nullptr && end.found == 0;
  traffic.closed = after == nullptr;
  traffic.loopback = end.loopback != 0;
  if (end.kind != WL_WINDOW_XDP) {
    traffic.rx_bytes = end.rx_bytes - start.rx_bytes;
    traffic.tx_bytes = end.tx_bytes - start.tx_bytes;
    traffic.tx_packets = end.tx_packets - start.tx_packets;
  }
  // Packets taken from a ring are never read.
  if (end.kind == WL_WINDOW_PACKET && end.reads == start.reads) traffic.rx_bytes.reset();
  if (end.kind == WL_WINDOW_UDP || end.kind == WL_WINDOW_RAW) {
    traffic.rx_packets = end.ready - start.ready;
    // It is known from its first call on; what that call read had come before.
    if (traffic.opened) traffic.rx_packets = std::max(*traffic.rx_packets, end.reads);
  }
  add_own_counts(traffic, end, before, after);
  return traffic;
}

void add_sockets(stack::TrafficWindow& window, const WindowReading& before,
                 const WindowReading& after) {
  const Lines old_lines = sockets_of(before);
  const Lines new_lines = sockets_of(after);
  for (const auto& [inode, end] : after.sockets) {
    const auto start = before.sockets.find(inode);
    window.sockets.push_back(
        socket_traffic(inode, start == before.sockets.end() ? wl_window_socket{} : start->second,
                       end, find(old_lines, inode), find(new_lines, inode)));
  }
}

stack::SocketFacts facts_of(const wl_window_line& line, std::uint32_t cpus) {
  stack::SocketFacts facts;
  facts.inode = line.inode;
  facts.source = "iter/task_file";
  if ((line.known & WL_WINDOW_KNOWS_BUSY_POLL) != 0) {
    facts.busy_poll_us = line.busy_poll_us;
    facts.prefer_busy_poll = line.prefer_busy_poll != 0;
    facts.napi_id = line.napi_id > cpus ? line.napi_id : 0;
  }
  if ((line.known & WL_WINDOW_KNOWS_QDISC_BYPASS) != 0) {
    facts.qdisc_bypass = line.qdisc_bypass != 0;
  }
  if (line.kind != WL_WINDOW_XDP) return facts;
  if ((line.known & WL_WINDOW_KNOWS_COUNTS) != 0) {
    facts.xdp_rx_dropped = line.rx_dropped;
    facts.xdp_ring_full = line.rx_ring_full;
  }
  if ((line.known & WL_WINDOW_KNOWS_DEVICE) != 0) {
    facts.xdp_ifindex = line.ifindex;
    facts.xdp_queue = line.queue;
    facts.xdp_zero_copy = line.zero_copy != 0;
  }
  return facts;
}

/// The later reading knows more (a NAPI instance shows with the first packet); the earlier one
/// knows what has been closed since.
void add_facts(stack::TrafficWindow& window, const WindowReading& before,
               const WindowReading& after, std::uint32_t cpus) {
  Lines lines = sockets_of(after);
  lines.merge(sockets_of(before));
  for (const auto& [inode, line] : lines) window.socket_facts.push_back(facts_of(*line, cpus));
  for (const wl_window_line& line : after.lines) {
    if (line.kind != WL_WINDOW_EPOLL || line.busy_poll_us == 0) continue;
    window.epolls.push_back(
        {static_cast<int>(line.fd), line.busy_poll_us, line.budget, line.prefer_busy_poll != 0});
  }
}

/// Packets the device sent and the tap did not see. The tap's count is taken over the longer time,
/// so that this never invents one; where it exceeds the device's, nothing can be said.
std::optional<std::uint64_t> direct_tx(const std::string& name, std::uint64_t tap_segments,
                                       const WindowReading& before, const WindowReading& after) {
  const auto start = before.device_tx.find(name);
  const auto end = after.device_tx.find(name);
  if (start == before.device_tx.end() || end == after.device_tx.end() ||
      end->second < start->second)
    return std::nullopt;
  const std::uint64_t sent = end->second - start->second;
  return sent > tap_segments ? sent - tap_segments : 0;
}

/// Interfaces that passed nothing at any hook.
void add_silent_devices(stack::TrafficWindow& window, const WindowReading& before,
                        const WindowReading& after, std::uint64_t net_namespace,
                        const std::map<std::uint32_t, std::string>& interfaces) {
  for (const auto& [index, name] : interfaces) {
    if (after.devices.count(index) != 0) continue;
    stack::InterfaceTraffic device;
    device.ifindex = index;
    device.net_namespace = net_namespace;
    device.name = name;
    device.receive = device.tap_rx = device.tap_tx = 0;
    device.direct_tx = direct_tx(name, 0, before, after);
    window.interfaces.push_back(std::move(device));
  }
}

void add_devices(stack::TrafficWindow& window, const WindowReading& before,
                 const WindowReading& after, std::uint64_t net_namespace) {
  std::set<std::string> seen;
  for (const auto& [index, end] : after.devices) {
    const auto found = before.devices.find(index);
    const wl_window_device start =
        found == before.devices.end() ? wl_window_device{} : found->second;
    stack::InterfaceTraffic device;
    device.ifindex = index;
    device.net_namespace = net_namespace;
    device.name = name_of(end);
    device.receive = end.receive - start.receive;
    const std::uint64_t taken = end.generic_redirect - start.generic_redirect;
    // The two hooks are not read at one moment.
    device.tap_rx = *device.receive - std::min(taken, *device.receive);
    device.tap_tx = end.tap_tx - start.tap_tx;
    device.direct_tx =
        direct_tx(device.name, end.tap_tx_segments - start.tap_tx_segments, before, after);
    if (end.generic_program != 0) {
      window.not_counted.push_back(
          {"netif_receive_skb on " + device.name,
           "what a generic XDP program drops or sends back has no tracepoint",
           "how many of the packets counted at the receive tap it took away; redirects are known"});
    }
    window.interfaces.push_back(std::move(device));
  }
}

void add_redirects(stack::TrafficWindow& window, const WindowReading& before,
                   const WindowReading& after, std::uint64_t net_namespace) {
  for (const auto& [key, end] : after.redirects) {
    const auto found = before.redirects.find(key);
    const wl_window_redirect start =
        found == before.redirects.end() ? wl_window_redirect{} : found->second;
    stack::RedirectTraffic redirect;
    std::tie(redirect.from_ifindex, redirect.map_id, redirect.map_type, redirect.index) = key;
    redirect.net_namespace = net_namespace;
    redirect.redirected = end.redirected - start.redirected;
    redirect.failed = end.failed - start.failed;
    if (redirect.redirected + redirect.failed > 0) window.redirects.push_back(redirect);
  }
}

}  // namespace

stack::TrafficWindow window_between(const WindowReading& before, const WindowReading& after,
                                    std::uint64_t net_namespace, std::uint32_t cpus,
                                    const std::map<std::uint32_t, std::string>& interfaces) {
  stack::TrafficWindow window;
  add_sockets(window, before, after);
  add_facts(window, before, after, cpus);
  add_devices(window, before, after, net_namespace);
  add_silent_devices(window, before, after, net_namespace, interfaces);
  add_redirects(window, before, after, net_namespace);
  return window;
}

void forget_uncounted(stack::TrafficWindow& window, const std::string& tracepoint) {
  for (SocketTraffic& socket : window.sockets) {
    const bool datagrams = socket.protocol == "udp" || socket.protocol == "raw";
    if (tracepoint == "sk_data_ready" && datagrams) socket.rx_packets.reset();
    if (tracepoint == "net_dev_start_xmit" && socket.protocol != "xdp") socket.tx_packets.reset();
    if (tracepoint == "sock_recv_length") socket.rx_bytes.reset();
    if (tracepoint == "sock_send_length") socket.tx_bytes.reset();
  }
  for (stack::InterfaceTraffic& device : window.interfaces) {
    if (tracepoint == "netif_receive_skb") {
      device.receive.reset();
      device.tap_rx.reset();
    }
    if (tracepoint == "net_dev_start_xmit") {
      device.tap_tx.reset();
      device.direct_tx.reset();
    }
  }
}

}  // namespace whylate::capture
