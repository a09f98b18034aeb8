// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "base/result.h"

namespace whylate {

/// Lets SIGINT and SIGTERM end the run in an orderly way, also when they were ignored or blocked at
/// the start (a shell starts background jobs with SIGINT ignored). The second such signal kills the
/// process at once. SIGPIPE is ignored, so that a closed output shows as EPIPE. Call once, early.
void handle_signals();

/// True once SIGINT or SIGTERM came.
bool stop_requested();

/// For a child between fork and exec: default dispositions, nothing blocked.
void reset_signals_for_child();

/// Forgets a signal that came, for tests.
void clear_stop_request_for_test();

}  // namespace whylate
