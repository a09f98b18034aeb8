// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "echo/options.h"
#include "echo/stack.h"

namespace whylate::echo {
namespace {

// The program's map has a slot for each queue.
constexpr unsigned kMaxQueue = 63;

Error usage(std::string message) { return Error{ExitCode::kUsage, std::move(message)}; }

/// Ways that need a socket of the kernel's IP stack.
constexpr const char* kSocketWays[] = {"--drain",          "--batch",  "--peek",
                                       "--pause-us",       "--send",   "--reply-thread",
                                       "--reply-after-us", "--answer", "--reply-bytes"};

}  // namespace

const char* name_of(StackKind kind) {
  switch (kind) {
    case StackKind::kKernel:
      return "kernel";
    case StackKind::kBusyPoll:
      return "busy-poll";
    case StackKind::kAfXdp:
      return "af-xdp";
    case StackKind::kPacket:
      return "packet";
    case StackKind::kTap:
      return "tap";
  }
  return "?";
}

bool takes_frames(StackKind kind) {
  return kind == StackKind::kAfXdp || kind == StackKind::kPacket || kind == StackKind::kTap;
}

void add_stack_options(CLI::App& sub, RawStack& raw, StackOptions& stack) {
  sub.add_option("--stack", raw.stack,
                 "UDP: where requests are taken from: kernel (a socket), busy-poll (a socket that "
                 "polls the device before it sleeps), af-xdp, packet (AF_PACKET), tap (a TAP "
                 "interface of its own)")
      ->check(CLI::IsMember({"kernel", "busy-poll", "af-xdp", "packet", "tap"}))
      ->capture_default_str();
  sub.add_option(
      "--device", stack.device,
      "af-xdp, packet: network device (default: the one with the --listen address); tap: "
      "name of the interface (default: wltap0)");
  sub.add_option("--xdp-mode", raw.xdp_mode, "af-xdp: generic (any device) or native (its driver)")
      ->check(CLI::IsMember({"generic", "native"}))
      ->capture_default_str();
  sub.add_option("--queue", stack.queue, "af-xdp: receive queue")
      ->check(CLI::Range(0U, kMaxQueue))
      ->capture_default_str();
  sub.add_flag("--kernel-socket", stack.kernel_socket,
               "af-xdp: also open an ordinary socket for requests that do not come to the queue");
  sub.add_flag("--packet-ring", stack.ring, "packet: memory-mapped rings, both directions");
  sub.add_flag("--qdisc-bypass", stack.qdisc_bypass,
               "packet: replies go to the driver directly (PACKET_QDISC_BYPASS)");
  sub.add_option("--busy-poll-us", stack.busy_poll_us,
                 "busy-poll: how long to poll before sleeping, in us")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
}

Status finish_stack_options(const CLI::App& sub, const RawStack& raw, ServerOptions& server) {
  StackOptions& stack = server.stack;
  stack.kind = raw.stack == "busy-poll" ? StackKind::kBusyPoll
               : raw.stack == "af-xdp"  ? StackKind::kAfXdp
               : raw.stack == "packet"  ? StackKind::kPacket
               : raw.stack == "tap"     ? StackKind::kTap
                                        : StackKind::kKernel;
  stack.native = raw.xdp_mode == "native";
  struct Rule {
    const char* option;
    bool allowed;
    const char* needs;
  };
  const bool xdp = stack.kind == StackKind::kAfXdp;
  const bool packet = stack.kind == StackKind::kPacket;
  const Rule rules[] = {
      {"--device", takes_frames(stack.kind), "af-xdp, packet or tap"},
      {"--xdp-mode", xdp, "af-xdp"},
      {"--queue", xdp, "af-xdp"},
      {"--kernel-socket", xdp, "af-xdp"},
      {"--packet-ring", packet, "packet"},
      {"--qdisc-bypass", packet, "packet"},
      {"--busy-poll-us", stack.kind == StackKind::kBusyPoll, "busy-poll"},
  };
  for (const Rule& rule : rules) {
    if (sub.count(rule.option) > 0 && !rule.allowed) {
      return usage(fmt::format("{} needs --stack {}", rule.option, rule.needs));
    }
  }
  if (stack.kind == StackKind::kKernel) return Done{};
  if (server.uring.direct) return usage("--uring-direct needs --stack kernel");
  const std::string chosen = fmt::format("--stack {}", raw.stack);
  if (server.proto != Proto::kUdp) return usage(chosen + " needs --proto udp");
  if (!takes_frames(stack.kind)) return Done{};
  if (server.threads != 1 || server.reuseport) return usage(chosen + " has one thread");
  if (server.mode != ServerMode::kBlocking && server.mode != ServerMode::kSpin)
    return usage(chosen + " needs --mode blocking or spin");
  for (const char* way : kSocketWays) {
    if (sub.count(way) > 0) return usage(fmt::format("{} needs --stack kernel or busy-poll", way));
  }
  if (server.group) return usage(chosen + " answers at its own address, not a group");
  if (server.rcvbuf_bytes > 0) return usage("--rcvbuf needs --stack kernel or busy-poll");
  if (server.listen.port() == 0) return usage(chosen + " needs a port in --listen");
  return Done{};
}

}  // namespace whylate::echo
