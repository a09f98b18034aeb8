// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "stack/collect/context.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// Which other processes hold which sockets, in a descriptor table or registered with an io_uring
/// instance of theirs.
struct Holders {
  std::unordered_map<std::uint64_t, std::vector<pid_t>> pids_of;  ///< at most 8 a socket
  bool complete = true;  ///< every process could be looked at
  std::string why_not;   ///< else
};

/// Looks at every process but the target. One readlink a descriptor; it gives up (not complete)
/// after kMostDescriptors.
Holders find_holders(const Context& context);

/// Fills other_holders of the descriptors, peer_pid of unix sockets.
void note_holders(const Holders& holders, Evidence& evidence);

}  // namespace whylate::stack::collect
