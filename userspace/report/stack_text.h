// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

#include "stack/verdict.h"

namespace whylate {

/// The report for people: plain ASCII, no colour, ends with a line end.
std::string stack_to_text(const stack::StackReport& report);

/// The path of a packet through this host, with the places where tcpdump's tap and ss's tables sit,
/// what the window counted beside each, and where this process's traffic leaves the path.
std::string stack_explain(const stack::StackReport& report);

}  // namespace whylate
