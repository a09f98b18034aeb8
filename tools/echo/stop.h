// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "base/result.h"

namespace whylate::echo {

/// Makes SIGINT and SIGTERM ask for the end (also when they were ignored at start) and SIGPIPE
/// harmless. A second signal has its default effect.
Status install_stop_handlers();

/// Whether the end was asked for, by a signal or by request_stop().
bool stop_requested();

/// Asks for the end from any thread: shuts the registered sockets down, which wakes every blocked
/// reader of them (a flag alone would leave a thread in its read), and makes stop_event_fd()
/// readable.
void request_stop();

/// Registers a socket to be shut down; it must stay open until the process ends. Up to 1024.
Status shut_down_on_stop(int fd);

/// A descriptor that is readable from request_stop() on, to be watched by every epoll.
int stop_event_fd();

}  // namespace whylate::echo
