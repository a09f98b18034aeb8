// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <vector>

#include "base/result.h"
#include "stack/traffic.h"

namespace whylate::capture {

/// Counts what passes the kernel's stack for each of these processes and the interfaces of its
/// network namespace while the longest `window_ns` goes by; returns early on a signal. All share
/// that time. Loads programs of its own for each, apart from the tracer's, and leaves nothing
/// attached. The result has one entry per request. Errors: kUnsupported names the missing
/// capability or kernel feature in one line; the caller then waits without counting and says so.
std::vector<Result<stack::TrafficWindow>> observe(
    const std::vector<stack::ObserveRequest>& requests);

}  // namespace whylate::capture
