// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>

namespace whylate {

/// "10.7.0.2:9000" or "[::1]:9000". `family` is 4 or 6, `address` in network order (IPv4 in the
/// first four bytes); any other family reads "unknown".
std::string format_endpoint(std::uint8_t family, const std::uint8_t (&address)[16],
                            std::uint16_t port);

}  // namespace whylate
