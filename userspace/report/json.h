// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "diagnose/context.h"
#include "diagnose/summary.h"
#include "diagnose/verdict.h"
#include "request/request.h"

namespace whylate {

/// Schema whylate.request/1. Unknown is null; only stages with time in them are listed, so their
/// sum is total_ns. docs/formats.md says what each key means.
nlohmann::ordered_json request_to_json(const Request& request, const RunContext& context,
                                       const std::optional<Verdict>& verdict);

/// Schema whylate.summary/1.
nlohmann::ordered_json summary_to_json(const Summary& summary);

/// One line without its end; never throws over bytes that are not UTF-8.
std::string dump_json_line(const nlohmann::ordered_json& json);

/// The same with indentation, for people.
std::string dump_json_pretty(const nlohmann::ordered_json& json);

}  // namespace whylate
