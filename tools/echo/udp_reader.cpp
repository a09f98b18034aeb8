// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/udp_reader.h"

#include <netinet/in.h>

#include "echo/clock.h"
#include "echo/payload.h"
#include "echo/stop.h"

namespace whylate::echo {
namespace {

constexpr std::size_t kMaxDatagramBytes = 65'536;

class SingleReader final : public UdpReader {
 public:
  SingleReader(Server& server, Worker& worker, int fd)
      : server_(server),
        worker_(worker),
        replier_(make_replier(server)),
        fd_(fd),
        buffer_(kMaxDatagramBytes) {}

  bool serve() override {
    server_.before_read(worker_);
    if (server_.options().peek && ::recv(fd_, buffer_.data(), kIdBytes, MSG_PEEK) < 0) return false;
    sockaddr_storage peer;
    socklen_t peer_length = sizeof peer;
    const ssize_t got = ::recvfrom(fd_, buffer_.data(), buffer_.size(), 0,
                                   reinterpret_cast<sockaddr*>(&peer), &peer_length);
    const std::int64_t read_ns = monotonic_ns();
    // A socket that was shut down reads as empty datagrams without a sender.
    if (got < 0 || (got == 0 && stop_requested())) return false;
    const std::span<const std::uint8_t> request(buffer_.data(), static_cast<std::size_t>(got));
    server_.handle(worker_, request, read_ns);
    replier_->answer({&worker_, fd_, reinterpret_cast<sockaddr*>(&peer), peer_length, nullptr},
                     request);
    replier_->flush();
    return true;
  }

 private:
  Server& server_;
  Worker& worker_;
  std::unique_ptr<Replier> replier_;
  int fd_;
  std::vector<std::uint8_t> buffer_;
};

/// recvmmsg(): waits for the first datagram and takes those that are there.
class BatchReader final : public UdpReader {
 public:
  BatchReader(Server& server, Worker& worker, int fd)
      : server_(server), worker_(worker), replier_(make_replier(server)), fd_(fd) {
    const auto size = static_cast<std::size_t>(server.options().batch);
    buffer_.resize(size * kMaxDatagramBytes);
    peers_.resize(size);
    vectors_.resize(size);
    messages_.resize(size);
    for (std::size_t i = 0; i < size; ++i) {
      vectors_[i] = {buffer_.data() + i * kMaxDatagramBytes, kMaxDatagramBytes};
      messages_[i].msg_hdr.msg_iov = &vectors_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
    }
  }

  bool serve() override {
    server_.before_read(worker_);
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      messages_[i].msg_hdr.msg_name = &peers_[i];
      messages_[i].msg_hdr.msg_namelen = sizeof peers_[i];
    }
    const int got = ::recvmmsg(fd_, messages_.data(), static_cast<unsigned>(messages_.size()),
                               MSG_WAITFORONE, nullptr);
    const std::int64_t read_ns = monotonic_ns();
    if (got <= 0 || (messages_[0].msg_len == 0 && stop_requested())) return false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) {
      const std::span<const std::uint8_t> request(
          static_cast<const std::uint8_t*>(vectors_[i].iov_base), messages_[i].msg_len);
      server_.handle(worker_, request, read_ns);
      const msghdr& header = messages_[i].msg_hdr;
      replier_->answer({&worker_, fd_, static_cast<const sockaddr*>(header.msg_name),
                        header.msg_namelen, nullptr},
                       request);
    }
    replier_->flush();
    return true;
  }

 private:
  Server& server_;
  Worker& worker_;
  std::unique_ptr<Replier> replier_;
  int fd_;
  std::vector<std::uint8_t> buffer_;
  std::vector<sockaddr_storage> peers_;
  std::vector<iovec> vectors_;
  std::vector<mmsghdr> messages_;
};

}  // namespace

std::unique_ptr<UdpReader> make_udp_reader(Server& server, Worker& worker, int fd) {
  if (server.options().batch > 1) return std::make_unique<BatchReader>(server, worker, fd);
  return std::make_unique<SingleReader>(server, worker, fd);
}

}  // namespace whylate::echo
