// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <span>
#include <string>

#include "capture/attach_plan.h"
#include "capture/session.h"

namespace whylate::capture {

/// Reads what make_plan() needs from this host: idle states, and the devices in the network
/// namespaces of `pids` (none: this process's namespace). `sockets` are the target's open ones;
/// nullptr when they are not known. Never fails: what cannot be read is marked unknown, and the
/// plan then leaves nothing out.
PlanInputs gather_plan_inputs(const std::string& root, std::span<const pid_t> pids, bool syscalls,
                              const std::vector<SocketInfo>* sockets);

/// True for 127.0.0.0/8, ::1 and ::ffff:127.0.0.0/104. IPv4 lies in the first four bytes.
bool is_loopback_address(int family, const std::uint8_t (&address)[16]);

}  // namespace whylate::capture
