// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace whylate::host {

/// Linux IRQ number -> names of its actions (usually one; more on shared lines; none when nobody
/// asked for it).
using InterruptNames = std::map<std::uint32_t, std::vector<std::string>>;

/// Parses the text of /proc/interrupts. Lines without an IRQ number (NMI, LOC, …) are left out.
InterruptNames parse_interrupts(std::string_view text);

/// Reads /proc/interrupts. Error: it cannot be read.
Result<InterruptNames> read_interrupts(const std::string& root);

/// "eth0-rx-0, eth0-tx-0", or "" when the number is not known.
std::string interrupt_name(const InterruptNames& names, std::uint32_t irq);

}  // namespace whylate::host
