// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "diagnose/xsk.h"

namespace whylate {

/// Schema whylate.af_xdp/1. Unknown is null; docs/formats.md says what each key means.
nlohmann::ordered_json xsk_to_json(const XskSummary& summary);

/// The report for people: plain ASCII, ends with a line end.
std::string xsk_to_text(const XskSummary& summary);

}  // namespace whylate
