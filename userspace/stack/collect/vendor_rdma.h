// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>
#include <vector>

#include "stack/collect/context.h"
#include "stack/collect/netlink.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// Queue pairs and connection identifiers that the RDMA subsystem books on this process, the
/// interface beside each device, and the counters of its ports. Nothing when the machine has no
/// RDMA devices.
void collect_rdma(const Context& context, Reading reading, Evidence& evidence);

/// Resources in one answer to RDMA_NLDEV_CMD_RES_QP_GET or _CM_ID_GET with the pid of the process
/// that owns each (0: the kernel). Exposed for tests.
struct OwnedResource {
  pid_t pid = 0;
  RdmaResource resource;
};
std::vector<OwnedResource> parse_rdma_resources(const nlmsghdr* message);

}  // namespace whylate::stack::collect
