// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/result.h"
#include "capture/session.h"

struct bpf_program;

namespace whylate::capture {

/// Runs an iterator program once and returns what it wrote. `pid` (of this pid namespace) limits it
/// to one process; nothing: every task. Errors: kRuntimeError with the errno text.
Result<std::vector<std::byte>> run_iterator(const bpf_program* program, std::optional<pid_t> pid);

/// Parses the output of the socket iterator.
std::vector<SocketInfo> parse_socket_lines(const std::vector<std::byte>& bytes);

}  // namespace whylate::capture
