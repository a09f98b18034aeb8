// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "request/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

namespace whylate {

std::string format_endpoint(std::uint8_t family, const std::uint8_t (&address)[16],
                            std::uint16_t port) {
  char text[INET6_ADDRSTRLEN] = "";
  if (family == 4 && inet_ntop(AF_INET, address, text, sizeof text) != nullptr) {
    return fmt::format("{}:{}", text, port);
  }
  if (family == 6 && inet_ntop(AF_INET6, address, text, sizeof text) != nullptr) {
    return fmt::format("[{}]:{}", text, port);
  }
  return "unknown";
}

}  // namespace whylate
