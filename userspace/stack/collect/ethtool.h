// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace whylate::stack::collect {

/// Asks drivers by the ethtool ioctl in the network namespace it was made in. Only the GET commands
/// that everybody may use; a driver without statistics has none.
class EthtoolReader {
 public:
  EthtoolReader();
  ~EthtoolReader();
  EthtoolReader(const EthtoolReader&) = delete;
  EthtoolReader& operator=(const EthtoolReader&) = delete;

  /// "mlx5_core", or "".
  std::string driver(const std::string& interface) const;
  /// The driver's counters by name, as `ethtool -S` lists them.
  std::map<std::string, std::uint64_t> statistics(const std::string& interface) const;

 private:
  bool ask(const std::string& interface, void* command) const;
  int fd_;
};

}  // namespace whylate::stack::collect
