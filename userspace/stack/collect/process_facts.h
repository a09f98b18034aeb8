// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stack/collect/context.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// Fills evidence.process but pid, comm, start and nspid: executable, arguments, environment,
/// namespaces, AT_SECURE, huge and pinned memory.
void collect_process(const Context& context, Evidence& evidence);

/// utime, stime and context switches of every thread.
void collect_threads(const Context& context, Reading reading, Evidence& evidence);

/// Variables that network stacks read, out of NUL-separated text. Exposed for tests.
std::vector<std::string> stack_variables(std::string_view environment);

/// AT_SECURE of an auxiliary vector. Exposed for tests.
std::optional<bool> secure_exec(std::string_view auxv);

}  // namespace whylate::stack::collect
