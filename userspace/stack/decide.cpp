// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/decide.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/escape.h"
#include "stack/rules.h"
#include "stack/summarise.h"

namespace whylate::stack {
namespace {

/// The decision table: the first row that applies judges. Stacks that stand in for a kernel socket
/// come before the kernel, which is what remains.
constexpr Rule kRules[] = {
    {"onload_endpoint", is_onload, judge_onload},
    {"exasock_socket", is_exasock, judge_exasock},
    {"xlio_accepted", is_xlio_accepted, judge_xlio_accepted},
    {"offloaded_by_statistics", is_offloaded, judge_offloaded},
    {"offload_shadow", is_offload_shadow, judge_offload_shadow},
    {"vpp_session", is_vpp_session, judge_vpp_session},
    {"af_xdp", is_xdp, judge_xdp},
    {"af_packet", is_packet, judge_packet},
    {"tun_tap", is_tun, judge_tun},
    {"user_driver", is_user_driver, judge_user_driver},
    {"verbs", is_verbs, judge_verbs},
    {"sfc_char", is_sfc, judge_sfc},
    {"exanic", is_exanic, judge_exanic},
    {"dpdk_secondary", is_dpdk_secondary, judge_dpdk_secondary},
    {"smc", is_smc, judge_smc},
    {"mptcp", is_mptcp, judge_mptcp},
    {"kernel_socket", is_kernel_socket, judge_kernel},
};

/// "TCPv6" -> "tcp", "SMC6" -> "smc6": the name without its address family.
std::string base_protocol(const std::string& name) {
  std::string base;
  for (const char c : name) base += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (base.size() > 2 && base.compare(base.size() - 2, 2, "v6") == 0) base.resize(base.size() - 2);
  return base.rfind("unix", 0) == 0 ? "unix" : base;
}

/// The protocol of a socket whose name could not be read, from the table that lists it.
std::string protocol_from_row(const DiagRow& row) {
  switch (row.family) {
    case DiagFamily::kPacket:
      return "packet";
    case DiagFamily::kXdp:
      return "xdp";
    case DiagFamily::kUnix:
      return "unix";
    case DiagFamily::kInet:
      break;
  }
  constexpr int kTcp = 6, kUdp = 17, kMptcp = 262;
  return row.protocol == kTcp     ? "tcp"
         : row.protocol == kUdp   ? "udp"
         : row.protocol == kMptcp ? "mptcp"
                                  : "raw";
}

/// Sockets by inode, devices by kind, each once however many descriptors there are.
std::vector<Subject> subjects_of(const View& view) {
  std::vector<Subject> subjects;
  std::map<std::uint64_t, std::size_t> by_inode;
  std::map<ObjectKind, std::size_t> by_kind;
  std::map<std::string, std::size_t> by_interface;
  const auto add = [&subjects](ObjectKind kind, const FdEntry* fd) {
    Subject subject;
    subject.object = kind;
    if (fd != nullptr) subject.fds.push_back(fd);
    subjects.push_back(subject);
    return subjects.size() - 1;
  };
  for (const FdEntry& fd : view.evidence().fds) {
    switch (fd.kind) {
      case ObjectKind::kSocket: {
        const auto known = by_inode.find(fd.inode);
        if (known != by_inode.end()) {
          subjects[known->second].fds.push_back(&fd);
          break;
        }
        const std::size_t at = add(fd.kind, &fd);
        by_inode[fd.inode] = at;
        subjects[at].inode = fd.inode;
        subjects[at].row = view.diag(fd.inode);
        subjects[at].protocol = base_protocol(fd.protocol);
        if (fd.protocol.empty() && subjects[at].row != nullptr) {
          subjects[at].protocol = protocol_from_row(*subjects[at].row);
        }
        break;
      }
      case ObjectKind::kOnloadSocket: {
        static constexpr const char* kNoEndpoint[] = {"onload:[stack", "onload:[piper",
                                                      "onload:[pipew", "onload:[moved"};
        const bool endpoint =
            std::none_of(std::begin(kNoEndpoint), std::end(kNoEndpoint),
                         [&fd](const char* prefix) { return fd.link.rfind(prefix, 0) == 0; });
        if (endpoint) add(fd.kind, &fd);
        break;
      }
      case ObjectKind::kTun: {
        // Queues of one interface have a descriptor each.
        const auto known = by_interface.find(fd.interface);
        if (known != by_interface.end() && !fd.interface.empty()) {
          subjects[known->second].fds.push_back(&fd);
        } else {
          by_interface[fd.interface] = add(fd.kind, &fd);
        }
        break;
      }
      case ObjectKind::kEventPoll:
        add(fd.kind, &fd);
        break;
      case ObjectKind::kVfioDevice:
        if (view.has_fd_of(ObjectKind::kVfioGroup)) break;
        [[fallthrough]];
      case ObjectKind::kVfioGroup:
      case ObjectKind::kUio:
      case ObjectKind::kUverbs:
      case ObjectKind::kSfcChar:
      case ObjectKind::kExanic:
      case ObjectKind::kDpdkRuntime: {
        const auto known = by_kind.find(fd.kind);
        if (known != by_kind.end()) {
          subjects[known->second].fds.push_back(&fd);
        } else {
          by_kind[fd.kind] = add(fd.kind, &fd);
        }
        break;
      }
      default:
        break;
    }
  }
  for (const IoUring& ring : view.evidence().rings) {
    for (const std::uint64_t inode : ring.registered_sockets) {
      if (by_inode.count(inode) > 0) continue;
      const std::size_t at = add(ObjectKind::kSocket, nullptr);
      by_inode[inode] = at;
      subjects[at].inode = inode;
      subjects[at].row = view.diag(inode);
      if (subjects[at].row != nullptr) subjects[at].protocol = protocol_from_row(*subjects[at].row);
    }
  }
  if (by_kind.count(ObjectKind::kDpdkRuntime) == 0 && view.evidence().dpdk &&
      !view.evidence().dpdk->run_directory.empty()) {
    add(ObjectKind::kDpdkRuntime, nullptr);  // mapped only
  }
  return subjects;
}

SocketVerdict start_verdict(const Subject& subject) {
  SocketVerdict verdict;
  if (subject.fd() != nullptr) verdict.fd = subject.fd()->fd;
  verdict.inode = subject.inode;
  verdict.kind = subject.object == ObjectKind::kTun ? "tun" : escape(subject.protocol);
  if (subject.row != nullptr) {
    verdict.local = escape(subject.row->local);
    verdict.remote = escape(subject.row->remote);
  }
  return verdict;
}

/// A socket that no rule knows, or whose kind could not be read.
bool is_unjudged_socket(const Subject& subject) {
  return subject.object == ObjectKind::kSocket && subject.protocol.empty();
}

}  // namespace

StackReport decide(const Evidence& evidence, const TrafficWindow& traffic) {
  const View view(evidence, &traffic);
  StackReport report;
  report.process = evidence.process;
  report.collect_ns = evidence.collect_ns;
  report.interfaces = evidence.interfaces;
  report.interface_traffic = traffic.interfaces;
  report.redirects = view.own_redirects();
  report.could_not_read = evidence.could_not_read;
  report.could_not_read.insert(report.could_not_read.end(), traffic.not_counted.begin(),
                               traffic.not_counted.end());

  const std::vector<Accelerator> asked = accelerators(view);
  std::set<std::uint64_t> judged;
  for (const Subject& subject : subjects_of(view)) {
    judged.insert(subject.inode);
    const Rule* found = nullptr;
    for (const Rule& rule : kRules) {
      if (rule.applies(view, subject)) {
        found = &rule;
        break;
      }
    }
    if (found != nullptr) {
      SocketVerdict verdict = start_verdict(subject);
      found->judge(view, subject, verdict);
      if (verdict.ss == Listing::kLists) {
        verdict.ss_command = ss_command(subject.protocol, subject.fd() != nullptr);
      }
      judge_fallback(view, asked, verdict, report.findings);
      report.sockets.push_back(std::move(verdict));
    } else if (is_unjudged_socket(subject)) {
      SocketVerdict verdict = start_verdict(subject);
      use_traits(verdict, Stack::kUnknown);
      verdict.kind = "socket";
      verdict.why_ss = "its kind could not be read";
      report.sockets.push_back(std::move(verdict));
    } else if (subject.protocol == "unix") {
      ++report.unix_sockets;
    } else if (subject.object == ObjectKind::kSocket) {
      ++report.other_sockets;
    }
  }
  for (SocketVerdict& verdict : judge_closed(view, judged)) {
    judge_fallback(view, asked, verdict, report.findings);
    report.sockets.push_back(std::move(verdict));
  }
  summarise(view, asked, report);
  return report;
}

}  // namespace whylate::stack
