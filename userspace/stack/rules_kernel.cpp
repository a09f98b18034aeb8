// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include "stack/rules.h"

namespace whylate::stack {
namespace {

constexpr std::uint8_t kBoundInactive = 13;  // TCP_BOUND_INACTIVE of sock_diag
constexpr std::uint8_t kClosed = 7;          // TCP_CLOSE

/// What ss shows of an inet socket.
void judge_listing(const View& view, const Subject& subject, SocketVerdict& verdict) {
  const DiagRow* row = subject.row;
  if (row == nullptr &&
      (unreadable(view.evidence(), "inet_diag") || unreadable(view.evidence(), "sock_diag"))) {
    verdict.ss = Listing::kHides;
    verdict.why_ss = "whether ss lists it is not known: sock_diag could not be asked";
    return;
  }
  if (row == nullptr) {
    verdict.ss = Listing::kHides;
    verdict.why_ss =
        view.evidence().process.thread_net_namespaces.empty()
            ? "it is neither bound nor connected, so it is in none of the tables that ss walks"
            : "it is in none of the tables of the process's network namespace: not bound, or of "
              "another namespace that one of its threads uses";
    return;
  }
  if (subject.protocol == "tcp" && (row->state == kBoundInactive || row->state == kClosed)) {
    verdict.ss = Listing::kHides;
    verdict.why_ss =
        "it is bound but neither listens nor is connected: plain ss does not ask for that state "
        "(ss --bound-inactive does, where it knows it)";
    return;
  }
  verdict.ss = Listing::kLists;
  verdict.why_ss = traits(verdict.stack).why_ss;
  if (subject.fd() == nullptr) {
    verdict.why_ss =
        "ss lists it without a process: users:() is a match with /proc/*/fd, and this socket is "
        "in io_uring's own table of files only";
  }
}

/// The strongest name for a socket that the kernel's stack carries.
Stack kernel_flavour(const View& view, const Subject& subject, SocketVerdict& verdict) {
  const IoUring* ring = view.ring_of(subject.inode);
  if (ring != nullptr) {
    add_fact(verdict, fmt::format("/proc/{}/fdinfo/{}", view.evidence().process.pid, ring->fd),
             fmt::format("io_uring has socket:[{}] among its registered files{}", subject.inode,
                         ring->sq_thread ? ", a kernel thread takes the submissions" : ""));
    return Stack::kIoUring;
  }
  const SocketFacts* facts = view.facts(subject.inode);
  const EpollFacts* polling = nullptr;
  for (const FdEntry* fd : subject.fds) {
    if (polling == nullptr) polling = view.polling_epoll(fd->fd);
  }
  const std::uint32_t socket_us =
      facts != nullptr && facts->busy_poll_us ? *facts->busy_poll_us : 0;
  if (socket_us == 0 && polling == nullptr) return Stack::kKernel;
  if (polling != nullptr) {
    add_fact(verdict, fmt::format("epoll descriptor {}", polling->fd),
             fmt::format("waits poll the device for {} us", polling->busy_poll_us));
  }
  if (socket_us > 0) {
    add_fact(verdict, facts->source, fmt::format("SO_BUSY_POLL is {} us", socket_us));
  }
  if (facts == nullptr || !facts->napi_id) {
    verdict.detail = "busy polling is set; whether a device serves it (NAPI id) could not be read";
    return Stack::kKernelBusyPoll;
  }
  if (*facts->napi_id == 0) {
    add_fact(verdict, facts->source, "SO_INCOMING_NAPI_ID is 0");
    verdict.detail =
        "busy polling is set but not effective: no packet came from a NAPI that can be polled "
        "(loopback, or a driver without support)";
    return Stack::kKernel;
  }
  add_fact(verdict, facts->source, fmt::format("SO_INCOMING_NAPI_ID is {}", *facts->napi_id));
  return Stack::kKernelBusyPoll;
}

void count_kernel(const View& view, const Subject& subject, SocketVerdict& verdict) {
  verdict.rx.packets = view.kernel_rx(subject.inode);
  verdict.tx.packets = view.kernel_tx(subject.inode);
  if (const SocketTraffic* counted = view.counted(subject.inode)) {
    verdict.rx.bytes = counted->rx_bytes;
    verdict.tx.bytes = counted->tx_bytes;
  }
  if (subject.row != nullptr && subject.row->tcp) {
    if (!verdict.rx.bytes) verdict.rx.bytes = subject.row->tcp->bytes_received.moved();
    if (!verdict.tx.bytes) verdict.tx.bytes = subject.row->tcp->bytes_acked.moved();
  }
  if (verdict.moved().value_or(0) > 0) {
    verdict.confidence = Confidence::kCertain;
    add_fact(verdict, view.counted_by(subject.inode),
             fmt::format("{} in and {} out through the kernel's socket in the window",
                         packets_text(verdict.rx.packets.value_or(0)),
                         packets_text(verdict.tx.packets.value_or(0))));
  } else {
    verdict.confidence = Confidence::kLikely;
  }
  const std::optional<std::uint64_t> drops =
      subject.row != nullptr ? subject.row->drops.moved() : std::nullopt;
  if (drops && *drops > 0) {
    add_fact(verdict, "inet_diag",
             fmt::format("{} dropped: the socket's buffer was full", packets_text(*drops)));
  }
}

}  // namespace

bool is_kernel_socket(const View&, const Subject& subject) { return subject.is_inet(); }

void judge_kernel(const View& view, const Subject& subject, SocketVerdict& verdict) {
  use_traits(verdict, kernel_flavour(view, subject, verdict));
  if (subject.fd() != nullptr) {
    const FdEntry& fd = *subject.fd();
    add_fact(verdict, fd_source(view, fd),
             fmt::format("socket:[{}], system.sockprotoname {}", fd.inode,
                         fd.protocol.empty() ? "unreadable" : fd.protocol));
    if (fd.shared_with_others) {
      verdict.detail += verdict.detail.empty() ? "" : "; ";
      verdict.detail += "another process holds it too, so its packets may not be this one's";
    }
  }
  count_kernel(view, subject, verdict);
  judge_listing(view, subject, verdict);
}

bool is_smc(const View&, const Subject& subject) {
  return subject.protocol == "smc" || subject.protocol == "smc6";
}

void judge_smc(const View& view, const Subject& subject, SocketVerdict& verdict) {
  const SmcRow* row = view.smc(subject.inode);
  const bool fell_back = row != nullptr && row->fell_back.value_or(false);
  use_traits(verdict, fell_back ? Stack::kKernel : Stack::kSmc);
  verdict.fell_back = fell_back;
  verdict.confidence = Confidence::kLikely;
  add_fact(verdict, "system.sockprotoname", "SMC");
  if (row == nullptr || !row->fell_back) {
    verdict.detail = "whether it fell back to TCP could not be read";
    verdict.rx.tcpdump = verdict.tx.tcpdump = Sight::kUnknown;
    verdict.confidence = Confidence::kPossible;
    return;
  }
  add_fact(verdict, "smc_diag", fell_back ? "fell back to TCP" : "mode " + row->mode);
  if (!fell_back) return;
  verdict.detail = "an SMC socket that fell back to TCP";
  verdict.remedy = "`smcss -a` shows the reason's code; both ends need SMC";
}

bool is_mptcp(const View&, const Subject& subject) { return subject.protocol == "mptcp"; }

void judge_mptcp(const View& view, const Subject& subject, SocketVerdict& verdict) {
  use_traits(verdict, Stack::kMptcp);
  add_fact(verdict, "system.sockprotoname", "MPTCP");
  verdict.detail = "data travels on subflows, each a TCP socket of its own";
  count_kernel(view, subject, verdict);
  judge_listing(view, subject, verdict);
}

}  // namespace whylate::stack
