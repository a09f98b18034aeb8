// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/cpulist.h"

#include <algorithm>
#include <optional>

#include "host/file.h"

namespace whylate::host {
namespace {

std::optional<int> parse_cpu(std::string_view text) {
  const std::optional<std::uint64_t> value = parse_u64(text);
  if (!value || *value > static_cast<std::uint64_t>(kMaxCpu)) return std::nullopt;
  return static_cast<int>(*value);
}

// Quotes what may come from a command line: long or unprintable text must not spoil the line.
std::string quote(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string quoted = "\"";
  for (const char c : text.substr(0, kShown)) quoted += (c >= ' ' && c <= '~') ? c : '?';
  return quoted + (text.size() > kShown ? "…\"" : "\"");
}

Result<std::vector<int>> read_list(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return text.error();
  const Result<std::vector<int>> cpus = parse_cpu_list(*text);
  if (!cpus) return Error{ExitCode::kRuntimeError, path + ": " + cpus.error().message};
  if (cpus->empty()) return Error{ExitCode::kRuntimeError, path + " lists no CPU"};
  return *cpus;
}

}  // namespace

Result<std::vector<int>> parse_cpu_list(std::string_view text) {
  const std::string_view all = trim(text);
  std::vector<int> cpus;
  if (all.empty()) return cpus;
  const Error error{ExitCode::kUsage, "not a list of CPUs like 0,3-7: " + quote(all)};
  std::string_view rest = all;
  for (;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-');
    const std::optional<int> first = parse_cpu(part.substr(0, dash));
    const std::optional<int> last =
        dash == std::string_view::npos ? first : parse_cpu(part.substr(dash + 1));
    if (!first || !last || *last < *first) return error;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    // Overlapping ranges may be many: keep the vector from growing beyond what is possible.
    if (cpus.size() > static_cast<std::size_t>(kMaxCpu) * 2) return error;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string format_cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[i]);
    if (end - i > 1) text += '-' + std::to_string(cpus[end - 1]);
    i = end;
  }
  return text;
}

Result<std::vector<int>> possible_cpus(const std::string& root) {
  return read_list(root + "/sys/devices/system/cpu/possible");
}

Result<std::vector<int>> online_cpus(const std::string& root) {
  return read_list(root + "/sys/devices/system/cpu/online");
}

}  // namespace whylate::host
