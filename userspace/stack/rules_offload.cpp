// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/escape.h"
#include "stack/rules.h"

namespace whylate::stack {
namespace {

/// The parts of "onload:[tcp:3:17]".
struct OnloadName {
  std::string type;
  std::optional<std::uint32_t> stack;
};

std::optional<OnloadName> parse_onload(const std::string& link) {
  constexpr std::string_view kPrefix = "onload:[";
  if (link.rfind(kPrefix, 0) != 0 || link.back() != ']') return std::nullopt;
  const std::string inside = link.substr(kPrefix.size(), link.size() - kPrefix.size() - 1);
  OnloadName name;
  const std::size_t colon = inside.find(':');
  name.type = inside.substr(0, colon);
  if (colon == std::string::npos) return name;
  std::uint32_t number = 0;
  const char* begin = inside.data() + colon + 1;
  const auto [end, status] = std::from_chars(begin, inside.data() + inside.size(), number);
  if (status == std::errc() && end != begin) name.stack = number;
  return name;
}

bool is_process(const ProcessFacts& process, pid_t pid) {
  return pid == process.pid ||
         std::find(process.nspid.begin(), process.nspid.end(), pid) != process.nspid.end();
}

const OffloadSocket* offload_row(const View& view, const Subject& subject, bool* xlio) {
  for (const OffloadStats& stats : view.evidence().offload_stats) {
    if (!stats.version_known) continue;
    for (const OffloadSocket& socket : stats.sockets) {
      const bool same_inode = socket.inode != 0 && socket.inode == subject.inode;
      const bool same_fd =
          socket.inode == 0 && subject.fd() != nullptr && socket.fd == subject.fd()->fd;
      if (same_inode || same_fd) {
        *xlio = stats.xlio;
        return &socket;
      }
    }
  }
  return nullptr;
}

const ExasockSocket* exasock_row(const View& view, const Subject& subject) {
  if (!view.evidence().exasock || subject.object != ObjectKind::kSocket) return nullptr;
  for (const ExasockSocket& socket : view.evidence().exasock->sockets) {
    if (!is_process(view.evidence().process, socket.pid)) continue;
    for (const FdEntry* fd : subject.fds) {
      if (fd->fd == socket.fd) return &socket;
    }
  }
  return nullptr;
}

/// What ss makes of the kernel socket beneath an offloaded one.
void judge_shadow(const Subject& subject, SocketVerdict& verdict, const char* stack) {
  if (subject.row == nullptr) {
    verdict.ss = Listing::kHides;
    verdict.why_ss = fmt::format("{} made no kernel socket that ss would list", stack);
  } else if (subject.row->state == 13 || subject.row->state == 7) {
    verdict.ss = Listing::kHides;
    verdict.why_ss = fmt::format(
        "the kernel socket beneath is bound and inactive, a state plain ss does not ask for; {} "
        "does the rest itself",
        stack);
  } else {
    verdict.ss = Listing::kShadow;
    verdict.why_ss = fmt::format(
        "the line looks healthy and names the process, yet the kernel socket beneath carries "
        "nothing: {} does",
        stack);
  }
}

void note_kernel_silence(const View& view, const Subject& subject, SocketVerdict& verdict) {
  const std::optional<std::uint64_t> rx = view.kernel_rx(subject.inode);
  const std::optional<std::uint64_t> tx = view.kernel_tx(subject.inode);
  if (subject.inode == 0 || (!rx && !tx)) return;
  add_fact(verdict, view.counted_by(subject.inode),
           fmt::format("{} in and {} out through the kernel socket beneath",
                       packets_text(rx.value_or(0)), packets_text(tx.value_or(0))));
}

/// A TCP or UDP socket of a process that has the library and the device of an offload open.
bool may_be_shadow(const View& view, const Subject& subject) {
  if (!subject.is_inet() || subject.fd() == nullptr) return false;
  // Data in the kernel's counters ends the doubt.
  return view.kernel_rx(subject.inode).value_or(0) + view.kernel_tx(subject.inode).value_or(0) == 0;
}

}  // namespace

bool is_onload(const View&, const Subject& subject) {
  return subject.object == ObjectKind::kOnloadSocket;
}

void judge_onload(const View& view, const Subject& subject, SocketVerdict& verdict) {
  const FdEntry& fd = *subject.fd();
  const OnloadName name = parse_onload(fd.link).value_or(OnloadName{});
  verdict.kind = "onload:" + escape(name.type);
  add_fact(verdict, fd_source(view, fd), escape(fd.link));
  if (name.type == "os_sock") {
    use_traits(verdict, Stack::kKernel);
    verdict.fell_back = true;
    verdict.remedy =
        "an interface that Onload accelerates must carry the address it is bound or connected to; "
        "`onload_stackdump` lists the sockets that are accelerated";
    verdict.confidence = Confidence::kLikely;
    verdict.detail = "handed over to the kernel; Onload's file stays for an epoll set";
    verdict.ss = Listing::kShadow;
    verdict.why_ss = "ss lists the kernel socket, but no process: Onload's file stands before it";
    return;
  }
  use_traits(verdict, Stack::kOnload);
  verdict.confidence = Confidence::kLikely;
  verdict.detail = name.stack ? fmt::format("Onload stack {}", *name.stack) : "";
  if (name.type == "udp") {
    verdict.detail +=
        "; what of it arrives through the kernel all the same (another interface) "
        "only `onload_stackdump lots` tells (os=)";
  }
  if (!view.evidence().onload || !name.stack) return;
  std::size_t endpoints = 0;
  for (const FdEntry& other : view.evidence().fds) {
    if (other.kind != ObjectKind::kOnloadSocket) continue;
    const std::optional<OnloadName> parsed = parse_onload(other.link);
    if (parsed && parsed->stack == name.stack && parsed->type != "stack") ++endpoints;
  }
  for (const OnloadStack& stack : view.evidence().onload->stacks) {
    if (stack.id != *name.stack) continue;
    const std::optional<std::uint64_t> rx = stack.rx_events.moved();
    const std::optional<std::uint64_t> tx = stack.tx_events.moved();
    if (!rx && !tx) continue;
    add_fact(verdict, "/proc/driver/onload/stacks",
             fmt::format("stack {}: {} receive and {} transmit events in the window{}", stack.id,
                         rx.value_or(0), tx.value_or(0),
                         endpoints > 1 ? ", of all its sockets together" : ""));
    if (rx.value_or(0) + tx.value_or(0) == 0) continue;
    verdict.confidence = Confidence::kCertain;
    if (endpoints == 1) {
      verdict.rx.packets = rx;
      verdict.tx.packets = tx;
    }
  }
}

bool is_exasock(const View& view, const Subject& subject) {
  return exasock_row(view, subject) != nullptr;
}

void judge_exasock(const View& view, const Subject& subject, SocketVerdict& verdict) {
  use_traits(verdict, Stack::kExasock);
  verdict.confidence = Confidence::kLikely;
  add_fact(verdict, "netlink family exasock",
           fmt::format("lists descriptor {} of this process as accelerated",
                       exasock_row(view, subject)->fd));
  add_fact(verdict, fmt::format("/proc/{}/fd", view.evidence().process.pid),
           fmt::format("/dev/exasock is open {} times", view.count_fds(ObjectKind::kExasock)));
  // The card's counters are shared; they prove something only while the kernel's socket is silent.
  std::uint64_t card = 0;
  for (const Interface& interface : view.evidence().interfaces) {
    if (interface.driver != "exanic") continue;
    card += interface.counters.rx_packets.moved().value_or(0);
  }
  const bool silent = view.kernel_rx(subject.inode) == std::optional<std::uint64_t>(0);
  if (card > 0 && silent) {
    verdict.confidence = Confidence::kCertain;
    add_fact(
        verdict, "/proc/net/dev",
        fmt::format("{} arrived at the card while the kernel socket got none", packets_text(card)));
  }
  note_kernel_silence(view, subject, verdict);
  judge_shadow(subject, verdict, "exasock");
}

bool is_offloaded(const View& view, const Subject& subject) {
  bool xlio = false;
  const OffloadSocket* row = offload_row(view, subject, &xlio);
  return row != nullptr && row->offloaded;
}

void judge_offloaded(const View& view, const Subject& subject, SocketVerdict& verdict) {
  bool xlio = false;
  const OffloadSocket& row = *offload_row(view, subject, &xlio);
  const char* title = xlio ? "XLIO" : "VMA";
  use_traits(verdict, xlio ? Stack::kXlio : Stack::kVma);
  verdict.rx.packets = row.offloaded_rx_packets.moved();
  verdict.tx.packets = row.offloaded_tx_packets.moved();
  // The statistics are the process's own file; the device handle is the kernel's object.
  const bool device = view.has_fd_of(ObjectKind::kUverbs) || view.maps_kind(ObjectKind::kUverbs);
  const bool moved = verdict.moved().value_or(0) > 0;
  verdict.confidence = !device ? Confidence::kPossible
                       : moved ? Confidence::kCertain
                               : Confidence::kLikely;
  add_fact(verdict, fmt::format("{} statistics", title),
           fmt::format("offloaded, {} in and {} out in the window",
                       packets_text(verdict.rx.packets.value_or(0)),
                       packets_text(verdict.tx.packets.value_or(0))));
  const std::uint64_t os_rx = row.os_rx_packets.moved().value_or(0);
  const std::uint64_t os_tx = row.os_tx_packets.moved().value_or(0);
  if (os_rx + os_tx > 0) {
    add_fact(verdict, fmt::format("{} statistics", title),
             fmt::format("{} in and {} out through the kernel (the os columns)",
                         packets_text(os_rx), packets_text(os_tx)));
    verdict.fell_back = os_rx + os_tx > verdict.moved().value_or(0);
    if (verdict.fell_back) {
      verdict.remedy = fmt::format(
          "{}'s rules and routes decide socket by socket: its own log names the reason", title);
    }
    verdict.detail = "part of it goes through the kernel";
  }
  if (!device) verdict.detail = "no verbs device is open: its statistics may be old";
  note_kernel_silence(view, subject, verdict);
  judge_shadow(subject, verdict, title);
}

bool is_offload_shadow(const View& view, const Subject& subject) {
  if (!may_be_shadow(view, subject)) return false;
  bool xlio = false;
  if (offload_row(view, subject, &xlio) != nullptr) return false;  // it says: not offloaded
  const bool verbs =
      view.has_fd_of(ObjectKind::kUverbs) &&
      (view.library(LibraryKind::kVma) != nullptr || view.library(LibraryKind::kXlio) != nullptr);
  const bool exasock = view.count_fds(ObjectKind::kExasock) > 1 &&
                       view.library(LibraryKind::kExasock) != nullptr &&
                       !(view.evidence().exasock && view.evidence().exasock->family_registered);
  return verbs || exasock;
}

void judge_offload_shadow(const View& view, const Subject& subject, SocketVerdict& verdict) {
  const bool exasock = view.library(LibraryKind::kExasock) != nullptr;
  const Stack stack = exasock                                       ? Stack::kExasock
                      : view.library(LibraryKind::kXlio) != nullptr ? Stack::kXlio
                                                                    : Stack::kVma;
  use_traits(verdict, stack);
  verdict.rx.tcpdump = verdict.tx.tcpdump = Sight::kUnknown;
  verdict.rx.why = verdict.tx.why = std::string("the socket may be a mere shadow of ") +
                                    traits(stack).title +
                                    "'s, or idle: what would tell could not be read";
  verdict.confidence = Confidence::kPossible;
  add_fact(verdict, fmt::format("/proc/{}/maps", view.evidence().process.pid),
           std::string(traits(stack).title) + " is mapped and its device is open");
  note_kernel_silence(view, subject, verdict);
  judge_shadow(subject, verdict, traits(stack).title);
}

bool is_xlio_accepted(const View& view, const Subject& subject) {
  if (subject.object != ObjectKind::kEventPoll || subject.fd() == nullptr) return false;
  bool xlio = false;
  const OffloadSocket* row = offload_row(view, subject, &xlio);
  if (row != nullptr && xlio && row->offloaded) return true;
  if (view.library(LibraryKind::kXlio) == nullptr || subject.fd()->epoll_fds.empty()) return false;
  // The epoll descriptor that stands in for an accepted socket watches completion channels only.
  return std::all_of(subject.fd()->epoll_fds.begin(), subject.fd()->epoll_fds.end(),
                     [&view](int watched) {
                       const auto& fds = view.evidence().fds;
                       return std::any_of(fds.begin(), fds.end(), [watched](const FdEntry& fd) {
                         return fd.fd == watched && fd.kind == ObjectKind::kInfinibandEvent;
                       });
                     });
}

void judge_xlio_accepted(const View& view, const Subject& subject, SocketVerdict& verdict) {
  verdict.kind = "xlio:accepted";
  bool xlio = false;
  if (offload_row(view, subject, &xlio) != nullptr) {
    judge_offloaded(view, subject, verdict);
  } else {
    use_traits(verdict, Stack::kXlio);
    verdict.confidence = Confidence::kLikely;
  }
  add_fact(
      verdict, fd_source(view, *subject.fd()),
      "an epoll descriptor on completion channels: XLIO hands it out for accepted connections");
  verdict.ss = Listing::kHides;
  verdict.why_ss = "accepted connections of XLIO have no kernel socket at all";
}

bool is_vpp_session(const View& view, const Subject& subject) {
  if (subject.protocol != "unix" || subject.row == nullptr) return false;
  if (view.library(LibraryKind::kVppSession) == nullptr) return false;
  return subject.row->remote.find("app_ns_sockets") != std::string::npos ||
         subject.row->remote.find("/vpp/") != std::string::npos;
}

void judge_vpp_session(const View& view, const Subject& subject, SocketVerdict& verdict) {
  use_traits(verdict, Stack::kVpp);
  verdict.kind = "vpp:session";
  verdict.confidence = Confidence::kLikely;
  verdict.detail = "the packets are VPP's: whylate stack -p of the daemon shows them";
  if (subject.row->peer_pid != 0) {
    verdict.detail =
        fmt::format("the packets are VPP's: whylate stack -p {} shows them", subject.row->peer_pid);
  }
  if (subject.fd() != nullptr) {
    add_fact(verdict, fd_source(view, *subject.fd()),
             "unix socket to " + escape(subject.row->remote));
  }
}

}  // namespace whylate::stack
