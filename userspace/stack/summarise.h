// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <vector>

#include "stack/rules.h"

namespace whylate::stack {

/// From the verdicts of the sockets to that of the process: shares, headline, fall back, what
/// tcpdump and ss show, what to use instead.
void summarise(const View& view, const std::vector<Accelerator>& accelerators, StackReport& report);

}  // namespace whylate::stack
