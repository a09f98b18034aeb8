// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <optional>
#include <set>
#include <string>

namespace whylate::stack::collect {

/// What the tables of an ELF file say about it. Nothing of the file is ever executed.
struct ElfFacts {
  std::string soname;                             ///< DT_SONAME, or ""
  std::string build_id;                           ///< hex, or ""
  std::optional<std::set<std::string>> exported;  ///< dynamic symbols it defines; empty: no table
  bool has_interpreter = false;
  bool has_dynamic = false;
  bool has_rte_trace = false;  ///< a section __rte_trace_point: DPDK's code is linked in
};

/// Reads a 64-bit little-endian ELF file. Nothing when it cannot
/// be opened or is none; a damaged one yields what was readable.
std::optional<ElfFacts> read_elf(const std::string& path);

}  // namespace whylate::stack::collect
