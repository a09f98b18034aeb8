// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <set>
#include <vector>

namespace whylate::cli {

/// The CPUs this process should keep to: those it may use and no thread of the target is pinned
/// to; all it may use when none would remain. `target_threads` holds the CPUs each thread of the
/// target may use; a thread that may use every one of `all` is pinned to none.
std::set<int> choose_cpus(const std::set<int>& own, const std::set<int>& all,
                          const std::vector<std::set<int>>& target_threads);

/// Moves this process to choose_cpus() for the threads of `targets` as they are now. Failing is no
/// error: the report shows when the tracer itself held the target's CPU.
void keep_away_from(const std::vector<pid_t>& targets);

}  // namespace whylate::cli
