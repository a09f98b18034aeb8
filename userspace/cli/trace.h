// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "cli/options.h"

namespace whylate::cli {

/// `whylate trace`: attaches, follows requests until the run ends, reports. Returns the exit code.
int run_trace(const TraceOptions& options);

}  // namespace whylate::cli
