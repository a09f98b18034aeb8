// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "stack/collect.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// What every collector gets: whom to look at, and where it notes what it cannot read.
struct Context {
  pid_t pid = 0;
  pid_t lead = 0;  ///< a thread that lives: the leader, or another one when only the leader ended
  HostRoot root;
  CollectOptions options;
  std::vector<Unreadable>* unreadable = nullptr;

  bool live() const { return root.live(); }
  /// "/proc/PID" below the root, of a thread that lives. The kernel serves threads there as well.
  std::string proc() const { return root.path + "/proc/" + std::to_string(lead); }
  /// An absolute path of the machine.
  std::string path(const std::string& absolute) const { return root.path + absolute; }
  /// Notes a gap; the same gap is noted once.
  void cannot_read(const std::string& source, const std::string& reason,
                   const std::string& unknown) const;
  /// The same with a reason from an errno; `capability` is what EPERM and EACCES lack.
  void cannot_read_errno(const std::string& source, int error, const char* capability,
                         const std::string& unknown) const;
};

/// A file of the target, looked up within the target's own root directory: its links never lead out
/// of there. Held by a descriptor that can neither read nor write (O_PATH).
class TargetFile {
 public:
  TargetFile(const Context& context, const std::string& absolute);
  ~TargetFile();
  TargetFile(const TargetFile&) = delete;
  TargetFile& operator=(const TargetFile&) = delete;
  bool ok() const { return fd_ >= 0; }
  int error() const { return error_; }
  /// A path of this process that leads to the file.
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_ = -1;
  int error_ = 0;
};

/// "CAP_X is missing" for EPERM and EACCES, else what strerror says.
std::string reason_of(int error, const char* capability);

/// Target of a symbolic link; empty, with *error set when given, when it cannot be read.
std::string read_link(const std::string& path, int* error = nullptr);

/// Numbers among the names in a directory, ascending.
std::vector<pid_t> numeric_names(const std::string& directory);

/// Sets `before` on the first reading and `after` on the second.
enum class Reading { kBefore, kAfter };
inline void set_counter(Counter& counter, Reading reading, std::optional<std::uint64_t> value) {
  (reading == Reading::kBefore ? counter.before : counter.after) = value;
}

}  // namespace whylate::stack::collect
