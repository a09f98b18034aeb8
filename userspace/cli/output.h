// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace whylate::cli {

/// Where a command's data goes: stdout, or a file. Holds back nothing but what was added since the
/// last flush, and only whole lines are ever left behind: when the disk is full, a file is cut back
/// to its last whole line.
class Output {
 public:
  static Output to_stdout();
  /// Creates or empties the file. Error (kRuntimeError): it cannot be opened.
  static Result<Output> to_file(const std::string& path);

  Output(Output&& other) noexcept;
  Output& operator=(Output&&) = delete;
  ~Output();

  /// Adds whole lines (each with its end) to what the next flush writes.
  void add(std::string_view lines) { pending_.append(lines); }
  std::size_t pending_bytes() const { return pending_.size(); }

  /// Writes everything added. Error (kRuntimeError): the reason, e.g. no space left. A reader that
  /// went away is no error: see reader_gone().
  Status flush();

  /// flush(), and for a file: it reached the disk as far as the kernel tells without waiting.
  Status close();

  /// Notices a closed pipe without writing to it.
  void look_for_reader();

  /// True once nobody reads the pipe any more: the caller ends quietly.
  bool reader_gone() const { return reader_gone_; }

 private:
  Output(int fd, std::string name, bool is_file)
      : fd_(fd), name_(std::move(name)), is_file_(is_file) {}

  int fd_;
  std::string name_;
  bool is_file_;
  bool reader_gone_ = false;
  std::uint64_t whole_lines_bytes_ = 0;  // length of the file up to its last whole line
  std::string pending_;
};

}  // namespace whylate::cli
