// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

  /// Sends a datagram to the next port, from `from` to the address (or to another one, where what
  /// comes to it is taken away), and waits until tcpdump shows it: by then it has shown all that it
  /// ever will of what was before. Throws when it does not appear, or when
  /// tcpdump lost packets: then its count would prove nothing.
  Captured stop(const NetNs& from, const std::string& to = "");

 private:
  std::string address_;
  int port_;
  Child child_;
};

/// The real tcpdump on the server's device of a VethPair, one direction ("in" or "out"), any
/// filter.
class Capture {
 public:
  Capture(const NetNs& space, const char* direction, const std::string& filter);
  /// Waits until so many packets have passed; false: they have not within 15 s.
  bool wait_packets(std::size_t count);
  /// Packets it has captured.
  std::size_t stop();

 private:
  Child child_;
};

/// Lines of the real ss in a namespace that name the process; `family` such as "--udp".
std::size_t ss_lines(const NetNs& where, const std::string& family, pid_t pid);

/// Lines of the real ss in a namespace for a local port, whoever has the socket.
std::vector<std::string> ss_lines_of_port(const NetNs& where, const std::string& family, int port);

}  // namespace whylate::live
