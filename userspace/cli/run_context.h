// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <vector>

#include "capture/attach_plan.h"
#include "capture/session.h"
#include "cli/options.h"
#include "cli/select_target.h"
#include "diagnose/context.h"

namespace whylate::cli {

/// Reads what the report says about the target and the host. Never fails: what cannot be read stays
/// unknown.
RunContext read_run_context(const TraceOptions& options, const Target& target,
                            const capture::Plan& plan, const capture::PlanInputs& inputs);

/// Adds sockets that were opened meanwhile.
void add_sockets(RunContext& context, const std::vector<capture::SocketInfo>& sockets);

/// Reads the target's quota and name again: a launched command has them only after its exec.
void refresh_process(RunContext& context, pid_t pid);

}  // namespace whylate::cli
