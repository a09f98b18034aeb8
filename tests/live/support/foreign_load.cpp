// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dirent.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>

#include "support/host.h"

namespace whylate::live {
namespace {

struct Process {
  pid_t parent = 0;
  std::string comm;
  std::uint64_t ticks = 0;  // its own, and of its children that it has waited for
};

bool read_process(pid_t pid, Process& process) {
  const std::string text = read_text(fmt::format("/proc/{}/stat", pid));
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return false;
  process.comm = text.substr(open + 1, close - open - 1);
  std::istringstream in(text.substr(close + 1));
  std::string state;
  in >> state >> process.parent;
  std::string skipped;
  for (int i = 0; i < 9; ++i) in >> skipped;
  for (int i = 0; i < 4; ++i) {
    std::int64_t ticks = 0;
    in >> ticks;
    process.ticks += static_cast<std::uint64_t>(ticks);
  }
  return true;
}

std::map<pid_t, Process> read_processes() {
  std::map<pid_t, Process> processes;
  DIR* directory = ::opendir("/proc");
  if (directory == nullptr) return processes;
  while (const dirent* entry = ::readdir(directory)) {
    const pid_t pid = std::atoi(entry->d_name);
    Process process;
    if (pid > 0 && read_process(pid, process)) processes.emplace(pid, process);
  }
  ::closedir(directory);
  return processes;
}

bool is_own(const std::map<pid_t, Process>& processes, pid_t pid) {
  while (pid > 1) {
    if (pid == ::getpid()) return true;
    const auto it = processes.find(pid);
    if (it == processes.end()) return false;
    pid = it->second.parent;
  }
  return false;
}

std::uint64_t steal_ticks() {
  std::istringstream in(read_text("/proc/stat"));
  std::string cpu;
  std::uint64_t value = 0;
  in >> cpu;
  for (int i = 0; i < 8; ++i) in >> value;
  return value;
}

/// A process that ends hands its ticks to the one that waits for it: the sum misses none of the
/// short-lived ones.
std::uint64_t foreign_ticks() {
  const std::map<pid_t, Process> processes = read_processes();
  std::uint64_t ticks = steal_ticks();
  for (const auto& [pid, process] : processes) {
    if (process.comm.rfind("ksoftirqd/", 0) == 0 || is_own(processes, pid)) continue;
    ticks += process.ticks;
  }
  return ticks;
}

}  // namespace

ForeignLoad::ForeignLoad() : begin_ns_(monotonic_ns()), begin_ticks_(foreign_ticks()) {}

double ForeignLoad::share() const {
  const std::uint64_t ticks = foreign_ticks();
  const double used = static_cast<double>(ticks - std::min(ticks, begin_ticks_)) /
                      static_cast<double>(::sysconf(_SC_CLK_TCK));
  return used / (static_cast<double>(monotonic_ns() - begin_ns_) * 1e-9);
}

}  // namespace whylate::live
