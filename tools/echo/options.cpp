// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/options.h"

#include <fmt/format.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "echo/payload.h"

namespace whylate::echo {
namespace {

constexpr std::uint64_t kMaxCount = 100'000'000;
constexpr std::size_t kMaxUdpBytes = 65'507;
constexpr std::size_t kMaxTcpBytes = std::size_t{1} << 20;
constexpr std::int64_t kUs = 1'000;
constexpr std::int64_t kMs = 1'000'000;
const auto kMicroseconds = CLI::Range(std::int64_t{0}, std::int64_t{3'600'000'000});

/// Options as typed, before they are checked and converted.
struct Raw {
  std::string proto = "udp";
  std::string address;
  std::string mode = "blocking";
  std::string cpus;
  std::string group;
  std::string interface;
  std::string bind;
  std::string wait = "spin";
  double rate = 0;
  std::int64_t work_us = 0;
  std::int64_t sleep_us = 0;
  std::int64_t lock_us = 0;
  std::int64_t lock_every_ms = 100;
  std::int64_t gap_us = 0;
  std::int64_t timeout_ms = 1'000;
  RawStack stack;
};

Error usage(std::string message) { return Error{ExitCode::kUsage, std::move(message)}; }

CLI::App* add_server(CLI::App& app, Raw& raw, ServerOptions& server) {
  auto* sub = app.add_subcommand("server", "answer every request with the bytes it carried");
  sub->add_option("--proto", raw.proto, "udp or tcp")
      ->check(CLI::IsMember({"udp", "tcp"}))
      ->capture_default_str();
  sub->add_option("--listen", raw.address,
                  "ADDR:PORT or [ADDR6]:PORT; port 0 takes a free one (default 127.0.0.1:0)");
  sub->add_option(
         "--mode", raw.mode,
         "how a thread waits: blocking read, epoll, or spin (non-blocking reads in a loop)")
      ->check(CLI::IsMember({"blocking", "epoll", "spin"}))
      ->capture_default_str();
  sub->add_option(
         "--threads", server.threads,
         "UDP: readers of the one socket; TCP epoll and spin: threads that share the connections")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  sub->add_flag("--reuseport", server.reuseport,
                "UDP: a socket of its own for each thread (SO_REUSEPORT)");
  sub->add_flag("--drain", server.drain,
                "epoll: read until the socket is empty, not once per event");
  sub->add_option("--cpu", raw.cpus,
                  "pin thread i to the i-th CPU of this list, such as 1 or 0,2-3");
  sub->add_option("--work-us", raw.work_us,
                  "compute for so long per request (time not spent running does not count)")
      ->check(kMicroseconds);
  sub->add_option("--sleep-us", raw.sleep_us, "sleep for so long per request")
      ->check(kMicroseconds);
  sub->add_option(
         "--lock-us", raw.lock_us,
         "each request takes a mutex that another thread now and then holds for so long, asleep")
      ->check(kMicroseconds);
  sub->add_option("--lock-every,--lock-every-ms", raw.lock_every_ms,
                  "with --lock-us: how often it takes the mutex, in ms")
      ->check(CLI::Range(1, 3'600'000))
      ->capture_default_str();
  sub->add_option("--group", raw.group, "UDP: join this multicast group (ADDR)");
  sub->add_option("--interface", raw.interface,
                  "with --group: interface name, or its IPv4 address");
  sub->add_option("--rcvbuf", server.rcvbuf_bytes, "SO_RCVBUF in bytes")
      ->check(CLI::Range(1, 1 << 30));
  sub->add_option("--count", server.count, "end after so many requests");
  sub->add_option("--size", server.size_bytes, "TCP: bytes of a message")
      ->check(CLI::Range(std::size_t{1}, kMaxTcpBytes))
      ->capture_default_str();
  sub->add_flag("--nagle", server.nagle, "TCP: leave Nagle's algorithm on");
  sub->add_option("--log", server.log_file,
                  "at exit, write a line per read: thread, order, request number, time");
  add_stack_options(*sub, raw.stack, server.stack);
  return sub;
}

CLI::App* add_client(CLI::App& app, Raw& raw, ClientOptions& client) {
  auto* sub = app.add_subcommand("client", "send numbered requests and time the answers");
  sub->add_option("--proto", raw.proto, "udp or tcp")
      ->check(CLI::IsMember({"udp", "tcp"}))
      ->capture_default_str();
  sub->add_option("--to", raw.address, "ADDR:PORT or [ADDR6]:PORT; with UDP also a multicast group")
      ->required();
  sub->add_option(
         "--rate", raw.rate,
         "points per second of an absolute schedule, kept by spinning; without it: closed loop")
      ->check(CLI::Range(0.001, 10'000'000.0));
  sub->add_option("--burst", client.burst, "with --rate: requests back to back at each point")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{100'000}))
      ->capture_default_str();
  sub->add_option("--window", client.window, "closed loop: requests outstanding, per sender")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{100'000}))
      ->capture_default_str();
  sub->add_option("--gap-us", raw.gap_us,
                  "closed loop, window 1: sleep so long before the next request")
      ->check(kMicroseconds);
  sub->add_option("--wait", raw.wait, "closed loop: spin on the socket, or block in poll()")
      ->check(CLI::IsMember({"spin", "block"}))
      ->capture_default_str();
  sub->add_option("--count", client.count, "requests in all")
      ->check(CLI::Range(std::uint64_t{1}, kMaxCount))
      ->capture_default_str();
  sub->add_option("--size", client.size_bytes, "bytes of a request (TCP: as the server's --size)")
      ->check(CLI::Range(kMinSizeBytes, kMaxTcpBytes))
      ->capture_default_str();
  sub->add_option("--cpu", raw.cpus, "pin sender i to the i-th CPU of this list");
  sub->add_option("--bind", raw.bind, "local ADDR or ADDR:PORT (socket i takes PORT+i)");
  sub->add_option("--interface", raw.interface,
                  "multicast: send through this interface (name, or its IPv4 address)");
  sub->add_option("--connections", client.connections,
                  "sockets in all, used in turn; a multiple of --senders (default: one per sender)")
      ->check(CLI::Range(1, 10'000));
  sub->add_option("--senders,--threads", client.senders,
                  "sending threads, each with sockets of its own; ids interleave")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  sub->add_option("--timeout-ms", raw.timeout_ms, "a request not answered by then is lost")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{3'600'000}))
      ->capture_default_str();
  sub->add_option("--first-id", client.first_id, "number of the first request")
      ->capture_default_str();
  sub->add_option("--seed", client.seed, "of the payload bytes behind the number")
      ->capture_default_str();
  sub->add_flag("--stamps", client.stamps,
                "record software transmit and receive stamps (SO_TIMESTAMPING). Receive stamps are "
                "taken for every packet of the whole host while on");
  sub->add_flag("--nagle", client.nagle, "TCP: leave Nagle's algorithm on");
  sub->add_flag("--json", client.json, "summary as one JSON object");
  sub->add_option("--requests", client.requests_file, "write a JSON line per request to this file");
  sub->add_option("--hdr", client.hdr_file,
                  "write the latencies to this file as a HdrHistogram V2 log");
  sub->add_option("--hdr-tag", client.hdr_tag, "tag of the first histogram in it");
  return sub;
}

Result<std::optional<Interface>> interface_of(const Raw& raw) {
  if (raw.interface.empty()) return std::optional<Interface>{};
  auto found = find_interface(raw.interface);
  if (!found) return found.error();
  return std::optional<Interface>{*found};
}

Result<Command> finish_server(const CLI::App& sub, const Raw& raw, ServerOptions server) {
  server.proto = raw.proto == "tcp" ? Proto::kTcp : Proto::kUdp;
  server.mode = raw.mode == "epoll"  ? ServerMode::kEpoll
                : raw.mode == "spin" ? ServerMode::kSpin
                                     : ServerMode::kBlocking;
  auto listen = parse_endpoint(raw.address.empty() ? "127.0.0.1:0" : raw.address);
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

  auto interface = interface_of(raw);
  if (!interface) return interface.error();
  server.interface = *interface;
  if (!raw.group.empty()) {
    auto group = parse_endpoint(raw.group, 0);
    if (!group) return group.error();
    if (!group->is_multicast())
      return usage(fmt::format("--group {}: not a multicast address", raw.group));
    if (group->family() != server.listen.family())
      return usage("--group and --listen must be of one address family");
    if (group->family() == AF_INET6 && server.interface && server.interface->index == 0) {
      return usage("--interface: an IPv6 group needs the interface's name");
    }
    server.group = *group;
  }

  const bool tcp = server.proto == Proto::kTcp;
  if (tcp && server.group) return usage("--group needs --proto udp");
  if (server.interface && !server.group) return usage("--interface needs --group");
  if (tcp && server.reuseport) return usage("--reuseport needs --proto udp");
  if (tcp && server.mode == ServerMode::kBlocking && server.threads != 1) {
    return usage("--threads: with --proto tcp --mode blocking each connection has its thread");
  }
  if (server.drain && server.mode != ServerMode::kEpoll) return usage("--drain needs --mode epoll");
  if (auto stack = finish_stack_options(sub, raw.stack, server); !stack) return stack.error();
  return Command{server};
}

Result<Command> finish_client(const CLI::App& sub, const Raw& raw, ClientOptions client) {
  client.proto = raw.proto == "tcp" ? Proto::kTcp : Proto::kUdp;
  auto to = parse_endpoint(raw.address);
  if (!to) return to.error();
  client.to = *to;
  if (client.to.port() == 0) return usage("--to: the port must not be 0");
  if (!raw.bind.empty()) {
    auto bind = parse_endpoint(raw.bind, 0);
    if (!bind) return bind.error();
    if (bind->family() != client.to.family())
      return usage("--bind and --to must be of one address family");
    client.bind = *bind;
  }
  if (!raw.cpus.empty()) {
    auto cpus = parse_cpu_list(raw.cpus);
    if (!cpus) return cpus.error();
    client.cpus = *cpus;
  }
  auto interface = interface_of(raw);
  if (!interface) return interface.error();
  client.interface = *interface;
  if (sub.count("--rate") > 0) client.rate_millihertz = std::llround(raw.rate * 1'000);
  client.gap_ns = raw.gap_us * kUs;
  client.timeout_ns = raw.timeout_ms * kMs;
  client.block = raw.wait == "block";
  if (sub.count("--connections") == 0) client.connections = client.senders;

  const bool open_loop = client.rate_millihertz.has_value();
  if (open_loop && (sub.count("--window") > 0 || client.gap_ns > 0 || client.block)) {
    return usage("--window, --gap-us and --wait block are for the closed loop, without --rate");
  }
  if (!open_loop && sub.count("--burst") > 0) return usage("--burst needs --rate");
  if (client.gap_ns > 0 && client.window != 1) return usage("--gap-us needs --window 1");
  if (client.connections % client.senders != 0)
    return usage("--connections must be a multiple of --senders");
  if (client.proto == Proto::kUdp && client.size_bytes > kMaxUdpBytes) {
    return usage(fmt::format("--size: a UDP datagram carries at most {} bytes", kMaxUdpBytes));
  }
  const bool multicast = client.to.is_multicast();
  if (multicast && client.proto == Proto::kTcp) return usage("--to: TCP has no multicast");
  if (client.interface && !multicast) return usage("--interface is for a multicast --to");
  if (multicast && client.to.family() == AF_INET6 && client.interface &&
      client.interface->index == 0) {
    return usage("--interface: an IPv6 group needs the interface's name");
  }
  if (!client.hdr_tag.empty() && client.hdr_file.empty()) return usage("--hdr-tag needs --hdr");
  if (client.first_id > UINT64_MAX - client.count)
    return usage("--first-id: the last number would not fit 64 bits");
  return Command{client};
}

}  // namespace

const char* name_of(Proto proto) { return proto == Proto::kTcp ? "tcp" : "udp"; }

Result<std::vector<int>> parse_cpu_list(const std::string& text) {
  const auto bad = [&] {
    return usage(fmt::format("'{}' is not a list of CPUs such as 0,2-3", text));
  };
  std::vector<int> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int first = 0;
    auto parsed = std::from_chars(at, end, first);
    if (parsed.ec != std::errc{}) return bad();
    int last = first;
    if (parsed.ptr != end && *parsed.ptr == '-') {
      parsed = std::from_chars(parsed.ptr + 1, end, last);
      if (parsed.ec != std::errc{}) return bad();
    }
    if (first < 0 || last < first || last >= CPU_SETSIZE) return bad();
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    at = parsed.ptr;
    if (at == end) return cpus;
    if (*at++ != ',') return bad();
  }
}

Result<Command> parse_args(int argc, const char* const* argv) {
  CLI::App app{"whylate-echo: a responder and a client that time requests (the harness of whylate)",
               "whylate-echo"};
  app.require_subcommand(1);
  Raw raw;
  ServerOptions server;
  ClientOptions client;
  CLI::App* server_sub = add_server(app, raw, server);
  CLI::App* client_sub = add_client(app, raw, client);
  client_sub->footer(
      "Payload: 64-bit little-endian number at offset 0 (whylate trace --id-offset 0 --id-bytes "
      "8), then bytes\n"
      "that depend on --seed and the number. Percentiles: nearest rank on the sorted exact "
      "values.\n"
      "Exit: 0 done, 1 nothing was answered, 2 usage, 5 failure or a reply whose bytes differ from "
      "the request's.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    return Command{HelpText{(chosen.empty() ? &app : chosen.front())->help()}};
  } catch (const CLI::ParseError& error) {
    return usage(error.what());
  }
  return server_sub->parsed() ? finish_server(*server_sub, raw, server)
                              : finish_client(*client_sub, raw, client);
}

}  // namespace whylate::echo
