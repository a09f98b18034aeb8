// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "stack/collect/context.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// PCI devices behind the vfio groups, vfio devices, uio devices and mapped PCI resources that the
/// process holds, by sysfs.
void collect_user_devices(const Context& context, Evidence& evidence);

}  // namespace whylate::stack::collect
