// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/fd_table.h"

#include <linux/kcmp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "host/file.h"

namespace whylate::stack::collect {
namespace {

constexpr const char* kProtocolAttribute = "system.sockprotoname";
constexpr long kHugetlbfsMagic = 0x958458f6;

bool same_table(pid_t a, pid_t b) { return ::syscall(SYS_kcmp, a, b, KCMP_FILES, 0, 0) == 0; }

// Threads whose tables have to be read: one for each table. Without kcmp every thread has its own,
// and equal entries are dropped afterwards.
std::vector<pid_t> table_owners(const Context& context) {
  std::vector<pid_t> owners = {context.lead};
  for (const pid_t tid : numeric_names(context.proc() + "/task")) {
    if (tid == context.lead) continue;
    const bool known =
        context.live() && std::any_of(owners.begin(), owners.end(),
                                      [&](pid_t owner) { return same_table(owner, tid); });
    if (!known) owners.push_back(tid);
  }
  return owners;
}

std::string table_directory(const Context& context, pid_t tid, const char* what) {
  return context.proc() + "/task/" + std::to_string(tid) + "/" + what;
}

// The value of "name:\tvalue", or nothing.
std::optional<std::string_view> field(std::string_view text, std::string_view name) {
  for (const std::string_view line : host::split_lines(text)) {
    if (line.size() > name.size() && line.substr(0, name.size()) == name &&
        line[name.size()] == ':') {
      return host::trim(line.substr(name.size() + 1));
    }
  }
  return std::nullopt;
}

std::string socket_protocol(const std::string& path) {
  char name[64];
  const ssize_t bytes = ::getxattr(path.c_str(), kProtocolAttribute, name, sizeof(name));
  if (bytes <= 0) return {};
  return std::string(name, ::strnlen(name, static_cast<std::size_t>(bytes)));
}

void read_epoll(std::string_view fdinfo, FdEntry& entry) {
  for (const std::string_view line : host::split_lines(fdinfo)) {
    const auto words = host::split_words(line);
    if (words.size() < 2 || words[0] != "tfd:") continue;
    if (const auto fd = host::parse_u64(words[1])) {
      entry.epoll_fds.push_back(static_cast<int>(*fd));
    }
  }
}

void read_object(const std::string& path, const DeviceNames& devices, FdEntry& entry) {
  struct stat status = {};
  // The link is followed to the open object itself, in whatever mount namespace that is.
  if (::stat(path.c_str(), &status) != 0) {
    entry.kind = kind_of_link(entry.link, false);
    return;
  }
  entry.inode = status.st_ino;
  entry.device = status.st_dev;
  if (S_ISCHR(status.st_mode)) {
    entry.device_number = status.st_rdev;
    entry.device_name = devices.name(status.st_rdev);
    entry.kind = devices.kind(status.st_rdev);
    return;
  }
  struct statfs file_system = {};
  const bool huge = S_ISREG(status.st_mode) && entry.link.front() == '/' &&
                    ::statfs(path.c_str(), &file_system) == 0 &&
                    file_system.f_type == kHugetlbfsMagic;
  entry.kind = kind_of_link(entry.link, huge);
}

// The kernel leaves the list out when it cannot have the lock of a busy instance at once.
void read_ring(const Context& context, const std::string& path, const FdEntry& entry,
               Evidence& evidence) {
  constexpr int kTries = 20;
  IoUring ring;
  for (int i = 0; i < kTries; ++i) {
    const Result<std::string> text = host::read_file(path);
    if (!text) return;  // closed meanwhile
    bool complete = false;
    ring = parse_io_uring(entry.fd, *text, &complete);
    if (complete) {
      evidence.rings.push_back(std::move(ring));
      return;
    }
    ::usleep(1000);
  }
  context.cannot_read("/proc/" + std::to_string(entry.tid) + "/fdinfo/" + std::to_string(entry.fd),
                      "the io_uring instance was busy, or has empty slots only",
                      "the files registered with it");
  evidence.rings.push_back(std::move(ring));
}

void read_details(const Context& context, const std::string& fdinfo_path, FdEntry& entry,
                  Evidence& evidence) {
  switch (entry.kind) {
    case ObjectKind::kIoUring:
    case ObjectKind::kEventPoll:
    case ObjectKind::kBpfMap:
    case ObjectKind::kBpfProgram:
    case ObjectKind::kTun:
      break;
    default:
      return;
  }
  if (entry.kind == ObjectKind::kIoUring) {
    read_ring(context, fdinfo_path, entry, evidence);
    return;
  }
  const Result<std::string> text = host::read_file(fdinfo_path);
  if (!text) return;
  if (entry.kind == ObjectKind::kEventPoll) {
    read_epoll(*text, entry);
  } else if (entry.kind == ObjectKind::kTun) {
    entry.interface = std::string(field(*text, "iff").value_or(""));
  } else {
    entry.bpf = parse_bpf_fdinfo(*text);
  }
}

// A table of the leader and one of a thread, read without kcmp, may be the same one.
bool listed(const std::vector<FdEntry>& fds, std::size_t end, const FdEntry& entry) {
  return std::any_of(fds.begin(), fds.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](const FdEntry& f) { return f.fd == entry.fd && f.link == entry.link; });
}

void read_table(const Context& context, const DeviceNames& devices, pid_t tid, bool drop_known,
                Evidence& evidence) {
  const std::string directory = table_directory(context, tid, "fd");
  if (::access(directory.c_str(), R_OK | X_OK) != 0) {
    // A thread that has ended meanwhile is no gap.
    if (errno != ENOENT || tid == context.lead) {
      context.cannot_read_errno("/proc/" + std::to_string(tid) + "/fd", errno, "CAP_SYS_PTRACE",
                                "which sockets and devices it has open");
    }
    return;
  }
  const std::size_t end = evidence.fds.size();
  bool protocol_missing = false;
  for (const pid_t number : numeric_names(directory)) {
    if (evidence.fds.size() >= context.options.max_sockets) {
      context.cannot_read("/proc/" + std::to_string(tid) + "/fd", "it has too many descriptors",
                          "those beyond the first " + std::to_string(evidence.fds.size()));
      break;
    }
    FdEntry entry;
    entry.fd = number;
    entry.tid = tid == context.lead ? context.pid : tid;
    const std::string name = std::to_string(number);
    const std::string path = directory + "/" + name;
    entry.link = read_link(path);
    if (entry.link.empty()) continue;  // closed meanwhile
    if (drop_known && listed(evidence.fds, end, entry)) continue;
    if (const auto inode = socket_inode(entry.link)) {
      entry.kind = ObjectKind::kSocket;
      entry.inode = *inode;
      if (context.live()) {
        entry.protocol = socket_protocol(path);
        // Closed meanwhile is no gap either.
        if (entry.protocol.empty() && read_link(path) == entry.link) protocol_missing = true;
      }
    } else {
      read_object(path, devices, entry);
      read_details(context, table_directory(context, tid, "fdinfo") + "/" + name, entry, evidence);
    }
    evidence.fds.push_back(std::move(entry));
  }
  if (protocol_missing) {
    context.cannot_read(kProtocolAttribute, "the kernel did not give it",
                        "the protocol of some sockets");
  }
}

}  // namespace

void collect_fds(const Context& context, const DeviceNames& devices, Evidence& evidence) {
  const std::vector<pid_t> owners = table_owners(context);
  for (const pid_t tid : owners) {
    read_table(context, devices, tid, tid != context.lead, evidence);
  }
}

std::vector<std::uint64_t> open_sockets(const Context& context) {
  std::vector<std::uint64_t> inodes;
  for (const pid_t tid : table_owners(context)) {
    const std::string directory = table_directory(context, tid, "fd");
    for (const std::string& name : host::list_directory(directory)) {
      if (const auto inode = socket_inode(read_link(directory + "/" + name))) {
        inodes.push_back(*inode);
      }
    }
  }
  std::sort(inodes.begin(), inodes.end());
  inodes.erase(std::unique(inodes.begin(), inodes.end()), inodes.end());
  return inodes;
}

IoUring parse_io_uring(int fd, std::string_view fdinfo, bool* complete) {
  IoUring ring;
  ring.fd = fd;
  bool in_files = false;
  std::optional<std::uint64_t> slots;
  std::size_t lines = 0;
  for (const std::string_view line : host::split_lines(fdinfo)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = host::trim(line.substr(0, colon));
    const std::string_view value = host::trim(line.substr(colon + 1));
    if (name == "UserFiles") {
      in_files = true;
      slots = host::parse_u64(value);
      continue;
    }
    // Its lines are "    0: socket:[192612]"; the next heading ends the list.
    if (in_files && host::parse_u64(name)) {
      ++lines;
      if (value.empty() || value == "<none>") continue;
      ring.registered_files.emplace_back(value);
      if (const auto inode = socket_inode(value)) ring.registered_sockets.push_back(*inode);
      continue;
    }
    in_files = false;
    if (name == "SqThread") {
      // -1 (as an unsigned or a signed number) without one.
      const auto tid = host::parse_u64(value);
      if (tid && *tid > 0 && *tid <= 0x7fffffff) ring.sq_thread = static_cast<pid_t>(*tid);
    } else if (name == "NAPI") {
      ring.napi_busy_poll = value.substr(0, 7) == "enabled";
    }
  }
  if (complete != nullptr) *complete = slots && (*slots == 0 || lines > 0);
  return ring;
}

std::optional<BpfObject> parse_bpf_fdinfo(std::string_view fdinfo) {
  for (const auto& [type_name, id_name] :
       {std::pair<std::string_view, std::string_view>("map_type", "map_id"),
        {"prog_type", "prog_id"}}) {
    const auto type = field(fdinfo, type_name);
    const auto id = field(fdinfo, id_name);
    if (!type || !id) continue;
    const auto type_number = host::parse_u64(*type);
    const auto id_number = host::parse_u64(*id);
    if (!type_number || !id_number) continue;
    BpfObject object;
    object.type = static_cast<std::uint32_t>(*type_number);
    object.id = static_cast<std::uint32_t>(*id_number);
    return object;
  }
  return std::nullopt;
}

}  // namespace whylate::stack::collect
