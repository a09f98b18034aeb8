// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "echo/address.h"
#include "echo/stack.h"

namespace whylate::echo {

enum class Proto { kUdp, kTcp };
enum class ServerMode { kBlocking, kEpoll, kSpin };

const char* name_of(Proto proto);

struct ServerOptions {
  Proto proto = Proto::kUdp;
  Endpoint listen;
  ServerMode mode = ServerMode::kBlocking;
  int threads = 1;
  bool reuseport = false;  ///< UDP: a socket for each thread
  bool drain = false;      ///< epoll: read until the socket is empty, not once per event
  std::vector<int> cpus;   ///< thread i runs on cpus[i % size]; empty: anywhere
  std::int64_t work_ns = 0;
  std::int64_t sleep_ns = 0;
  std::int64_t lock_hold_ns = 0;  ///< 0: no lock
  std::int64_t lock_every_ns = 0;
  std::optional<Endpoint> group;
  std::optional<Interface> interface;
  int rcvbuf_bytes = 0;         ///< 0: the system's default
  std::uint64_t count = 0;      ///< 0: until a signal
  std::size_t size_bytes = 64;  ///< TCP: bytes of a message
  bool nagle = false;
  std::string log_file;
  StackOptions stack;
};

struct ClientOptions {
  Proto proto = Proto::kUdp;
  Endpoint to;
  std::optional<std::int64_t> rate_millihertz;  ///< nothing: closed loop
  std::uint64_t burst = 1;
  std::uint64_t window = 1;
  std::int64_t gap_ns = 0;
  bool block = false;  ///< closed loop: wait in poll() instead of spinning
  std::uint64_t count = 10'000;
  std::size_t size_bytes = 64;
  std::vector<int> cpus;
  std::optional<Endpoint> bind;
  std::optional<Interface> interface;
  int connections = 1;  ///< sockets in all, a multiple of senders
  int senders = 1;      ///< threads
  std::int64_t timeout_ns = 1'000'000'000;
  std::uint64_t first_id = 0;
  std::uint64_t seed = 1;
  bool stamps = false;
  bool nagle = false;
  bool json = false;
  std::string requests_file;
  std::string hdr_file;
  std::string hdr_tag;
};

/// What to print when the user asked for help.
struct HelpText {
  std::string text;
};

using Command = std::variant<ServerOptions, ClientOptions, HelpText>;

/// Command line to options, ranges checked; every mistake is ExitCode::kUsage with one line.
Result<Command> parse_args(int argc, const char* const* argv);

/// `0,2-3` to {0, 2, 3}; CPUs are checked against the highest the kernel interface can name, not
/// against this host.
Result<std::vector<int>> parse_cpu_list(const std::string& text);

}  // namespace whylate::echo
