// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string>

namespace whylate {

void log_line(std::string_view text) {
  // One write: lines of a traced command that shares stderr do not land in the middle of ours.
  const std::string line = fmt::format("whylate: {}\n", text);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

int fail(const Error& error) {
  log_line(error.message);
  return static_cast<int>(error.code);
}

}  // namespace whylate
