// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/steal.h"

#include <unistd.h>

#include <optional>

#include "host/file.h"

namespace whylate::host {

Result<Steal> read_steal(const std::string& root) {
  const Result<std::string> text = read_file(root + "/proc/stat");
  if (!text) return text.error();
  const long per_second = ::sysconf(_SC_CLK_TCK);
  const std::uint64_t tick_ns =
      1'000'000'000u / static_cast<std::uint64_t>(per_second > 0 ? per_second : 100);
  constexpr std::size_t kStealColumn =
      8;  // after the name: user nice system idle iowait irq softirq
  Steal steal;
  bool found = false;
  for (const std::string_view line : split_lines(*text)) {
    const std::vector<std::string_view> words = split_words(line);
    if (words.size() <= kStealColumn || words[0].substr(0, 3) != "cpu") continue;
    const std::optional<std::uint64_t> ticks = parse_u64(words[kStealColumn]);
    if (!ticks) continue;
    if (words[0] == "cpu") {
      steal.total_ns = *ticks * tick_ns;
      found = true;
    } else if (const auto cpu = parse_u64(words[0].substr(3))) {
      steal.cpu_ns[static_cast<int>(*cpu)] = *ticks * tick_ns;
    }
  }
  if (!found) return Error{ExitCode::kRuntimeError, root + "/proc/stat has no steal column"};
  return steal;
}

}  // namespace whylate::host
