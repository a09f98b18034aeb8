// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

#include "base/result.h"

namespace CLI {
class App;
}

namespace whylate::echo {

struct ServerOptions;
class Server;
class Fd;

/// Which network stack the server takes its requests from.
enum class StackKind { kKernel, kBusyPoll, kAfXdp, kPacket, kTap };

struct StackOptions {
  StackKind kind = StackKind::kKernel;
  std::string
      device;  ///< AF_XDP, packet; empty: the one that has the listening address. TAP: its name
  bool native = false;         ///< AF_XDP: in the driver; else generic, on the kernel's packets
  unsigned queue = 0;          ///< AF_XDP: the receive queue
  bool kernel_socket = false;  ///< AF_XDP: an ordinary socket for what the program lets pass
  bool ring = false;           ///< packet: memory-mapped rings (TPACKET_V2)
  bool qdisc_bypass = false;   ///< packet: PACKET_QDISC_BYPASS
  int busy_poll_us = 50;
};

/// The same as typed.
struct RawStack {
  std::string stack = "kernel";
  std::string xdp_mode = "generic";
};

const char* name_of(StackKind kind);

/// Whether the server handles whole frames itself, without a socket of the kernel's IP stack.
bool takes_frames(StackKind kind);

/// Adds the options of the server's stack to its command line.
void add_stack_options(CLI::App& sub, RawStack& raw, StackOptions& stack);

/// Converts what was typed and checks it against the rest of the server's options (kUsage).
Status finish_stack_options(const CLI::App& sub, const RawStack& raw, ServerOptions& server);

/// Serves through AF_XDP, a packet socket or a TAP interface: prints the ready line, returns when
/// the stop was requested. Errors: kUnsupported without the privilege, or when it was not built in.
Status serve_frames(Server& server);
Status serve_af_xdp(Server& server);
Status serve_packet(Server& server);
Status serve_tap(Server& server);

/// SO_BUSY_POLL and its relatives on a bound socket; kUnsupported without CAP_NET_ADMIN.
Status set_busy_poll(const Fd& socket, const StackOptions& stack);
/// The same for an epoll (Linux 6.9 and later; before, net.core.busy_poll rules).
void set_busy_poll_of_epoll(const Fd& poller, const StackOptions& stack);
/// Says on stderr whether busy polling can have had an effect on this socket: only packets that
/// came through a NAPI instance can be polled for.
void report_busy_poll(const Fd& socket, const StackOptions& stack, bool any_request);

}  // namespace whylate::echo
