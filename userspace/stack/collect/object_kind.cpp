// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/object_kind.h"

#include <sys/sysmacros.h>

#include <array>
#include <utility>

#include "host/file.h"

namespace whylate::stack::collect {
namespace {

constexpr unsigned kMiscMajor = 10;

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

// "name (deleted)" loses its end.
std::string_view without_deleted(std::string_view link) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (link.size() > kDeleted.size() && link.substr(link.size() - kDeleted.size()) == kDeleted) {
    link.remove_suffix(kDeleted.size());
  }
  return link;
}

// "/tmp/vmastat.12", "/tmp/xlio/xliostat.12"
bool is_stats_file(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  for (const std::string_view start : {"vmastat.", "xliostat."}) {
    if (starts_with(name, start) && host::parse_u64(name.substr(start.size()))) return true;
  }
  return false;
}

// "/sys/devices/pci0000:00/0000:00:03.0/resource0", "resource2_wc"
bool is_pci_resource(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos || !starts_with(path, "/sys/")) return false;
  const std::string_view name = path.substr(slash + 1);
  return starts_with(name, "resource") && name.size() > 8 && name[8] >= '0' && name[8] <= '9';
}

bool is_dpdk_runtime(std::string_view path) {
  for (const std::string_view start : {"/run/dpdk/", "/var/run/dpdk/"}) {
    if (starts_with(path, start)) return true;
  }
  // Without the right to write there, DPDK puts it below the user's XDG_RUNTIME_DIR.
  return (starts_with(path, "/run/user/") || starts_with(path, "/tmp/dpdk/")) &&
         path.find("/dpdk/") != std::string_view::npos;
}

}  // namespace

DeviceNames DeviceNames::read(const std::string& root) {
  DeviceNames names;
  if (const auto text = host::read_file(root + "/proc/devices")) {
    for (const std::string_view line : host::split_lines(*text)) {
      if (line == "Block devices:") break;
      const auto words = host::split_words(line);
      if (words.size() != 2) continue;
      if (const auto major = host::parse_u64(words[0])) {
        names.by_major_.emplace(static_cast<unsigned>(*major), words[1]);
      }
    }
  }
  if (const auto text = host::read_file(root + "/proc/misc")) {
    for (const std::string_view line : host::split_lines(*text)) {
      const auto words = host::split_words(line);
      if (words.size() != 2) continue;
      if (const auto minor = host::parse_u64(words[0])) {
        names.misc_.emplace(static_cast<unsigned>(*minor), words[1]);
      }
    }
  }
  return names;
}

std::string DeviceNames::name(std::uint64_t device_number) const {
  if (device_number == 0) return {};
  const bool misc = major(device_number) == kMiscMajor;
  const auto& table = misc ? misc_ : by_major_;
  const auto found = table.find(misc ? minor(device_number) : major(device_number));
  return found == table.end() ? std::string() : found->second;
}

ObjectKind DeviceNames::kind(std::uint64_t device_number) const {
  const std::string registered = this->name(device_number);
  const std::string_view name = registered;
  // Two devices are called so: the groups, and the misc device that contains them.
  if (name == "vfio") {
    return major(device_number) == kMiscMajor ? ObjectKind::kVfioContainer : ObjectKind::kVfioGroup;
  }
  // The names the drivers register: drivers/net/tun.c, drivers/vhost/net.c, drivers/vfio/,
  // drivers/iommu/iommufd/main.c, drivers/uio/uio.c, drivers/infiniband/core/, Onload's
  // linux_char_internal.h and onload/common.h, exasock-main.c.
  constexpr std::array<std::pair<std::string_view, ObjectKind>, 11> kNames = {{
      {"tun", ObjectKind::kTun},
      {"vhost-net", ObjectKind::kVhostNet},
      {"vfio-dev", ObjectKind::kVfioDevice},
      {"iommu", ObjectKind::kIommuFd},
      {"uio", ObjectKind::kUio},
      {"infiniband_verbs", ObjectKind::kUverbs},
      {"rdma_cm", ObjectKind::kRdmaCm},
      {"sfc_char", ObjectKind::kSfcChar},
      {"onload", ObjectKind::kOnloadDevice},
      {"onload_epoll", ObjectKind::kOnloadDevice},
      {"exasock", ObjectKind::kExasock},
  }};
  for (const auto& [known, kind] : kNames) {
    if (name == known) return kind;
  }
  if (starts_with(name, "exanic") && host::parse_u64(name.substr(6))) return ObjectKind::kExanic;
  if (starts_with(name, "exabond-")) return ObjectKind::kExanic;
  return ObjectKind::kOther;
}

ObjectKind kind_of_link(std::string_view link, bool on_hugetlbfs) {
  if (starts_with(link, "socket:[")) return ObjectKind::kSocket;
  if (starts_with(link, "onload:[")) return ObjectKind::kOnloadSocket;
  if (starts_with(link, "anon_inode:")) {
    const std::string_view name = link.substr(11);
    if (name == "[io_uring]") return ObjectKind::kIoUring;
    if (name == "[eventpoll]") return ObjectKind::kEventPoll;
    if (name == "[eventfd]") return ObjectKind::kEventFd;
    if (name == "bpf-map") return ObjectKind::kBpfMap;
    if (name == "bpf-prog") return ObjectKind::kBpfProgram;
    if (name == "[vfio-device]") return ObjectKind::kVfioDevice;
    if (name == "[infinibandevent]") return ObjectKind::kInfinibandEvent;
    return ObjectKind::kOther;
  }
  if (on_hugetlbfs) return ObjectKind::kHugePages;
  const std::string_view path = without_deleted(link);
  if (starts_with(path, "/memfd:")) return ObjectKind::kMemfd;
  if (is_stats_file(path)) return ObjectKind::kStatsFile;
  if (is_pci_resource(path)) return ObjectKind::kPciResource;
  if (is_dpdk_runtime(path)) return ObjectKind::kDpdkRuntime;
  return ObjectKind::kOther;
}

std::optional<std::uint64_t> socket_inode(std::string_view link) {
  constexpr std::string_view kStart = "socket:[";
  if (!starts_with(link, kStart) || link.back() != ']') return std::nullopt;
  return host::parse_u64(link.substr(kStart.size(), link.size() - kStart.size() - 1));
}

}  // namespace whylate::stack::collect
