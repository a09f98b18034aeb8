// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/duration.h"
#include "base/escape.h"
#include "report/stack_text.h"

namespace whylate {
namespace {

using stack::Interface;
using stack::InterfaceTraffic;
using stack::SocketVerdict;
using stack::Stack;
using stack::StackReport;
using stack::XdpMode;
using Out = std::back_insert_iterator<std::string>;

constexpr std::size_t kShownInterfaces = 3;

/// Where traffic of a stack leaves the kernel's path on receive, and joins it on transmit.
enum class Exit {
  kNowhere,  ///< it goes all the way
  kDevice,   ///< before the kernel's driver
  kXdp,      ///< in the XDP program; joins at the driver
  kTap,      ///< a copy is taken beside tcpdump's; joins before the queueing discipline
  kDirect,   ///< joins at the driver (transmit only)
};

Exit receive_exit(const SocketVerdict& socket) {
  if (socket.rx.stack == Stack::kAfXdp) return Exit::kXdp;
  if (socket.rx.stack == Stack::kAfPacket) return Exit::kTap;
  if (socket.rx.stack == Stack::kTun || !traits(socket.rx.stack).bypass) return Exit::kNowhere;
  return Exit::kDevice;
}

Exit transmit_exit(const SocketVerdict& socket) {
  if (socket.tx.stack == Stack::kAfXdp) return Exit::kDirect;
  if (socket.tx.stack == Stack::kAfPacket) {
    return socket.tx.tcpdump == stack::Sight::kBlind ? Exit::kDirect : Exit::kTap;
  }
  if (socket.tx.stack == Stack::kTun || !traits(socket.tx.stack).bypass) return Exit::kNowhere;
  return Exit::kDevice;
}

/// Whether packets were counted in a direction of a socket, none: an idle process may use the way
/// it is set up for, but of a busy one whose traffic goes elsewhere it is not said.
bool passes_nothing(const StackReport& report, const stack::Direction& direction) {
  if (direction.packets.value_or(1) > 0) return false;
  return std::any_of(report.sockets.begin(), report.sockets.end(),
                     [](const SocketVerdict& socket) { return socket.moved().value_or(0) > 0; });
}

/// Sockets that this process uses and whose traffic turns off at this place, as "AF_XDP (fd 3)".
std::string users(const StackReport& report, Exit where, Exit (*exit_of)(const SocketVerdict&)) {
  std::string text;
  std::size_t more = 0;
  for (const SocketVerdict& socket : report.sockets) {
    if (exit_of(socket) != where || socket.confidence < stack::Confidence::kLikely) continue;
    if (where == Exit::kNowhere && socket.moved().value_or(0) == 0) continue;
    if (passes_nothing(report, exit_of == &receive_exit ? socket.rx : socket.tx)) continue;
    if (text.size() > 60) {
      ++more;
      continue;
    }
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", traits(socket.stack).title,
                        socket.fd ? fmt::format(" (fd {})", *socket.fd) : "");
  }
  if (more > 0) text += fmt::format(" and {} more", more);
  return text;
}

void place(Out out, const std::string& label, const std::string& count) {
  fmt::format_to(out, "    {:<44}{:>12}\n", label, count);
}

void turn(Out out, const std::string& who, const char* arrow) {
  if (!who.empty()) fmt::format_to(out, "      {} {}   <-- THIS PROCESS\n", arrow, who);
}

void line(Out out) { fmt::format_to(out, "      |\n"); }

std::string count(const std::optional<std::uint64_t>& packets) {
  return packets ? fmt::format("{}", *packets) : std::string("not counted");
}

std::optional<std::uint64_t> redirects(const StackReport& report, const Interface& interface) {
  if (!report.traffic.xdp_redirects) return std::nullopt;
  std::uint64_t sum = 0;
  for (const stack::RedirectTraffic& redirect : report.redirects) {
    if (redirect.from_ifindex == interface.ifindex) sum += redirect.redirected;
  }
  return sum;
}

void xdp_place(Out out, const StackReport& report, const Interface& interface) {
  const char* mode = interface.xdp_mode == XdpMode::kGeneric ? "generic" : "native";
  place(out, fmt::format("XDP program {} ({}): redirected to it", interface.xdp_program, mode),
        count(redirects(report, interface)));
  turn(out, users(report, Exit::kXdp, receive_exit), "+==>");
  line(out);
}

void receive(Out out, const StackReport& report, const Interface& interface,
             const InterfaceTraffic* counted) {
  const std::string name = escape(interface.name);
  fmt::format_to(out, "\n  receive, {}{}\n", name,
                 interface.kind.empty() ? "" : " (" + escape(interface.kind) + ")");
  place(out, "device " + name, count(interface.counters.rx_packets.moved()));
  turn(out, users(report, Exit::kDevice, receive_exit), "+==>");
  line(out);
  if (interface.xdp_mode == XdpMode::kNative || interface.xdp_mode == XdpMode::kOffload) {
    xdp_place(out, report, interface);
  }
  place(out, "sk_buff, netif_receive_skb",
        count(counted != nullptr ? counted->receive : std::optional<std::uint64_t>()));
  line(out);
  if (interface.xdp_mode == XdpMode::kGeneric) xdp_place(out, report, interface);
  place(out, "[tcpdump] receive tap",
        count(counted != nullptr ? counted->tap_rx : std::optional<std::uint64_t>()));
  turn(out, users(report, Exit::kTap, receive_exit), "+-->");
  line(out);
}

void transmit(Out out, const StackReport& report, const Interface& interface,
              const InterfaceTraffic* counted) {
  fmt::format_to(out, "\n  transmit, {}\n", escape(interface.name));
  turn(out, users(report, Exit::kTap, transmit_exit), "+-->");
  place(out, "queueing discipline", "");
  line(out);
  place(out, "[tcpdump] transmit tap",
        count(counted != nullptr ? counted->tap_tx : std::optional<std::uint64_t>()));
  line(out);
  place(out, "handed to the driver past the tap",
        count(counted != nullptr ? counted->direct_tx : std::optional<std::uint64_t>()));
  turn(out, users(report, Exit::kDirect, transmit_exit), "==>+");
  line(out);
  place(out, "device " + escape(interface.name), count(interface.counters.tx_packets.moved()));
  turn(out, users(report, Exit::kDevice, transmit_exit), "==>+");
}

/// Interfaces worth drawing: those with an XDP program, then the busiest.
std::vector<const Interface*> shown_interfaces(const StackReport& report) {
  std::vector<const Interface*> found;
  for (const Interface& interface : report.interfaces) {
    const std::uint64_t moved = interface.counters.rx_packets.moved().value_or(0) +
                                interface.counters.tx_packets.moved().value_or(0);
    if (interface.up && (moved > 0 || interface.xdp_mode != XdpMode::kNone)) {
      found.push_back(&interface);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Interface* a, const Interface* b) {
    const bool xdp_a = a->xdp_mode != XdpMode::kNone;
    const bool xdp_b = b->xdp_mode != XdpMode::kNone;
    if (xdp_a != xdp_b) return xdp_a;
    return a->counters.rx_packets.moved().value_or(0) > b->counters.rx_packets.moved().value_or(0);
  });
  if (found.size() > kShownInterfaces) found.resize(kShownInterfaces);
  return found;
}

}  // namespace

std::string stack_explain(const StackReport& report) {
  std::string text;
  const Out out(text);
  fmt::format_to(
      out,
      "\nthe way of a packet; counts are of {} and of all processes, except where it "
      "says otherwise;\na device's are read before the others start and after they end\n",
      format_seconds(report.traffic.window_ns));
  const std::vector<const Interface*> interfaces = shown_interfaces(report);
  const auto counted = [&report](const Interface& interface) -> const InterfaceTraffic* {
    for (const InterfaceTraffic& traffic : report.interface_traffic) {
      if (traffic.ifindex == interface.ifindex) return &traffic;
    }
    return nullptr;
  };
  if (interfaces.empty()) {
    fmt::format_to(out, "\n  no interface of its network namespace passed a packet\n");
    turn(out, users(report, Exit::kDevice, receive_exit), "past every interface:");
  }
  for (const Interface* interface : interfaces)
    receive(out, report, *interface, counted(*interface));
  place(out, "IP, TCP, UDP", "");
  line(out);
  place(out, "[ss] socket tables: sockets listed", fmt::format("{}", report.ss_listed));
  line(out);
  place(out, "delivered to this process's kernel sockets", count(report.traffic.kernel_rx_packets));
  turn(out, users(report, Exit::kNowhere, receive_exit), "+-->");
  fmt::format_to(out, "\n    {:<44}{:>12}\n", "sent by this process's kernel sockets",
                 count(report.traffic.kernel_tx_packets));
  turn(out, users(report, Exit::kNowhere, transmit_exit), "+-->");
  for (const Interface* interface : interfaces) {
    transmit(out, report, *interface, counted(*interface));
  }
  return text;
}

}  // namespace whylate
