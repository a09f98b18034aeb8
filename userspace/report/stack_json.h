// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "stack/verdict.h"

namespace whylate {

/// Schema whylate.stack/1. Unknown is null; docs/formats.md says what each key means.
nlohmann::ordered_json stack_to_json(const stack::StackReport& report);

}  // namespace whylate
