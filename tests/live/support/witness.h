// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>

#include "support/child.h"
#include "support/host.h"

namespace whylate::live {

/// The real tcpdump on a device of a namespace, watching one UDP port of an address.
class Tcpdump {
 public:
  Tcpdump(const NetNs& where, const std::string& device, const std::string& address, int port);

  struct Captured {
    std::uint64_t in = 0;   ///< to the address and port
    std::uint64_t out = 0;  ///< from them
  };

  /// Sends a datagram to the next port from `client` and waits until tcpdump shows it: by then it
  /// has shown all that it ever will of what was before. Throws when it does not appear, or when
  /// tcpdump lost packets: then its count would prove nothing.
  Captured stop(const NetNs& client);

 private:
  std::string address_;
  int port_;
  Child child_;
};

/// Lines of the real ss in a namespace that name the process; `family` such as "--udp".
std::size_t ss_lines(const NetNs& where, const std::string& family, pid_t pid);

}  // namespace whylate::live
