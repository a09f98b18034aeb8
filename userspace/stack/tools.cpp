// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/escape.h"

namespace whylate::stack {
namespace {

Sight combine(const std::vector<const SocketVerdict*>& sockets, Direction SocketVerdict::*which) {
  bool sees = false;
  bool blind = false;
  bool unknown = sockets.empty();
  for (const SocketVerdict* socket : sockets) {
    const Sight sight = (socket->*which).tcpdump;
    sees = sees || sight == Sight::kSees;
    blind = blind || sight == Sight::kBlind;
    unknown = unknown || sight == Sight::kUnknown;
  }
  if (sees && blind) return Sight::kPartly;
  if (unknown) return Sight::kUnknown;
  return sees ? Sight::kSees : Sight::kBlind;
}

/// Sockets whose fate decides what the tools show of the process, the busiest first.
std::vector<const SocketVerdict*> decisive(const StackReport& report) {
  std::vector<const SocketVerdict*> found;
  const bool moved = std::any_of(report.sockets.begin(), report.sockets.end(),
                                 [](const SocketVerdict& s) { return s.moved().value_or(0) > 0; });
  for (const SocketVerdict& socket : report.sockets) {
    const bool silent =
        traits(socket.stack).bypass && socket.confidence >= Confidence::kLikely && !socket.moved();
    if (!moved || silent || socket.moved().value_or(0) > 0) found.push_back(&socket);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto* a, const auto* b) {
    return a->moved().value_or(0) > b->moved().value_or(0);
  });
  // Without traffic the bypass stacks are what a user asks about.
  if (!moved) {
    std::stable_sort(found.begin(), found.end(), [](const auto* a, const auto* b) {
      return traits(a->stack).bypass > traits(b->stack).bypass;
    });
    const auto end = std::find_if(found.begin(), found.end(), [](const SocketVerdict* socket) {
      return !traits(socket->stack).bypass;
    });
    if (end != found.begin()) found.erase(end, found.end());
  }
  return found;
}

/// The interface that a tool has to be pointed at: where sockets of that stack sit, else, for those
/// that are bound to none, the busiest one.
std::string interface_for(Stack stack, const StackReport& report) {
  for (const SocketVerdict& socket : report.sockets) {
    if ((socket.stack == stack || is_transport(socket.stack)) && !socket.interface.empty()) {
      return socket.interface;
    }
  }
  const Interface* busiest = nullptr;
  const auto packets = [](const Interface* interface) {
    return interface->counters.rx_packets.moved().value_or(0) +
           interface->counters.tx_packets.moved().value_or(0);
  };
  for (const Interface& interface : report.interfaces) {
    if (interface.loopback || !interface.up) continue;
    if (busiest == nullptr || packets(&interface) > packets(busiest)) busiest = &interface;
  }
  return busiest == nullptr ? "" : escape(busiest->name);
}

void replace_word(std::string& text, const std::string& word, const std::string& with) {
  const std::size_t at = text.find(word);
  if (at != std::string::npos) text.replace(at, word.size(), with);
}

void add_tools(Stack stack, StackReport& report) {
  const std::string interface = interface_for(stack, report);
  std::string rest = traits(stack).use_instead;
  while (!rest.empty()) {
    const std::size_t end = rest.find(" ; ");
    std::string tool = rest.substr(0, end);
    rest = end == std::string::npos ? "" : rest.substr(end + 3);
    replace_word(tool, "PID", std::to_string(report.process.pid));
    if (tool.find("IFACE") != std::string::npos) {
      if (interface.empty()) continue;  // there is none to look at
      replace_word(tool, "IFACE", interface);
    }
    auto& tools = report.use_instead;
    if (std::find(tools.begin(), tools.end(), tool) == tools.end()) tools.push_back(tool);
  }
}

}  // namespace

bool is_transport(Stack stack) {
  return stack == Stack::kAfXdp || stack == Stack::kAfPacket || stack == Stack::kTun;
}

void judge_tools(StackReport& report) {
  const std::vector<const SocketVerdict*> sockets = decisive(report);
  report.tcpdump_rx = combine(sockets, &SocketVerdict::rx);
  report.tcpdump_tx = combine(sockets, &SocketVerdict::tx);
  if (sockets.empty()) {
    report.tcpdump_why = "the process has no network object";
    report.ss_why = "it has no socket that ss knows a table for";
  } else {
    const SocketVerdict& first = *sockets.front();
    report.tcpdump_why = "receive: " + first.rx.why + "; transmit: " + first.tx.why;
    report.ss_why = first.why_ss;
  }
  for (const SocketVerdict& socket : report.sockets) {
    if (socket.ss != Listing::kLists) continue;
    report.ss_listed += socket.count;
    auto& commands = report.ss_commands;
    if (std::find(commands.begin(), commands.end(), socket.ss_command) == commands.end()) {
      commands.push_back(socket.ss_command);
    }
  }
  if (report.process.other_net_namespace) {
    const std::string interface = interface_for(report.verdict, report);
    report.findings.push_back(
        {"other_namespace",
         "the process lives in another network namespace: tcpdump and ss started outside it show "
         "nothing of it, whichever stack it uses",
         fmt::format("nsenter -t {0} -n ss -tuanp; nsenter -t {0} -n tcpdump -i {1}",
                     report.process.pid, interface.empty() ? "any" : interface)});
  }
}

void name_use_instead(const std::vector<Stack>& carriers, StackReport& report) {
  if (report.verdict != Stack::kMixed && report.verdict != Stack::kNone) {
    add_tools(report.verdict, report);
  }
  for (const Stack stack : carriers) add_tools(stack, report);
}

}  // namespace whylate::stack
