// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stack/collect/context.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// Reads the statistics files of VMA (vmastat.PID) and XLIO (xliostat.PID) that the process has
/// open or mapped. Only layouts of releases that were looked up are interpreted. The libraries copy
/// their counters into the file only while a reader asks them to by writing into it
/// (stats_publisher.cpp): that is not done here, so a file nobody asks for says nothing.
void collect_offload_stats(const Context& context, Evidence& evidence);
void collect_offload_stats_after(const Context& context, Evidence& evidence);

/// Interprets the bytes of such a file; counters get their `before`. `unpublished` is set when a
/// socket is in use whose values were never copied. Exposed for tests.
OffloadStats parse_offload_stats(std::string_view bytes, bool xlio, bool* unpublished);

}  // namespace whylate::stack::collect
