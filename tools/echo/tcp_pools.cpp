// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/tcp_pools.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <optional>
#include <unordered_map>

#include "echo/hand_off.h"
#include "echo/poller.h"
#include "echo/ready_set.h"
#include "echo/stop.h"
#include "echo/tcp_connection.h"

namespace whylate::echo {
namespace {

using Step = Connection::Step;

constexpr std::uint32_t kOnce = EPOLLIN | EPOLLONESHOT;

bool one_thread_at_a_time(const ServerOptions& options) {
  return options.share_epoll || options.hand_off;
}

/// Connections served by one thread, or with --share-epoll and --hand-off by all. Only the acceptor
/// adds; only who serves a connection removes it.
class Pool {
 public:
  explicit Pool(const ServerOptions& options)
      : poller(options.stack), changed_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void add(Fd fd, const ServerOptions& options) {
    auto connection = std::make_unique<Connection>(std::move(fd), options);
    Connection* raw = connection.get();
    const std::lock_guard<std::mutex> guard(mutex_);
    connections_.emplace(raw, std::move(connection));
    changed_ = true;
    if (options.mode == ServerMode::kEpoll) {
      // A connection's bytes must not be read by two threads at once.
      poller.watch(raw->fd(), raw, one_thread_at_a_time(options) ? kOnce : EPOLLIN);
    } else if (options.mode != ServerMode::kSpin) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(changed_fd_.get(), &one, sizeof one);
    }
  }

  void remove(Connection* connection) {
    const std::lock_guard<std::mutex> guard(mutex_);
    connections_.erase(connection);
    changed_ = true;
  }

  /// Brings the list of the pool's only thread up to date; false when it was.
  bool refresh(std::vector<Connection*>& list) {
    if (!changed_.load(std::memory_order_relaxed)) return false;
    const std::lock_guard<std::mutex> guard(mutex_);
    changed_ = false;
    list.clear();
    for (const auto& entry : connections_) list.push_back(entry.first);
    return true;
  }

  /// Readable after a connection was added by another thread.
  int changed_fd() const { return changed_fd_.get(); }
  void clear_changed_fd() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(changed_fd_.get(), &count, sizeof count);
  }

  Poller poller;

 private:
  Fd changed_fd_;
  std::mutex mutex_;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
  std::atomic<bool> changed_{true};
};

/// Accepts what waits and deals it out in turn. Used by the first thread, or by those that share an
/// epoll, one at a time.
class Acceptor {
 public:
  Acceptor(const Fd& listener, std::deque<Pool>& pools) : listener_(listener), pools_(pools) {}

  void accept_one(const ServerOptions& options) {
    Fd fd = accept_connection(listener_, true);
    if (!fd.valid()) return;
    // select() could not watch it: better refused than left waiting.
    if (options.mode == ServerMode::kSelect && fd.get() >= FD_SETSIZE) return;
    pools_[next_.fetch_add(1, std::memory_order_relaxed) % pools_.size()].add(std::move(fd),
                                                                              options);
  }
  int fd() const { return listener_.get(); }

 private:
  const Fd& listener_;
  std::deque<Pool>& pools_;
  std::atomic<std::size_t> next_{0};
};

/// One serving thread.
class PoolThread {
 public:
  PoolThread(Server& server, Worker& worker, Pool& pool, Acceptor& acceptor, bool accepts)
      : server_(server),
        options_(server.options()),
        worker_(worker),
        replier_(make_replier(server)),
        pool_(pool),
        acceptor_(acceptor),
        accepts_(accepts) {}

  void loop_epoll(HandOff* hand_off) {
    while (!stop_requested()) {
      void* const tag = hand_off != nullptr ? hand_off->next() : pool_.poller.wait();
      if (tag == nullptr) continue;
      if (tag == &acceptor_) {
        acceptor_.accept_one(options_);
        if (hand_off != nullptr) pool_.poller.watch_again(acceptor_.fd(), tag, kOnce);
        continue;
      }
      auto* connection = static_cast<Connection*>(tag);
      if (serve(connection) && one_thread_at_a_time(options_))
        pool_.poller.watch_again(connection->fd(), connection, kOnce);
    }
  }

  void loop_ready_set() {
    ReadySet set(options_.mode == ServerMode::kSelect);
    std::vector<Connection*> list;
    while (!stop_requested()) {
      if (pool_.refresh(list)) {
        set.clear();
        set.add(pool_.changed_fd());
        for (Connection* connection : list) set.add(connection->fd());
        if (accepts_) set.add(acceptor_.fd());
      }
      if (!set.wait()) continue;
      if (set.ready(0)) pool_.clear_changed_fd();
      for (std::size_t i = 0; i < list.size() && !stop_requested(); ++i) {
        if (set.ready(1 + i)) serve(list[i]);
      }
      if (accepts_ && set.ready(1 + list.size())) acceptor_.accept_one(options_);
    }
  }

  void loop_spin() {
    // accept() is a system call as well: with connections to read it is tried now and then only.
    constexpr unsigned kRoundsPerAccept = 1024;
    std::vector<Connection*> list;
    for (unsigned round = 0; !stop_requested(); ++round) {
      if (accepts_ && (list.empty() || round % kRoundsPerAccept == 0))
        acceptor_.accept_one(options_);
      pool_.refresh(list);
      for (Connection* connection : list) {
        if (connection->step(server_, worker_, *replier_) == Step::kClosed)
          pool_.remove(connection);
      }
    }
  }

 private:
  /// Serves a connection that is readable; false when that was its end.
  bool serve(Connection* connection) {
    Step step = Step::kNothing;
    do {
      step = connection->step(server_, worker_, *replier_);
    } while (step == Step::kRead && options_.drain && !stop_requested());
    if (step == Step::kClosed) pool_.remove(connection);
    return step != Step::kClosed;
  }

  Server& server_;
  const ServerOptions& options_;
  Worker& worker_;
  std::unique_ptr<Replier> replier_;
  Pool& pool_;
  Acceptor& acceptor_;
  bool accepts_;
};

}  // namespace

Fd accept_connection(const Fd& listener, bool nonblocking) {
  const int flags = SOCK_CLOEXEC | (nonblocking ? SOCK_NONBLOCK : 0);
  Fd fd(::accept4(listener.get(), nullptr, nullptr, flags));
  if (!fd.valid() && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED &&
      !stop_requested()) {
    const timespec pause{0, 10'000'000};
    nanosleep(&pause, nullptr);
  }
  return fd;
}

void serve_pools(Server& server, const Fd& listener) {
  const ServerOptions& options = server.options();
  const auto threads = static_cast<std::size_t>(options.threads);
  std::deque<Pool> pools;
  const std::size_t count = one_thread_at_a_time(options) ? 1 : threads;
  for (std::size_t i = 0; i < count; ++i) pools.emplace_back(options);
  Acceptor acceptor(listener, pools);
  std::optional<HandOff> hand_off;
  if (options.hand_off) hand_off.emplace(pools[0].poller, options);
  if (options.mode == ServerMode::kEpoll)
    pools[0].poller.watch(listener.get(), &acceptor, options.hand_off ? kOnce : EPOLLIN);
  server.run_threads(threads, [&](Worker& worker, std::size_t index) {
    PoolThread thread(server, worker, pools[index % pools.size()], acceptor, index == 0);
    switch (options.mode) {
      case ServerMode::kEpoll:
        thread.loop_epoll(hand_off ? &*hand_off : nullptr);
        break;
      case ServerMode::kPoll:
      case ServerMode::kSelect:
        thread.loop_ready_set();
        break;
      default:
        thread.loop_spin();
        break;
    }
  });
}

}  // namespace whylate::echo
