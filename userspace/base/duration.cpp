// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/duration.h"

#include <fmt/format.h>

#include <limits>

#include "base/escape.h"

namespace whylate {
namespace {

// Above this a count of ns no longer fits the signed numbers of the system calls that take it.
constexpr std::uint64_t kMaxNs = std::numeric_limits<std::int64_t>::max();

struct Unit {
  std::string_view name;
  std::uint64_t ns;
};

constexpr Unit kUnits[] = {
    {"ns", 1},           {"us", kNsPerUs},         {"ms", kNsPerMs},
    {"s", kNsPerSecond}, {"m", 60 * kNsPerSecond}, {"h", 3600 * kNsPerSecond},
};

Error bad(std::string_view text, std::string_view why) {
  return Error{ExitCode::kUsage, fmt::format("'{}' is not a duration: {}", escape(text), why)};
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Result<std::uint64_t> parse_duration(std::string_view text) {
  if (text.empty()) return bad(text, "it is empty");
  if (text.front() == '-') return bad(text, "it is negative");

  // Exact decimal arithmetic: 0.1 has no exact binary form, and 1.1us must be 1100 ns.
  std::size_t pos = 0;
  unsigned __int128 whole = 0;
  while (pos < text.size() && is_digit(text[pos])) {
    whole = whole * 10 + static_cast<unsigned>(text[pos++] - '0');
    if (whole > kMaxNs) return bad(text, "it is too long");
  }
  const bool has_whole = pos > 0;
  std::string_view decimals;
  if (pos < text.size() && text[pos] == '.') {
    const std::size_t first = ++pos;
    while (pos < text.size() && is_digit(text[pos])) ++pos;
    decimals = text.substr(first, pos - first);
  }
  if (!has_whole || (decimals.empty() && pos > 0 && text[pos - 1] == '.')) {
    return bad(text, "expected a number with a unit, like 500us, 1.5ms or 10s");
  }

  const std::string_view unit_name = text.substr(pos);
  if (unit_name.empty()) return bad(text, "the unit is missing (ns, us, ms, s, m or h)");
  for (const Unit& unit : kUnits) {
    if (unit.name != unit_name) continue;
    unsigned __int128 ns = whole * unit.ns;
    std::uint64_t scale = unit.ns;
    unsigned __int128 fraction = 0;
    // 13 decimals of an hour are below a nanosecond.
    for (std::size_t i = 0; i < decimals.size() && i < 13; ++i) {
      fraction = fraction * 10 + static_cast<unsigned>(decimals[i] - '0');
    }
    unsigned __int128 power = 1;
    for (std::size_t i = 0; i < decimals.size() && i < 13; ++i) power *= 10;
    ns += fraction * scale / power;
    if (ns > kMaxNs) return bad(text, "it is too long");
    return static_cast<std::uint64_t>(ns);
  }
  return bad(text, "unknown unit (use ns, us, ms, s, m or h)");
}

std::string format_duration(std::uint64_t ns) {
  if (ns == 0) return "0";
  if (ns < 100) return fmt::format("{}ns", ns);
  // Hundredths by integers, so that 999,995 ns reads 1.00ms and not 1000.00us.
  const auto hundredths = [ns](std::uint64_t unit_ns) {
    return ns / unit_ns * 100 + (ns % unit_ns * 100 + unit_ns / 2) / unit_ns;
  };
  const auto text = [](std::uint64_t value, std::string_view unit) {
    return fmt::format("{}.{:02}{}", value / 100, value % 100, unit);
  };
  if (hundredths(kNsPerUs) < 100'000) return text(hundredths(kNsPerUs), "us");
  if (hundredths(kNsPerMs) < 100'000) return text(hundredths(kNsPerMs), "ms");
  return text(hundredths(kNsPerSecond), "s");
}

std::string format_seconds(std::uint64_t ns) {
  constexpr std::uint64_t kTenth = kNsPerSecond / 10;
  const std::uint64_t tenths = ns / kTenth + (ns % kTenth >= kTenth / 2 ? 1 : 0);
  return fmt::format("{}.{} s", tenths / 10, tenths % 10);
}

}  // namespace whylate
