// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/context.h"
#include "request/request.h"

namespace whylate {

/// The occupants of one stage of a request: entries of the same task, or of the same kind, are
/// added up; largest first. What the record leaves unnamed is an entry of kind WL_OCC_UNKNOWN, so
/// that the entries always sum to the stage (none when the record names nobody at all).
std::vector<wl_occupant> occupants_of(const Request& request, wl_stage stage);

/// "stress-ng-cpu[991]", "device interrupts", "the local timer", "inter-processor interrupts",
/// "irq_work", "softirqs", "the idle task", "CPU quota", "other tasks".
std::string occupant_label(const wl_occupant& occupant);

/// True for what takes a CPU from whoever has it: interrupts of every kind, and softirqs.
bool is_theft(std::uint8_t kind);

/// The path of a task's group, or empty: unknown, or an autogroup.
std::string cgroup_path(const RunContext& context, std::uint64_t cgroup);

/// The number of the autogroup that a task is in, if it is in one.
std::optional<std::uint64_t> autogroup_of(std::uint64_t cgroup);

/// "SCHED_OTHER, nice 0" or "SCHED_FIFO, priority 50" of a task; empty for other kinds.
std::string occupant_policy(const wl_occupant& occupant);

/// True for policies that an ordinary task cannot preempt (FIFO, RR, DEADLINE).
bool outranks_ordinary(const wl_occupant& occupant);

/// "71 %" of a whole; "<1 %" instead of a 0 that is not one.
std::string percent(std::uint64_t part, std::uint64_t whole);

/// The cpuidle state the CPU left in idle_exit, or -1.
int idle_state_of(const Request& request, const RunContext& context);

/// The name of a state on a CPU; empty when unknown.
std::string idle_state_name(const RunContext& context, std::uint32_t cpu, int state);

}  // namespace whylate
