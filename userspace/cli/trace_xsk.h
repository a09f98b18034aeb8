// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <optional>

#include "cli/options.h"
#include "cli/output.h"
#include "stack/verdict.h"

namespace whylate::cli {

/// The report of `whylate stack` about the one process that the options select, when AF_XDP carries
/// it and it has no other socket that could be traced; otherwise nothing. Looks without a window.
std::optional<stack::StackReport> af_xdp_target(const TraceOptions& options);

/// `whylate trace` of such a process: the way of its packets as far as the kernel sees it.
Result<int> run_xsk_trace(const TraceOptions& options, const stack::StackReport& target,
                          Output output);

}  // namespace whylate::cli
