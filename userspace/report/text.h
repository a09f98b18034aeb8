// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

#include "diagnose/summary.h"

namespace whylate {

/// The report for people: plain ASCII, no colour, ends with a line end.
std::string summary_to_text(const Summary& summary);

}  // namespace whylate
