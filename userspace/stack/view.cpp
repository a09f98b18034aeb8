// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/view.h"

#include <algorithm>

namespace whylate::stack {
namespace {

constexpr int kMptcp = 262;                     // IPPROTO_MPTCP
constexpr std::uint32_t kXskMap = 17;           // BPF_MAP_TYPE_XSKMAP
constexpr std::uint64_t kTicksPerSecond = 100;  // USER_HZ, fixed in the kernel's interface

/// The later reading wins where it knows more.
template <typename T>
void prefer(std::optional<T>& into, const std::optional<T>& from) {
  if (from) into = from;
}

void merge(SocketFacts& into, const SocketFacts& from) {
  if (into.source.empty()) into.source = from.source;
  into.inode = from.inode;
  prefer(into.busy_poll_us, from.busy_poll_us);
  prefer(into.prefer_busy_poll, from.prefer_busy_poll);
  prefer(into.napi_id, from.napi_id);
  prefer(into.qdisc_bypass, from.qdisc_bypass);
  prefer(into.xdp_ifindex, from.xdp_ifindex);
  prefer(into.xdp_queue, from.xdp_queue);
  prefer(into.xdp_zero_copy, from.xdp_zero_copy);
  prefer(into.xdp_rx_dropped, from.xdp_rx_dropped);
  prefer(into.xdp_ring_full, from.xdp_ring_full);
}

std::optional<std::uint64_t> sum_devices(const Evidence& evidence, Counter DeviceCounters::*which) {
  std::optional<std::uint64_t> sum;
  for (const Interface& interface : evidence.interfaces) {
    if (interface.loopback) continue;
    const std::optional<std::uint64_t> moved = (interface.counters.*which).moved();
    if (moved) sum = sum.value_or(0) + *moved;
  }
  return sum;
}

}  // namespace

View::View(const Evidence& evidence, const TrafficWindow* traffic)
    : evidence_(evidence),
      traffic_(traffic),
      orphans_(evidence.orphans.begin(), evidence.orphans.end()) {
  for (const DiagRow& row : evidence.diag) {
    // MPTCP's subflows are TCP rows with the inode of its socket.
    if (row.protocol == kMptcp) diag_[row.inode] = &row;
    diag_.emplace(row.inode, &row);
    if (row.tcp) subflows_.emplace(row.inode, &row);
  }
  for (const SocketFacts& facts : evidence.socket_facts) merge(facts_[facts.inode], facts);
  if (traffic_ != nullptr) {
    for (const SocketTraffic& socket : traffic_->sockets) counted_.emplace(socket.inode, &socket);
    for (const SocketFacts& facts : traffic_->socket_facts) merge(facts_[facts.inode], facts);
  }
  // xdp_diag knows the queue too.
  for (const DiagRow& row : evidence.diag) {
    if (row.family != DiagFamily::kXdp) continue;
    SocketFacts facts;
    facts.source = "xdp_diag";
    if (row.ifindex != 0) facts.xdp_ifindex = row.ifindex;
    facts.xdp_queue = row.queue;
    facts.xdp_zero_copy = row.zero_copy;
    facts.inode = row.inode;
    merge(facts_[row.inode], facts);
  }
  for (const IoUring& ring : evidence.rings) {
    for (const std::uint64_t inode : ring.registered_sockets) rings_.emplace(inode, &ring);
  }
  for (const FdEntry& fd : evidence.fds) {
    ++fds_by_kind_[fd.kind];
    for (const char* protocol : {"MPTCP", "SCTP", "DCCP"}) {
      if (fd.protocol.rfind(protocol, 0) == 0) uncounted_.insert(fd.inode);
    }
    if (fd.bpf && fd.kind == ObjectKind::kBpfMap && fd.bpf->type == kXskMap) {
      xsk_maps_.insert(fd.bpf->id);
    }
    if (fd.kind == ObjectKind::kSocket && fd.protocol == "XDP" &&
        std::find(xdp_inodes_.begin(), xdp_inodes_.end(), fd.inode) == xdp_inodes_.end()) {
      xdp_inodes_.push_back(fd.inode);
    }
  }
  join_redirects();
  join_epolls();
}

void View::join_epolls() {
  std::map<int, const EpollFacts*> instances;
  for (const EpollFacts& epoll : evidence_.epolls) {
    if (epoll.busy_poll_us > 0) instances[epoll.fd] = &epoll;
  }
  if (traffic_ != nullptr) {
    for (const EpollFacts& epoll : traffic_->epolls) {
      if (epoll.busy_poll_us > 0) instances[epoll.fd] = &epoll;
    }
  }
  if (instances.empty()) return;
  for (const FdEntry& fd : evidence_.fds) {
    const auto instance = instances.find(fd.fd);
    if (fd.kind != ObjectKind::kEventPoll || instance == instances.end()) continue;
    for (const int watched : fd.epoll_fds) polling_[watched] = instance->second;
  }
}

void View::join_redirects() {
  if (traffic_ == nullptr) return;
  for (const RedirectTraffic& redirect : traffic_->redirects) {
    if (redirect.map_type != kXskMap) continue;
    bool own = xsk_maps_.count(redirect.map_id) > 0;
    // A process that got its sockets from a privileged helper does not hold the map.
    for (std::size_t i = 0; !own && i < xdp_inodes_.size(); ++i) {
      const SocketFacts* known = facts(xdp_inodes_[i]);
      own = known != nullptr && known->xdp_ifindex == redirect.from_ifindex &&
            known->xdp_queue == redirect.index;
    }
    if (own) own_redirects_.push_back(redirect);
  }
}

const DiagRow* View::diag(std::uint64_t inode) const {
  const auto found = diag_.find(inode);
  return found == diag_.end() ? nullptr : found->second;
}

const SocketTraffic* View::counted(std::uint64_t inode) const {
  const auto found = counted_.find(inode);
  return found == counted_.end() ? nullptr : found->second;
}

const SocketFacts* View::facts(std::uint64_t inode) const {
  const auto found = facts_.find(inode);
  return found == facts_.end() ? nullptr : &found->second;
}

const SmcRow* View::smc(std::uint64_t inode) const {
  for (const SmcRow& row : evidence_.smc) {
    if (row.inode == inode) return &row;
  }
  return nullptr;
}

std::vector<const MapEntry*> View::maps_of(std::uint64_t inode) const {
  std::vector<const MapEntry*> found;
  for (const MapEntry& map : evidence_.maps) {
    if (map.kind == ObjectKind::kSocket && map.inode == inode) found.push_back(&map);
  }
  return found;
}

const Interface* View::interface(std::uint32_t ifindex) const {
  for (const Interface& interface : evidence_.interfaces) {
    if (interface.ifindex == ifindex) return &interface;
  }
  return nullptr;
}

const InterfaceTraffic* View::interface_traffic(std::uint32_t ifindex) const {
  if (traffic_ == nullptr) return nullptr;
  for (const InterfaceTraffic& interface : traffic_->interfaces) {
    if (interface.ifindex == ifindex) return &interface;
  }
  return nullptr;
}

const IoUring* View::ring_of(std::uint64_t inode) const {
  const auto found = rings_.find(inode);
  return found == rings_.end() ? nullptr : found->second;
}

std::size_t View::count_fds(ObjectKind kind) const {
  const auto found = fds_by_kind_.find(kind);
  return found == fds_by_kind_.end() ? 0 : found->second;
}

const EpollFacts* View::polling_epoll(int fd) const {
  const auto found = polling_.find(fd);
  return found == polling_.end() ? nullptr : found->second;
}

bool View::maps_kind(ObjectKind kind) const {
  return std::any_of(evidence_.maps.begin(), evidence_.maps.end(),
                     [kind](const MapEntry& map) { return map.kind == kind; });
}

bool View::is_orphan(std::uint64_t inode) const {
  return evidence_.orphans_known && orphans_.count(inode) > 0;
}

const Library* View::library(LibraryKind kind) const {
  for (const Library& library : evidence_.libraries) {
    if (library.kind == kind && library.marks_match != std::optional<bool>(false)) return &library;
  }
  return nullptr;
}

const Library* View::impostor(LibraryKind kind) const {
  for (const Library& library : evidence_.libraries) {
    if (library.kind == kind && library.marks_match == std::optional<bool>(false)) return &library;
  }
  return nullptr;
}

std::optional<std::string> View::environment(std::string_view name) const {
  const std::optional<std::string> entry = environment_with_prefix(std::string(name) + "=");
  if (!entry) return std::nullopt;
  return entry->substr(name.size() + 1);
}

std::optional<std::string> View::environment_with_prefix(std::string_view prefix) const {
  for (const std::string& entry : evidence_.process.environment) {
    if (std::string_view(entry).substr(0, prefix.size()) == prefix) return entry;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> View::kernel_rx(std::uint64_t inode) const {
  const SocketTraffic* socket = counted(inode);
  if (socket != nullptr && socket->rx_packets) return socket->rx_packets;
  if (const auto counted_in = segments(inode, &TcpBytes::segs_in)) return counted_in;
  return socket == nullptr ? nothing_seen(inode) : std::nullopt;
}

std::optional<std::uint64_t> View::kernel_tx(std::uint64_t inode) const {
  const SocketTraffic* socket = counted(inode);
  if (socket != nullptr && socket->tx_packets) return socket->tx_packets;
  if (const auto counted_out = segments(inode, &TcpBytes::segs_out)) return counted_out;
  return socket == nullptr ? nothing_seen(inode) : std::nullopt;
}

std::optional<std::uint64_t> View::segments(std::uint64_t inode, Counter TcpBytes::*which) const {
  std::optional<std::uint64_t> sum;
  const auto [begin, end] = subflows_.equal_range(inode);
  for (auto at = begin; at != end; ++at) {
    const std::optional<std::uint64_t> moved = (*at->second->tcp.*which).moved();
    if (moved) sum = sum.value_or(0) + *moved;
  }
  return sum;
}

std::optional<std::uint64_t> View::nothing_seen(std::uint64_t inode) const {
  if (traffic_ == nullptr || !traffic_->counting || traffic_->lost > 0) return std::nullopt;
  if (uncounted_.count(inode) != 0) return std::nullopt;
  return 0;
}

const char* View::counted_by(std::uint64_t inode) const {
  const SocketTraffic* socket = counted(inode);
  const bool seen = socket != nullptr && (socket->rx_packets || socket->tx_packets);
  return seen || subflows_.count(inode) == 0 ? "tracepoints" : "tcp_info";
}

std::optional<std::uint64_t> View::nic_rx() const {
  return sum_devices(evidence_, &DeviceCounters::rx_packets);
}

std::optional<std::uint64_t> View::nic_tx() const {
  return sum_devices(evidence_, &DeviceCounters::tx_packets);
}

std::vector<const ThreadUse*> View::spinners() const {
  std::vector<const ThreadUse*> found;
  if (traffic_ == nullptr || traffic_->window_ns == 0) return found;
  for (const ThreadUse& thread : evidence_.threads) {
    const std::optional<std::uint64_t> user = thread.user_ticks.moved();
    const std::optional<std::uint64_t> slept = thread.voluntary_switches.moved();
    if (!user || !slept) continue;
    const double seconds = static_cast<double>(traffic_->window_ns) / 1e9;
    const double share = static_cast<double>(*user) / kTicksPerSecond / seconds;
    if (share > 0.7 && static_cast<double>(*slept) < 10 * seconds) found.push_back(&thread);
  }
  return found;
}

bool View::thread_named(std::string_view prefix) const {
  return std::any_of(evidence_.threads.begin(), evidence_.threads.end(),
                     [prefix](const ThreadUse& thread) {
                       return std::string_view(thread.comm).substr(0, prefix.size()) == prefix;
                     });
}

}  // namespace whylate::stack
