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

/// How a serving thread waits for requests.
enum class ServerMode { kBlocking, kEpoll, kPoll, kSelect, kSpin, kUring };

/// The call that puts a reply on its way.
enum class SendWay { kPlain, kSendmmsg, kGso, kUring, kSendfile, kSplice };

const char* name_of(Proto proto);

/// How an io_uring is set up and used.
struct UringOptions {
  bool multishot = false;  ///< one receive for all requests, with provided buffers
  bool defer = false;      ///< IORING_SETUP_DEFER_TASKRUN
  bool sqpoll = false;     ///< IORING_SETUP_SQPOLL
  bool async = false;      ///< IOSQE_ASYNC: everything is done by the kernel's worker threads
  bool direct = false;     ///< sockets live in the ring's own table: no descriptor shows them
};

struct ServerOptions {
  Proto proto = Proto::kUdp;
  Endpoint listen;
  ServerMode mode = ServerMode::kBlocking;
  int threads = 1;
  bool reuseport = false;         ///< UDP: a socket for each thread
  bool drain = false;             ///< epoll: read until the socket is empty, not once per event
  bool share_epoll = false;       ///< epoll: one epoll for all threads
  bool hand_off = false;          ///< epoll: a thread waits, others read
  int batch = 1;                  ///< UDP: datagrams a recvmmsg() takes, receives given to io_uring
  bool peek = false;              ///< look at each request with MSG_PEEK before reading it
  std::size_t read_bytes = 0;     ///< TCP: bytes a read asks for; 0: the rest of the message
  int rcvlowat_bytes = 0;         ///< TCP: SO_RCVLOWAT; 0: the system's default
  int defer_accept_s = 0;         ///< TCP: TCP_DEFER_ACCEPT in seconds; 0: off
  std::int64_t pause_ns = 0;      ///< leave the socket alone for so long; 0: never
  std::uint64_t pause_every = 1;  ///< ... before every so many requests of a thread
  std::vector<int> cpus;          ///< thread i runs on cpus[i % size]; empty: anywhere
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
  SendWay send = SendWay::kPlain;
  bool reply_thread = false;          ///< a thread of its own sends all replies
  std::int64_t reply_after_ns = 0;    ///< it sends each so long after it was given to it
  std::optional<int> answer_thread;   ///< only this thread's requests are answered; -1: none
  std::size_t reply_bytes = 0;        ///< the request over and over, to this size; 0: as it came
  std::size_t reply_split_bytes = 0;  ///< TCP: the reply in two writes, the first of this size
  std::string log_file;
  UringOptions uring;
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
  int connections = 1;              ///< sockets in all, a multiple of senders
  int senders = 1;                  ///< threads
  std::uint64_t coalesce = 1;       ///< TCP: requests that go out as one write
  std::size_t segment_bytes = 0;    ///< TCP: a request goes out in pieces of this size; 0: whole
  std::int64_t segment_gap_ns = 0;  ///< ... so long apart
  bool fresh_sockets = false;       ///< each request from a socket of its own
  int rcvbuf_bytes = 0;             ///< 0: large enough to lose nothing
  std::int64_t read_every_ns = 0;   ///< a slow reader: so long between two reads of a socket
  std::size_t reply_bytes = 0;      ///< size of a reply, as the server's; 0: as the request
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

/// Bytes of a reply to a request of the given size.
inline std::size_t reply_size(std::size_t request_bytes, std::size_t reply_bytes) {
  return reply_bytes > 0 ? reply_bytes : request_bytes;
}

/// `0,2-3` to {0, 2, 3}; CPUs are checked against the highest the kernel interface can name, not
/// against this host.
Result<std::vector<int>> parse_cpu_list(const std::string& text);

}  // namespace whylate::echo
