// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "diagnose/context.h"
#include "request/request.h"

namespace whylate {

/// Why one request took as long as it did.
struct Verdict {
  wl_stage stage = WL_STAGE_UNATTRIBUTED;  ///< the largest stage
  std::string culprit;                     ///< a name: "stress-ng-cpu[991]", "CPU quota", …
  std::string text;                        ///< one sentence, and the remedy people use
  bool ordinary = false;                   ///< nothing stands out: no remedy is offered
};

/// The largest stage of a request; the earliest one among equals.
wl_stage dominant_stage(const Request& request);

/// The CPU a stage passed on; WL_NO_CPU when it is unknown or not a single one.
std::uint16_t cpu_of_stage(const wl_request& record, wl_stage stage);

/// The verdict on a request, or nothing for an incomplete one: where an event is missing, nothing
/// is blamed. With the run's median, a request below twice of it in which no stage makes up half
/// is called ordinary. Names in the text are escaped.
std::optional<Verdict> diagnose(const Request& request, const RunContext& context,
                                std::optional<std::uint64_t> p50_ns);

}  // namespace whylate
