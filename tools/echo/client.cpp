// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/client.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <thread>

#include "echo/clock.h"
#include "echo/sender.h"
#include "echo/sockets.h"
#include "echo/stop.h"

namespace whylate::echo {
namespace {

// Between "all is ready" and the first request: the threads are running and pinned by then.
constexpr std::int64_t kLeadNs = 20'000'000;

void run_sender(const ClientOptions& options, Sender& sender, std::size_t index,
                std::int64_t start_ns) {
  if (auto pinned = pin_thread(options.cpus, index); !pinned) {
    fmt::print(stderr, "whylate-echo: {}\n", pinned.error().message);
  }
  if (index > 0) name_thread(fmt::format("sender-{}", index).c_str());
  sender.run(start_ns);
}

}  // namespace

Oddities& Oddities::operator+=(const Oddities& other) {
  late += other.late;
  duplicates += other.duplicates;
  mismatched += other.mismatched;
  unexpected += other.unexpected;
  refused += other.refused;
  send_errors += other.send_errors;
  if (send_errno == 0) send_errno = other.send_errno;
  disconnected += other.disconnected;
  return *this;
}

Result<ClientRun> run_client(const ClientOptions& options) {
  if (auto handlers = install_stop_handlers(); !handlers) return handlers.error();
  if (auto pinned = pin_thread(options.cpus, 0); !pinned) return pinned.error();

  ClientRun run;
  run.requests.resize(options.count);
  const auto count = static_cast<std::size_t>(options.senders);
  std::deque<Sender> senders;
  std::vector<std::vector<Channel>> channels(count);
  for (int i = 0; i < options.connections; ++i) {
    auto channel = Channel::open(options, i);
    if (!channel) return channel.error();
    channels[static_cast<std::size_t>(i) % count].push_back(std::move(*channel));
  }
  for (std::size_t i = 0; i < count; ++i)
    senders.emplace_back(options, i, std::move(channels[i]), run.requests);

  // Best effort: page faults of ours must not look like latency. Without the privilege the memory
  // has at least been touched.
  (void)mlockall(MCL_CURRENT);

  const std::int64_t before_ns = monotonic_ns();
  const std::int64_t realtime_ns = clock_ns(CLOCK_REALTIME);
  const std::int64_t now_ns = (before_ns + monotonic_ns()) / 2;
  run.start_ns = now_ns + kLeadNs;
  run.start_realtime_ns = realtime_ns + kLeadNs;

  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < count; ++i) {
    threads.emplace_back([&, i] { run_sender(options, senders[i], i, run.start_ns); });
  }
  run_sender(options, senders[0], 0, run.start_ns);
  for (auto& thread : threads) thread.join();

  run.end_ns = monotonic_ns();
  run.interrupted = stop_requested();
  for (const auto& sender : senders) run.oddities += sender.oddities();
  return run;
}

}  // namespace whylate::echo
