// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace whylate::host {

Result<std::string> read_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return Error{ExitCode::kRuntimeError, "cannot read " + path + ": " + std::strerror(errno)};
  }
  // Files in /proc and /sys have no size that could be asked for beforehand.
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof(buffer));
    if (n > 0) {
      text.append(buffer, static_cast<std::size_t>(n));
    } else if (n == 0) {
      break;
    } else if (errno != EINTR) {
      const int error = errno;
      ::close(fd);
      return Error{ExitCode::kRuntimeError, "cannot read " + path + ": " + std::strerror(error)};
    }
  }
  ::close(fd);
  return text;
}

std::optional<std::string> read_trimmed(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return std::nullopt;
  return std::string(trim(*text));
}

std::optional<std::uint64_t> read_u64(const std::string& path) {
  const std::optional<std::string> text = read_trimmed(path);
  return text ? parse_u64(*text) : std::nullopt;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::vector<std::string> list_directory(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
  if (!directory) return names;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kWhite = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kWhite);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhite) - first + 1);
}

std::vector<std::string_view> split_words(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  std::vector<std::string_view> words;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(kBlank, at)) != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kBlank, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::optional<std::uint64_t> parse_u64(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

}  // namespace whylate::host
