// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/escape.h"

#include <gtest/gtest.h>

#include <string>

namespace whylate {
namespace {

TEST(Escape, LeavesPrintableAscii) { EXPECT_EQ(escape("kworker/25:1 ~"), "kworker/25:1 ~"); }

TEST(Escape, ShowsControlAndHighBytes) {
  EXPECT_EQ(escape("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(escape("a\nb\tc\x7f"), "a\\x0ab\\x09c\\x7f");
  EXPECT_EQ(escape("\xc3\xa4\xff"), "\\xc3\\xa4\\xff");
  EXPECT_EQ(escape(std::string("\0x", 2)), "\\x00x");
}

TEST(Escape, IsUnambiguous) {
  // A name that looks like an escape must not read like the byte it names.
  EXPECT_EQ(escape("\\x1b"), "\\\\x1b");
}

TEST(Escape, EveryByteBecomesPrintable) {
  for (int byte = 0; byte < 256; ++byte) {
    for (const char c : escape(std::string(1, static_cast<char>(byte)))) {
      EXPECT_GE(c, ' ');
      EXPECT_LE(c, '~');
    }
  }
}

TEST(EscapeField, StopsAtNulOrTheEnd) {
  const char with_nul[8] = {'a', 'b', '\0', 'x', 'x', 'x', 'x', 'x'};
  EXPECT_EQ(escape_field(with_nul), "ab");
  const char full[4] = {'a', 'b', 'c', 'd'};
  EXPECT_EQ(escape_field(full), "abcd");
}

}  // namespace
}  // namespace whylate
