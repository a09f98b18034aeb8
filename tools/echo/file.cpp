// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace whylate::echo {
namespace {

Error failure(const std::string& path, int error) {
  return Error{ExitCode::kRuntimeError, fmt::format("{}: {}", path, std::strerror(error))};
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return failure(path, errno);
  return OutputFile(path, file);
}

void OutputFile::write(std::string_view text) {
  if (first_errno_ != 0) return;
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) first_errno_ = errno;
}

Status OutputFile::close() {
  if (std::fclose(file_.release()) != 0 && first_errno_ == 0) first_errno_ = errno;
  if (first_errno_ != 0) return failure(path_, first_errno_);
  return Done{};
}

}  // namespace whylate::echo
