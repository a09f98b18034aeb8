// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "echo/server.h"

namespace whylate::echo {

/// A new connection of a listening socket; not valid when there was none. Does not turn a loop that
/// calls it into a busy one when descriptors run out.
Fd accept_connection(const Fd& listener, bool nonblocking);

/// TCP with epoll, poll, select or spin: threads that share the connections. Returns when the stop
/// was requested.
void serve_pools(Server& server, const Fd& listener);

}  // namespace whylate::echo
