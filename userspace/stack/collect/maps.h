// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stack/collect/context.h"
#include "stack/collect/object_kind.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// A file of which code is mapped: the executable and its libraries.
struct MappedCode {
  std::string path;  ///< as the target sees it; may end in " (deleted)"
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

/// Reads /proc/PID/maps: mappings that say something about a network path go to evidence.maps, the
/// files with mapped code are returned, each once.
std::vector<MappedCode> collect_maps(const Context& context, const DeviceNames& devices,
                                     Evidence& evidence);

}  // namespace whylate::stack::collect
