// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/stack_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/duration.h"
#include "base/escape.h"

namespace whylate {
namespace {

using stack::SocketVerdict;
using stack::StackReport;
using Out = std::back_insert_iterator<std::string>;

constexpr std::size_t kShownSockets = 20;
constexpr std::size_t kShownFacts = 6;

std::string count_or_dash(const std::optional<std::uint64_t>& count) {
  return count ? fmt::format("{}", *count) : std::string("-");
}

std::string socket_name(const SocketVerdict& socket) {
  if (socket.fd) return fmt::format("fd {}", *socket.fd);
  return socket.count > 1 ? fmt::format("{} x", socket.count) : std::string("no fd");
}

std::string endpoint(const SocketVerdict& socket) {
  if (socket.local.empty()) return "";
  return socket.remote.empty() ? socket.local : socket.local + " <- " + socket.remote;
}

void write_socket(const SocketVerdict& socket, Out out) {
  fmt::format_to(out, "\n  {:<7} {:<12} {:<10} {:<9} {}\n", socket_name(socket), socket.kind,
                 traits(socket.stack).name, name(socket.confidence), endpoint(socket));
  if (!socket.detail.empty()) fmt::format_to(out, "          {}\n", socket.detail);
  if (socket.fell_back) fmt::format_to(out, "          FELL BACK to the kernel\n");
  fmt::format_to(out, "    rx {:>10}   {:<10} tcpdump {}: {}\n", count_or_dash(socket.rx.packets),
                 traits(socket.rx.stack).name, name(socket.rx.tcpdump), socket.rx.why);
  fmt::format_to(out, "    tx {:>10}   {:<10} tcpdump {}: {}\n", count_or_dash(socket.tx.packets),
                 traits(socket.tx.stack).name, name(socket.tx.tcpdump), socket.tx.why);
  fmt::format_to(out, "    ss {}{}: {}\n", name(socket.ss),
                 socket.ss_command.empty() ? "" : " (" + socket.ss_command + ")", socket.why_ss);
  std::size_t shown = 0;
  for (const stack::Fact& fact : socket.evidence) {
    if (++shown > kShownFacts) break;
    fmt::format_to(out, "    - {}: {}\n", fact.source, fact.text);
  }
  if (socket.evidence.size() > kShownFacts) {
    fmt::format_to(out, "    - and {} more (--json)\n", socket.evidence.size() - kShownFacts);
  }
}

/// The busiest first, then what is not the kernel's, then in the order of descriptors.
std::vector<const SocketVerdict*> by_interest(const StackReport& report) {
  std::vector<const SocketVerdict*> sockets;
  for (const SocketVerdict& socket : report.sockets) sockets.push_back(&socket);
  std::stable_sort(sockets.begin(), sockets.end(), [](const auto* a, const auto* b) {
    if (a->fell_back != b->fell_back) return a->fell_back;
    const std::uint64_t moved_a = a->moved().value_or(0);
    const std::uint64_t moved_b = b->moved().value_or(0);
    if (moved_a != moved_b) return moved_a > moved_b;
    return traits(a->stack).bypass > traits(b->stack).bypass;
  });
  return sockets;
}

void write_traffic(const stack::TrafficSummary& traffic, Out out) {
  fmt::format_to(out, "\nin {}\n", format_seconds(traffic.window_ns));
  fmt::format_to(out, "  {:<44}{:>10}{:>10}\n", "", "rx", "tx");
  fmt::format_to(out, "  {:<44}{:>10}{:>10}\n", "this process's kernel sockets",
                 count_or_dash(traffic.kernel_rx_packets),
                 count_or_dash(traffic.kernel_tx_packets));
  fmt::format_to(out, "  {:<44}{:>10}{:>10}\n", "tcpdump's position, every interface here",
                 count_or_dash(traffic.tap_rx_packets), count_or_dash(traffic.tap_tx_packets));
  fmt::format_to(out, "  {:<44}{:>10}{:>10}\n", "past it: XDP redirects; direct transmits",
                 count_or_dash(traffic.xdp_redirects), count_or_dash(traffic.direct_tx_packets));
  fmt::format_to(out, "  {:<44}{:>10}{:>10}\n", "devices, read before and after all that",
                 count_or_dash(traffic.nic_rx_packets), count_or_dash(traffic.nic_tx_packets));
}

void write_shares(const StackReport& report, Out out) {
  if (report.shares.empty()) return;
  fmt::format_to(out, "\nstacks\n");
  for (const stack::Share& share : report.shares) {
    const std::string part =
        share.share ? fmt::format("{:.1f} %", *share.share * 100) : std::string("-");
    fmt::format_to(out, "  {:<18}{:>5} {:<9}{:>12} packets{:>10}{}\n", traits(share.stack).name,
                   share.sockets, share.sockets == 1 ? "socket" : "sockets", share.packets, part,
                   share.countable ? "" : "   some of it cannot be counted");
  }
}

void write_tools(const StackReport& report, Out out) {
  std::size_t all = 0;
  for (const SocketVerdict& socket : report.sockets) all += socket.count;
  std::string commands;
  for (const std::string& command : report.ss_commands) {
    commands += (commands.empty() ? "" : ", ") + command;
  }
  fmt::format_to(out, "\ntcpdump   rx {}, tx {}\n          {}\n", name(report.tcpdump_rx),
                 name(report.tcpdump_tx), report.tcpdump_why);
  fmt::format_to(out, "ss        lists {} of {}{}\n          {}\n", report.ss_listed, all,
                 commands.empty() ? "" : " (" + commands + ")", report.ss_why);
  if (report.use_instead.empty()) return;
  fmt::format_to(out, "use       {}\n", report.use_instead.front());
  for (std::size_t i = 1; i < report.use_instead.size(); ++i) {
    fmt::format_to(out, "          {}\n", report.use_instead[i]);
  }
}

}  // namespace

std::string stack_to_text(const StackReport& report) {
  std::string text;
  const Out out(text);
  fmt::format_to(out, "{}[{}]   {}   {} ({})\n", escape(report.process.comm), report.process.pid,
                 report.headline, traits(report.verdict).name, name(report.confidence));
  if (report.derived_from_source) {
    fmt::format_to(out,
                   "  derived from source, not run: this row was never compared with a live "
                   "process\n");
  }
  if (report.fell_back == std::optional<bool>(true)) {
    fmt::format_to(out, "  FELL BACK: {}\n", report.fell_back_why);
    for (const stack::StackFinding& finding : report.findings) {
      if (finding.id == stack::kFellBack && !finding.remedy.empty()) {
        fmt::format_to(out, "    -> {}\n", finding.remedy);
      }
    }
  } else if (report.fell_back) {
    fmt::format_to(out, "  no fall back seen\n");
  } else if (!report.fell_back_why.empty()) {
    fmt::format_to(out, "  fall back: {}\n", report.fell_back_why);
  }
  write_shares(report, out);
  write_tools(report, out);
  write_traffic(report.traffic, out);

  if (!report.sockets.empty()) fmt::format_to(out, "\nsockets and devices\n");
  std::size_t shown = 0;
  for (const SocketVerdict* socket : by_interest(report)) {
    if (++shown > kShownSockets) break;
    write_socket(*socket, out);
  }
  if (report.sockets.size() > kShownSockets) {
    fmt::format_to(out, "\n  and {} more (--json)\n", report.sockets.size() - kShownSockets);
  }
  if (report.unix_sockets + report.other_sockets > 0) {
    fmt::format_to(out, "\n  not judged: {} unix, {} netlink and other sockets\n",
                   report.unix_sockets, report.other_sockets);
  }
  bool headed = false;
  for (const stack::StackFinding& finding : report.findings) {
    if (finding.id == stack::kFellBack) continue;  // stands above
    if (!headed) fmt::format_to(out, "\nfindings\n");
    headed = true;
    fmt::format_to(out, "  {}: {}\n", finding.id, finding.text);
    if (!finding.remedy.empty()) fmt::format_to(out, "    -> {}\n", finding.remedy);
  }
  if (!report.could_not_read.empty()) {
    fmt::format_to(out, "\ncould not read (absence of evidence is not evidence)\n");
  }
  for (const stack::Unreadable& gap : report.could_not_read) {
    fmt::format_to(out, "  {}: {}{}\n", escape(gap.source), escape(gap.reason),
                   gap.unknown.empty() ? "" : "; unknown: " + escape(gap.unknown));
  }
  return text;
}

}  // namespace whylate
