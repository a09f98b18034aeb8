// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace whylate::host {

/// A mounted cgroup hierarchy: where it is, and which of its groups is the top of the mount.
struct CgroupMount {
  std::string point;
  std::string top;
};

/// Whether a list like "cpu,cpuacct" has this word.
bool contains_word(std::string_view list, std::string_view word);

/// The mount of the unified hierarchy (v2), or of the one with the cpu controller (v1), in a text
/// like /proc/self/mountinfo.
std::optional<CgroupMount> find_cgroup_mount(std::string_view mountinfo, bool v2);

/// The paths of all groups of the cpu controller by the id that the kernel gives them (the inode
/// number of their directory): v1 where that is mounted, else v2. Empty when neither is. Paths
/// begin at the top of the mount, "/" is its root.
std::map<std::uint64_t, std::string> read_cgroups(const std::string& root);

}  // namespace whylate::host
