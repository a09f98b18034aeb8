// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "stack/decide.h"

namespace whylate::stack {

/// Writes down the evidence of one process, fact by fact, as the collectors would.
class Scene {
 public:
  static constexpr pid_t kPid = 4711;
  static constexpr std::uint32_t kIfindex = 7;

  Scene() {
    evidence.process.pid = kPid;
    evidence.process.comm = "responder";
    evidence.process.nspid = {kPid};
    evidence.orphans_known = true;
    window.window_ns = 2'000'000'000;
    window.counting = true;
  }

  FdEntry& fd(int number, ObjectKind kind, std::string link) {
    FdEntry entry;
    entry.fd = number;
    entry.tid = kPid;
    entry.kind = kind;
    entry.link = std::move(link);
    evidence.fds.push_back(entry);
    return evidence.fds.back();
  }

  FdEntry& socket(int number, std::uint64_t inode, std::string protocol) {
    FdEntry& entry = fd(number, ObjectKind::kSocket, "socket:[" + std::to_string(inode) + "]");
    entry.inode = inode;
    entry.protocol = std::move(protocol);
    return entry;
  }

  DiagRow& row(std::uint64_t inode, DiagFamily family, std::string local = "") {
    DiagRow found;
    found.inode = inode;
    found.family = family;
    found.local = std::move(local);
    evidence.diag.push_back(found);
    return evidence.diag.back();
  }

  /// A bound UDP socket, as inet_diag lists it.
  void udp(int number, std::uint64_t inode, const std::string& local = "10.0.0.1:9000") {
    socket(number, inode, "UDP");
    row(inode, DiagFamily::kInet, local).protocol = 17;
  }

  /// An established TCP connection; bytes by tcp_info.
  DiagRow& tcp(int number, std::uint64_t inode, const std::string& local = "10.0.0.1:9000") {
    socket(number, inode, "TCP");
    DiagRow& found = row(inode, DiagFamily::kInet, local);
    found.protocol = 6;
    found.state = 1;
    found.remote = "10.0.0.2:40000";
    return found;
  }

  void moved(std::uint64_t inode, std::uint64_t rx, std::uint64_t tx) {
    SocketTraffic traffic;
    traffic.inode = inode;
    traffic.rx_packets = rx;
    traffic.tx_packets = tx;
    window.sockets.push_back(traffic);
  }

  SocketFacts& facts(std::uint64_t inode) {
    SocketFacts found;
    found.inode = inode;
    found.source = "iter/task_file";
    window.socket_facts.push_back(found);
    return window.socket_facts.back();
  }

  Interface& interface(XdpMode mode = XdpMode::kNone, std::string name = "vB") {
    Interface found;
    found.ifindex = kIfindex;
    found.name = std::move(name);
    found.up = true;
    found.xdp_mode = mode;
    evidence.interfaces.push_back(found);
    return evidence.interfaces.back();
  }

  static Counter counter(std::uint64_t by) { return Counter{1000, 1000 + by}; }

  Library& library(LibraryKind kind, std::string path, std::optional<bool> marks = true) {
    Library found;
    found.kind = kind;
    found.path = std::move(path);
    found.name_matches = true;
    found.marks_match = marks;
    evidence.libraries.push_back(found);
    return evidence.libraries.back();
  }

  void thread(std::string comm, std::uint64_t user_ticks = 0, std::uint64_t switches = 100) {
    ThreadUse found;
    found.tid = kPid + static_cast<pid_t>(evidence.threads.size());
    found.comm = std::move(comm);
    found.user_ticks = counter(user_ticks);
    found.voluntary_switches = counter(switches);
    evidence.threads.push_back(found);
  }

  /// An AF_XDP socket with its four rings, and the map and program that libxdp keeps open.
  void xdp(int number, std::uint64_t inode, std::uint32_t map_id = 104) {
    socket(number, inode, "XDP");
    for (const std::uint64_t offset : {0ull, 0x80000000ull, 0x100000000ull, 0x180000000ull}) {
      MapEntry map;
      map.kind = ObjectKind::kSocket;
      map.inode = inode;
      map.offset = offset;
      map.path = "socket:[" + std::to_string(inode) + "]";
      evidence.maps.push_back(map);
    }
    fd(number + 1, ObjectKind::kBpfMap, "anon_inode:bpf-map").bpf = BpfObject{17, map_id};
  }

  void redirected(std::uint64_t packets, std::uint32_t map_id = 104, std::uint32_t index = 0,
                  std::uint64_t failed = 0) {
    RedirectTraffic redirect;
    redirect.from_ifindex = kIfindex;
    redirect.map_id = map_id;
    redirect.map_type = 17;
    redirect.index = index;
    redirect.redirected = packets;
    redirect.failed = failed;
    window.redirects.push_back(redirect);
  }

  void preload(const std::string& library) {
    evidence.process.environment.push_back("LD_PRELOAD=" + library);
  }

  StackReport judge() const { return decide(evidence, window); }

  Evidence evidence;
  TrafficWindow window;
};

/// The first socket of a kind; fails the caller's expectations when there is none.
inline SocketVerdict of_kind(const StackReport& report, const std::string& kind) {
  const auto found = std::find_if(report.sockets.begin(), report.sockets.end(),
                                  [&kind](const SocketVerdict& s) { return s.kind == kind; });
  return found != report.sockets.end() ? *found : SocketVerdict{};
}

inline bool has_finding(const StackReport& report, const std::string& id) {
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [&id](const StackFinding& finding) { return finding.id == id; });
}

/// Of the first finding of that kind; "no such finding" when there is none.
inline std::string remedy_of(const StackReport& report, const std::string& id) {
  for (const StackFinding& finding : report.findings) {
    if (finding.id == id) return finding.remedy;
  }
  return "no such finding";
}

}  // namespace whylate::stack
