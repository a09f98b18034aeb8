// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

#include "echo/options.h"
#include "echo/stack_frame.h"

namespace whylate::echo {

/// The network device of a responder that takes whole frames.
struct FrameDevice {
  std::string name;
  unsigned index = 0;
  FrameTarget target;
};

/// Finds the device (the one named, or the one that has the listening address) and whether ARP has
/// to be answered: the kernel does so only for addresses it owns.
Result<FrameDevice> find_frame_device(const ServerOptions& options);

/// Prints the ready line; `more` is appended to it.
void print_frames_ready(const ServerOptions& options, const FrameDevice& device,
                        const std::string& more);

}  // namespace whylate::echo
