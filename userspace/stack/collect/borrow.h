// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "stack/collect/context.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// Reads socket options through a duplicate of each descriptor (pidfd_getfd), which is closed at
/// once. Only calls that change nothing: SO_BUSY_POLL, SO_PREFER_BUSY_POLL, SO_INCOMING_NAPI_ID,
/// PACKET_QDISC_BYPASS, XDP_OPTIONS, XDP_STATISTICS, EPIOCGPARAMS; never SO_ERROR or
/// PACKET_STATISTICS, which reset what they read. While a duplicate exists (microseconds) a close()
/// by the target does not take effect. Needs ptrace rights (CAP_SYS_PTRACE).
void borrow_descriptors(const Context& context, Evidence& evidence);

}  // namespace whylate::stack::collect
