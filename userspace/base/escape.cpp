// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/escape.h"

#include <fmt/format.h>

#include <iterator>

namespace whylate {

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\') {
      out += "\\\\";
    } else if (byte < 0x20 || byte > 0x7e) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace whylate
