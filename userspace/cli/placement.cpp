// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/placement.h"

#include <fmt/format.h>
#include <sched.h>

#include <charconv>
#include <iterator>
#include <string>

#include "host/cpulist.h"
#include "host/file.h"

namespace whylate::cli {
namespace {

// Room for more CPUs than a kernel can have by default; a larger machine keeps its placement.
constexpr int kMaxCpus = CPU_SETSIZE;

std::set<int> affinity_of(pid_t tid) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::set<int> cpus;
  if (::sched_getaffinity(tid, sizeof mask, &mask) != 0) return cpus;
  for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.insert(cpu);
  }
  return cpus;
}

}  // namespace

std::set<int> choose_cpus(const std::set<int>& own, const std::set<int>& all,
                          const std::vector<std::set<int>>& target_threads) {
  std::set<int> chosen = own;
  for (const std::set<int>& thread : target_threads) {
    if (thread.size() >= all.size()) continue;
    for (const int cpu : thread) chosen.erase(cpu);
  }
  return chosen.empty() ? own : chosen;
}

void keep_away_from(const std::vector<pid_t>& targets) {
  const Result<std::vector<int>> online = host::online_cpus("");
  if (!online.ok()) return;
  std::vector<std::set<int>> threads;
  for (const pid_t target : targets) {
    for (const std::string& name : host::list_directory(fmt::format("/proc/{}/task", target))) {
      pid_t tid = 0;
      std::from_chars(name.data(), name.data() + name.size(), tid);
      if (tid <= 0) continue;
      std::set<int> cpus = affinity_of(tid);
      if (!cpus.empty()) threads.push_back(std::move(cpus));
    }
  }
  const std::set<int> own = affinity_of(0);
  const std::set<int> chosen = choose_cpus(own, {online->begin(), online->end()}, threads);
  if (chosen == own || chosen.empty()) return;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : chosen) CPU_SET(cpu, &mask);
  ::sched_setaffinity(0, sizeof mask, &mask);
}

}  // namespace whylate::cli
