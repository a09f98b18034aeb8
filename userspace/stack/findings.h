// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <vector>

#include "stack/rules.h"

namespace whylate::stack {

/// Adds what is worth a sentence beside the verdict: numbers that contradict each other, settings
/// without effect, names that promise something.
void add_findings(const View& view, const std::vector<Accelerator>& accelerators,
                  StackReport& report);

}  // namespace whylate::stack
