// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace whylate::echo {

/// A file being written; a write that fails (disk full) is remembered and told by close().
class OutputFile {
 public:
  /// Creates or truncates.
  static Result<OutputFile> create(const std::string& path);

  void write(std::string_view text);
  /// Flushes and closes; the first failure as ExitCode::kRuntimeError.
  Status close();

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  OutputFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
  int first_errno_ = 0;
};

}  // namespace whylate::echo
