// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <cmath>

#include "echo/options_parse.h"
#include "echo/payload.h"

namespace whylate::echo {
namespace {

constexpr std::uint64_t kMaxCount = 100'000'000;

void add_load_options(CLI::App* sub, RawClient& raw, ClientOptions& client) {
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
      ->check(microseconds());
  sub->add_option("--wait", raw.wait, "closed loop: spin on the socket, or block in poll()")
      ->check(CLI::IsMember({"spin", "block"}))
      ->capture_default_str();
  sub->add_option("--count", client.count, "requests in all")
      ->check(CLI::Range(std::uint64_t{1}, kMaxCount))
      ->capture_default_str();
  sub->add_option("--coalesce", client.coalesce,
                  "TCP: so many requests go out together, as one segment if they fit")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'024}))
      ->capture_default_str();
  sub->add_option("--segment-bytes", client.segment_bytes,
                  "TCP: a request goes out in pieces of so many bytes")
      ->check(CLI::Range(std::size_t{1}, kMaxTcpBytes));
  sub->add_option("--segment-gap-us", raw.segment_gap_us, "with --segment-bytes: between two")
      ->check(microseconds());
  sub->add_option("--timeout-ms", raw.timeout_ms, "a request not answered by then is lost")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{3'600'000}))
      ->capture_default_str();
}

void add_socket_options(CLI::App* sub, RawClient& raw, ClientOptions& client) {
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
  sub->add_flag("--fresh-sockets", client.fresh_sockets,
                "closed loop, window 1: each request from a socket of its own (with --bind "
                "ADDR:PORT request i from PORT+i)");
  sub->add_option("--rcvbuf", client.rcvbuf_bytes, "SO_RCVBUF in bytes (default: a large one)")
      ->check(CLI::Range(1, 1 << 30));
  sub->add_option("--read-every-us", raw.read_every_us,
                  "a slow reader: at least so long between two reads of a socket")
      ->check(microseconds());
  sub->add_flag("--nagle", client.nagle, "TCP: leave Nagle's algorithm on");
}

void add_payload_options(CLI::App* sub, ClientOptions& client) {
  sub->add_option("--size", client.size_bytes, "bytes of a request (TCP: as the server's --size)")
      ->check(CLI::Range(kMinSizeBytes, kMaxTcpBytes))
      ->capture_default_str();
  sub->add_option("--reply-bytes", client.reply_bytes,
                  "size of a reply, as the server's (default: as the request)")
      ->check(CLI::Range(kMinSizeBytes, kMaxTcpBytes * 16));
  sub->add_option("--first-id", client.first_id, "number of the first request")
      ->capture_default_str();
  sub->add_option("--seed", client.seed, "of the payload bytes behind the number")
      ->capture_default_str();
}

void add_output_options(CLI::App* sub, ClientOptions& client) {
  sub->add_flag("--stamps", client.stamps,
                "record software transmit and receive stamps (SO_TIMESTAMPING). Receive stamps are "
                "taken for every packet of the whole host while on");
  sub->add_flag("--json", client.json, "summary as one JSON object");
  sub->add_option("--requests", client.requests_file, "write a JSON line per request to this file");
  sub->add_option("--hdr", client.hdr_file,
                  "write the latencies to this file as a HdrHistogram V2 log");
  sub->add_option("--hdr-tag", client.hdr_tag, "tag of the first histogram in it");
}

Status check_load(const CLI::App& sub, const ClientOptions& client) {
  const bool open_loop = client.rate_millihertz.has_value();
  const bool tcp = client.proto == Proto::kTcp;
  if (open_loop && (sub.count("--window") > 0 || client.gap_ns > 0 || client.block)) {
    return usage("--window, --gap-us and --wait block are for the closed loop, without --rate");
  }
  if (!open_loop && sub.count("--burst") > 0) return usage("--burst needs --rate");
  if (client.gap_ns > 0 && client.window != 1) return usage("--gap-us needs --window 1");
  if (!tcp && client.coalesce != 1) return usage("--coalesce needs --proto tcp");
  if (!tcp && client.segment_bytes > 0) return usage("--segment-bytes needs --proto tcp");
  if (client.segment_gap_ns > 0 && client.segment_bytes == 0)
    return usage("--segment-gap-us needs --segment-bytes");
  if (client.coalesce > 1) {
    // A request that waits for its companions must not wait for replies as well.
    if ((open_loop ? client.burst : client.window) % client.coalesce != 0)
      return usage("--coalesce: --window, or --burst with --rate, must be a multiple of it");
    if (client.segment_bytes > 0) return usage("--coalesce and --segment-bytes exclude each other");
    if (client.connections != client.senders || (open_loop && client.senders != 1))
      return usage("--coalesce needs one connection per sender, and with --rate one sender");
  }
  if (client.fresh_sockets) {
    if (open_loop || client.window != 1 || client.connections != client.senders)
      return usage("--fresh-sockets needs a closed loop with --window 1 and no --connections");
    if (client.bind && client.bind->port() != 0 && client.bind->port() + client.count > 65'536)
      return usage("--fresh-sockets: from the port of --bind on there are not --count ports");
  }
  return Done{};
}

Status check_multicast(const ClientOptions& client) {
  const bool multicast = client.to.is_multicast();
  if (multicast && client.proto == Proto::kTcp) return usage("--to: TCP has no multicast");
  if (client.interface && !multicast) return usage("--interface is for a multicast --to");
  if (multicast && client.to.family() == AF_INET6 && client.interface &&
      client.interface->index == 0) {
    return usage("--interface: an IPv6 group needs the interface's name");
  }
  return Done{};
}

}  // namespace

CLI::App* add_client_options(CLI::App& app, RawClient& raw, ClientOptions& client) {
  auto* sub = app.add_subcommand("client", "send numbered requests and time the answers");
  sub->add_option("--proto", raw.proto, "udp or tcp")
      ->check(CLI::IsMember({"udp", "tcp"}))
      ->capture_default_str();
  sub->add_option("--to", raw.address, "ADDR:PORT or [ADDR6]:PORT; with UDP also a multicast group")
      ->required();
  add_load_options(sub, raw, client);
  add_socket_options(sub, raw, client);
  add_payload_options(sub, client);
  add_output_options(sub, client);
  sub->footer(
      "Payload: 64-bit little-endian number at offset 0 (whylate trace --id-offset 0 --id-bytes "
      "8), then bytes\n"
      "that depend on --seed and the number. Percentiles: nearest rank on the sorted exact "
      "values.\n"
      "Exit: 0 done, 1 nothing was answered, 2 usage, 5 failure or a reply whose bytes differ from "
      "the request's.");
  return sub;
}

Result<Command> finish_client_options(const CLI::App& sub, const RawClient& raw,
                                      ClientOptions client) {
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
  auto interface = parse_interface(raw.interface);
  if (!interface) return interface.error();
  client.interface = *interface;
  if (sub.count("--rate") > 0) client.rate_millihertz = std::llround(raw.rate * 1'000);
  client.gap_ns = raw.gap_us * kUs;
  client.timeout_ns = raw.timeout_ms * kMs;
  client.segment_gap_ns = raw.segment_gap_us * kUs;
  client.read_every_ns = raw.read_every_us * kUs;
  client.block = raw.wait == "block";
  if (sub.count("--connections") == 0) client.connections = client.senders;
  if (client.connections % client.senders != 0)
    return usage("--connections must be a multiple of --senders");
  if (auto checked = check_load(sub, client); !checked) return checked.error();
  if (auto checked = check_multicast(client); !checked) return checked.error();
  if (client.proto == Proto::kUdp &&
      std::max(client.size_bytes, client.reply_bytes) > kMaxUdpBytes) {
    return usage(fmt::format("--size, --reply-bytes: a UDP datagram carries at most {} bytes",
                             kMaxUdpBytes));
  }
  if (!client.hdr_tag.empty() && client.hdr_file.empty()) return usage("--hdr-tag needs --hdr");
  if (client.first_id > UINT64_MAX - client.count)
    return usage("--first-id: the last number would not fit 64 bits");
  return Command{client};
}

}  // namespace whylate::echo
