// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/channel.h"

#include <fmt/format.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "echo/clock.h"
#include "echo/payload.h"
#include "echo/sockets.h"
#include "echo/stop.h"

namespace whylate::echo {
namespace {

constexpr std::size_t kReadBytes = 65'536;
constexpr std::size_t kHeaderRoom =
    256;  // link, network and transport headers before a looped payload
constexpr std::size_t kControlBytes = 512;
constexpr int kReceiveBufferBytes = 4 << 20;

/// The software stamp among a message's control data.
std::int64_t software_stamp(msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPING) continue;
    scm_timestamping stamps{};
    std::memcpy(&stamps, CMSG_DATA(c), sizeof stamps);
    const auto& software = stamps.ts[0];
    if (software.tv_sec == 0 && software.tv_nsec == 0) return kUnknownNs;
    return std::int64_t{software.tv_sec} * 1'000'000'000 + software.tv_nsec;
  }
  return kUnknownNs;
}

std::optional<sock_extended_err> extended_error(msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    const bool v4 = c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR;
    const bool v6 = c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR;
    if (!v4 && !v6) continue;
    sock_extended_err error{};
    std::memcpy(&error, CMSG_DATA(c), sizeof error);
    return error;
  }
  return std::nullopt;
}

Status choose_multicast_interface(const Fd& fd, int family, const Interface& interface) {
  int result = 0;
  if (family == AF_INET6) {
    const int index = static_cast<int>(interface.index);
    result = setsockopt(fd.get(), IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, sizeof index);
  } else {
    ip_mreqn request{};
    request.imr_address = interface.address;
    request.imr_ifindex = static_cast<int>(interface.index);
    result = setsockopt(fd.get(), IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request);
  }
  if (result != 0) return system_error("choosing the multicast interface");
  return Done{};
}

}  // namespace

Channel::Channel(const ClientOptions& options)
    : proto_(options.proto),
      size_bytes_(options.size_bytes),
      reply_bytes_(reply_size(options.size_bytes, options.reply_bytes)),
      segment_bytes_(options.segment_bytes),
      segment_gap_ns_(options.segment_gap_ns),
      read_every_ns_(options.read_every_ns),
      seed_(options.seed),
      stamps_(options.stamps),
      to_(options.to),
      buffer_(std::max(kReadBytes, reply_bytes_ * 2) + kHeaderRoom) {}

Result<Channel> Channel::open(const ClientOptions& options, int index) {
  Channel channel(options);
  if (auto opened = channel.open_socket_number(options, index); !opened) return opened.error();
  if (options.stamps && options.proto == Proto::kTcp) {
    channel.sent_ids_.reserve(options.count / static_cast<std::size_t>(options.connections) + 1);
  }
  return channel;
}

Status Channel::reopen(const ClientOptions& options, int index) {
  closed_ = connected_ = false;
  kept_ = consumed_ = pending_from_ = 0;
  pending_.clear();
  sent_ids_.clear();
  tx_offset_ = 0;
  next_read_ns_ = 0;
  return open_socket_number(options, index);
}

Status Channel::open_socket_number(const ClientOptions& options, int index) {
  fd_.reset();
  auto fd = open_socket(options.to.family(), options.proto, true);
  if (!fd) return fd.error();
  fd_ = std::move(*fd);
  // Best effort and capped by the system: replies lost here would look like the server's loss.
  const int room = options.rcvbuf_bytes > 0 ? options.rcvbuf_bytes : kReceiveBufferBytes;
  (void)set_option(fd_, SOL_SOCKET, SO_RCVBUF, room, "SO_RCVBUF");
  if (options.fresh_sockets && proto_ == Proto::kTcp) {
    const linger reset{1, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  if (options.bind) {
    Endpoint local = *options.bind;
    if (local.port() != 0) local.set_port(static_cast<std::uint16_t>(local.port() + index));
    if (::bind(fd_.get(), local.raw(), local.length) != 0) {
      return system_error(fmt::format("bind to {}", to_string(local)));
    }
  }
  if (options.to.is_multicast()) {
    if (options.interface) {
      auto chosen = choose_multicast_interface(fd_, options.to.family(), *options.interface);
      if (!chosen) return chosen.error();
    }
  } else if (auto connected = connect(options); !connected) {
    return connected.error();
  }
  if (options.stamps) return switch_stamps_on();
  return Done{};
}

Status Channel::connect(const ClientOptions& options) {
  const auto failed = [&] {
    return system_error(fmt::format("connect to {}", to_string(options.to)));
  };
  if (proto_ == Proto::kTcp && !options.nagle) {
    if (auto set = set_option(fd_, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"); !set) return set;
  }
  if (::connect(fd_.get(), options.to.raw(), options.to.length) != 0) {
    if (errno != EINPROGRESS) return failed();
    pollfd wait{fd_.get(), POLLOUT, 0};
    const auto timeout_ms =
        static_cast<int>(std::min<std::int64_t>(options.timeout_ns / 1'000'000, 60'000));
    if (::poll(&wait, 1, std::max(timeout_ms, 1)) != 1) {
      errno = ETIMEDOUT;
      return failed();
    }
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
      errno = error;
      return failed();
    }
  }
  connected_ = true;
  return Done{};
}

Status Channel::switch_stamps_on() {
  // A UDP stamp comes back with the datagram, whose number says which request it is. A TCP stamp
  // comes with the offset of the byte it is for, counted from here.
  int flags =
      SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
  if (proto_ == Proto::kTcp) flags |= SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY;
  return set_option(fd_, SOL_SOCKET, SO_TIMESTAMPING, flags, "SO_TIMESTAMPING");
}

ssize_t Channel::send_in_pieces(std::span<const std::uint8_t> payload) {
  std::size_t put = 0;
  while (put < payload.size()) {
    if (put > 0) {
      const std::int64_t until_ns = monotonic_ns() + segment_gap_ns_;
      while (monotonic_ns() < until_ns && !stop_requested()) {
      }
    }
    const auto piece = payload.subspan(put, std::min(segment_bytes_, payload.size() - put));
    const ssize_t part = ::send(fd_.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
    if (part < 0) return put > 0 ? static_cast<ssize_t>(put) : part;
    put += static_cast<std::size_t>(part);
    if (static_cast<std::size_t>(part) < piece.size()) break;
  }
  return static_cast<ssize_t>(put);
}

Channel::Sent Channel::send(std::span<const std::uint8_t> payload, std::uint64_t id, bool more) {
  if (closed_) return Sent::kFailed;
  if (proto_ == Proto::kTcp && wants_to_write()) {
    flush_pending();
    if (closed_) return Sent::kFailed;
  }
  ssize_t put = 0;
  if (!wants_to_write() && segment_bytes_ > 0) {
    put = send_in_pieces(payload);
  } else if (!wants_to_write()) {
    const int flags = MSG_NOSIGNAL | (more ? MSG_MORE : 0);
    // Twice: the first call may only report that an earlier datagram was refused, sending nothing.
    for (int attempt = 0; attempt < 2; ++attempt) {
      put = connected_
                ? ::send(fd_.get(), payload.data(), payload.size(), flags)
                : ::sendto(fd_.get(), payload.data(), payload.size(), flags, to_.raw(), to_.length);
      if (put >= 0 || errno != ECONNREFUSED || proto_ == Proto::kTcp) break;
      ++refused_;
    }
  }
  if (put < 0) {
    if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ECONNREFUSED)
      return Sent::kRetry;
    send_errno_ = errno;
    closed_ = proto_ == Proto::kTcp;
    return Sent::kFailed;
  }
  if (proto_ == Proto::kTcp) {
    const auto rest = payload.subspan(static_cast<std::size_t>(put));
    pending_.insert(pending_.end(), rest.begin(), rest.end());
    if (stamps_) sent_ids_.push_back(id);
  }
  return Sent::kYes;
}

void Channel::flush_pending() {
  const ssize_t put = ::send(fd_.get(), pending_.data() + pending_from_,
                             pending_.size() - pending_from_, MSG_NOSIGNAL);
  if (put < 0) {
    if (errno != EAGAIN && errno != EINTR) closed_ = true;
    return;
  }
  pending_from_ += static_cast<std::size_t>(put);
  if (pending_from_ == pending_.size()) {
    pending_.clear();
    pending_from_ = 0;
  }
}

std::size_t Channel::read(std::vector<Reply>& replies) {
  if (closed_) return 0;
  if (wants_to_write()) flush_pending();
  if (read_every_ns_ > 0 && monotonic_ns() < next_read_ns_) return 0;
  if (consumed_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + consumed_, kept_);
    consumed_ = 0;
  }
  std::uint8_t* const into = buffer_.data() + kept_;
  const std::size_t room = buffer_.size() - kept_;
  alignas(cmsghdr) char control[kControlBytes];
  iovec vector{into, room};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = stamps_ ? ::recvmsg(fd_.get(), &message, MSG_DONTWAIT)
                              : ::recv(fd_.get(), into, room, MSG_DONTWAIT);
  if (got < 0) {
    if (errno == ECONNREFUSED && proto_ == Proto::kUdp) {
      ++refused_;
    } else if (errno != EAGAIN && errno != EINTR && proto_ == Proto::kTcp) {
      closed_ = true;
    }
    return 0;
  }
  const std::int64_t received_ns = monotonic_ns();
  next_read_ns_ = received_ns + read_every_ns_;
  const std::int64_t stamp_ns = stamps_ ? software_stamp(message) : kUnknownNs;
  const auto size = static_cast<std::size_t>(got);
  if (proto_ == Proto::kUdp) {
    replies.push_back({{into, size}, received_ns, stamp_ns});
    return 1;
  }
  if (size == 0) {
    closed_ = true;
    return 0;
  }
  return split_stream(size, received_ns, stamp_ns, replies);
}

std::size_t Channel::split_stream(std::size_t got, std::int64_t received_ns, std::int64_t stamp_ns,
                                  std::vector<Reply>& replies) {
  const std::size_t have = kept_ + got;
  const std::size_t complete = have / reply_bytes_;
  for (std::size_t i = 0; i < complete; ++i) {
    // The stamp is that of the last segment read: it belongs to the message that ends there, if one
    // does.
    const bool stamped = (i + 1) * reply_bytes_ == have;
    replies.push_back({{buffer_.data() + i * reply_bytes_, reply_bytes_},
                       received_ns,
                       stamped ? stamp_ns : kUnknownNs});
  }
  consumed_ = complete * reply_bytes_;
  kept_ = have - consumed_;
  return complete;
}

std::optional<TxStamp> Channel::read_tx_stamp() {
  if (!stamps_) return std::nullopt;
  std::uint8_t local[2048];
  std::vector<std::uint8_t> large;
  std::span<std::uint8_t> data = local;
  if (proto_ == Proto::kUdp && size_bytes_ + kHeaderRoom > sizeof local) {
    large.resize(size_bytes_ + kHeaderRoom);
    data = large;
  }
  alignas(cmsghdr) char control[kControlBytes];
  iovec vector{data.data(), data.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_ERRQUEUE | MSG_DONTWAIT);
  if (got < 0) return std::nullopt;
  TxStamp stamp;
  const auto error = extended_error(message);
  if (!error || error->ee_origin != SO_EE_ORIGIN_TIMESTAMPING) return stamp;
  const std::int64_t stamp_ns = software_stamp(message);
  if (proto_ == Proto::kUdp) {
    const auto size = static_cast<std::size_t>(got);
    if (size < size_bytes_) return stamp;
    const auto payload =
        std::span<const std::uint8_t>(data).subspan(size - size_bytes_, size_bytes_);
    const auto id = payload_id(payload);
    if (!id || !payload_matches(payload, *id, seed_)) return stamp;
    return TxStamp{*id, stamp_ns};
  }
  tx_offset_ += static_cast<std::uint32_t>(error->ee_data - static_cast<std::uint32_t>(tx_offset_));
  const std::uint64_t end = tx_offset_ + 1;
  if (end % size_bytes_ != 0 || end / size_bytes_ > sent_ids_.size()) return stamp;
  return TxStamp{sent_ids_[end / size_bytes_ - 1], stamp_ns};
}

}  // namespace whylate::echo
