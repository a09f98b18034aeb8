// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "echo/channel.h"
#include "echo/client.h"
#include "echo/options.h"
#include "echo/schedule.h"
#include "echo/stats.h"

namespace whylate::echo {

/// One sending thread: its sockets, and every senders-th request. Its k-th request is number
/// k * senders + sender of the run and goes out on its socket k % sockets.
class Sender {
 public:
  Sender(const ClientOptions& options, std::size_t sender, std::vector<Channel> channels,
         std::vector<RequestRecord>& requests);

  /// Sends from start_ns on and receives until every request is answered or lost, or a stop is
  /// requested.
  void run(std::int64_t start_ns);

  Oddities oddities() const;

 private:
  std::uint64_t index_of(std::uint64_t k) const { return k * senders_ + sender_; }
  std::uint64_t id_of(std::uint64_t k) const { return options_.first_id + index_of(k); }
  RequestRecord& record_of(std::uint64_t k) { return requests_[index_of(k)]; }

  void run_schedule(const Schedule& schedule);
  void run_closed_loop();
  bool finished() const { return next_ == total_ && outstanding_ == 0; }
  bool all_closed() const;

  void prepare_next();
  bool fits_window() const;
  bool last_of_group() const;
  bool renew_socket();
  bool matches(const Reply& reply, std::uint64_t id);
  bool send_next(std::int64_t intended_ns);
  std::size_t receive();
  void take(const Reply& reply, std::size_t channel);
  void expire(std::int64_t now_ns);
  void take_tx_stamps();
  void sleep_gap() const;
  void wait_for_reply();
  void drain_after_stop();

  const ClientOptions& options_;
  std::size_t sender_;
  std::size_t senders_;
  std::vector<Channel> channels_;
  std::vector<RequestRecord>& requests_;
  std::uint64_t total_;
  std::uint64_t next_ = 0;         // k of the next request to send
  std::uint64_t oldest_ = 0;       // every k below is answered, lost or was not sent
  std::uint64_t outstanding_ = 0;  // sent, neither answered nor lost
  std::vector<std::uint8_t> payload_;
  std::vector<std::uint8_t> expected_;  // the request a reply is compared with
  std::vector<Reply> replies_;
  Oddities oddities_;
};

}  // namespace whylate::echo
