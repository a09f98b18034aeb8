// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <charconv>
#include <map>

#include "echo/options_parse.h"

namespace whylate::echo {
namespace {

const std::map<std::string, ServerMode> kModes = {
    {"blocking", ServerMode::kBlocking}, {"epoll", ServerMode::kEpoll},
    {"poll", ServerMode::kPoll},         {"select", ServerMode::kSelect},
    {"spin", ServerMode::kSpin},         {"io_uring", ServerMode::kUring}};
const std::map<std::string, SendWay> kSendWays = {
    {"plain", SendWay::kPlain},    {"sendmmsg", SendWay::kSendmmsg}, {"gso", SendWay::kGso},
    {"io_uring", SendWay::kUring}, {"sendfile", SendWay::kSendfile}, {"splice", SendWay::kSplice}};

template <typename Value>
std::vector<std::string> names_of(const std::map<std::string, Value>& values) {
  std::vector<std::string> names;
  for (const auto& entry : values) names.push_back(entry.first);
  return names;
}

void add_socket_options(CLI::App* sub, RawServer& raw, ServerOptions& server) {
  sub->add_option("--proto", raw.proto, "udp or tcp")
      ->check(CLI::IsMember({"udp", "tcp"}))
      ->capture_default_str();
  sub->add_option("--listen", raw.address, "ADDR:PORT or [ADDR6]:PORT; port 0 takes a free one")
      ->capture_default_str();
  sub->add_option("--threads", server.threads,
                  "UDP: readers of the one socket; TCP, but for blocking: threads that share the "
                  "connections")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  sub->add_flag("--reuseport", server.reuseport,
                "UDP: a socket of its own for each thread (SO_REUSEPORT; with --group each of them "
                "gets every datagram)");
  sub->add_option("--cpu", raw.cpus,
                  "pin thread i to the i-th CPU of this list, such as 1 or 0,2-3");
  sub->add_option("--group", raw.group, "UDP: join this multicast group (ADDR)");
  sub->add_option("--interface", raw.interface,
                  "with --group: interface name, or its IPv4 address");
  sub->add_option("--rcvbuf", server.rcvbuf_bytes, "SO_RCVBUF in bytes")
      ->check(CLI::Range(1, 1 << 30));
  sub->add_option("--size", server.size_bytes, "TCP: bytes of a message")
      ->check(CLI::Range(std::size_t{1}, kMaxTcpBytes))
      ->capture_default_str();
  sub->add_option("--count", server.count, "end after so many requests");
  sub->add_option("--log", server.log_file,
                  "at exit, write a line per read: thread, order, request number, time");
}

void add_receive_options(CLI::App* sub, RawServer& raw, ServerOptions& server) {
  sub->add_option(
         "--mode", raw.mode,
         "how a thread waits: blocking read, epoll, poll, select, spin (non-blocking reads in "
         "a loop), or io_uring")
      ->check(CLI::IsMember(names_of(kModes)))
      ->capture_default_str();
  sub->add_flag("--drain", server.drain,
                "epoll, poll, select: read until the socket is empty, not once per event");
  sub->add_flag("--hand-off", server.hand_off,
                "epoll: one more thread waits and hands readable sockets to the --threads, which "
                "read");
  sub->add_flag("--share-epoll", server.share_epoll, "epoll: one epoll for all threads");
  sub->add_option(
         "--batch", server.batch,
         "UDP: recvmmsg() of up to so many datagrams; io_uring: so many receives at a time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  sub->add_flag("--peek", server.peek, "look at each request with MSG_PEEK before reading it");
  sub->add_option("--read-bytes", server.read_bytes,
                  "TCP: bytes a read asks for; below --size a request takes several reads, above "
                  "it a read may bring several (default: the rest of the message)")
      ->check(CLI::Range(std::size_t{1}, kMaxTcpBytes));
  sub->add_option("--rcvlowat", server.rcvlowat_bytes, "TCP: SO_RCVLOWAT in bytes")
      ->check(CLI::Range(1, 1 << 30));
  sub->add_option("--defer-accept", server.defer_accept_s,
                  "TCP: TCP_DEFER_ACCEPT in seconds; a connection is whole with its first data")
      ->check(CLI::Range(1, 3600));
  sub->add_option("--pause-us", raw.pause_us,
                  "leave the socket alone for so long before every --pause-every-th request")
      ->check(microseconds());
  sub->add_option("--pause-every", server.pause_every, "with --pause-us: requests of a thread")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}))
      ->capture_default_str();
}

void add_uring_options(CLI::App* sub, UringOptions& uring) {
  sub->add_flag("--uring-multishot", uring.multishot,
                "--mode io_uring: one receive that stays, with provided buffers");
  sub->add_flag("--uring-defer", uring.defer,
                "io_uring: completions are worked on when the thread asks for them "
                "(IORING_SETUP_DEFER_TASKRUN)");
  sub->add_flag("--uring-sqpoll", uring.sqpoll,
                "io_uring: a thread of the kernel takes what is submitted (IORING_SETUP_SQPOLL)");
  sub->add_flag("--uring-async", uring.async,
                "io_uring: worker threads of the kernel do it all (IOSQE_ASYNC)");
  sub->add_flag("--uring-direct", uring.direct,
                "--mode and --send io_uring: sockets are in the ring's own table of files, and no "
                "descriptor of the process shows them");
}

void add_work_options(CLI::App* sub, RawServer& raw) {
  sub->add_option("--work-us", raw.work_us,
                  "compute for so long per request (time not spent running does not count)")
      ->check(microseconds());
  sub->add_option("--sleep-us", raw.sleep_us, "sleep for so long per request")
      ->check(microseconds());
  sub->add_option(
         "--lock-us", raw.lock_us,
         "each request takes a mutex that another thread now and then holds for so long, asleep")
      ->check(microseconds());
  sub->add_option("--lock-every,--lock-every-ms", raw.lock_every_ms,
                  "with --lock-us: how often it takes the mutex, in ms")
      ->check(CLI::Range(1, 3'600'000))
      ->capture_default_str();
}

void add_reply_options(CLI::App* sub, RawServer& raw, ServerOptions& server) {
  sub->add_option("--send", raw.send,
                  "how replies leave: plain; sendmmsg and gso (UDP_SEGMENT) gather those of what "
                  "was read at once; io_uring; TCP: sendfile, splice")
      ->check(CLI::IsMember(names_of(kSendWays)))
      ->capture_default_str();
  sub->add_flag("--reply-thread", server.reply_thread, "another thread sends the replies");
  sub->add_option("--reply-after-us", raw.reply_after_us,
                  "it sends each so long after it was given to it; implies --reply-thread")
      ->check(microseconds());
  sub->add_option("--answer", raw.answer,
                  "all; none; or the number of the one thread whose requests are answered")
      ->capture_default_str();
  sub->add_option("--reply-bytes", server.reply_bytes,
                  "size of a reply: the request's bytes over and over (default: as it came)")
      ->check(CLI::Range(std::size_t{1}, kMaxTcpBytes * 16));
  sub->add_option("--reply-split", server.reply_split_bytes,
                  "TCP: two writes for a reply, the first of so many bytes")
      ->check(CLI::Range(std::size_t{1}, kMaxTcpBytes));
  sub->add_flag("--nagle", server.nagle, "TCP: leave Nagle's algorithm on");
}

Status finish_group(const RawServer& raw, ServerOptions& server) {
  auto interface = parse_interface(raw.interface);
  if (!interface) return interface.error();
  server.interface = *interface;
  if (server.interface && raw.group.empty()) return usage("--interface needs --group");
  if (raw.group.empty()) return Done{};
  auto group = parse_endpoint(raw.group, 0);
  if (!group) return group.error();
  if (!group->is_multicast())
    return usage(fmt::format("--group {}: not a multicast address", raw.group));
  if (group->family() != server.listen.family())
    return usage("--group and --listen must be of one address family");
  if (group->family() == AF_INET6 && server.interface && server.interface->index == 0)
    return usage("--interface: an IPv6 group needs the interface's name");
  server.group = *group;
  return Done{};
}

Status finish_answer(const std::string& text, ServerOptions& server) {
  if (text == "all") return Done{};
  int thread = -1;
  if (text != "none") {
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, thread);
    if (parsed.ec != std::errc{} || parsed.ptr != end || thread < 0)
      return usage(fmt::format("--answer {}: all, none, or the number of a thread", text));
  }
  server.answer_thread = thread;
  return Done{};
}

Status check_combination(const ServerOptions& server) {
  const bool tcp = server.proto == Proto::kTcp;
  const bool epoll = server.mode == ServerMode::kEpoll;
  const bool waits =
      epoll || server.mode == ServerMode::kPoll || server.mode == ServerMode::kSelect;
  if (tcp) {
    if (server.group) return usage("--group needs --proto udp");
    if (server.reuseport) return usage("--reuseport needs --proto udp");
    if (server.batch != 1) return usage("--batch needs --proto udp");
    if (server.send == SendWay::kSendmmsg || server.send == SendWay::kGso)
      return usage("--send: sendmmsg and gso need --proto udp");
    if (server.mode == ServerMode::kBlocking && server.threads != 1)
      return usage("--threads: with --proto tcp --mode blocking each connection has its thread");
  } else {
    if (server.send == SendWay::kSendfile || server.send == SendWay::kSplice)
      return usage("--send: sendfile and splice need --proto tcp");
    if (server.read_bytes > 0) return usage("--read-bytes needs --proto tcp");
    if (server.rcvlowat_bytes > 0) return usage("--rcvlowat needs --proto tcp");
    if (server.defer_accept_s > 0) return usage("--defer-accept needs --proto tcp");
    if (server.reply_split_bytes > 0) return usage("--reply-split needs --proto tcp");
    if (server.reply_bytes > kMaxUdpBytes)
      return usage(
          fmt::format("--reply-bytes: a UDP datagram carries at most {} bytes", kMaxUdpBytes));
  }
  if (server.drain && !waits) return usage("--drain needs --mode epoll, poll or select");
  if (server.share_epoll && !epoll) return usage("--share-epoll needs --mode epoll");
  if (server.hand_off && !epoll) return usage("--hand-off needs --mode epoll");
  if (server.share_epoll + server.hand_off + server.reuseport > 1)
    return usage("--share-epoll, --hand-off and --reuseport exclude each other");
  const bool ring = server.mode == ServerMode::kUring;
  const UringOptions& uring = server.uring;
  if (uring.multishot && !ring) return usage("--uring-multishot needs --mode io_uring");
  if ((uring.defer || uring.sqpoll || uring.async) && !ring && server.send != SendWay::kUring)
    return usage("--uring-*: need --mode io_uring or --send io_uring");
  if (uring.defer && uring.sqpoll)
    return usage("--uring-defer and --uring-sqpoll exclude each other");
  if (uring.multishot && (uring.async || server.batch != 1))
    return usage("--uring-multishot excludes --uring-async and --batch");
  if (uring.direct && (!ring || server.send != SendWay::kUring))
    return usage("--uring-direct needs --mode io_uring and --send io_uring");
  if (uring.direct && server.threads != 1) return usage("--uring-direct has one thread");
  if (ring && server.peek) return usage("--peek does not go with --mode io_uring");
  if (server.reply_split_bytes > 0 && server.send != SendWay::kPlain)
    return usage("--reply-split needs --send plain");
  if (server.reply_thread && server.send != SendWay::kPlain)
    return usage("--reply-thread sends --send plain");
  if (server.peek && server.batch != 1) return usage("--peek and --batch exclude each other");
  return Done{};
}

}  // namespace

CLI::App* add_server_options(CLI::App& app, RawServer& raw, ServerOptions& server) {
  auto* sub = app.add_subcommand("server", "answer every request with the bytes it carried");
  add_socket_options(sub, raw, server);
  add_receive_options(sub, raw, server);
  add_uring_options(sub, server.uring);
  add_work_options(sub, raw);
  add_reply_options(sub, raw, server);
  add_stack_options(*sub, raw.stack, server.stack);
  return sub;
}

Result<Command> finish_server_options(const CLI::App& sub, const RawServer& raw,
                                      ServerOptions server) {
  server.proto = raw.proto == "tcp" ? Proto::kTcp : Proto::kUdp;
  server.mode = kModes.at(raw.mode);
  server.send = kSendWays.at(raw.send);
  auto listen = parse_endpoint(raw.address);
  if (!listen) return listen.error();
  server.listen = *listen;
  if (!raw.cpus.empty()) {
    auto cpus = parse_cpu_list(raw.cpus);
    if (!cpus) return cpus.error();
    server.cpus = *cpus;
  }
  server.work_ns = raw.work_us * kUs;
  server.sleep_ns = raw.sleep_us * kUs;
  server.lock_hold_ns = raw.lock_us * kUs;
  server.lock_every_ns = raw.lock_every_ms * kMs;
  server.pause_ns = raw.pause_us * kUs;
  server.reply_after_ns = raw.reply_after_us * kUs;
  if (server.reply_after_ns > 0) server.reply_thread = true;
  if (auto group = finish_group(raw, server); !group) return group.error();
  if (auto answer = finish_answer(raw.answer, server); !answer) return answer.error();
  if (auto checked = check_combination(server); !checked) return checked.error();
  if (auto stack = finish_stack_options(sub, raw.stack, server); !stack) return stack.error();
  return Command{server};
}

}  // namespace whylate::echo
