// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace whylate::echo {

/// An IPv4 or IPv6 address with a port, as the socket calls want it.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  bool is_multicast() const;
};

/// Parses `1.2.3.4:9000`, `[::1]:9000`, `[fe80::1%eth0]:9000`. Names are not resolved: a harness
/// must not depend on a resolver. Without a port: `default_port`, or an error when that is
/// negative.
Result<Endpoint> parse_endpoint(std::string_view text, int default_port = -1);

/// `1.2.3.4:9000` or `[::1]:9000`.
std::string to_string(const Endpoint& endpoint);

/// What `--interface` says: a name (`eth0`) or, for IPv4, also an address of the interface.
struct Interface {
  unsigned index = 0;
  in_addr address{};
};
Result<Interface> find_interface(const std::string& text);

}  // namespace whylate::echo
