// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include <cerrno>
#include <list>
#include <memory>
#include <thread>
#include <unordered_map>

#include "echo/clock.h"
#include "echo/server.h"
#include "echo/sockets.h"
#include "echo/stop.h"

namespace whylate::echo {
namespace {

/// One accepted connection and the message being read from it.
class Connection {
 public:
  Connection(Fd fd, const ServerOptions& options)
      : fd_(std::move(fd)), message_(options.size_bytes) {
    // Best effort: without it a reply waits for the peer's acknowledgement, which shows in the
    // figures.
    if (!options.nagle) (void)set_option(fd_, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
  }

  int fd() const { return fd_.get(); }
  void shut_down() { ::shutdown(fd_.get(), SHUT_RDWR); }

  enum class Step { kNothing, kRead, kClosed };

  /// Reads once, never beyond the current message; answers it when it is complete.
  Step step(Server& server, Worker& worker) {
    const ssize_t got = ::recv(fd_.get(), message_.data() + have_, message_.size() - have_, 0);
    if (got < 0) {
      return errno == EAGAIN || errno == EINTR ? Step::kNothing : Step::kClosed;
    }
    if (got == 0) return Step::kClosed;
    have_ += static_cast<std::size_t>(got);
    if (have_ < message_.size()) return Step::kRead;
    have_ = 0;
    server.handle(worker, message_, monotonic_ns());
    const bool sent = send_message();
    server.finish(worker, sent);
    return sent ? Step::kRead : Step::kClosed;
  }

 private:
  bool send_message() {
    std::size_t sent = 0;
    while (sent < message_.size()) {
      const ssize_t put =
          ::send(fd_.get(), message_.data() + sent, message_.size() - sent, MSG_NOSIGNAL);
      if (put >= 0) {
        sent += static_cast<std::size_t>(put);
      } else if (errno == EAGAIN ? !wait_writable(fd_.get()) : errno != EINTR) {
        return false;
      }
    }
    return true;
  }

  Fd fd_;
  std::vector<std::uint8_t> message_;
  std::size_t have_ = 0;
};

using Step = Connection::Step;

/// Out of descriptors and the like: do not turn the accept loop into a busy one.
void pause_after_accept_error() {
  if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED || stop_requested()) return;
  const timespec pause{0, 10'000'000};
  nanosleep(&pause, nullptr);
}

// --- blocking: a thread for each connection -------------------------------------------------

struct ConnectionThread {
  explicit ConnectionThread(Fd fd, const ServerOptions& options)
      : connection(std::move(fd), options) {}
  Connection connection;
  std::atomic<bool> ended{false};
  std::thread thread;
};

void serve_connection(Server& server, Worker& worker, std::size_t index, ConnectionThread& own) {
  server.begin_thread(worker, index);
  while (!stop_requested() && own.connection.step(server, worker) != Step::kClosed) {
  }
  // The descriptor stays open until the acceptor has joined, so that its number cannot be reused
  // under it.
  own.connection.shut_down();
  own.ended = true;
}

void serve_blocking(Server& server, const Fd& listener) {
  std::list<ConnectionThread> threads;
  std::size_t accepted = 0;
  while (!stop_requested()) {
    Fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) {
      pause_after_accept_error();
      continue;
    }
    threads.remove_if([](ConnectionThread& old) {
      if (!old.ended) return false;
      old.thread.join();
      return true;
    });
    auto& own = threads.emplace_back(std::move(fd), server.options());
    Worker& worker = server.add_worker();
    const std::size_t index = accepted++;
    own.thread = std::thread(
        [&server, &worker, index, &own] { serve_connection(server, worker, index, own); });
  }
  for (auto& own : threads) own.connection.shut_down();
  for (auto& own : threads) own.thread.join();
}

// --- epoll and spin: threads that share the connections --------------------------------------

/// A serving thread's connections. Only the acceptor adds, only the owner removes.
class Pool {
 public:
  explicit Pool(Worker& owner) : worker(owner), poller(epoll_create1(EPOLL_CLOEXEC)) {}

  void add(Fd fd, const ServerOptions& options) {
    auto connection = std::make_unique<Connection>(std::move(fd), options);
    Connection* raw = connection.get();
    const std::lock_guard<std::mutex> guard(mutex_);
    connections_.emplace(raw, std::move(connection));
    changed_ = true;
    if (options.mode == ServerMode::kEpoll) watch(raw->fd(), raw);
  }

  void remove(Connection* connection) {
    const std::lock_guard<std::mutex> guard(mutex_);
    connections_.erase(connection);
    changed_ = true;
  }

  void watch(int fd, void* tag) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = tag;
    epoll_ctl(poller.get(), EPOLL_CTL_ADD, fd, &event);
  }

  /// Brings a spinning thread's list up to date.
  void refresh(std::vector<Connection*>& list) {
    if (!changed_.load(std::memory_order_relaxed)) return;
    const std::lock_guard<std::mutex> guard(mutex_);
    changed_ = false;
    list.clear();
    for (const auto& entry : connections_) list.push_back(entry.first);
  }

  Worker& worker;
  Fd poller;

 private:
  std::mutex mutex_;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
  std::atomic<bool> changed_{false};
};

/// Accepts what waits and deals it out in turn.
class Acceptor {
 public:
  Acceptor(const Fd& listener, std::deque<Pool>& pools) : listener_(listener), pools_(pools) {}

  void accept_one(const ServerOptions& options) {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) {
      pools_[next_++ % pools_.size()].add(std::move(fd), options);
    } else {
      pause_after_accept_error();
    }
  }

 private:
  const Fd& listener_;
  std::deque<Pool>& pools_;
  std::size_t next_ = 0;
};

void loop_epoll(Server& server, Pool& pool, Acceptor* acceptor) {
  while (!stop_requested()) {
    epoll_event events[16];
    const int count = epoll_wait(pool.poller.get(), events, 16, -1);
    for (int i = 0; i < count && !stop_requested(); ++i) {
      if (events[i].data.ptr == nullptr) continue;  // the stop
      if (events[i].data.ptr == acceptor) {
        acceptor->accept_one(server.options());
        continue;
      }
      auto* connection = static_cast<Connection*>(events[i].data.ptr);
      Step step = Step::kNothing;
      do {
        step = connection->step(server, pool.worker);
      } while (step == Step::kRead && server.options().drain && !stop_requested());
      if (step == Step::kClosed) pool.remove(connection);
    }
  }
}

void loop_spin(Server& server, Pool& pool, Acceptor* acceptor) {
  // accept() is a system call as well: with connections to read it is tried now and then only.
  constexpr unsigned kRoundsPerAccept = 1024;
  std::vector<Connection*> list;
  for (unsigned round = 0; !stop_requested(); ++round) {
    if (acceptor != nullptr && (list.empty() || round % kRoundsPerAccept == 0)) {
      acceptor->accept_one(server.options());
    }
    pool.refresh(list);
    for (Connection* connection : list) {
      if (connection->step(server, pool.worker) == Step::kClosed) pool.remove(connection);
    }
  }
}

void serve_pool(Server& server, Pool& pool, std::size_t index, Acceptor* acceptor) {
  server.begin_thread(pool.worker, index);
  if (server.options().mode == ServerMode::kEpoll) {
    loop_epoll(server, pool, acceptor);
  } else {
    loop_spin(server, pool, acceptor);
  }
}

void serve_pools(Server& server, const Fd& listener) {
  std::deque<Pool> pools;
  for (int i = 0; i < server.options().threads; ++i) {
    pools.emplace_back(server.add_worker()).watch(stop_event_fd(), nullptr);
  }
  Acceptor acceptor(listener, pools);
  pools[0].watch(listener.get(), &acceptor);
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < pools.size(); ++i) {
    threads.emplace_back([&server, &pools, i] { serve_pool(server, pools[i], i, nullptr); });
  }
  serve_pool(server, pools[0], 0, &acceptor);
  for (auto& thread : threads) thread.join();
}

}  // namespace

Status serve_tcp(Server& server, const Fd& listener) {
  if (server.options().mode == ServerMode::kBlocking) {
    serve_blocking(server, listener);
  } else {
    serve_pools(server, listener);
  }
  return Done{};
}

}  // namespace whylate::echo
