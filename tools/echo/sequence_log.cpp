// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/sequence_log.h"

#include <fmt/format.h>

#include "echo/file.h"

namespace whylate::echo {

ReadLog::ReadLog(bool enabled, std::size_t chunk) : enabled_(enabled), chunk_(chunk) {
  if (enabled_) grow();
}

void ReadLog::grow() { chunks_.push_back(std::make_unique<ReadEntry[]>(chunk_)); }

void ReadLog::add(std::optional<std::uint64_t> id, std::int64_t read_ns) {
  if (!enabled_) return;
  if (size_ == chunks_.size() * chunk_) grow();
  chunks_[size_ / chunk_][size_ % chunk_] = ReadEntry{read_ns, id.value_or(0), id.has_value()};
  ++size_;
}

const ReadEntry& ReadLog::at(std::size_t index) const {
  return chunks_[index / chunk_][index % chunk_];
}

Status write_sequence_log(const std::string& path, const std::vector<ThreadReads>& threads) {
  auto file = OutputFile::create(path);
  if (!file) return file.error();
  file->write("# whylate.reads/1: tid order id read_ns (CLOCK_MONOTONIC)\n");
  for (const auto& thread : threads) {
    for (std::size_t i = 0; i < thread.log->size(); ++i) {
      const auto& entry = thread.log->at(i);
      file->write(entry.has_id
                      ? fmt::format("{} {} {} {}\n", thread.tid, i, entry.id, entry.read_ns)
                      : fmt::format("{} {} - {}\n", thread.tid, i, entry.read_ns));
    }
  }
  return file->close();
}

}  // namespace whylate::echo
