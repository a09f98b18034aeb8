// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/summarise.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/duration.h"
#include "stack/findings.h"
#include "stack/tools.h"

namespace whylate::stack {
namespace {

/// What one stack did, over all sockets of the process.
struct Use {
  Share share;
  Confidence best = Confidence::kUnknown;
  bool moved = false;  ///< counted packets, or certain without a count of its own
};

bool is_kernel_flavour(Stack stack) {
  return stack == Stack::kKernel || stack == Stack::kKernelBusyPoll || stack == Stack::kIoUring ||
         stack == Stack::kMptcp;
}

Use& use_of(std::vector<Use>& uses, Stack stack) {
  for (Use& use : uses) {
    if (use.share.stack == stack) return use;
  }
  uses.emplace_back();
  uses.back().share.stack = stack;
  return uses.back();
}

std::vector<Use> uses_of(const View& view, const StackReport& report) {
  std::vector<Use> uses;
  for (const SocketVerdict& socket : report.sockets) {
    if (socket.stack == Stack::kUnknown) continue;
    Use& use = use_of(uses, socket.stack);
    use.share.sockets += socket.count;
    use.share.packets += socket.moved().value_or(0);
    use.best = std::max(use.best, socket.confidence);
    const bool uncounted = !socket.rx.packets || !socket.tx.packets;
    if (uncounted && socket.confidence >= Confidence::kLikely) use.share.countable = false;
    if (socket.moved().value_or(0) > 0 || socket.confidence == Confidence::kCertain) {
      use.moved = true;
    }
  }
  // Redirects that could not be told apart by socket still are the process's.
  std::uint64_t redirected = 0;
  for (const RedirectTraffic& redirect : view.own_redirects()) redirected += redirect.redirected;
  std::uint64_t booked = 0;
  for (const SocketVerdict& socket : report.sockets) {
    if (socket.stack == Stack::kAfXdp) booked += socket.rx.packets.value_or(0);
  }
  if (redirected > booked) {
    Use& use = use_of(uses, Stack::kAfXdp);
    use.share.packets += redirected - booked;
  }
  return uses;
}

void fill_shares(const std::vector<Use>& uses, StackReport& report) {
  std::uint64_t all = 0;
  for (const Use& use : uses) all += use.share.packets;
  for (const Use& use : uses) {
    Share share = use.share;
    if (all > 0) share.share = static_cast<double>(share.packets) / static_cast<double>(all);
    report.shares.push_back(share);
  }
  std::stable_sort(report.shares.begin(), report.shares.end(),
                   [](const Share& a, const Share& b) { return a.packets > b.packets; });
}

/// Stacks that carried something; where nothing moved, those that could.
std::vector<const Use*> carrying(const std::vector<Use>& uses) {
  std::vector<const Use*> found;
  for (const Use& use : uses) {
    // A device handle whose packets nobody can count may carry beside sockets that are counted.
    const bool silent_device = !use.moved && traits(use.share.stack).bypass &&
                               !use.share.countable && use.best >= Confidence::kLikely &&
                               !is_transport(use.share.stack);
    if (use.moved || silent_device) found.push_back(&use);
  }
  if (!found.empty()) return found;
  Confidence best = Confidence::kUnknown;
  for (const Use& use : uses) {
    if (traits(use.share.stack).bypass) best = std::max(best, use.best);
  }
  for (const Use& use : uses) {
    if (best >= Confidence::kLikely && traits(use.share.stack).bypass && use.best == best) {
      found.push_back(&use);
    }
  }
  if (!found.empty()) return found;
  for (const Use& use : uses) {
    if (is_kernel_flavour(use.share.stack)) found.push_back(&use);
  }
  if (!found.empty()) return found;
  for (const Use& use : uses) found.push_back(&use);
  return found;
}

/// Makes "DPDK" of "AF_XDP" where the process is DPDK on top of it.
void name_framework(const View& view, const std::vector<const Use*>& found, StackReport& report) {
  const Framework top = framework(view);
  if (top.stack == Stack::kUnknown || found.empty()) return;
  const bool over_transport = std::all_of(
      found.begin(), found.end(), [](const Use* use) { return is_transport(use->share.stack); });
  if (!over_transport) return;
  if (top.confidence < Confidence::kLikely) {
    report.findings.push_back({"possible_framework",
                               fmt::format("it may be {}: {}", traits(top.stack).title, top.why),
                               ""});
    return;
  }
  const auto& dpdk = view.evidence().dpdk;
  const bool locked =
      dpdk && (dpdk->telemetry_answered || dpdk->primary == std::optional<bool>(true));
  if (top.stack != Stack::kDpdk || !locked) {
    report.confidence = std::min(report.confidence, Confidence::kLikely);
  }
  report.verdict = top.stack;
  report.derived_from_source = top.stack != Stack::kDpdk;
}

void judge_process(const View& view, const std::vector<const Use*>& found, StackReport& report) {
  if (found.empty()) {
    const bool blind = unreadable(view.evidence(), "/fd");
    const bool strangers = !report.sockets.empty();
    report.verdict = blind || strangers ? Stack::kUnknown : Stack::kNone;
    report.confidence = blind || strangers ? Confidence::kUnknown : Confidence::kCertain;
    if (report.verdict == Stack::kNone && !view.evidence().could_not_read.empty()) {
      report.confidence = Confidence::kLikely;
    }
    return;
  }
  bool kernel_only = true;
  for (const Use* use : found) {
    kernel_only = kernel_only && is_kernel_flavour(use->share.stack) && !use->moved;
    report.derived_from_source = report.derived_from_source || !traits(use->share.stack).run;
  }
  report.verdict = found.size() == 1 ? found.front()->share.stack
                   : kernel_only     ? Stack::kKernel
                                     : Stack::kMixed;
  report.confidence = Confidence::kCertain;
  for (const Use* use : found) report.confidence = std::min(report.confidence, use->best);
  // Sockets that could not be judged may carry anything.
  if (unreadable(view.evidence(), "/fd")) {
    report.confidence = std::min(report.confidence, Confidence::kLikely);
  }
  name_framework(view, found, report);
}

void judge_fell_back(const std::vector<Accelerator>& accelerators, StackReport& report) {
  std::size_t fallen = 0;
  std::uint64_t packets = 0;
  bool accelerated = false;
  bool by_object = false;  // the kernel's object itself says who carries it, without any traffic
  for (const SocketVerdict& socket : report.sockets) {
    const bool open_bypass = socket.stack == Stack::kAfXdp || traits(socket.stack).bypass;
    const bool likely = socket.confidence >= Confidence::kLikely;
    accelerated = accelerated || (open_bypass && likely);
    by_object = by_object || (open_bypass && likely && socket.stack != Stack::kAfXdp);
    if (!socket.fell_back) continue;
    fallen += socket.count;
    packets += socket.moved().value_or(0);
  }
  const bool asked = std::any_of(accelerators.begin(), accelerators.end(),
                                 [](const auto& one) { return one.stack != Stack::kUnknown; });
  if (fallen > 0) {
    report.fell_back = true;
    std::string sign;
    for (const Accelerator& accelerator : accelerators) {
      if (accelerator.stack == Stack::kUnknown) continue;
      sign = accelerator.sign;
      if (!accelerator.not_loaded.empty()) sign += ", but " + accelerator.not_loaded;
    }
    if (sign.empty()) {
      for (const SocketVerdict& socket : report.sockets) {
        if (socket.fell_back) sign = socket.detail;
      }
    }
    report.fell_back_why =
        fmt::format("{} socket{} left to the kernel{}: {}", fallen, fallen == 1 ? "" : "s",
                    packets > 0 ? " with " + packets_text(packets) + " in the window" : "", sign);
  } else if (asked || accelerated) {
    // Redirects into the maps of several sockets are no single one's packets.
    const bool moved =
        report.traffic.xdp_redirects.value_or(0) > 0 ||
        std::any_of(report.sockets.begin(), report.sockets.end(),
                    [](const SocketVerdict& s) { return s.moved().value_or(0) > 0; });
    if (!by_object && !moved) {
      report.fell_back_why = "nothing moved in the window, so it cannot be told";
      return;
    }
    report.fell_back = false;
  }
}

void sum(std::optional<std::uint64_t>& into, const std::optional<std::uint64_t>& from) {
  if (from) into = into.value_or(0) + *from;
}

void sum_traffic(const View& view, StackReport& report) {
  TrafficSummary& sums = report.traffic;
  const TrafficWindow& window = *view.traffic();
  sums.window_ns = window.window_ns;
  for (const SocketVerdict& socket : report.sockets) {
    if (socket.kind == "xdp" || socket.kind == "packet") continue;
    if (socket.inode != 0) {
      sum(sums.kernel_rx_packets, view.kernel_rx(socket.inode));
      sum(sums.kernel_tx_packets, view.kernel_tx(socket.inode));
    } else if (is_kernel_flavour(socket.stack)) {
      sum(sums.kernel_rx_packets, socket.rx.packets);
      sum(sums.kernel_tx_packets, socket.tx.packets);
    }
  }
  if (window.counting) {
    if (!sums.kernel_rx_packets) sums.kernel_rx_packets = 0;
    if (!sums.kernel_tx_packets) sums.kernel_tx_packets = 0;
    sums.xdp_redirects = 0;
    sums.xdp_redirects_failed = 0;
  }
  for (const RedirectTraffic& redirect : view.own_redirects()) {
    sum(sums.xdp_redirects, redirect.redirected);
    sum(sums.xdp_redirects_failed, redirect.failed);
  }
  for (const InterfaceTraffic& interface : window.interfaces) {
    sum(sums.tap_rx_packets, interface.tap_rx);
    sum(sums.tap_tx_packets, interface.tap_tx);
    sum(sums.direct_tx_packets, interface.direct_tx);
  }
  sums.nic_rx_packets = view.nic_rx();
  sums.nic_tx_packets = view.nic_tx();
}

std::string headline(const StackReport& report) {
  const std::string window = format_seconds(report.traffic.window_ns);
  if (report.verdict == Stack::kNone) return "this process has no network socket or device open";
  if (report.verdict == Stack::kUnknown) return "which stack carries this process is not known";
  std::uint64_t packets = 0;
  for (const Share& share : report.shares) packets += share.packets;
  if (report.verdict == Stack::kMixed) {
    std::string text = "several stacks carry this process:";
    const char* separator = " ";
    for (const Share& share : report.shares) {
      if (share.packets == 0 && share.countable) continue;
      text += fmt::format("{}{} {}", separator, traits(share.stack).title,
                          share.packets == 0 || !share.share
                              ? std::string("(packets not countable)")
                              : fmt::format("{:.1f} %", *share.share * 100));
      separator = ", ";
    }
    if (packets > 0) text += fmt::format(" of {} counted in {}", packets_text(packets), window);
    return text;
  }
  std::string title = traits(report.verdict).title;
  for (const Share& share : report.shares) {
    const bool beneath = is_transport(share.stack) && share.stack != report.verdict;
    if (beneath && (share.packets > 0 || packets == 0)) {
      title += fmt::format(" over {}", traits(share.stack).title);
      break;
    }
  }
  const bool counted = report.traffic.kernel_rx_packets || report.traffic.kernel_tx_packets;
  if (packets == 0 && !counted && report.confidence == Confidence::kLikely) {
    return fmt::format(
        "{} carries this process as far as can be seen; its packets could not be "
        "counted",
        title);
  }
  if (packets == 0) {
    return report.confidence == Confidence::kPossible
               ? fmt::format("{} may carry this process; nothing proves it", title)
           : report.confidence == Confidence::kCertain
               ? fmt::format("{} carries this process", title)
               : fmt::format("{} would carry this process; no packet was seen in {}", title,
                             window);
  }
  return fmt::format("{} carries this process: {} in {}", title, packets_text(packets), window);
}

}  // namespace

void summarise(const View& view, const std::vector<Accelerator>& accelerators,
               StackReport& report) {
  const std::vector<Use> uses = uses_of(view, report);
  const std::vector<const Use*> found = carrying(uses);
  fill_shares(uses, report);
  judge_process(view, found, report);
  sum_traffic(view, report);
  judge_fell_back(accelerators, report);
  judge_tools(report);
  std::vector<Stack> carriers;
  for (const Use* use : found) carriers.push_back(use->share.stack);
  name_use_instead(carriers, report);
  report.headline = headline(report);
  add_findings(view, accelerators, report);
}

}  // namespace whylate::stack
