// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string_view>

#include "stack/collect/context.h"
#include "stack/collect/object_kind.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// Reads the descriptors of every thread, a shared table once, and the io_uring instances among
/// them. Sockets are told by their link and by the attribute system.sockprotoname, which works
/// across network namespaces. Nothing is opened but fdinfo.
void collect_fds(const Context& context, const DeviceNames& devices, Evidence& evidence);

/// Inodes of the sockets in the descriptor tables now; empty when they cannot be read.
std::vector<std::uint64_t> open_sockets(const Context& context);

/// Parses the fdinfo of an io_uring instance (io_uring/fdinfo.c). `complete` tells whether the list
/// of registered files was in it. Exposed for tests.
IoUring parse_io_uring(int fd, std::string_view fdinfo, bool* complete);

/// Parses "map_type:\t17 ... map_id:\t104", or the same of a program. Exposed for tests.
std::optional<BpfObject> parse_bpf_fdinfo(std::string_view fdinfo);

}  // namespace whylate::stack::collect
