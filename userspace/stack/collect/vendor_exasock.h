// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <vector>

#include "stack/collect/context.h"
#include "stack/collect/netlink.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// Asks the generic netlink family "exasock" for its sockets when its module is loaded.
void collect_exasock(const Context& context, Evidence& evidence);

/// The sockets in one answer to EXASOCK_GENL_C_GET_SOCKLIST. Exposed for tests.
std::vector<ExasockSocket> parse_exasock_list(const nlmsghdr* message);

}  // namespace whylate::stack::collect
