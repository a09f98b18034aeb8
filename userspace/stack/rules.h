// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "stack/verdict.h"
#include "stack/view.h"

// The inside of the decision. Every subject (a socket, or handles of one kind of device) is judged
// by the first row of the table in decide.cpp that applies to it.

namespace whylate::stack {

/// What is judged: a socket by its inode, or the descriptors of one device kind together.
struct Subject {
  ObjectKind object = ObjectKind::kSocket;
  std::uint64_t inode = 0;
  std::vector<const FdEntry*> fds;  ///< empty: held by an io_uring only
  std::string protocol;             ///< base name in lower case: "tcp", "xdp"; "" for devices
  const DiagRow* row = nullptr;

  const FdEntry* fd() const { return fds.empty() ? nullptr : fds.front(); }
  bool is_inet() const;  ///< TCP, UDP and others that inet_diag or raw_diag lists
};

/// One row of the decision table. `judge` may count on a verdict whose fd, kind and addresses are
/// filled in.
struct Rule {
  const char* id;
  bool (*applies)(const View& view, const Subject& subject);
  void (*judge)(const View& view, const Subject& subject, SocketVerdict& verdict);
};

// rules_kernel.cpp
bool is_kernel_socket(const View& view, const Subject& subject);
void judge_kernel(const View& view, const Subject& subject, SocketVerdict& verdict);
bool is_smc(const View& view, const Subject& subject);
void judge_smc(const View& view, const Subject& subject, SocketVerdict& verdict);
bool is_mptcp(const View& view, const Subject& subject);
void judge_mptcp(const View& view, const Subject& subject, SocketVerdict& verdict);

// rules_xdp.cpp, rules_link.cpp
bool is_xdp(const View& view, const Subject& subject);
void judge_xdp(const View& view, const Subject& subject, SocketVerdict& verdict);
bool is_packet(const View& view, const Subject& subject);
void judge_packet(const View& view, const Subject& subject, SocketVerdict& verdict);
bool is_tun(const View& view, const Subject& subject);
void judge_tun(const View& view, const Subject& subject, SocketVerdict& verdict);

// rules_offload.cpp: stacks that stand in for sockets
bool is_onload(const View& view, const Subject& subject);
void judge_onload(const View& view, const Subject& subject, SocketVerdict& verdict);
bool is_exasock(const View& view, const Subject& subject);
void judge_exasock(const View& view, const Subject& subject, SocketVerdict& verdict);
bool is_offloaded(const View& view, const Subject& subject);
void judge_offloaded(const View& view, const Subject& subject, SocketVerdict& verdict);
bool is_offload_shadow(const View& view, const Subject& subject);
void judge_offload_shadow(const View& view, const Subject& subject, SocketVerdict& verdict);
bool is_xlio_accepted(const View& view, const Subject& subject);
void judge_xlio_accepted(const View& view, const Subject& subject, SocketVerdict& verdict);
bool is_vpp_session(const View& view, const Subject& subject);
void judge_vpp_session(const View& view, const Subject& subject, SocketVerdict& verdict);

// rules_device.cpp: handles of devices
bool is_user_driver(const View& view, const Subject& subject);
void judge_user_driver(const View& view, const Subject& subject, SocketVerdict& verdict);
bool is_verbs(const View& view, const Subject& subject);
void judge_verbs(const View& view, const Subject& subject, SocketVerdict& verdict);
bool is_sfc(const View& view, const Subject& subject);
void judge_sfc(const View& view, const Subject& subject, SocketVerdict& verdict);
bool is_exanic(const View& view, const Subject& subject);
void judge_exanic(const View& view, const Subject& subject, SocketVerdict& verdict);
bool is_dpdk_secondary(const View& view, const Subject& subject);
void judge_dpdk_secondary(const View& view, const Subject& subject, SocketVerdict& verdict);

/// What makes a process a user of DPDK, VPP or F-Stack beyond the kernel object its packets use.
struct Framework {
  Stack stack = Stack::kUnknown;  ///< kUnknown: none
  /// kLikely: an open run-time directory, telemetry, or a peer; kPossible: names and libraries.
  Confidence confidence = Confidence::kUnknown;
  std::string why;
};
Framework framework(const View& view);

// fallback.cpp
/// An accelerator that was asked for or is loaded.
struct Accelerator {
  Stack stack = Stack::kUnknown;
  std::string sign;        ///< "libonload.so is mapped"
  bool loaded = false;     ///< its library is in the process; else only the environment asks
  std::string not_loaded;  ///< why it could not be loaded, when that is known
  std::string remedy;      ///< what puts a socket on it that the kernel carries; "" when unknown
  std::string configured;  ///< a setting by which sockets are meant to stay on the kernel
};
std::vector<Accelerator> accelerators(const View& view);
/// Marks a kernel socket that moved packets although an accelerator was asked for.
void judge_fallback(const View& view, const std::vector<Accelerator>& accelerators,
                    SocketVerdict& verdict, std::vector<StackFinding>& findings);

// rules_closed.cpp
/// Sockets that were opened and closed within the window: no table shows them, their counts do. One
/// verdict for each protocol, apart from those on loopback.
std::vector<SocketVerdict> judge_closed(const View& view, const std::set<std::uint64_t>& judged);

// rules_text.cpp: sentences used in more than one place
/// Fills stack, both directions and the ss line from the table of traits.
void use_traits(SocketVerdict& verdict, Stack stack);
/// Keeps at most three findings of one id: a server may have thousands of alike sockets.
void add_finding(std::vector<StackFinding>& findings, StackFinding finding);
void add_fact(SocketVerdict& verdict, std::string source, std::string text);
/// "/proc/PID/fd/N" of a descriptor.
std::string fd_source(const View& view, const FdEntry& fd);
/// The ss command that lists a socket of this protocol; `fd`: with its process.
std::string ss_command(const std::string& protocol, bool fd);
/// "1 packet", "2,000 packets".
std::string packets_text(std::uint64_t packets);
bool is_loopback_address(const std::string& address);
/// True when some source that begins or ends with this could not be read.
bool unreadable(const Evidence& evidence, const std::string& word);
std::string interface_name(const View& view, std::uint32_t ifindex);

}  // namespace whylate::stack
