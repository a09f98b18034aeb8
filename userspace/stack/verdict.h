// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stack/evidence.h"
#include "stack/traffic.h"

// What the decision says, as values; texts are whole sentences without layout. Names from the
// target are escaped already.

namespace whylate::stack {

/// Who carries packets. The order is that of the table in traits.cpp.
enum class Stack {
  kNone,     ///< no network object at all
  kUnknown,  ///< there is one, and it cannot be told which stack it belongs to
  kMixed,    ///< verdict of a process only
  kKernel,
  kKernelBusyPoll,
  kIoUring,
  kSmc,
  kMptcp,
  kAfXdp,
  kAfPacket,
  kTun,
  kUserDriver,  ///< vfio or uio, without a mark of DPDK or VPP
  kDpdk,
  kFStack,
  kVpp,
  kOnload,
  kTcpDirect,
  kEfVi,
  kExasock,
  kVma,
  kXlio,
  kRdma,
};

/// How sure a verdict is.
enum class Confidence {
  kUnknown,   ///< what would decide could not be read
  kPossible,  ///< libraries, environment, names, spinning: never more from these
  kLikely,    ///< a kernel object, and nothing seen to move
  kCertain,   ///< a kernel object, and its counters moved in the window
};

/// What tcpdump shows of a direction. kPartly is for a whole process only.
enum class Sight { kUnknown, kSees, kBlind, kPartly };

/// What ss shows of a socket.
enum class Listing {
  kLists,
  kHides,
  kShadow,  ///< it lists a kernel socket that does not carry the traffic
};

/// One direction of one socket.
struct Direction {
  Stack stack = Stack::kUnknown;
  Sight tcpdump = Sight::kUnknown;
  std::string why;                       ///< why tcpdump sees it, or not
  std::optional<std::uint64_t> packets;  ///< moved in the window; empty: not countable
  std::optional<std::uint64_t> bytes;
};

/// One socket, or one device handle that packets pass without a socket.
struct SocketVerdict {
  std::optional<int> fd;  ///< empty: held by no table (io_uring's direct descriptors)
  /// Sockets this stands for: more than one for those opened and closed within the window.
  std::size_t count = 1;
  std::uint64_t inode = 0;
  std::string kind;  ///< "tcp", "udp", "xdp", "packet", "tun", "onload:tcp", "vfio"...
  Stack stack = Stack::kUnknown;
  Confidence confidence = Confidence::kUnknown;
  bool fell_back = false;  ///< on the kernel though an accelerator was asked for
  std::string remedy;      ///< after that: what puts it back; "" when it is not known
  std::string local;
  std::string remote;
  std::string interface;  ///< it is bound to, or its packets pass; "": any, or not known
  std::string detail;     ///< "native, zero copy, queue 3 of eth0"; "" when there is nothing to add
  Direction rx;
  Direction tx;
  Listing ss = Listing::kHides;
  std::string ss_command;  ///< which ss lists it; "": none
  std::string why_ss;
  std::vector<Fact> evidence;

  /// Packets of both directions that were counted; nothing when neither was.
  std::optional<std::uint64_t> moved() const;
};

/// What one stack carried of the packets that could be counted.
struct Share {
  Stack stack = Stack::kUnknown;
  std::size_t sockets = 0;
  std::uint64_t packets = 0;
  std::optional<double> share;  ///< of all counted packets; empty when none were counted
  bool countable = true;        ///< false: some of its packets cannot be counted from outside
};

/// Counts of the window, summed up. Empty: not counted.
struct TrafficSummary {
  std::uint64_t window_ns = 0;
  std::optional<std::uint64_t> kernel_rx_packets;  ///< delivered to this process's kernel sockets
  std::optional<std::uint64_t> kernel_tx_packets;
  std::optional<std::uint64_t> tap_rx_packets;  ///< at tcpdump's position, all interfaces below
  std::optional<std::uint64_t> tap_tx_packets;
  std::optional<std::uint64_t> xdp_redirects;  ///< into maps of this process
  std::optional<std::uint64_t> xdp_redirects_failed;
  std::optional<std::uint64_t> direct_tx_packets;
  std::optional<std::uint64_t> nic_rx_packets;  ///< without loopback
  std::optional<std::uint64_t> nic_tx_packets;
};

/// Of the finding that says why sockets fell back; its text is `fell_back_why`.
constexpr const char* kFellBack = "fell_back";

/// A sentence worth reading, with what to do about it ("" when nothing).
struct StackFinding {
  std::string id;
  std::string text;
  std::string remedy;
};

/// The answer of `whylate stack`.
struct StackReport {
  ProcessFacts process;  ///< raw strings
  Stack verdict = Stack::kUnknown;
  Confidence confidence = Confidence::kUnknown;
  std::string headline;           ///< one sentence
  std::optional<bool> fell_back;  ///< empty: no accelerator is in play
  std::string fell_back_why;
  std::vector<SocketVerdict> sockets;
  std::size_t unix_sockets = 0;   ///< not judged: no packets
  std::size_t other_sockets = 0;  ///< netlink and others, not judged
  std::vector<Share> shares;      ///< largest first
  TrafficSummary traffic;
  Sight tcpdump_rx = Sight::kUnknown;
  Sight tcpdump_tx = Sight::kUnknown;
  std::string tcpdump_why;
  std::size_t ss_listed = 0;  ///< sockets that one of ss_commands lists
  std::vector<std::string> ss_commands;
  std::string ss_why;
  std::vector<std::string> use_instead;
  std::vector<StackFinding> findings;
  std::vector<Unreadable> could_not_read;
  bool derived_from_source = false;   ///< the verdict's row was never run, only read in source
  std::vector<Interface> interfaces;  ///< for the drawing
  std::vector<InterfaceTraffic> interface_traffic;
  std::vector<RedirectTraffic> redirects;  ///< into maps of this process
  std::uint64_t collect_ns = 0;
};

/// What is known of a stack whoever uses it.
struct StackTraits {
  Stack stack;
  const char* name;   ///< in JSON
  const char* title;  ///< in sentences
  Sight tcpdump_rx;
  const char* why_rx;
  Sight tcpdump_tx;
  const char* why_tx;
  Listing ss;
  const char* why_ss;
  const char* use_instead;  ///< tools, separated by " ; "
  bool run;                 ///< its row was run and compared with real tcpdump and ss
  bool bypass;              ///< its packets do not go through the kernel's sockets
};

/// The traits of a stack.
const StackTraits& traits(Stack stack);

/// "certain", "likely", "possible", "unknown".
const char* name(Confidence confidence);
/// "sees", "blind", "partly", "unknown".
const char* name(Sight sight);
/// "lists", "hides", "shadow".
const char* name(Listing listing);

}  // namespace whylate::stack
