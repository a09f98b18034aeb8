// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/user_devices.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <set>

#include "host/file.h"

namespace whylate::stack::collect {
namespace {

std::string file_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// "0000:3b:00.0"
bool is_pci_address(const std::string& name) {
  return name.size() >= 12 && name.find(':') != std::string::npos &&
         name.find('.') != std::string::npos;
}

std::string sysfs_of(const Context& context, std::uint64_t device_number) {
  return context.path("/sys/dev/char/") + std::to_string(major(device_number)) + ":" +
         std::to_string(minor(device_number));
}

// The vfio group N is /dev/vfio/N; its sysfs name is N.
void add_group(const Context& context, std::uint64_t number, std::set<std::string>& found) {
  const std::string group = file_name(read_link(sysfs_of(context, number)));
  for (const std::string& name :
       host::list_directory(context.path("/sys/kernel/iommu_groups/") + group + "/devices")) {
    if (is_pci_address(name)) found.insert(name);
  }
}

// uio and vfio character devices have their parent as `device`.
void add_parent(const Context& context, std::uint64_t number, std::set<std::string>& found) {
  const std::string name = file_name(read_link(sysfs_of(context, number) + "/device"));
  if (is_pci_address(name)) found.insert(name);
}

}  // namespace

void collect_user_devices(const Context& context, Evidence& evidence) {
  std::set<std::string> found;
  for (const FdEntry& entry : evidence.fds) {
    if (entry.device_number == 0) continue;
    if (entry.kind == ObjectKind::kVfioGroup) add_group(context, entry.device_number, found);
    if (entry.kind == ObjectKind::kUio || entry.kind == ObjectKind::kVfioDevice) {
      add_parent(context, entry.device_number, found);
    }
  }
  for (const MapEntry& entry : evidence.maps) {
    if (entry.kind != ObjectKind::kPciResource) continue;
    const std::size_t slash = entry.path.rfind('/');
    const std::string name = file_name(entry.path.substr(0, slash));
    if (is_pci_address(name)) found.insert(name);
  }
  for (const std::string& bdf : found) {
    const std::string base = context.path("/sys/bus/pci/devices/") + bdf;
    UserDevice device;
    device.bdf = bdf;
    device.driver = file_name(read_link(base + "/driver"));
    device.pci_class = host::read_trimmed(base + "/class").value_or("");
    device.has_netdev = !host::list_directory(base + "/net").empty();
    evidence.user_devices.push_back(std::move(device));
  }
}

}  // namespace whylate::stack::collect
