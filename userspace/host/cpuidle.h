// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace whylate::host {

/// One way for a CPU to be idle. `index` is what the tracepoint cpu_idle reports.
struct IdleState {
  int index = 0;
  std::string name;
  std::string desc;
  std::optional<std::uint64_t>
      latency_us;                      ///< the driver's worst-case exit latency, not a measurement
  bool disabled = false;               ///< by the user or by the driver
  std::optional<std::uint64_t> usage;  ///< times entered since boot
};

struct CpuIdleStates {
  int cpu = 0;
  std::vector<IdleState> states;  ///< ascending index
};

/// How the CPUs of this machine idle.
struct CpuidleInfo {
  std::string driver;    ///< "none" without a driver
  std::string governor;  ///< "" when the kernel names none
  bool forced_poll =
      false;  ///< idle=poll or nohlt on the kernel's command line: no driver state is used
  std::vector<CpuIdleStates> cpus;  ///< online CPUs, ascending
};

/// Reads cpuidle's sysfs. A CPU without it has one state: index 1, "default_idle" (the kernel's own
/// idle call, which traces itself as state 1), its latency unknown. Under idle=poll it is index 0,
/// "poll". Error: the list of online CPUs cannot be read.
Result<CpuidleInfo> read_cpuidle(const std::string& root);

/// Indices of the states this CPU can enter now, ascending. The governor haltpoll ignores
/// `disabled`.
std::vector<int> usable_states(const CpuidleInfo& info, const CpuIdleStates& cpu);

/// The state, or nullptr when this CPU has no such state.
const IdleState* find_state(const CpuidleInfo& info, int cpu, int index);

}  // namespace whylate::host
