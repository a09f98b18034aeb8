// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stack/evidence.h"

// What the window saw pass: counts of kernel tracepoints, keyed by the subject (socket, interface,
// map), never by the current task. An empty std::optional is "not counted", with the reason in
// TrafficWindow::not_counted.

namespace whylate::stack {

/// Packets of one socket that went through the kernel's stack.
struct SocketTraffic {
  std::uint64_t inode = 0;
  std::string protocol;                     ///< "tcp", "udp", "raw", "packet", "xdp"
  bool opened = false;                      ///< in the window: it began at 0
  bool closed = false;                      ///< no table held it any more at the window's end
  bool loopback = false;                    ///< its own address is one of loopback
  std::optional<std::uint64_t> rx_packets;  ///< delivered to the socket (segments for TCP)
  std::optional<std::uint64_t> rx_bytes;    ///< read from it
  std::optional<std::uint64_t> tx_packets;  ///< reached a driver through the queueing discipline
  std::optional<std::uint64_t> tx_bytes;
};

/// Packets at the places of one interface.
struct InterfaceTraffic {
  std::uint32_t ifindex = 0;
  std::uint64_t net_namespace = 0;  ///< inode
  std::string name;
  std::optional<std::uint64_t> receive;    ///< netif_receive_skb: before generic XDP and the tap
  std::optional<std::uint64_t> tap_rx;     ///< reached the position of tcpdump's receive tap
  std::optional<std::uint64_t> tap_tx;     ///< passed tcpdump's transmit tap
  std::optional<std::uint64_t> direct_tx;  ///< to the driver past the transmit tap
};

/// Redirects of XDP programs into one slot of a map.
struct RedirectTraffic {
  std::uint32_t from_ifindex = 0;
  std::uint64_t net_namespace = 0;  ///< of that interface
  std::uint32_t map_id = 0;
  std::uint32_t map_type = 0;  ///< 17: xskmap
  std::uint32_t index = 0;     ///< slot; for an xskmap usually the queue
  std::uint64_t redirected = 0;
  std::uint64_t failed = 0;
};

/// Everything counted between the first and the second reading of the counters.
struct TrafficWindow {
  std::uint64_t window_ns = 0;
  /// The tracepoints were attached all along: then a socket or interface that is not listed below
  /// passed nothing (unless `lost` is not 0). False: nothing was counted.
  bool counting = false;
  std::vector<SocketTraffic> sockets;  ///< sockets of the target, also those only a ring holds
  std::vector<InterfaceTraffic> interfaces;  ///< of the target's network namespace
  std::vector<RedirectTraffic> redirects;    ///< from interfaces of that namespace
  std::vector<SocketFacts> socket_facts;     ///< what the iterator read from the sockets
  std::vector<EpollFacts> epolls;
  std::uint64_t lost = 0;  ///< events that found no room in a map
  std::vector<Unreadable> not_counted;
};

/// What to count.
struct ObserveRequest {
  pid_t pid = 0;
  std::uint64_t net_namespace = 0;    ///< inode
  std::vector<std::uint64_t> inodes;  ///< further sockets: those registered with io_uring
  /// Interfaces of the namespace by index: one that passes nothing is counted as 0.
  std::map<std::uint32_t, std::string> interfaces;
  std::uint64_t window_ns = 2'000'000'000;
};

}  // namespace whylate::stack
