// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/cgroups.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "host/file.h"

namespace whylate::host {
namespace {

// Blanks and the like are written as three octal digits in mountinfo.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                 (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

void add_group(const std::string& directory, const std::string& path,
               std::map<std::uint64_t, std::string>& groups) {
  struct stat info {};
  if (::stat(directory.c_str(), &info) == 0) groups.emplace(info.st_ino, path);
}

}  // namespace

bool contains_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

// mountinfo: id parent dev TOP POINT options [optional…] - TYPE source SUPER-OPTIONS
std::optional<CgroupMount> find_cgroup_mount(std::string_view mountinfo, bool v2) {
  for (const std::string_view line : split_lines(mountinfo)) {
    const std::vector<std::string_view> words = split_words(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    const bool matches =
        v2 ? dash[1] == "cgroup2" : dash[1] == "cgroup" && contains_word(dash[3], "cpu");
    if (matches) return CgroupMount{unescape(words[4]), unescape(words[3])};
  }
  return std::nullopt;
}

std::map<std::uint64_t, std::string> read_cgroups(const std::string& root) {
  std::map<std::uint64_t, std::string> groups;
  const Result<std::string> mountinfo = read_file(root + "/proc/self/mountinfo");
  if (!mountinfo.ok()) return groups;
  std::optional<CgroupMount> mount = find_cgroup_mount(*mountinfo, false);
  if (!mount) mount = find_cgroup_mount(*mountinfo, true);
  if (!mount) return groups;
  const std::string top = root + mount->point;
  add_group(top, "/", groups);
  // Groups come and go while this walks: whatever is gone is left out.
  std::error_code error;
  std::filesystem::recursive_directory_iterator it(top, error);
  while (!error && it != std::filesystem::recursive_directory_iterator()) {
    std::error_code gone;
    if (it->is_directory(gone) && !it->is_symlink(gone)) {
      const std::string directory = it->path().string();
      add_group(directory, directory.substr(top.size()), groups);
    }
    it.increment(error);
  }
  return groups;
}

}  // namespace whylate::host
