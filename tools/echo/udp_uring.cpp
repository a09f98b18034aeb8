// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <sys/socket.h>

#include <deque>

#include "echo/clock.h"
#include "echo/server_uring.h"
#include "echo/stop.h"

namespace whylate::echo {
namespace {

constexpr std::size_t kMaxDatagramBytes = 65'536;

/// What the ways to receive have in common.
class ReceiveOp : public UringOp {
 public:
  ReceiveOp(Server& server, Worker& worker, UringThread& thread, int fd)
      : server_(server), worker_(worker), thread_(thread), fd_(fd) {}
  virtual void start() = 0;

 protected:
  void serve(const sockaddr* peer, socklen_t peer_length, std::span<const std::uint8_t> request) {
    server_.handle(worker_, request, monotonic_ns());
    thread_.replier().answer({&worker_, fd_, peer, peer_length, nullptr}, request);
    thread_.replier().flush();
  }

  Server& server_;
  Worker& worker_;
  UringThread& thread_;
  int fd_;
};

/// recvmsg, given again after each datagram. Where there is none the kernel waits with a poll of
/// its own, unless the operation is forced to a worker thread.
class SingleOp final : public ReceiveOp {
 public:
  using ReceiveOp::ReceiveOp;

  void start() override {
    vector_ = {bytes_.data(), bytes_.size()};
    message_ = {};
    message_.msg_name = &peer_;
    message_.msg_namelen = sizeof peer_;
    message_.msg_iov = &vector_;
    message_.msg_iovlen = 1;
    thread_.ring().start(*this, [this](io_uring_sqe* sqe) {
      io_uring_prep_recvmsg(sqe, fd_, &message_, 0);
      thread_.ring().mark_file(sqe);
    });
  }

  void complete(int result, bool, int) override {
    if (stop_requested()) return;
    if (result >= 0) {
      serve(reinterpret_cast<sockaddr*>(&peer_), message_.msg_namelen,
            {bytes_.data(), static_cast<std::size_t>(result)});
    }
    server_.before_read(worker_);
    start();
  }

 private:
  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(kMaxDatagramBytes);
  sockaddr_storage peer_{};
  iovec vector_{};
  msghdr message_{};
};

/// recvmsg that stays (Linux 6.0): each datagram comes in one of the provided buffers.
class MultishotOp final : public ReceiveOp {
 public:
  using ReceiveOp::ReceiveOp;

  void start() override {
    message_ = {};
    message_.msg_namelen = sizeof(sockaddr_storage);
    thread_.ring().start(*this, [this](io_uring_sqe* sqe) {
      io_uring_prep_recvmsg_multishot(sqe, fd_, &message_, 0);
      thread_.ring().mark_file(sqe);
      sqe->flags |= IOSQE_BUFFER_SELECT;
      sqe->buf_group = UringBuffers::kGroup;
    });
  }

  void complete(int result, bool more, int buffer) override {
    if (buffer >= 0) {
      std::uint8_t* const bytes = thread_.buffers().at(buffer).data();
      io_uring_recvmsg_out* const out = io_uring_recvmsg_validate(bytes, result, &message_);
      if (out != nullptr && !stop_requested()) {
        serve(static_cast<sockaddr*>(io_uring_recvmsg_name(out)), out->namelen,
              {static_cast<std::uint8_t*>(io_uring_recvmsg_payload(out, &message_)),
               io_uring_recvmsg_payload_length(out, result, &message_)});
      }
      thread_.buffers().give_back(buffer);
    }
    server_.before_read(worker_);
    // It ends when the buffers run out, among other reasons; what came meanwhile waits.
    if (!more && !stop_requested()) start();
  }

 private:
  msghdr message_{};
};

}  // namespace

void serve_udp_uring(Server& server, std::vector<Fd>& sockets) {
  const ServerOptions& options = server.options();
  const std::size_t buffer_bytes =
      kMaxDatagramBytes + sizeof(io_uring_recvmsg_out) + sizeof(sockaddr_storage);
  const auto serve = [&](Worker& worker, std::size_t index) {
    const auto thread = UringThread::create(server, buffer_bytes);
    if (!thread) return;
    int fd = sockets[index % sockets.size()].get();
    if (options.uring.direct) fd = thread->take(sockets.front());
    if (fd < 0) return;
    std::deque<std::unique_ptr<ReceiveOp>> ops;
    if (options.uring.multishot) {
      ops.push_back(std::make_unique<MultishotOp>(server, worker, *thread, fd));
    } else {
      for (int i = 0; i < options.batch; ++i)
        ops.push_back(std::make_unique<SingleOp>(server, worker, *thread, fd));
    }
    for (const auto& op : ops) op->start();
    thread->run();
  };
  server.run_threads(static_cast<std::size_t>(options.threads), serve);
}

}  // namespace whylate::echo
