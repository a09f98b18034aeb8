// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/cpuidle.h"

#include <algorithm>

#include "host/cpulist.h"
#include "host/file.h"

namespace whylate::host {
namespace {

constexpr const char* kBase = "/sys/devices/system/cpu";

IdleState default_idle() {
  IdleState state;
  state.index = 1;
  state.name = "default_idle";
  state.desc = "the kernel's own idle call, no cpuidle driver";
  return state;
}

IdleState poll_idle() {
  IdleState state;
  state.index = 0;
  state.name = "poll";
  state.desc = "the CPU never leaves the idle loop (idle=poll)";
  return state;
}

std::vector<IdleState> read_states(const std::string& directory) {
  std::vector<IdleState> states;
  constexpr std::string_view kPrefix = "state";
  for (const std::string& name : list_directory(directory)) {
    if (name.compare(0, kPrefix.size(), kPrefix) != 0) continue;
    const auto index = parse_u64(std::string_view(name).substr(kPrefix.size()));
    if (!index || *index > 127) continue;
    const std::string base = directory + "/" + name;
    IdleState state;
    state.index = static_cast<int>(*index);
    state.name = read_trimmed(base + "/name").value_or("");
    if (state.name.empty()) state.name = name;
    state.desc = read_trimmed(base + "/desc").value_or("");
    state.latency_us = read_u64(base + "/latency");
    state.disabled = read_u64(base + "/disable").value_or(0) != 0;
    state.usage = read_u64(base + "/usage");
    states.push_back(std::move(state));
  }
  std::sort(states.begin(), states.end(),
            [](const IdleState& a, const IdleState& b) { return a.index < b.index; });
  return states;
}

bool polling_forced(const std::string& root) {
  const Result<std::string> text = read_file(root + "/proc/cmdline");
  if (!text) return false;
  const std::vector<std::string_view> words = split_words(trim(*text));
  return std::any_of(words.begin(), words.end(),
                     [](std::string_view word) { return word == "idle=poll" || word == "nohlt"; });
}

}  // namespace

Result<CpuidleInfo> read_cpuidle(const std::string& root) {
  const Result<std::vector<int>> online = online_cpus(root);
  if (!online) return online.error();
  CpuidleInfo info;
  const std::string base = root + kBase;
  info.driver = read_trimmed(base + "/cpuidle/current_driver").value_or("none");
  if (info.driver.empty()) info.driver = "none";
  // Without the boot option cpuidle_sysfs_switch older kernels have only the read-only name.
  auto governor = read_trimmed(base + "/cpuidle/current_governor");
  if (!governor) governor = read_trimmed(base + "/cpuidle/current_governor_ro");
  info.governor = governor.value_or("");
  if (info.governor == "none") info.governor.clear();
  info.forced_poll = polling_forced(root);
  for (const int cpu : *online) {
    CpuIdleStates states;
    states.cpu = cpu;
    if (info.forced_poll) {
      states.states.push_back(poll_idle());
    } else {
      states.states = read_states(base + "/cpu" + std::to_string(cpu) + "/cpuidle");
      if (states.states.empty()) states.states.push_back(default_idle());
    }
    info.cpus.push_back(std::move(states));
  }
  return info;
}

std::vector<int> usable_states(const CpuidleInfo& info, const CpuIdleStates& cpu) {
  std::vector<int> usable;
  for (const IdleState& state : cpu.states) {
    // haltpoll chooses between its two states without looking at the switch.
    if (!state.disabled || info.governor == "haltpoll") usable.push_back(state.index);
  }
  return usable;
}

const IdleState* find_state(const CpuidleInfo& info, int cpu, int index) {
  for (const CpuIdleStates& states : info.cpus) {
    if (states.cpu != cpu) continue;
    for (const IdleState& state : states.states) {
      if (state.index == index) return &state;
    }
  }
  return nullptr;
}

}  // namespace whylate::host
