// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <cerrno>
#include <unordered_map>

#include "echo/clock.h"
#include "echo/server_uring.h"
#include "echo/stop.h"
#include "echo/tcp_connection.h"

namespace whylate::echo {
namespace {

constexpr std::size_t kBufferBytes = 65'536;

class ConnectionOp;

/// The connections of one thread.
struct UringConnections {
  Server& server;
  Worker& worker;
  UringThread& thread;
  std::unordered_map<const ConnectionOp*, std::unique_ptr<ConnectionOp>> all;
};

/// Receives on one connection, with one operation after the other or with one that stays.
class ConnectionOp final : public UringOp {
 public:
  /// `number`: of a descriptor, or of a slot of the ring's table.
  ConnectionOp(UringConnections& owner, int number)
      : owner_(owner),
        multishot_(owner.server.options().uring.multishot),
        connection_(owner.server.options().uring.direct
                        ? Connection(number, owner.thread.keep_slot(number), owner.server.options())
                        : Connection(Fd(number), owner.server.options())) {}

  void start() {
    owner_.thread.ring().start(*this, [this](io_uring_sqe* sqe) {
      if (multishot_) {
        io_uring_prep_recv_multishot(sqe, connection_.fd(), nullptr, 0, 0);
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = UringBuffers::kGroup;
      } else {
        const auto room = connection_.room();
        io_uring_prep_recv(sqe, connection_.fd(), room.data(), room.size(), 0);
      }
      owner_.thread.ring().mark_file(sqe);
    });
  }

  void complete(int result, bool more, int buffer) override {
    const bool ended = result == 0 || (result < 0 && result != -ENOBUFS && result != -EINTR);
    if (result > 0 && !stop_requested()) serve(static_cast<std::size_t>(result), buffer);
    if (buffer >= 0) owner_.thread.buffers().give_back(buffer);
    if (stop_requested()) return;
    if (ended && !more) {
      owner_.all.erase(this);  // destroys it
      return;
    }
    owner_.server.before_read(owner_.worker);
    if (!more) start();
  }

 private:
  void serve(std::size_t size, int buffer) {
    const std::int64_t read_ns = monotonic_ns();
    Replier& replier = owner_.thread.replier();
    if (buffer >= 0) {
      const auto bytes = owner_.thread.buffers().at(buffer).first(size);
      connection_.take(owner_.server, owner_.worker, replier, bytes, read_ns);
    } else {
      connection_.took(owner_.server, owner_.worker, replier, size, read_ns);
    }
  }

  UringConnections& owner_;
  bool multishot_;
  Connection connection_;
};

/// Accepts one connection after the other.
class AcceptOp final : public UringOp {
 public:
  AcceptOp(UringConnections& owner, int listener) : owner_(owner), listener_(listener) {}

  void start() {
    owner_.thread.ring().start(*this, [this](io_uring_sqe* sqe) {
      if (owner_.server.options().uring.direct) {
        // No SOCK_CLOEXEC: there is no descriptor that an exec could keep.
        io_uring_prep_accept(sqe, listener_, nullptr, nullptr, 0);
        // liburing 2.3 does not take this through io_uring_prep_accept_direct().
        sqe->file_index = IORING_FILE_INDEX_ALLOC;
        owner_.thread.ring().mark_file(sqe);
      } else {
        io_uring_prep_accept(sqe, listener_, nullptr, nullptr, SOCK_CLOEXEC);
      }
    });
  }

  void complete(int result, bool, int) override {
    if (result >= 0) {
      auto op = std::make_unique<ConnectionOp>(owner_, result);
      if (!stop_requested()) op->start();
      const ConnectionOp* const key = op.get();
      owner_.all.emplace(key, std::move(op));
    }
    if (!stop_requested()) start();
  }

 private:
  UringConnections& owner_;
  int listener_;
};

}  // namespace

void serve_tcp_uring(Server& server, Fd& listener) {
  const auto threads = static_cast<std::size_t>(server.options().threads);
  server.run_threads(threads, [&](Worker& worker, std::size_t) {
    const auto thread = UringThread::create(server, kBufferBytes);
    if (!thread) return;
    UringConnections connections{server, worker, *thread, {}};
    const bool direct = server.options().uring.direct;
    const int number = direct ? thread->take(listener) : listener.get();
    if (number < 0) return;
    AcceptOp accept(connections, number);
    accept.start();
    thread->run();
  });
}

}  // namespace whylate::echo
