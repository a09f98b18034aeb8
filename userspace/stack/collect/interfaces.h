// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stack/collect/context.h"
#include "stack/collect/netlink.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// The interfaces of the target's network namespace: XDP programs with their maps, addresses,
/// counters of netlink and of the driver. Asks, sets nothing.
void collect_interfaces(const Context& context, Evidence& evidence);

/// The second reading of the counters.
void collect_interfaces_after(const Context& context, Evidence& evidence);

/// One RTM_NEWLINK message. Exposed for tests.
std::optional<Interface> parse_link(const nlmsghdr* message);

}  // namespace whylate::stack::collect
