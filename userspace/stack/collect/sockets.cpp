// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/sockets.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "stack/collect/fd_table.h"
#include "stack/collect/holders.h"
#include "stack/collect/maps.h"
#include "stack/collect/net_files.h"
#include "stack/collect/netns.h"
#include "stack/collect/sock_diag.h"

namespace whylate::stack::collect {
namespace {

bool starts_with(const std::string& text, const char* start) { return text.rfind(start, 0) == 0; }

struct Wanted {
  DiagQuery query;
  bool raw = false;
};

// Only what the process has is asked for: a question can load a module of the kernel.
Wanted wanted_of(const Evidence& evidence) {
  Wanted wanted;
  for (const FdEntry& entry : evidence.fds) {
    if (entry.kind != ObjectKind::kSocket) continue;
    const std::string& name = entry.protocol;
    wanted.query.mptcp = wanted.query.mptcp || starts_with(name, "MPTCP");
    wanted.query.packet = wanted.query.packet || name == "PACKET" || name.empty();
    wanted.query.unix_sockets =
        wanted.query.unix_sockets || starts_with(name, "UNIX") || name.empty();
    wanted.query.xdp = wanted.query.xdp || name == "XDP";
    wanted.query.smc = wanted.query.smc || starts_with(name, "SMC");
    wanted.raw = wanted.raw || starts_with(name, "RAW") || starts_with(name, "PING");
  }
  // What a ring holds has no name there.
  for (const IoUring& ring : evidence.rings) {
    wanted.query.unix_sockets = wanted.query.unix_sockets || !ring.registered_sockets.empty();
  }
  return wanted;
}

// Files of the network namespaces of the process and its threads, each namespace once.
std::vector<std::string> namespace_files(const Context& context) {
  std::vector<std::string> files = {context.proc() + "/ns/net"};
  std::set<std::uint64_t> seen;
  if (const auto own = namespace_inode(files[0])) seen.insert(*own);
  for (const pid_t tid : numeric_names(context.proc() + "/task")) {
    const std::string file = context.proc() + "/task/" + std::to_string(tid) + "/ns/net";
    const auto inode = namespace_inode(file);
    if (inode && seen.insert(*inode).second) files.push_back(file);
  }
  return files;
}

void append(DiagAnswer& all, DiagAnswer&& more) {
  const auto move_rows = [](auto& to, auto& from) {
    if (to.empty()) {
      to = std::move(from);
      return;
    }
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  move_rows(all.rows, more.rows);
  move_rows(all.smc, more.smc);
  move_rows(all.facts, more.facts);
  move_rows(all.errors, more.errors);
}

// What sock_diag refused is read from the files of the process's namespace, as far as they tell it.
void read_files(const Context& context, const Wanted& wanted, bool tcp_udp, bool raw, bool packet,
                DiagAnswer& answer) {
  std::vector<DiagRow> rows = read_inet_files(context, tcp_udp, raw && wanted.raw);
  if (packet && wanted.query.packet) {
    std::vector<DiagRow> more = read_packet_file(context);
    rows.insert(rows.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
  }
  answer.rows.insert(answer.rows.end(), std::make_move_iterator(rows.begin()),
                     std::make_move_iterator(rows.end()));
}

bool not_in_kernel(int error) {
  return error == ENOENT || error == EINVAL || error == EPROTONOSUPPORT || error == EOPNOTSUPP;
}

std::string why(int error) {
  return not_in_kernel(error) ? "not in this kernel" : reason_of(error, "CAP_NET_ADMIN");
}

void note_errors(const Context& context, const Wanted& wanted, DiagAnswer& answer) {
  bool tcp_udp = false, raw = false, packet = false;
  const std::vector<DiagError> errors = answer.errors;
  for (const DiagError& error : errors) {
    const std::string family = error.family;
    if (family == "inet_diag raw") {
      raw = true;  // /proc/net/raw tells as much
    } else if (family == "packet_diag") {
      packet = true;
      context.cannot_read(family, why(error.error), "rings and fanout groups of packet sockets");
    } else if (family == "xdp_diag") {
      context.cannot_read(family, why(error.error),
                          "interface, queue and zero copy of its AF_XDP sockets");
    } else if (family == "unix_diag") {
      context.cannot_read(family, why(error.error), "whom its unix sockets are connected to");
    } else if (family == "smc_diag") {
      context.cannot_read(family, why(error.error), "whether its SMC sockets fell back to TCP");
    } else if (family == "inet_diag mptcp") {
      context.cannot_read(family, why(error.error), "addresses of its MPTCP sockets");
    } else {
      tcp_udp = true;
      context.cannot_read(family, why(error.error), "bytes of its connections, bound sockets");
    }
  }
  read_files(context, wanted, tcp_udp, raw, packet, answer);
}

DiagAnswer dump_all(const Context& context, const Wanted& wanted, bool note) {
  DiagAnswer answer;
  if (!context.live()) {
    read_files(context, wanted, true, true, true, answer);
    return answer;
  }
  for (const std::string& file : namespace_files(context)) {
    const int error = in_net_namespace(file, [&] { append(answer, dump_sockets(wanted.query)); });
    if (error == 0) continue;
    if (note) {
      context.cannot_read_errno("sock_diag in the network namespace of the process", error,
                                "CAP_SYS_ADMIN", "bytes of its connections, rings, bound sockets");
    }
    read_files(context, wanted, true, true, true, answer);
  }
  if (note) note_errors(context, wanted, answer);
  return answer;
}

using Inodes = std::unordered_set<std::uint64_t>;

Inodes held_by_target(const Context& context, const Evidence& evidence) {
  Inodes held;
  for (const FdEntry& entry : evidence.fds) {
    if (entry.kind == ObjectKind::kSocket) held.insert(entry.inode);
  }
  // Opened since.
  for (const std::uint64_t inode : open_sockets(context)) held.insert(inode);
  return held;
}

// Inet sockets that nobody holds. What is opened or closed meanwhile is in no two readings, so a
// candidate counts only when it is absent from the tables before and after, and still there.
std::vector<std::uint64_t> find_orphans(const Context& context, const Wanted& wanted,
                                        const Holders& before, const DiagAnswer& answer,
                                        const Evidence& evidence) {
  const auto free_of = [](const Holders& holders, const Inodes& held, std::uint64_t inode) {
    return holders.pids_of.count(inode) == 0 && held.count(inode) == 0;
  };
  const Inodes held = held_by_target(context, evidence);
  Inodes candidates;
  for (const DiagRow& row : answer.rows) {
    if (row.family == DiagFamily::kInet && row.inode != 0 && free_of(before, held, row.inode)) {
      candidates.insert(row.inode);
    }
  }
  if (candidates.empty()) return {};
  const Holders after = find_holders(context);
  const Inodes held_now = held_by_target(context, evidence);
  DiagQuery inet_only;
  inet_only.mptcp = wanted.query.mptcp;
  Wanted again;
  again.query = inet_only;
  again.raw = wanted.raw;
  Inodes still_there;
  for (const DiagRow& row : dump_all(context, again, false).rows) still_there.insert(row.inode);
  std::vector<std::uint64_t> orphans;
  for (const std::uint64_t inode : candidates) {
    if (free_of(after, held_now, inode) && still_there.count(inode) != 0) orphans.push_back(inode);
  }
  std::sort(orphans.begin(), orphans.end());
  return orphans;
}

// Sockets of the process: those of its tables and those of its rings.
Inodes known_sockets(const Evidence& evidence) {
  Inodes known;
  for (const FdEntry& entry : evidence.fds) {
    if (entry.kind == ObjectKind::kSocket) known.insert(entry.inode);
  }
  for (const IoUring& ring : evidence.rings) {
    known.insert(ring.registered_sockets.begin(), ring.registered_sockets.end());
  }
  return known;
}

bool is_same(const FdEntry& a, const FdEntry& b) {
  const auto id = [](const FdEntry& entry) { return entry.bpf ? entry.bpf->id : 0; };
  return a.fd == b.fd && a.tid == b.tid && a.link == b.link && a.inode == b.inode && id(a) == id(b);
}

void add_registered(const IoUring& later, Evidence& evidence) {
  for (IoUring& ring : evidence.rings) {
    if (ring.fd != later.fd) continue;
    for (const std::uint64_t inode : later.registered_sockets) {
      auto& sockets = ring.registered_sockets;
      if (std::find(sockets.begin(), sockets.end(), inode) == sockets.end()) {
        sockets.push_back(inode);
      }
    }
    return;
  }
  evidence.rings.push_back(later);
}

// Descriptors, rings and mapped sockets that were not there at the first reading.
void add_opened(const Context& context, const DeviceNames& devices, Evidence& evidence) {
  Evidence later;
  collect_fds(context, devices, later);
  std::unordered_map<int, std::vector<const FdEntry*>> by_number;
  for (const FdEntry& entry : evidence.fds) by_number[entry.fd].push_back(&entry);
  std::vector<FdEntry> fresh;
  for (FdEntry& entry : later.fds) {
    const std::vector<const FdEntry*>& same_number = by_number[entry.fd];
    const bool known =
        std::any_of(same_number.begin(), same_number.end(),
                    [&entry](const FdEntry* other) { return is_same(*other, entry); });
    if (!known) fresh.push_back(std::move(entry));
  }
  bool mappable = false;
  for (FdEntry& entry : fresh) {
    mappable = mappable || entry.protocol == "XDP" || entry.protocol == "PACKET";
    evidence.fds.push_back(std::move(entry));
  }
  for (const IoUring& ring : later.rings) add_registered(ring, evidence);
  if (!mappable) return;
  collect_maps(context, devices, later);
  for (MapEntry& map : later.maps) {
    const bool known =
        std::any_of(evidence.maps.begin(), evidence.maps.end(), [&map](const MapEntry& other) {
          return other.start == map.start && other.inode == map.inode && other.offset == map.offset;
        });
    if (!known && map.kind == ObjectKind::kSocket) evidence.maps.push_back(std::move(map));
  }
}

DiagRow counted_from_zero(DiagRow row) {
  const auto from_zero = [](Counter& counter) {
    counter.after = counter.before;
    if (counter.after) counter.before = 0;
  };
  from_zero(row.drops);
  if (row.tcp) {
    from_zero(row.tcp->bytes_acked);
    from_zero(row.tcp->bytes_received);
    from_zero(row.tcp->segs_in);
    from_zero(row.tcp->segs_out);
  }
  return row;
}

void name_unix_peers(const std::vector<DiagRow>& all, std::vector<DiagRow>& kept) {
  std::unordered_map<std::uint64_t, const std::string*> path_of;
  for (const DiagRow& row : all) {
    if (row.family == DiagFamily::kUnix && !row.local.empty()) path_of[row.inode] = &row.local;
  }
  for (DiagRow& row : kept) {
    if (row.family != DiagFamily::kUnix) continue;
    const auto found = path_of.find(row.peer_inode);
    if (row.peer_inode != 0 && found != path_of.end()) row.remote = *found->second;
  }
}

}  // namespace

void collect_sockets(const Context& context, Evidence& evidence) {
  const Wanted wanted = wanted_of(evidence);
  const Holders holders = find_holders(context);
  DiagAnswer answer = dump_all(context, wanted, true);
  evidence.orphans_known = holders.complete;
  if (holders.complete) {
    evidence.orphans = find_orphans(context, wanted, holders, answer, evidence);
  } else {
    context.cannot_read("descriptors of other processes", holders.why_not,
                        "sockets that no process holds; who shares its sockets");
  }
  evidence.xdp_diag_available =
      wanted.query.xdp &&
      std::none_of(answer.errors.begin(), answer.errors.end(), [](const DiagError& error) {
        return std::strcmp(error.family, "xdp_diag") == 0;
      });
  Inodes keep(evidence.orphans.begin(), evidence.orphans.end());
  for (const FdEntry& entry : evidence.fds) {
    if (entry.kind == ObjectKind::kSocket) keep.insert(entry.inode);
  }
  for (const IoUring& ring : evidence.rings) {
    keep.insert(ring.registered_sockets.begin(), ring.registered_sockets.end());
  }
  for (const DiagRow& row : answer.rows) {
    if (keep.count(row.inode) != 0) evidence.diag.push_back(row);
  }
  name_unix_peers(answer.rows, evidence.diag);
  for (SocketFacts& facts : answer.facts) {
    if (keep.count(facts.inode) != 0) evidence.socket_facts.push_back(std::move(facts));
  }
  for (SmcRow& row : answer.smc) {
    if (keep.count(row.inode) != 0) evidence.smc.push_back(std::move(row));
  }
  note_holders(holders, evidence);
}

void collect_sockets_after(const Context& context, const DeviceNames& devices, Evidence& evidence) {
  const std::vector<std::uint64_t> open = open_sockets(context);
  const Inodes first = known_sockets(evidence);
  // A ring can take on sockets that no table shows.
  const bool opened = !evidence.rings.empty() ||
                      std::any_of(open.begin(), open.end(), [&first](std::uint64_t inode) {
                        return first.count(inode) == 0;
                      });
  if (opened) add_opened(context, devices, evidence);
  const Inodes all = known_sockets(evidence);
  Wanted wanted = wanted_of(evidence);
  wanted.query.unix_sockets = false;  // they count nothing
  const DiagAnswer answer = dump_all(context, wanted, false);
  // Several rows may have one inode: those of MPTCP's subflows have that of its socket.
  std::unordered_map<std::uint64_t, std::vector<const DiagRow*>> now;
  for (const DiagRow& row : answer.rows) now[row.inode].push_back(&row);
  for (DiagRow& row : evidence.diag) {
    const auto found = now.find(row.inode);
    if (found == now.end()) continue;
    const auto same =
        std::find_if(found->second.begin(), found->second.end(), [&row](const DiagRow* candidate) {
          return candidate->cookie == row.cookie && candidate->protocol == row.protocol;
        });
    if (same == found->second.end()) continue;
    const DiagRow& later = **same;
    row.drops.after = later.drops.before;
    if (!row.tcp || !later.tcp) continue;
    row.tcp->bytes_acked.after = later.tcp->bytes_acked.before;
    row.tcp->bytes_received.after = later.tcp->bytes_received.before;
    row.tcp->segs_in.after = later.tcp->segs_in.before;
    row.tcp->segs_out.after = later.tcp->segs_out.before;
  }
  for (const auto& [inode, rows] : now) {
    if (all.count(inode) == 0 || first.count(inode) != 0) continue;
    for (const DiagRow* row : rows) evidence.diag.push_back(counted_from_zero(*row));
  }
  for (const FdEntry& entry : evidence.fds) {
    if (entry.kind == ObjectKind::kSocket &&
        !std::binary_search(open.begin(), open.end(), entry.inode)) {
      evidence.vanished_sockets.push_back(entry.inode);
    }
  }
}

}  // namespace whylate::stack::collect
