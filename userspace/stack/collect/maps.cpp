// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/maps.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include "host/file.h"

namespace whylate::stack::collect {
namespace {

constexpr long kHugetlbfsMagic = 0x958458f6;

std::optional<std::uint64_t> hex(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Line {
  std::uint64_t start = 0, end = 0, offset = 0, device = 0, inode = 0;
  std::string_view permissions;
  std::string path;
};

// The kernel writes a line end in a name as "\012", and nothing else is escaped (seq_file_path).
std::string unescape(std::string_view path) {
  std::string text;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path.substr(i, 4) == "\\012") {
      text += '\n';
      i += 3;
    } else {
      text += path[i];
    }
  }
  return text;
}

// "7f..-7f.. rw-s 80000000 00:08 48505      socket:[48505]"
std::optional<Line> parse(std::string_view text) {
  const auto words = host::split_words(text);
  if (words.size() < 5) return std::nullopt;
  const std::size_t dash = words[0].find('-');
  const std::size_t colon = words[3].find(':');
  if (dash == std::string_view::npos || colon == std::string_view::npos) return std::nullopt;
  const auto start = hex(words[0].substr(0, dash));
  const auto end = hex(words[0].substr(dash + 1));
  const auto offset = hex(words[2]);
  const auto dev_major = hex(words[3].substr(0, colon));
  const auto dev_minor = hex(words[3].substr(colon + 1));
  const auto inode = host::parse_u64(words[4]);
  if (!start || !end || !offset || !dev_major || !dev_minor || !inode || *end < *start ||
      words[1].size() != 4) {
    return std::nullopt;
  }
  Line line;
  line.start = *start;
  line.end = *end;
  line.offset = *offset;
  line.device = makedev(static_cast<unsigned>(*dev_major), static_cast<unsigned>(*dev_minor));
  line.inode = *inode;
  line.permissions = words[1];
  // The path begins after the blanks behind the inode and may hold blanks itself.
  const std::size_t after =
      static_cast<std::size_t>(words[4].data() - text.data()) + words[4].size();
  const std::size_t begin = text.find_first_not_of(' ', after);
  if (begin != std::string_view::npos) line.path = unescape(text.substr(begin));
  return line;
}

// Opens nothing: map_files gives the mapped object itself, whatever its path means elsewhere.
std::string object_path(const Context& context, const Line& line) {
  char range[64];
  std::snprintf(range, sizeof(range), "/map_files/%llx-%llx",
                static_cast<unsigned long long>(line.start),
                static_cast<unsigned long long>(line.end));
  return context.proc() + range;
}

// Some readings of a path under /dev or of a hugetlbfs need the object itself.
ObjectKind kind_of(const Context& context, const DeviceNames& devices, const Line& line) {
  const ObjectKind by_name = kind_of_link(line.path, false);
  if (line.path.empty() || line.path.front() != '/') return by_name;
  const bool shared = line.permissions[3] == 's';
  if (!shared && by_name == ObjectKind::kOther) return by_name;
  struct stat status = {};
  std::string path = object_path(context, line);
  std::optional<TargetFile> target;
  if (::stat(path.c_str(), &status) != 0) {
    // Without the right to map_files: the path as the target sees it, if it is that very object.
    target.emplace(context, line.path);
    path = target->path();
    if (!target->ok() || ::stat(path.c_str(), &status) != 0 ||
        (context.live() && status.st_ino != line.inode)) {
      return by_name;
    }
  }
  if (S_ISCHR(status.st_mode)) return devices.kind(status.st_rdev);
  struct statfs file_system = {};
  const bool huge = S_ISREG(status.st_mode) && ::statfs(path.c_str(), &file_system) == 0 &&
                    file_system.f_type == kHugetlbfsMagic;
  return kind_of_link(line.path, huge);
}

}  // namespace

std::vector<MappedCode> collect_maps(const Context& context, const DeviceNames& devices,
                                     Evidence& evidence) {
  std::vector<MappedCode> code;
  errno = 0;
  const Result<std::string> text = host::read_file(context.proc() + "/maps");
  if (!text) {
    context.cannot_read_errno("/proc/" + std::to_string(context.pid) + "/maps",
                              errno != 0 ? errno : EIO, "CAP_SYS_PTRACE",
                              "mapped rings, libraries and device memory");
    return code;
  }
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (const std::string_view raw : host::split_lines(*text)) {
    const std::optional<Line> line = parse(raw);
    if (!line || line->path.empty()) continue;
    if (line->permissions[2] == 'x' && line->path.front() == '/' &&
        seen.insert({line->device, line->inode}).second) {
      code.push_back(MappedCode{line->path, line->start, line->end, line->device, line->inode});
    }
    const ObjectKind kind = kind_of(context, devices, *line);
    if (kind == ObjectKind::kOther) continue;
    MapEntry entry;
    entry.start = line->start;
    entry.bytes = line->end - line->start;
    entry.offset = line->offset;
    entry.path = line->path;
    entry.kind = kind;
    entry.device = line->device;
    entry.inode = line->inode;
    entry.shared = line->permissions[3] == 's';
    entry.writable = line->permissions[1] == 'w';
    evidence.maps.push_back(std::move(entry));
  }
  return code;
}

}  // namespace whylate::stack::collect
