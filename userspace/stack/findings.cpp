// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/escape.h"

namespace whylate::stack {
namespace {

void redirects_against_deliveries(StackReport& report) {
  const TrafficSummary& sums = report.traffic;
  if (sums.xdp_redirects.value_or(0) > 0 &&
      sums.kernel_rx_packets == std::optional<std::uint64_t>(0)) {
    report.findings.push_back(
        {"redirected_not_delivered",
         fmt::format(
             "XDP redirected {} to this process, and the kernel delivered 0 to its sockets: "
             "the bypass works",
             packets_text(*sums.xdp_redirects)),
         ""});
  }
  if (sums.xdp_redirects_failed.value_or(0) > 0) {
    report.findings.push_back(
        {"redirects_failed",
         fmt::format("{} failed to redirect: empty slot, or the socket's ring was full",
                     packets_text(*sums.xdp_redirects_failed)),
         "check the queue the socket is bound to, and refill the fill ring in time"});
  }
}

void fallen_back(StackReport& report) {
  if (report.fell_back != std::optional<bool>(true)) return;
  std::string remedies;
  for (const SocketVerdict& socket : report.sockets) {
    if (socket.remedy.empty() || remedies.find(socket.remedy) != std::string::npos) continue;
    remedies += (remedies.empty() ? "" : "; ") + socket.remedy;
  }
  report.findings.push_back({kFellBack, report.fell_back_why, remedies});
}

void weak_modes(const StackReport& report, std::vector<StackFinding>& findings) {
  for (const SocketVerdict& socket : report.sockets) {
    if (socket.stack == Stack::kAfXdp && socket.detail.rfind("generic", 0) == 0) {
      add_finding(findings, {"xdp_generic",
                             "AF_XDP runs in generic mode: the kernel builds an sk_buff first, so "
                             "most of the gain is gone",
                             "attach the program in native mode where the driver can do it"});
    }
    if (socket.detail.find("busy polling is set but not effective") != std::string::npos) {
      add_finding(
          findings,
          {"busy_poll_without_effect",
           fmt::format("{}: {}", socket.fd ? fmt::format("descriptor {}", *socket.fd) : "a socket",
                       socket.detail),
           "use a driver that supports it; without, the setting only costs a system call"});
    }
  }
}

void names_without_substance(const View& view, const std::vector<Accelerator>& accelerators,
                             StackReport& report) {
  for (const Library& library : view.evidence().libraries) {
    // Providers and helpers of verbs, DPDK and others share a name and export nothing of it.
    static constexpr LibraryKind kInterposing[] = {LibraryKind::kOnload,  LibraryKind::kTcpDirect,
                                                   LibraryKind::kExasock, LibraryKind::kVma,
                                                   LibraryKind::kXlio,    LibraryKind::kVppSession};
    const bool promises = std::find(std::begin(kInterposing), std::end(kInterposing),
                                    library.kind) != std::end(kInterposing);
    if (!promises || library.marks_match != std::optional<bool>(false)) continue;
    add_finding(report.findings,
                {"name_only",
                 fmt::format("{} carries the name of a network stack and is something else: "
                             "present, and used by no socket",
                             escape(library.path)),
                 ""});
  }
  for (const Accelerator& accelerator : accelerators) {
    if (accelerator.stack == Stack::kUnknown) continue;
    const bool used = std::any_of(
        report.sockets.begin(), report.sockets.end(),
        [&accelerator](const SocketVerdict& socket) { return socket.stack == accelerator.stack; });
    if (used || report.fell_back == std::optional<bool>(true)) continue;
    add_finding(
        report.findings,
        {"loaded_not_used",
         fmt::format("{}{}, and no socket of this process uses it", accelerator.sign,
                     accelerator.not_loaded.empty() ? "" : ", but " + accelerator.not_loaded),
         ""});
  }
  static constexpr LibraryKind kStubs[] = {LibraryKind::kOnloadExt, LibraryKind::kExasockExt};
  for (const LibraryKind stub : kStubs) {
    if (view.library(stub) == nullptr) continue;
    add_finding(report.findings,
                {"stub_only",
                 escape(view.library(stub)->path) +
                     " is an interface to the accelerator, not the accelerator itself",
                 ""});
  }
}

void dpdk_findings(const View& view, StackReport& report) {
  if (!view.evidence().dpdk) return;
  const DpdkEvidence& dpdk = *view.evidence().dpdk;
  if (dpdk.telemetry_answered && dpdk.ports.empty()) {
    report.findings.push_back({"dpdk_without_ports",
                               "DPDK runs, and has no port: a device that failed to start leaves "
                               "the program running",
                               "look at its start-up messages"});
  }
  for (const DpdkPort& port : dpdk.ports) {
    const std::uint64_t lost = port.rx_no_buffer.moved().value_or(0);
    if (lost == 0) continue;
    add_finding(report.findings,
                {"dpdk_no_buffers",
                 fmt::format("DPDK port {} was out of buffers {} times in the window: packets are "
                             "lost silently",
                             escape(port.name), lost),
                 "a larger mbuf pool"});
  }
}

void spinning(const View& view, StackReport& report) {
  const std::vector<const ThreadUse*> spinners = view.spinners();
  if (spinners.empty()) return;
  report.findings.push_back(
      {"spinning",
       fmt::format("{} thread{} spin in user mode (first: {} {}); that fits a polling stack and "
                   "proves none",
                   spinners.size(), spinners.size() == 1 ? "" : "s", spinners.front()->tid,
                   escape(spinners.front()->comm)),
       ""});
}

}  // namespace

void add_findings(const View& view, const std::vector<Accelerator>& accelerators,
                  StackReport& report) {
  fallen_back(report);
  redirects_against_deliveries(report);
  weak_modes(report, report.findings);
  names_without_substance(view, accelerators, report);
  dpdk_findings(view, report);
  spinning(view, report);
  const Evidence& evidence = view.evidence();
  if (!evidence.vanished_sockets.empty()) {
    report.findings.push_back(
        {"sockets_closed",
         fmt::format("{} socket{} closed during the window", evidence.vanished_sockets.size(),
                     evidence.vanished_sockets.size() == 1 ? " was" : "s were"),
         ""});
  }
  if (evidence.process.vanished) {
    report.findings.push_back({"process_ended", "the process ended during the window", ""});
  }
  if (view.traffic()->lost > 0) {
    report.findings.push_back(
        {"counts_incomplete",
         fmt::format("{} events found no room in the counters: counts are lower bounds",
                     view.traffic()->lost),
         ""});
  }
  if (!evidence.process.thread_net_namespaces.empty()) {
    report.findings.push_back({"threads_in_other_namespaces",
                               "threads of this process use other network namespaces; their "
                               "sockets are in tables that were not asked",
                               ""});
  }
}

}  // namespace whylate::stack
