// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>

namespace whylate::stack::collect {

/// "10.0.0.1:9000" or "[::1]:9000" of 4 or 16 bytes in network order; "" for another family.
std::string address_text(int family, const void* address, std::uint16_t port);

}  // namespace whylate::stack::collect
