// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/borrow.h"

#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

namespace whylate::stack::collect {
namespace {

constexpr int kSolXdp = 283;
constexpr unsigned kPidfdThread = O_EXCL;  // PIDFD_THREAD: 6.9 and later

// linux/eventpoll.h of 6.9 and later.
struct EpollParameters {
  std::uint32_t busy_poll_usecs;
  std::uint16_t busy_poll_budget;
  std::uint8_t prefer_busy_poll;
  std::uint8_t pad;
};
static_assert(sizeof(EpollParameters) == 8);
constexpr unsigned long kGetEpollParameters = _IOR(0x8A, 0x02, EpollParameters);

class Fd {
 public:
  explicit Fd(long fd) : fd_(static_cast<int>(fd)) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(Fd&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Fd& operator=(Fd&&) = delete;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

template <typename Value>
std::optional<Value> option(int fd, int level, int name) {
  Value value = {};
  socklen_t bytes = sizeof(value);
  if (::getsockopt(fd, level, name, &value, &bytes) != 0) return std::nullopt;
  return value;
}

void read_polling(int fd, SocketFacts& facts) {
  if (const auto us = option<int>(fd, SOL_SOCKET, SO_BUSY_POLL)) {
    facts.busy_poll_us = static_cast<std::uint32_t>(*us);
  }
  if (const auto prefer = option<int>(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL)) {
    facts.prefer_busy_poll = *prefer != 0;
  }
  facts.napi_id = option<std::uint32_t>(fd, SOL_SOCKET, SO_INCOMING_NAPI_ID);
}

void read_xdp(int fd, SocketFacts& facts) {
  if (const auto options = option<xdp_options>(fd, kSolXdp, XDP_OPTIONS)) {
    facts.xdp_zero_copy = (options->flags & XDP_OPTIONS_ZEROCOPY) != 0;
  }
  if (const auto statistics = option<xdp_statistics>(fd, kSolXdp, XDP_STATISTICS)) {
    facts.xdp_rx_dropped = statistics->rx_dropped;
    facts.xdp_ring_full = statistics->rx_ring_full;
  }
}

std::optional<SocketFacts> read_socket(int fd, const FdEntry& entry) {
  SocketFacts facts;
  facts.inode = entry.inode;
  facts.source = "getsockopt";
  const std::string& protocol = entry.protocol;
  if (protocol == "XDP") {
    read_xdp(fd, facts);
    read_polling(fd, facts);
  } else if (protocol == "PACKET") {
    if (const auto bypass = option<int>(fd, SOL_PACKET, PACKET_QDISC_BYPASS)) {
      facts.qdisc_bypass = *bypass != 0;
    }
  } else if (protocol.compare(0, 3, "TCP") == 0 || protocol.compare(0, 3, "UDP") == 0 ||
             protocol.compare(0, 3, "RAW") == 0) {
    read_polling(fd, facts);
  } else {
    return std::nullopt;
  }
  return facts;
}

bool worth_it(const FdEntry& entry) {
  if (entry.kind == ObjectKind::kEventPoll) return true;
  if (entry.kind != ObjectKind::kSocket) return false;
  for (const char* start : {"XDP", "PACKET", "TCP", "UDP", "RAW"}) {
    if (entry.protocol.rfind(start, 0) == 0) return true;
  }
  return false;
}

// The duplicate must be the object that was listed: the number may mean another by now.
bool is_still(int fd, const FdEntry& entry) {
  return read_link("/proc/thread-self/fd/" + std::to_string(fd)) == entry.link;
}

}  // namespace

void borrow_descriptors(const Context& context, Evidence& evidence) {
  constexpr const char* kUnknown = "busy polling, qdisc bypass and zero copy of sockets";
  std::map<pid_t, Fd> pidfds;
  for (const FdEntry& entry : evidence.fds) {
    if (!worth_it(entry)) continue;
    auto pidfd = pidfds.find(entry.tid);
    if (pidfd == pidfds.end()) {
      const pid_t tid = entry.tid == context.pid ? context.lead : entry.tid;
      const unsigned flags = tid == context.pid ? 0 : kPidfdThread;
      Fd opened(::syscall(SYS_pidfd_open, tid, flags));
      if (opened.get() < 0)
        context.cannot_read_errno("pidfd_open", errno, "CAP_SYS_PTRACE", kUnknown);
      pidfd = pidfds.emplace(entry.tid, std::move(opened)).first;
    }
    if (pidfd->second.get() < 0) continue;
    const Fd fd(::syscall(SYS_pidfd_getfd, pidfd->second.get(), entry.fd, 0));
    if (fd.get() < 0) {
      if (errno == EBADF || errno == ESRCH) continue;  // closed or ended meanwhile
      context.cannot_read_errno("pidfd_getfd", errno, "CAP_SYS_PTRACE", kUnknown);
      return;
    }
    if (!is_still(fd.get(), entry)) continue;
    if (entry.kind == ObjectKind::kEventPoll) {
      EpollParameters parameters = {};
      if (::ioctl(fd.get(), kGetEpollParameters, &parameters) == 0) {
        evidence.epolls.push_back(EpollFacts{entry.fd, parameters.busy_poll_usecs,
                                             parameters.busy_poll_budget,
                                             parameters.prefer_busy_poll != 0});
      }
    } else if (auto facts = read_socket(fd.get(), entry)) {
      evidence.socket_facts.push_back(std::move(*facts));
    }
  }
}

}  // namespace whylate::stack::collect
