// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace whylate {

/// Makes a name from outside (comm, path, argument) safe for a terminal, a log line and JSON:
/// control characters and every byte above 0x7e become \xNN, a backslash becomes \\. The result is
/// printable ASCII, so it is valid UTF-8 and its width is its length.
std::string escape(std::string_view text);

/// The same for a fixed-size field that may lack the final NUL.
template <std::size_t kSize>
std::string escape_field(const char (&field)[kSize]) {
  std::size_t length = 0;
  while (length < kSize && field[length] != '\0') ++length;
  return escape(std::string_view(field, length));
}

}  // namespace whylate
