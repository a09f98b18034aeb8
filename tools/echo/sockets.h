// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "echo/address.h"
#include "echo/fd.h"
#include "echo/options.h"

namespace whylate::echo {

/// An Error for a failed call, with errno's text: `what: No such device`.
Error system_error(std::string_view what);

/// A new close-on-exec socket of the endpoint's family.
Result<Fd> open_socket(int family, Proto proto, bool nonblocking);

Status set_option(const Fd& fd, int level, int name, int value, std::string_view what);

/// The address a socket is bound to.
Result<Endpoint> local_endpoint(const Fd& fd);

/// The server's UDP socket or listening TCP socket: options set, bound, group joined.
Result<Fd> open_server_socket(const ServerOptions& options, const Endpoint& listen);

/// Pins the calling thread; an empty list leaves it alone.
Status pin_thread(const std::vector<int>& cpus, std::size_t thread);

/// Names the calling thread (at most 15 characters).
void name_thread(const char* name);

}  // namespace whylate::echo
