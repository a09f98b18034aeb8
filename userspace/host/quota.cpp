// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/quota.h"

#include <algorithm>

#include "host/cgroups.h"
#include "host/file.h"

namespace whylate::host {
namespace {

// The path of a group below the mount point; nothing when the mount does not show it.
std::optional<std::string> below_mount(const CgroupMount& mount, const std::string& group) {
  if (mount.top == "/" || mount.top.empty()) return group;
  if (group == mount.top) return std::string("/");
  if (group.size() > mount.top.size() && group.compare(0, mount.top.size(), mount.top) == 0 &&
      group[mount.top.size()] == '/') {
    return group.substr(mount.top.size());
  }
  // Inside a cgroup namespace both are relative to the namespace's own top.
  return group.compare(0, 3, "/..") == 0 ? std::nullopt : std::optional<std::string>(group);
}

std::optional<QuotaLevel> read_v1(const std::string& directory) {
  // -1 is no limit; parse_u64 refuses it.
  const auto quota = read_u64(directory + "/cpu.cfs_quota_us");
  const auto period = read_u64(directory + "/cpu.cfs_period_us");
  if (!quota || !period || *period == 0) return std::nullopt;
  QuotaLevel level;
  level.quota_us = *quota;
  level.period_us = *period;
  return level;
}

std::optional<QuotaLevel> read_v2(const std::string& directory) {
  const auto text = read_trimmed(directory + "/cpu.max");
  if (!text) return std::nullopt;
  const std::vector<std::string_view> words = split_words(*text);
  if (words.size() != 2) return std::nullopt;
  const auto quota = parse_u64(words[0]);  // "max" is no limit
  const auto period = parse_u64(words[1]);
  if (!quota || !period || *period == 0) return std::nullopt;
  QuotaLevel level;
  level.v2 = true;
  level.quota_us = *quota;
  level.period_us = *period;
  return level;
}

Status walk(const std::string& root, const CgroupMount& mount, const std::string& group, bool v2,
            std::vector<QuotaLevel>& levels) {
  const std::optional<std::string> below = below_mount(mount, group);
  if (!below || !exists(root + mount.point + *below)) {
    return Error{ExitCode::kRuntimeError,
                 "cgroup " + group + " is not visible below " + mount.point};
  }
  std::string path = *below;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  // What the mount hides of the path is put back, so that it reads as in /proc/PID/cgroup.
  const bool partial = mount.top != "/" && group.compare(0, mount.top.size(), mount.top) == 0;
  const std::string hidden = partial ? mount.top : std::string();
  for (;;) {
    const std::string directory = root + mount.point + (path == "/" ? "" : path);
    if (auto level = v2 ? read_v2(directory) : read_v1(directory)) {
      level->path = hidden.empty() ? path : path == "/" ? hidden : hidden + path;
      levels.push_back(*level);
    }
    if (path == "/" || path.empty()) return Done{};
    const std::size_t slash = path.rfind('/');
    path = slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
  }
}

// a/b < c/d without dividing; values beyond 2^64 cannot occur in cgroup files.
bool tighter(const QuotaLevel& a, const QuotaLevel& b) {
  return static_cast<unsigned __int128>(a.quota_us) * b.period_us <
         static_cast<unsigned __int128>(b.quota_us) * a.period_us;
}

}  // namespace

Result<QuotaInfo> read_quota(const std::string& root, const ProcessInfo& process) {
  const Result<std::string> mountinfo = read_file(root + "/proc/self/mountinfo");
  if (!mountinfo) return mountinfo.error();
  QuotaInfo info;
  bool looked = false;
  for (const auto& [controllers, group] : process.cgroup_v1) {
    if (!contains_word(controllers, "cpu")) continue;
    const std::optional<CgroupMount> mount = find_cgroup_mount(*mountinfo, false);
    if (!mount)
      return Error{ExitCode::kRuntimeError, "the cgroup v1 controller cpu is not mounted"};
    const Status status = walk(root, *mount, group, false, info.levels);
    if (!status) return status.error();
    looked = true;
  }
  // With the cpu controller in v1 the unified hierarchy cannot limit CPU time.
  if (!looked && !process.cgroup_v2.empty()) {
    const std::optional<CgroupMount> mount = find_cgroup_mount(*mountinfo, true);
    if (!mount) return Error{ExitCode::kRuntimeError, "cgroup v2 is not mounted"};
    const Status status = walk(root, *mount, process.cgroup_v2, true, info.levels);
    if (!status) return status.error();
  }
  for (std::size_t i = 0; i < info.levels.size(); ++i) {
    if (!info.tightest || tighter(info.levels[i], info.levels[*info.tightest])) info.tightest = i;
  }
  return info;
}

}  // namespace whylate::host
