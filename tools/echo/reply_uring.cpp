// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/reply_uring.h"

#include <algorithm>
#include <cstring>

#include "echo/server.h"

namespace whylate::echo {

/// One reply on its way, with what the kernel reads until it has left.
class UringReplier::SendOp final : public UringOp {
 public:
  explicit SendOp(UringReplier& owner) : owner_(owner) {}
  void complete(int result, bool, int) override { owner_.completed(*this, result); }

  void fill(const ReplyTo& reply_to, std::span<const std::uint8_t> reply) {
    to = reply_to;
    bytes.assign(reply.begin(), reply.end());
    vector = {bytes.data(), bytes.size()};
    message = {};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    if (to.peer == nullptr) return;
    std::memcpy(&peer, to.peer, to.peer_length);
    message.msg_name = &peer;
    message.msg_namelen = to.peer_length;
  }

  ReplyTo to;
  msghdr message{};
  std::vector<std::uint8_t> bytes;

 private:
  UringReplier& owner_;
  sockaddr_storage peer{};
  iovec vector{};
};

UringReplier::UringReplier(Server& server, Uring& ring) : Replier(server), ring_(ring) {}

UringReplier::UringReplier(Server& server, std::unique_ptr<Uring> own)
    : Replier(server), own_(std::move(own)), ring_(*own_) {}

UringReplier::~UringReplier() = default;

void UringReplier::send(const ReplyTo& to, std::span<const std::uint8_t> reply) {
  if (free_.empty()) {
    ops_.push_back(std::make_unique<SendOp>(*this));
    free_.push_back(ops_.back().get());
  }
  SendOp& op = *free_.back();
  free_.pop_back();
  op.fill(to, reply);
  if (to.peer == nullptr && !busy_connections_.insert(to.fd).second) {
    waiting_.push_back(&op);
  } else {
    start(op);
  }
}

void UringReplier::start(SendOp& op) {
  ++sending_;
  ring_.start(op, [this, &op](io_uring_sqe* sqe) {
    // MSG_WAITALL: the kernel itself goes on after a part (Linux 5.19).
    if (op.to.peer == nullptr) {
      io_uring_prep_send(sqe, op.to.fd, op.bytes.data(), op.bytes.size(),
                         MSG_NOSIGNAL | MSG_WAITALL);
    } else {
      io_uring_prep_sendmsg(sqe, op.to.fd, &op.message, MSG_NOSIGNAL);
    }
    ring_.mark_file(sqe);
  });
}

void UringReplier::completed(SendOp& op, int result) {
  --sending_;
  server_.finish(*op.to.worker, result >= 0 && static_cast<std::size_t>(result) == op.bytes.size());
  const int fd = op.to.fd;
  const bool connection = op.to.peer == nullptr;
  op.to.keep.reset();
  free_.push_back(&op);
  if (!connection) return;
  const auto next = std::find_if(waiting_.begin(), waiting_.end(),
                                 [fd](const SendOp* other) { return other->to.fd == fd; });
  if (next == waiting_.end()) {
    busy_connections_.erase(fd);
    return;
  }
  SendOp& follower = **next;
  waiting_.erase(next);
  start(follower);
}

void UringReplier::flush() {
  if (!own_) return;
  while (sending_ > 0) ring_.run();
}

}  // namespace whylate::echo
