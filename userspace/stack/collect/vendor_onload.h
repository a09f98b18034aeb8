// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string_view>
#include <vector>

#include "stack/collect/context.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// Reads /proc/driver/onload when its module is loaded.
void collect_onload(const Context& context, Reading reading, Evidence& evidence);

/// Rows of /proc/driver/onload/stacks: "ID: PID UID" and 24 counters, the last two of which are
/// receive and transmit events (linux_stats.c, efab_stacks_seq_show). Exposed for tests.
std::vector<OnloadStack> parse_onload_stacks(std::string_view text);

}  // namespace whylate::stack::collect
