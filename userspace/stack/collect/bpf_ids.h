// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace whylate::stack::collect {

/// A loaded BPF program as the kernel describes it.
struct BpfProgram {
  int error = 0;  ///< errno when it could not be asked
  std::string name;
  std::vector<std::uint32_t> map_ids;  ///< also those of programs that replace its functions
};

/// Asks the kernel for a program by its id; a dispatcher of libxdp gets the maps of the programs
/// it calls. Needs CAP_SYS_ADMIN (ids), loads and attaches nothing.
BpfProgram describe_program(std::uint32_t id);

}  // namespace whylate::stack::collect
