// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace whylate::host {

/// Where the packets of a network device come from.
enum class DeviceKind {
  kLoopback,
  kVeth,      ///< a pair of virtual cables
  kPhysical,  ///< has a parent device (PCI, virtio, …), so packets come with its hard interrupt
  kStacked,   ///< vlan, macvlan, bond, …: packets come from another device, perhaps of another
              ///< namespace
  kVirtual,   ///< any other software device (tun, dummy, wireguard, …)
  kUnknown,   ///< neither a parent device nor a kind is known
};

struct NetDevice {
  int ifindex = 0;
  std::string name;
  DeviceKind kind = DeviceKind::kUnknown;
  std::string kind_name;  ///< the kernel's word for software devices ("veth", …), else ""
  std::string qdisc;      ///< root queueing discipline; "" unknown
  bool up = false;

  /// Packets may come with a hard interrupt of this machine (or nobody knows).
  bool may_have_hard_irq() const {
    return kind == DeviceKind::kPhysical || kind == DeviceKind::kStacked ||
           kind == DeviceKind::kUnknown;
  }
  /// Packets can wait in a queueing discipline before the driver gets them.
  bool has_queue() const { return qdisc != "noqueue" && qdisc != "noop"; }
};

/// The devices of one network namespace.
struct NetDevices {
  std::uint64_t netns = 0;         ///< inode number of the namespace, 0 unknown
  std::vector<NetDevice> devices;  ///< as the kernel lists them
};

/// "loopback", "veth", "physical", "stacked", "virtual", "unknown".
std::string_view device_kind_name(DeviceKind kind);

/// Asks the kernel by rtnetlink for the devices in the network namespace of a process (0: this
/// one). Another namespace is entered by a short-lived thread only. Error (kRuntimeError, one
/// line): no such process, or no permission to enter its namespace.
Result<NetDevices> read_net_devices(pid_t pid);

/// Adds the devices in one received netlink buffer. False when it holds the end of the answer.
/// Exposed for tests.
Result<bool> parse_link_messages(std::span<const std::byte> buffer,
                                 std::vector<NetDevice>& devices);

}  // namespace whylate::host
