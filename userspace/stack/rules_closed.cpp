// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <map>
#include <utility>

#include "stack/rules.h"

namespace whylate::stack {
namespace {

Stack stack_of(const std::string& protocol) {
  return protocol == "xdp"      ? Stack::kAfXdp
         : protocol == "packet" ? Stack::kAfPacket
                                : Stack::kKernel;
}

void add(std::optional<std::uint64_t>& sum, const std::optional<std::uint64_t>& part) {
  if (part) sum = sum.value_or(0) + *part;
}

SocketVerdict start(const std::string& protocol, bool loopback) {
  SocketVerdict verdict;
  use_traits(verdict, stack_of(protocol));
  verdict.count = 0;
  verdict.kind = protocol;
  verdict.confidence = Confidence::kLikely;
  // Their addresses differ and are gone; what matters is whether an accelerator could have them.
  if (loopback) verdict.local = "127.0.0.0/8";
  verdict.ss = Listing::kHides;
  verdict.why_ss = "they are closed: ss lists what is open while it runs";
  return verdict;
}

}  // namespace

std::vector<SocketVerdict> judge_closed(const View& view, const std::set<std::uint64_t>& judged) {
  std::vector<SocketVerdict> verdicts;
  if (view.traffic() == nullptr) return verdicts;
  std::map<std::pair<std::string, bool>, SocketVerdict> sums;
  for (const SocketTraffic& socket : view.traffic()->sockets) {
    if (socket.protocol.empty() || judged.count(socket.inode) != 0) continue;
    const auto key = std::make_pair(socket.protocol, socket.loopback);
    SocketVerdict& sum =
        sums.try_emplace(key, start(socket.protocol, socket.loopback)).first->second;
    ++sum.count;
    add(sum.rx.packets, socket.rx_packets);
    add(sum.tx.packets, socket.tx_packets);
    add(sum.rx.bytes, socket.rx_bytes);
    add(sum.tx.bytes, socket.tx_bytes);
  }
  for (auto& [key, sum] : sums) {
    sum.detail = fmt::format("{} opened and closed within the window{}",
                             sum.count == 1 ? "a socket" : fmt::format("{} sockets", sum.count),
                             key.second ? ", on loopback" : "");
    if (sum.moved().value_or(0) > 0) {
      sum.confidence = Confidence::kCertain;
      add_fact(sum, "tracepoints",
               fmt::format("{} in and {} out", packets_text(sum.rx.packets.value_or(0)),
                           packets_text(sum.tx.packets.value_or(0))));
    }
    verdicts.push_back(std::move(sum));
  }
  return verdicts;
}

}  // namespace whylate::stack
