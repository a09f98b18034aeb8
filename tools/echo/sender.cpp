// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/sender.h"

#include <poll.h>

#include <algorithm>
#include <ctime>

#include "echo/clock.h"
#include "echo/payload.h"
#include "echo/stop.h"

namespace whylate::echo {
namespace {

// So close to the next send a read of the socket is left out, because it could delay it.
constexpr std::int64_t kGuardNs = 2'000;
constexpr std::int64_t kDrainNs = 100'000'000;
constexpr std::int64_t kTxStampWaitNs = 10'000'000;

timespec to_timespec(std::int64_t ns) {
  return timespec{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

}  // namespace

Sender::Sender(const ClientOptions& options, std::size_t sender, std::vector<Channel> channels,
               std::vector<RequestRecord>& requests)
    : options_(options),
      sender_(sender),
      senders_(static_cast<std::size_t>(options.senders)),
      channels_(std::move(channels)),
      requests_(requests),
      total_((options.count + senders_ - 1 - sender) / senders_),
      payload_(options.size_bytes),
      expected_(options.size_bytes) {
  replies_.reserve(8192);
  prepare_next();
}

void Sender::run(std::int64_t start_ns) {
  if (options_.rate_millihertz) {
    run_schedule(Schedule(start_ns, *options_.rate_millihertz, options_.burst));
  } else {
    while (monotonic_ns() < start_ns) {
    }
    run_closed_loop();
  }
  if (stop_requested()) drain_after_stop();
  if (options_.stamps) {
    const std::int64_t until_ns = monotonic_ns() + kTxStampWaitNs;
    while (monotonic_ns() < until_ns) take_tx_stamps();
  }
}

void Sender::run_schedule(const Schedule& schedule) {
  const std::int64_t guard_ns = std::min(kGuardNs, schedule.period_ns() / 4);
  while (!stop_requested() && !finished() && !all_closed()) {
    const std::int64_t now_ns = monotonic_ns();
    if (next_ < total_) {
      const std::int64_t due_ns = schedule.intended_ns(index_of(next_));
      if (due_ns > now_ns && due_ns - now_ns < guard_ns) continue;
      // What is due goes out back to back; the reads in between keep a backlog from hiding the
      // replies.
      for (std::uint64_t sent = 0; sent < options_.burst && next_ < total_; ++sent) {
        const std::int64_t intended_ns = schedule.intended_ns(index_of(next_));
        if (intended_ns > now_ns || !send_next(intended_ns)) break;
      }
    }
    receive();
    expire(now_ns);
  }
}

void Sender::run_closed_loop() {
  while (!stop_requested() && !finished() && !all_closed()) {
    while (next_ < total_ && fits_window()) {
      if (options_.gap_ns > 0 && next_ > 0) sleep_gap();
      if (stop_requested() || !send_next(kUnknownNs)) break;
    }
    const std::size_t got = receive();
    expire(monotonic_ns());
    if (got == 0 && options_.block && outstanding_ > 0) wait_for_reply();
  }
}

bool Sender::all_closed() const {
  return std::all_of(channels_.begin(), channels_.end(),
                     [](const Channel& c) { return c.closed(); });
}

void Sender::prepare_next() {
  if (next_ < total_) fill_payload(payload_, id_of(next_), options_.seed);
}

// Requests that go out together are begun only when there is room for all of them.
bool Sender::fits_window() const {
  return outstanding_ + options_.coalesce - next_ % options_.coalesce <= options_.window;
}

bool Sender::last_of_group() const {
  return (next_ + 1) % options_.coalesce == 0 || next_ + 1 == total_;
}

bool Sender::renew_socket() {
  Channel& channel = channels_.front();
  if (channel.closed()) ++oddities_.disconnected;
  auto opened = channel.reopen(options_, static_cast<int>(index_of(next_)));
  if (!opened && oddities_.send_errno == 0) oddities_.send_errno = errno;
  return opened.ok();
}

bool Sender::matches(const Reply& reply, std::uint64_t id) {
  if (reply.bytes.size() != reply_size(options_.size_bytes, options_.reply_bytes)) return false;
  if (options_.reply_bytes == 0) return payload_matches(reply.bytes, id, options_.seed);
  // The request over and over.
  fill_payload(expected_, id, options_.seed);
  for (std::size_t from = 0; from < reply.bytes.size(); from += expected_.size()) {
    const auto part =
        reply.bytes.subspan(from, std::min(expected_.size(), reply.bytes.size() - from));
    if (!std::equal(part.begin(), part.end(), expected_.begin())) return false;
  }
  return true;
}

bool Sender::send_next(std::int64_t intended_ns) {
  Channel& channel = channels_[next_ % channels_.size()];
  const bool able = !options_.fresh_sockets || next_ == 0 || renew_socket();
  const std::int64_t now_ns = monotonic_ns();
  const auto sent =
      able ? channel.send(payload_, id_of(next_), !last_of_group()) : Channel::Sent::kFailed;
  if (sent == Channel::Sent::kRetry) return false;
  if (sent == Channel::Sent::kYes) {
    RequestRecord& record = record_of(next_);
    record.intended_ns = intended_ns;
    record.sent_ns = now_ns;
    ++outstanding_;
  } else {
    ++oddities_.send_errors;
  }
  ++next_;
  prepare_next();
  return true;
}

std::size_t Sender::receive() {
  // With nothing outstanding the socket is left alone: the wait for the next send is then free of
  // system calls.
  if (outstanding_ == 0) return 0;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    replies_.clear();
    channels_[i].read(replies_);
    for (const Reply& reply : replies_) take(reply, i);
    taken += replies_.size();
  }
  if (options_.stamps) take_tx_stamps();
  return taken;
}

void Sender::take(const Reply& reply, std::size_t channel) {
  const auto id = payload_id(reply.bytes);
  const std::uint64_t index = id.value_or(0) - options_.first_id;
  const std::uint64_t k = index / senders_;
  if (!id || index >= requests_.size() || index % senders_ != sender_ ||
      k % channels_.size() != channel || record_of(k).sent_ns == kUnknownNs) {
    ++oddities_.unexpected;
    return;
  }
  // First of all the time limit, so that a reply that comes after it finds its request lost
  // already.
  expire(reply.received_ns);
  RequestRecord& record = record_of(k);
  if (record.received_ns != kUnknownNs) {
    ++oddities_.duplicates;
    return;
  }
  if (k < oldest_) {
    ++oddities_.late;
    return;
  }
  record.received_ns = reply.received_ns;
  record.rx_stamp_ns = reply.rx_stamp_ns;
  --outstanding_;
  if (!matches(reply, *id)) {
    record.mismatch = true;
    ++oddities_.mismatched;
  }
}

void Sender::expire(std::int64_t now_ns) {
  // Requests are sent in order, so the oldest expires first.
  for (; oldest_ < next_; ++oldest_) {
    const RequestRecord& record = record_of(oldest_);
    if (record.received_ns != kUnknownNs || record.sent_ns == kUnknownNs) continue;
    if (now_ns - record.sent_ns <= options_.timeout_ns) return;
    --outstanding_;
  }
}

void Sender::take_tx_stamps() {
  for (Channel& channel : channels_) {
    while (const auto stamp = channel.read_tx_stamp()) {
      const std::uint64_t index = stamp->id - options_.first_id;
      if (stamp->stamp_ns == kUnknownNs || index >= requests_.size() || index % senders_ != sender_)
        continue;
      requests_[index].tx_stamp_ns = stamp->stamp_ns;
    }
  }
}

void Sender::sleep_gap() const {
  pollfd stop{stop_event_fd(), POLLIN, 0};
  const timespec length = to_timespec(options_.gap_ns);
  ppoll(&stop, 1, &length, nullptr);
}

void Sender::wait_for_reply() {
  std::vector<pollfd> waits;
  waits.push_back({stop_event_fd(), POLLIN, 0});
  for (const Channel& channel : channels_) {
    if (channel.closed()) continue;
    const short events = channel.wants_to_write() ? POLLIN | POLLOUT : POLLIN;
    waits.push_back({channel.fd(), events, 0});
  }
  const std::int64_t left_ns = record_of(oldest_).sent_ns + options_.timeout_ns - monotonic_ns();
  const timespec length = to_timespec(std::max<std::int64_t>(left_ns, 0) + 1);
  ppoll(waits.data(), waits.size(), &length, nullptr);
}

void Sender::drain_after_stop() {
  const std::int64_t until_ns = monotonic_ns() + std::min(kDrainNs, options_.timeout_ns);
  while (outstanding_ > 0 && !all_closed() && monotonic_ns() < until_ns) receive();
}

Oddities Sender::oddities() const {
  Oddities sum = oddities_;
  for (const Channel& channel : channels_) {
    sum.refused += channel.refused();
    if (sum.send_errno == 0) sum.send_errno = channel.send_errno();
    if (channel.closed()) ++sum.disconnected;
  }
  return sum;
}

}  // namespace whylate::echo
