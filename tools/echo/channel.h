// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "echo/fd.h"
#include "echo/options.h"
#include "echo/stats.h"

namespace whylate::echo {

/// One reply as a read delivered it; `bytes` is valid until the next read.
struct Reply {
  std::span<const std::uint8_t> bytes;
  std::int64_t received_ns = kUnknownNs;
  std::int64_t rx_stamp_ns = kUnknownNs;
};

/// The transmit stamp of one request; unknown when it cannot be told which request it belongs to.
struct TxStamp {
  std::uint64_t id = 0;
  std::int64_t stamp_ns = kUnknownNs;
};

/// A non-blocking client socket, UDP or TCP, used by one thread.
class Channel {
 public:
  /// Opens, binds and connects the client's socket number `index`. A TCP connection is made within
  /// the request timeout. UDP to a group stays unconnected: the replies come from the responders'
  /// own addresses.
  static Result<Channel> open(const ClientOptions& options, int index);

  /// Starts over with a new socket, opened as number `index`; the old one is closed (TCP: reset, so
  /// that none lingers in TIME_WAIT), and what it had still to deliver is gone.
  Status reopen(const ClientOptions& options, int index);

  enum class Sent { kYes, kRetry, kFailed };
  /// Sends one request. kRetry: the socket took nothing, try again. TCP takes the rest of a message
  /// that did not fit into a buffer of its own and sends it with the next calls. `more` (TCP):
  /// another request follows at once, and goes out together with this one.
  Sent send(std::span<const std::uint8_t> payload, std::uint64_t id, bool more = false);

  /// Reads once and appends the complete replies; returns how many. A slow reader leaves the socket
  /// alone between two reads.
  std::size_t read(std::vector<Reply>& replies);

  /// Reads one transmit stamp, if there is any. Only with --stamps.
  std::optional<TxStamp> read_tx_stamp();

  int fd() const { return fd_.get(); }
  bool closed() const { return closed_; }
  bool wants_to_write() const { return pending_from_ < pending_.size(); }
  /// How often the peer's host answered that nobody listens (UDP).
  std::uint64_t refused() const { return refused_; }
  /// Why the last failed send failed; 0 when none did.
  int send_errno() const { return send_errno_; }

 private:
  explicit Channel(const ClientOptions& options);
  Status open_socket_number(const ClientOptions& options, int index);
  Status connect(const ClientOptions& options);
  ssize_t send_in_pieces(std::span<const std::uint8_t> payload);
  Status switch_stamps_on();
  void flush_pending();
  std::size_t split_stream(std::size_t got, std::int64_t received_ns, std::int64_t stamp_ns,
                           std::vector<Reply>& replies);

  Proto proto_;
  std::size_t size_bytes_;
  std::size_t reply_bytes_;
  std::size_t segment_bytes_;
  std::int64_t segment_gap_ns_;
  std::int64_t read_every_ns_;
  std::int64_t next_read_ns_ = 0;
  std::uint64_t seed_;
  bool stamps_;
  Endpoint to_;
  bool connected_ = false;
  Fd fd_;
  bool closed_ = false;
  std::uint64_t refused_ = 0;
  int send_errno_ = 0;

  std::vector<std::uint8_t> buffer_;
  std::size_t kept_ = 0;      // TCP: bytes of an incomplete reply at the start of buffer_
  std::size_t consumed_ = 0;  // TCP: bytes before it that were delivered by the last read
  std::vector<std::uint8_t> pending_;
  std::size_t pending_from_ = 0;
  std::vector<std::uint64_t> sent_ids_;  // TCP with stamps: id by message number
  std::uint64_t tx_offset_ = 0;          // TCP: the last stamped byte's offset, widened to 64 bits
};

}  // namespace whylate::echo
