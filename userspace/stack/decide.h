// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "stack/evidence.h"
#include "stack/traffic.h"
#include "stack/verdict.h"

namespace whylate::stack {

/// From evidence to verdict. Pure: reads nothing but its arguments, so the same evidence always
/// gives the same answer. Sockets are judged one by one by the first row of a table that applies;
/// the process by what its sockets carried in the window.
StackReport decide(const Evidence& evidence, const TrafficWindow& traffic);

}  // namespace whylate::stack
