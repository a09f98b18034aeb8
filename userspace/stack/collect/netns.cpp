// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/netns.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace whylate::stack::collect {

std::optional<std::uint64_t> namespace_inode(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status.st_ino;
}

int in_net_namespace(const std::string& path, const std::function<void()>& body) {
  // By the thread's own file: this process may be a guest of a thread that has moved.
  const std::optional<std::uint64_t> own = namespace_inode("/proc/thread-self/ns/net");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  int error = 0;
  struct stat wanted = {};
  if (::fstat(fd, &wanted) != 0) {
    error = errno;
  } else if (own && *own == wanted.st_ino) {
    body();
  } else {
    std::thread([&] {
      if (::setns(fd, CLONE_NEWNET) != 0) {
        error = errno;
      } else {
        body();
      }
    }).join();
  }
  ::close(fd);
  return error;
}

}  // namespace whylate::stack::collect
