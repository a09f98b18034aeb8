// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "stack/collect/context.h"
#include "stack/collect/object_kind.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// The kernel's tables of the target's network namespaces (the process's and those of its threads):
/// rows of sockets it holds, rows of inet sockets that nobody holds, and who else holds its
/// sockets. Needs evidence.fds and evidence.rings.
void collect_sockets(const Context& context, Evidence& evidence);

/// The second reading of the sockets' counters. Descriptors that were opened since the first one
/// are added; their sockets began at 0, so all that they have counted is the window's.
void collect_sockets_after(const Context& context, const DeviceNames& devices, Evidence& evidence);

}  // namespace whylate::stack::collect
