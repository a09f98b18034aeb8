// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/process.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>

#include "host/cpulist.h"
#include "host/file.h"

namespace whylate::host {
namespace {

constexpr std::uint64_t kFlagKernelThread = 0x00200000;  // PF_KTHREAD
constexpr std::size_t kCommBytes = 15;

struct Stat {
  std::string comm;
  char state = '?';
  std::uint64_t flags = 0;
  std::uint64_t start_ticks = 0;
};

// The name may hold blanks, line ends and parentheses: it ends at the *last* closing parenthesis.
std::optional<Stat> parse_stat(std::string_view text) {
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  Stat stat;
  stat.comm = std::string(text.substr(open + 1, close - open - 1));
  // Field 3 of proc(5) is the first word here.
  const std::vector<std::string_view> words = split_words(trim(text.substr(close + 1)));
  if (words.size() < 20 || words[0].size() != 1) return std::nullopt;
  stat.state = words[0][0];
  const std::optional<std::uint64_t> flags = parse_u64(words[9 - 3]);
  const std::optional<std::uint64_t> start = parse_u64(words[22 - 3]);
  if (!flags || !start) return std::nullopt;
  stat.flags = *flags;
  stat.start_ticks = *start;
  return stat;
}

// The value of "Name:\tvalue" in /proc/PID/status, or nothing.
std::optional<std::string_view> status_field(std::string_view text, std::string_view name) {
  for (const std::string_view line : split_lines(text)) {
    if (line.size() > name.size() && line.substr(0, name.size()) == name &&
        line[name.size()] == ':') {
      return trim(line.substr(name.size() + 1));
    }
  }
  return std::nullopt;
}

std::vector<pid_t> numeric_names(const std::string& directory) {
  std::vector<pid_t> ids;
  for (const std::string& name : list_directory(directory)) {
    if (const auto id = parse_u64(name)) ids.push_back(static_cast<pid_t>(*id));
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::uint64_t ticks_to_ns(std::uint64_t ticks) {
  const long per_second = ::sysconf(_SC_CLK_TCK);
  const std::uint64_t hz = per_second > 0 ? static_cast<std::uint64_t>(per_second) : 100;
  constexpr std::uint64_t kSecond = 1'000'000'000;
  return ticks / hz * kSecond + ticks % hz * kSecond / hz;
}

void read_cgroups(const std::string& path, ProcessInfo& info) {
  const Result<std::string> text = read_file(path);
  if (!text) return;
  // "4:cpu,cpuacct:/a/b"; the unified hierarchy is "0::/a/b". A path may hold colons.
  for (const std::string_view line : split_lines(*text)) {
    const std::size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string controllers(line.substr(first + 1, second - first - 1));
    std::string group(line.substr(second + 1));
    if (controllers.empty()) {
      info.cgroup_v2 = std::move(group);
    } else {
      info.cgroup_v1.emplace_back(controllers, std::move(group));
    }
  }
}

Error no_such_process(pid_t pid) {
  return Error{ExitCode::kUsage, "no such process: " + std::to_string(pid)};
}

}  // namespace

Result<ProcessInfo> read_process(const std::string& root, pid_t pid) {
  const std::string base = root + "/proc/" + std::to_string(pid);
  if (pid <= 0 || !exists(base)) return no_such_process(pid);
  const Result<std::string> stat_text = read_file(base + "/stat");
  const Result<std::string> status_text = read_file(base + "/status");
  if (!stat_text || !status_text) {
    if (!exists(base + "/stat")) return no_such_process(pid);
    return stat_text ? status_text.error() : stat_text.error();
  }
  const std::optional<Stat> stat = parse_stat(*stat_text);
  if (!stat) return Error{ExitCode::kRuntimeError, "cannot understand " + base + "/stat"};
  if (const auto tgid = status_field(*status_text, "Tgid")) {
    const std::optional<std::uint64_t> leader = parse_u64(*tgid);
    if (leader && static_cast<pid_t>(*leader) != pid) {
      return Error{ExitCode::kUsage, std::to_string(pid) + " is a thread of process " +
                                         std::string(*tgid) + ": give that"};
    }
  }

  ProcessInfo info;
  info.pid = pid;
  info.comm = stat->comm;
  info.start_ticks = stat->start_ticks;
  info.start_ns = ticks_to_ns(stat->start_ticks);
  info.is_kernel_thread = (stat->flags & kFlagKernelThread) != 0;
  info.is_zombie = stat->state == 'Z' || stat->state == 'X' || stat->state == 'x';
  if (const auto ids = status_field(*status_text, "NSpid")) {
    std::string words(*ids);
    std::replace(words.begin(), words.end(), '\t', ' ');
    for (const std::string_view word : split_words(words)) {
      if (const auto id = parse_u64(word)) info.nspid.push_back(static_cast<pid_t>(*id));
    }
  }
  if (info.nspid.empty()) info.nspid.push_back(pid);

  std::set<int> cpus;
  for (const pid_t tid : numeric_names(base + "/task")) {
    const Result<std::string> text = read_file(base + "/task/" + std::to_string(tid) + "/status");
    if (!text) continue;
    info.threads.push_back(tid);
    const auto list = status_field(*text, "Cpus_allowed_list");
    if (!list) continue;
    if (const Result<std::vector<int>> allowed = parse_cpu_list(*list)) {
      cpus.insert(allowed->begin(), allowed->end());
    }
  }
  info.cpus_allowed.assign(cpus.begin(), cpus.end());
  read_cgroups(base + "/cgroup", info);
  return info;
}

Status check_traceable(const ProcessInfo& process) {
  const std::string id = std::to_string(process.pid);
  if (process.is_kernel_thread) {
    return Error{ExitCode::kUsage, id + " is a kernel thread: it serves no requests"};
  }
  if (process.is_zombie) {
    return Error{ExitCode::kUsage, "process " + id + " has already ended (zombie)"};
  }
  return Done{};
}

std::vector<pid_t> find_by_comm(const std::string& root, std::string_view comm) {
  std::vector<pid_t> found;
  const std::string_view wanted = comm.substr(0, kCommBytes);
  if (wanted.empty()) return found;
  for (const pid_t pid : numeric_names(root + "/proc")) {
    const Result<std::string> text = read_file(root + "/proc/" + std::to_string(pid) + "/stat");
    if (!text) continue;
    const std::optional<Stat> stat = parse_stat(*text);
    if (!stat || stat->comm != wanted) continue;
    if ((stat->flags & kFlagKernelThread) != 0 || stat->state == 'Z' || stat->state == 'X') {
      continue;
    }
    found.push_back(pid);
  }
  return found;
}

bool has_napi_threads(const std::string& root) {
  // Every kernel thread is a child of this one.
  constexpr const char* kChildren = "/proc/2/task/2/children";
  const std::optional<std::string> children = read_trimmed(root + kChildren);
  if (!children) return false;
  for (const std::string_view pid : split_words(*children)) {
    const std::optional<std::string> comm =
        read_trimmed(root + "/proc/" + std::string(pid) + "/comm");
    if (comm && comm->compare(0, 5, "napi/") == 0) return true;
  }
  return false;
}

}  // namespace whylate::host
