// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/address_text.h"

#include <arpa/inet.h>
#include <sys/socket.h>

namespace whylate::stack::collect {

std::string address_text(int family, const void* address, std::uint16_t port) {
  char text[INET6_ADDRSTRLEN];
  if ((family != AF_INET && family != AF_INET6) ||
      ::inet_ntop(family, address, text, sizeof(text)) == nullptr) {
    return {};
  }
  const std::string number = std::to_string(port);
  return family == AF_INET ? std::string(text) + ":" + number
                           : "[" + std::string(text) + "]:" + number;
}

}  // namespace whylate::stack::collect
