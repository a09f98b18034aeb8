// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace whylate::echo {

/// One read of the server.
struct ReadEntry {
  std::int64_t read_ns = 0;  ///< CLOCK_MONOTONIC, just after the read returned
  std::uint64_t id = 0;
  bool has_id = false;  ///< false: the request was too short to carry a number
};

/// The reads of one thread, kept in memory so that logging costs the server a store, not a write.
/// Used by its own thread only until that thread has ended.
class ReadLog {
 public:
  /// Reserves and touches room for a first chunk of so many reads when `enabled`; otherwise add()
  /// does nothing.
  explicit ReadLog(bool enabled, std::size_t chunk = std::size_t{1} << 16);
  void add(std::optional<std::uint64_t> id, std::int64_t read_ns);

  std::size_t size() const { return size_; }
  const ReadEntry& at(std::size_t index) const;

 private:
  void grow();

  bool enabled_;
  std::size_t chunk_;
  std::size_t size_ = 0;
  // Chunks rather than one vector: growing must not copy what is there while requests wait.
  std::vector<std::unique_ptr<ReadEntry[]>> chunks_;
};

/// A thread's log with its kernel thread id.
struct ThreadReads {
  pid_t tid = 0;
  const ReadLog* log = nullptr;
};

/// Writes the text file `whylate.reads/1`: `tid order id read_ns` a line, `-` where there was no
/// number.
Status write_sequence_log(const std::string& path, const std::vector<ThreadReads>& threads);

}  // namespace whylate::echo
