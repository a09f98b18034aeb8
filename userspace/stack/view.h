// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stack/evidence.h"
#include "stack/traffic.h"

namespace whylate::stack {

/// Evidence and counts, joined by inode, descriptor and interface, so that a rule asks in one line.
/// Borrows both; they must outlive it.
class View {
 public:
  /// `traffic` is null when nothing was counted.
  View(const Evidence& evidence, const TrafficWindow* traffic);

  const Evidence& evidence() const { return evidence_; }
  const TrafficWindow* traffic() const { return traffic_; }

  const DiagRow* diag(std::uint64_t inode) const;
  const SocketTraffic* counted(std::uint64_t inode) const;
  /// What the iterator knows, else what a borrowed descriptor told.
  const SocketFacts* facts(std::uint64_t inode) const;
  const SmcRow* smc(std::uint64_t inode) const;
  std::vector<const MapEntry*> maps_of(std::uint64_t inode) const;
  const Interface* interface(std::uint32_t ifindex) const;
  const InterfaceTraffic* interface_traffic(std::uint32_t ifindex) const;

  /// The io_uring instance in whose table of files a socket is registered.
  const IoUring* ring_of(std::uint64_t inode) const;
  bool has_fd_of(ObjectKind kind) const { return count_fds(kind) > 0; }
  std::size_t count_fds(ObjectKind kind) const;
  /// The epoll instance that watches a descriptor and polls the device in its waits.
  const EpollFacts* polling_epoll(int fd) const;
  bool maps_kind(ObjectKind kind) const;
  bool is_orphan(std::uint64_t inode) const;

  /// A library that is mapped and not proven to be something else under its name.
  const Library* library(LibraryKind kind) const;
  /// A mapped file with the library's name that is not the library.
  const Library* impostor(LibraryKind kind) const;
  /// The value of a variable of the environment, or nothing.
  std::optional<std::string> environment(std::string_view name) const;
  /// The first variable that begins so, as "NAME=VALUE".
  std::optional<std::string> environment_with_prefix(std::string_view prefix) const;

  /// Map ids of the xskmaps the process holds.
  const std::set<std::uint32_t>& xsk_maps() const { return xsk_maps_; }
  /// Redirects into maps that the process holds, or into the slot its socket is bound to.
  const std::vector<RedirectTraffic>& own_redirects() const { return own_redirects_; }
  std::vector<std::uint64_t> xdp_inodes() const { return xdp_inodes_; }

  /// Packets counted on a kernel socket, from the window's counts, else from tcp_info.
  std::optional<std::uint64_t> kernel_rx(std::uint64_t inode) const;
  std::optional<std::uint64_t> kernel_tx(std::uint64_t inode) const;
  /// How they were counted, as the source of a fact.
  const char* counted_by(std::uint64_t inode) const;

  /// Packets the interfaces other than loopback passed.
  std::optional<std::uint64_t> nic_rx() const;
  std::optional<std::uint64_t> nic_tx() const;

  /// Threads that ran in user mode nearly all the time and never slept by themselves.
  std::vector<const ThreadUse*> spinners() const;
  bool thread_named(std::string_view prefix) const;

 private:
  void join_redirects();
  void join_epolls();
  /// 0 where everything was counted, nothing where it was not.
  std::optional<std::uint64_t> nothing_seen(std::uint64_t inode) const;
  /// What tcp_info says, of all subflows together.
  std::optional<std::uint64_t> segments(std::uint64_t inode, Counter TcpBytes::*which) const;

  const Evidence& evidence_;
  const TrafficWindow* traffic_;
  std::unordered_map<std::uint64_t, const DiagRow*> diag_;
  std::unordered_multimap<std::uint64_t, const DiagRow*> subflows_;
  std::set<std::uint64_t> uncounted_;  ///< sockets of protocols that no hook counts
  std::unordered_map<std::uint64_t, const SocketTraffic*> counted_;
  std::unordered_map<std::uint64_t, SocketFacts> facts_;
  std::unordered_map<std::uint64_t, const IoUring*> rings_;
  std::map<ObjectKind, std::size_t> fds_by_kind_;
  std::unordered_map<int, const EpollFacts*> polling_;
  std::set<std::uint64_t> orphans_;
  std::set<std::uint32_t> xsk_maps_;
  std::vector<std::uint64_t> xdp_inodes_;
  std::vector<RedirectTraffic> own_redirects_;
};

}  // namespace whylate::stack
