// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <vector>

#include "stack/verdict.h"

namespace whylate::stack {

/// Stacks that DPDK, VPP and F-Stack use beneath themselves.
bool is_transport(Stack stack);

/// What tcpdump and ss show of the process, and why; from the verdicts of its sockets.
void judge_tools(StackReport& report);

/// The tools that show it instead, for the process's verdict and then for each stack that carries
/// packets; every tool once.
void name_use_instead(const std::vector<Stack>& carriers, StackReport& report);

}  // namespace whylate::stack
