// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <liburing.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "echo/options.h"

namespace whylate::echo {

/// An operation that was given to a ring. It must stay where it is until its last completion.
class UringOp {
 public:
  virtual ~UringOp() = default;
  /// `result` is what the system call would return, or -errno; `more`: further completions of this
  /// operation follow (multishot); `buffer`: the provided buffer that was used, or -1.
  virtual void complete(int result, bool more, int buffer) = 0;
};

/// An io_uring, used by the one thread that creates it.
class Uring {
 public:
  /// Sets it up as the options say; kUnsupported when the kernel has not got it or forbids it.
  static Result<std::unique_ptr<Uring>> create(const UringOptions& options);
  ~Uring();
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  /// Queues an operation: `prepare` fills the entry. It goes to the kernel with the next run().
  template <typename Prepare>
  void start(UringOp& op, Prepare prepare) {
    io_uring_sqe* const sqe = free_entry();
    prepare(sqe);
    sqe->flags |= entry_flags_;
    io_uring_sqe_set_data(sqe, &op);
    ++in_flight_;
  }

  /// Submits what is queued, waits for a completion, and completes all that are there.
  void run();
  /// Takes back everything that is still with the kernel, for a second at most.
  void cancel_all();

  /// Direct descriptors (UringOptions::direct): puts an open file into a slot of the ring's table.
  Status keep_in_slot(unsigned slot, int fd);
  /// Closes what is in a slot.
  void close_slot(unsigned slot);
  /// To be called where an entry's file is prepared: with direct descriptors its number is a slot.
  void mark_file(io_uring_sqe* sqe) const {
    if (direct_) sqe->flags |= IOSQE_FIXED_FILE;
  }

  io_uring& raw() { return ring_; }

 private:
  Uring() = default;
  io_uring_sqe* free_entry();

  io_uring ring_{};
  std::uint8_t entry_flags_ = 0;
  bool direct_ = false;
  std::unique_ptr<UringOp> ignored_;
  std::uint64_t in_flight_ = 0;
};

/// Buffers the kernel chooses from as data comes in (IORING_REGISTER_PBUF_RING, Linux 5.19). Their
/// group is 0: one set for each ring.
class UringBuffers {
 public:
  static constexpr unsigned kCount = 64;
  static constexpr int kGroup = 0;

  static Result<std::unique_ptr<UringBuffers>> create(Uring& ring, std::size_t buffer_bytes);
  ~UringBuffers();
  UringBuffers(const UringBuffers&) = delete;
  UringBuffers& operator=(const UringBuffers&) = delete;

  std::span<std::uint8_t> at(int buffer);
  /// The kernel may use it again.
  void give_back(int buffer);

 private:
  explicit UringBuffers(std::size_t buffer_bytes)
      : buffer_bytes_(buffer_bytes), bytes_(buffer_bytes * kCount) {}

  std::size_t buffer_bytes_;
  std::vector<std::uint8_t> bytes_;
  io_uring_buf_ring* entries_ = nullptr;
};

}  // namespace whylate::echo
