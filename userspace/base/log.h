// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string_view>

#include "base/result.h"

namespace whylate {

/// Writes "whylate: TEXT" and a newline to stderr in one piece. TEXT is one line, already escaped.
/// A closed stderr is ignored: there is nobody left to tell.
void log_line(std::string_view text);

/// Logs the error's message and returns its exit code as a number, for `return fail(error);`.
int fail(const Error& error);

}  // namespace whylate
