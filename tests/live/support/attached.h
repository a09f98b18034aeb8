// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <set>

namespace whylate::live {

/// Ids of the tracer's programs that the kernel holds now, whoever loaded them.
std::set<int> tracer_programs();

/// Waits until all of the tracer's programs and links are gone but `before`; false: they stay.
bool only_left(const std::set<int>& before);

}  // namespace whylate::live
