// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stack/collect/context.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// The DPDK run-time directory that the process has open or mapped: whether it is the primary (it
/// holds the lock on `config`), and what its telemetry socket says about its ports. The socket is
/// asked only when the kernel says that this very process listens on it.
void collect_dpdk(const Context& context, Evidence& evidence);

/// The second reading of the ports' counters.
void collect_dpdk_after(const Context& context, Evidence& evidence);

/// "/run/dpdk/rte" of "/run/dpdk/rte/fbarray_memseg-2048k-0-0"; "" when it is no such path.
std::string dpdk_directory(std::string_view path);

/// Who holds a POSIX write lock on a file, by /proc/locks; 0: nobody. Exposed for tests.
pid_t posix_lock_holder(std::string_view locks, std::uint64_t device, std::uint64_t inode);

/// Answers of telemetry (JSON text); nothing when they are not what they should be. For tests.
std::optional<std::vector<std::uint64_t>> parse_port_list(const std::string& answer);
void parse_port_info(const std::string& answer, DpdkPort& port);
void parse_port_statistics(const std::string& answer, Reading reading, DpdkPort& port);

}  // namespace whylate::stack::collect
