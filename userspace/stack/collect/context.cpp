// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/context.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "host/file.h"

namespace whylate::stack::collect {

void Context::cannot_read(const std::string& source, const std::string& reason,
                          const std::string& unknown) const {
  const bool known = std::any_of(unreadable->begin(), unreadable->end(), [&](const Unreadable& u) {
    return u.source == source && u.reason == reason && u.unknown == unknown;
  });
  if (!known) unreadable->push_back(Unreadable{source, reason, unknown});
}

void Context::cannot_read_errno(const std::string& source, int error, const char* capability,
                                const std::string& unknown) const {
  cannot_read(source, reason_of(error, capability), unknown);
}

TargetFile::TargetFile(const Context& context, const std::string& absolute) {
  const std::string top = context.live() ? context.proc() + "/root" : context.root.path;
  const int root = ::open(top.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) {
    error_ = errno;
    return;
  }
  open_how how = {};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  fd_ = static_cast<int>(::syscall(SYS_openat2, root, absolute.c_str(), &how, sizeof(how)));
  if (fd_ < 0) error_ = errno;
  ::close(root);
}

TargetFile::~TargetFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::string reason_of(int error, const char* capability) {
  if (error == EPERM || error == EACCES) return std::string(capability) + " is missing";
  return std::strerror(error);
}

std::string read_link(const std::string& path, int* error) {
  std::string target(256, '\0');
  for (;;) {
    const ssize_t bytes = ::readlink(path.c_str(), target.data(), target.size());
    if (bytes < 0) {
      if (error != nullptr) *error = errno;
      return {};
    }
    if (static_cast<std::size_t>(bytes) < target.size()) {
      target.resize(static_cast<std::size_t>(bytes));
      return target;
    }
    target.resize(target.size() * 4);
  }
}

std::vector<pid_t> numeric_names(const std::string& directory) {
  std::vector<pid_t> ids;
  for (const std::string& name : host::list_directory(directory)) {
    if (const auto id = host::parse_u64(name)) ids.push_back(static_cast<pid_t>(*id));
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace whylate::stack::collect
