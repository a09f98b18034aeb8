// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "stack/evidence.h"

namespace whylate::stack::collect {

/// What the kernel has registered device numbers as: /proc/devices (by major) and /proc/misc (by
/// minor of the misc major).
class DeviceNames {
 public:
  DeviceNames() = default;
  /// Reads both files below `root`; what cannot be read names nothing.
  static DeviceNames read(const std::string& root);

  /// Registered name of a character device, or "".
  std::string name(std::uint64_t device_number) const;

  /// What the device is by that name; kOther when it is none of a network stack's.
  ObjectKind kind(std::uint64_t device_number) const;

 private:
  std::map<unsigned, std::string> by_major_;
  std::map<unsigned, std::string> misc_;
};

/// Kind from the link of a descriptor or the path of a mapping when it is not a device. Only the
/// kernel can make a link that does not begin with '/'; what begins with one is a name a user chose
/// (kMemfd, kDpdkRuntime, kStatsFile are names, kHugePages needs `on_hugetlbfs`).
ObjectKind kind_of_link(std::string_view link, bool on_hugetlbfs);

/// "socket:[12]" to 12.
std::optional<std::uint64_t> socket_inode(std::string_view link);

}  // namespace whylate::stack::collect
