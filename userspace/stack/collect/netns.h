// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace whylate::stack::collect {

/// Inode number of a namespace file such as /proc/12/ns/net; nothing when it cannot be looked at.
std::optional<std::uint64_t> namespace_inode(const std::string& path);

/// Runs `body` with the network namespace of that file, in a thread of its own unless it is the
/// caller's namespace: the caller never leaves its own. Returns 0, or the errno of why the
/// namespace could not be entered (then `body` did not run).
int in_net_namespace(const std::string& path, const std::function<void()>& body);

}  // namespace whylate::stack::collect
