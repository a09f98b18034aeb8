// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/holders.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "host/file.h"
#include "stack/collect/fd_table.h"
#include "stack/collect/object_kind.h"

namespace whylate::stack::collect {
namespace {

constexpr std::size_t kMostDescriptors = 2'000'000;
constexpr std::size_t kMostHolders = 8;

class Directory {
 public:
  explicit Directory(const std::string& path) : stream_(::opendir(path.c_str())) {}
  ~Directory() {
    if (stream_ != nullptr) ::closedir(stream_);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  bool ok() const { return stream_ != nullptr; }
  const char* next() {
    const dirent* const entry = ::readdir(stream_);
    return entry == nullptr ? nullptr : entry->d_name;
  }
  int fd() const { return ::dirfd(stream_); }

 private:
  DIR* stream_;
};

void add(Holders& holders, std::uint64_t inode, pid_t pid) {
  std::vector<pid_t>& pids = holders.pids_of[inode];
  if (pids.size() < kMostHolders && std::find(pids.begin(), pids.end(), pid) == pids.end()) {
    pids.push_back(pid);
  }
}

void read_ring(const std::string& fdinfo, pid_t pid, Holders& holders) {
  const Result<std::string> text = host::read_file(fdinfo);
  if (!text) return;
  bool complete = false;
  const IoUring ring = parse_io_uring(-1, *text, &complete);
  for (const std::uint64_t inode : ring.registered_sockets) add(holders, inode, pid);
}

// The kernel says EACCES of a process that has just ended, too.
bool is_refused(const std::string& base, int error) {
  if (error != EACCES && error != EPERM) return false;
  const auto stat = host::read_file(base + "/stat");
  if (!stat) return false;
  const std::size_t close = stat->rfind(')');
  const char state = close + 2 < stat->size() ? (*stat)[close + 2] : 'X';
  return state != 'Z' && state != 'X';
}

// One descriptor table. False: it may not be read.
bool read_table(const std::string& base, pid_t pid, std::size_t& left, Holders& holders) {
  Directory directory(base + "/fd");
  if (!directory.ok()) return !is_refused(base, errno);
  char target[64];
  while (const char* const name = directory.next()) {
    if (name[0] == '.' || left == 0) continue;
    --left;
    const ssize_t bytes = ::readlinkat(directory.fd(), name, target, sizeof(target));
    if (bytes < 0) {
      if (is_refused(base, errno)) return false;
      continue;
    }
    const std::string_view link(target, static_cast<std::size_t>(bytes));
    if (const auto inode = socket_inode(link)) {
      add(holders, *inode, pid);
    } else if (link == "anon_inode:[io_uring]") {
      read_ring(base + "/fdinfo/" + name, pid, holders);
    }
  }
  return true;
}

}  // namespace

Holders find_holders(const Context& context) {
  Holders holders;
  std::size_t left = kMostDescriptors;
  for (const pid_t pid : numeric_names(context.path("/proc"))) {
    if (pid == context.pid) continue;
    const std::string base = context.path("/proc/") + std::to_string(pid);
    bool readable = read_table(base, pid, left, holders);
    const std::vector<pid_t> threads = numeric_names(base + "/task");
    for (const pid_t tid : threads) {
      if (tid == pid || !readable) continue;
      // A table of its own is rare; without kcmp it is taken for the process's.
      if (!context.live() || ::syscall(SYS_kcmp, pid, tid, KCMP_FILES, 0, 0) <= 0) continue;
      readable = read_table(base + "/task/" + std::to_string(tid), pid, left, holders);
    }
    if (!readable && holders.complete) {
      holders.complete = false;
      // Root, too, may be refused: by a process that may do more, or by a security module.
      holders.why_not = "no right to look at process " + std::to_string(pid) + " (" +
                        host::read_trimmed(base + "/comm").value_or("?") + ") and perhaps others";
    }
  }
  if (left == 0) {
    holders.complete = false;
    holders.why_not = "the machine has too many open files";
  }
  return holders;
}

void note_holders(const Holders& holders, Evidence& evidence) {
  for (FdEntry& entry : evidence.fds) {
    if (entry.kind != ObjectKind::kSocket) continue;
    const auto found = holders.pids_of.find(entry.inode);
    if (found == holders.pids_of.end()) continue;
    entry.shared_with_others = true;
    entry.other_holders = found->second;
  }
  for (DiagRow& row : evidence.diag) {
    if (row.family != DiagFamily::kUnix || row.peer_inode == 0) continue;
    const auto found = holders.pids_of.find(row.peer_inode);
    if (found != holders.pids_of.end() && !found->second.empty()) row.peer_pid = found->second[0];
  }
}

}  // namespace whylate::stack::collect
