// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

#include "diagnose/context.h"
#include "request/request.h"

namespace whylate {

/// A culprit and what is said about it; the stage and its time are put before it.
struct Finding {
  std::string culprit;
  std::string what;
  std::string remedy;
};

/// "echo[4243]", the thread that read the request.
std::string thread_text(const wl_request& record);

// One function for each stage that has more than one possible culprit.
Finding blame_hard_irq(const Request& request, const RunContext& context);
Finding blame_softirq_wait(const Request& request, const RunContext& context);
Finding blame_run_queue(const Request& request, wl_stage stage, const RunContext& context);
Finding blame_app_irq(const Request& request, const RunContext& context);
Finding blame_quota(const RunContext& context);
Finding blame_idle(const Request& request, const RunContext& context);
Finding blame_tx(const Request& request, const RunContext& context);

}  // namespace whylate
