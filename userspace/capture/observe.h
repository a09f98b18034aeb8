// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "base/result.h"
#include "stack/traffic.h"

namespace whylate::capture {

/// Counts what passes the kernel's stack for one process and the interfaces of its network
/// namespace while `request.window_ns` goes by; returns early on a signal. Loads programs of its
/// own, apart from the tracer's, and leaves nothing attached.
/// Errors: kUnsupported names the missing capability or kernel feature in one line; the caller then
/// waits without counting and says so.
Result<stack::TrafficWindow> observe(const stack::ObserveRequest& request);

}  // namespace whylate::capture
