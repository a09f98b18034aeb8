// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/stack_frames.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "echo/server.h"
#include "echo/sockets.h"
#include "echo/stack.h"

namespace whylate::echo {
namespace {

bool has_address(const ifaddrs& entry, const Endpoint& listen) {
  if (entry.ifa_addr == nullptr || entry.ifa_addr->sa_family != listen.family()) return false;
  if (listen.family() == AF_INET) {
    const auto* own = reinterpret_cast<const sockaddr_in*>(entry.ifa_addr);
    const auto* wanted = reinterpret_cast<const sockaddr_in*>(&listen.storage);
    return own->sin_addr.s_addr == wanted->sin_addr.s_addr;
  }
  const auto* own = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
  const auto* wanted = reinterpret_cast<const sockaddr_in6*>(&listen.storage);
  return IN6_ARE_ADDR_EQUAL(&own->sin6_addr, &wanted->sin6_addr);
}

bool is_unspecified(const Endpoint& listen) {
  if (listen.family() == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&listen.storage)->sin_addr.s_addr == INADDR_ANY;
  }
  return IN6_IS_ADDR_UNSPECIFIED(
      &reinterpret_cast<const sockaddr_in6*>(&listen.storage)->sin6_addr);
}

Error usage(std::string message) { return Error{ExitCode::kUsage, std::move(message)}; }

}  // namespace

Result<FrameDevice> find_frame_device(const ServerOptions& options) {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return system_error("getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(raw, freeifaddrs);

  FrameDevice device;
  device.name = options.stack.device;
  device.target.listen = options.listen;
  bool owned = false;
  for (const ifaddrs* entry = raw; entry != nullptr; entry = entry->ifa_next) {
    if (!has_address(*entry, options.listen)) continue;
    owned = true;
    if (device.name.empty()) device.name = entry->ifa_name;
  }
  if (device.name.empty()) {
    return usage(fmt::format("no device has the address {}: name one with --device",
                             to_string(options.listen)));
  }
  device.index = if_nametoindex(device.name.c_str());
  if (device.index == 0) return usage(fmt::format("--device {}: no such device", device.name));
  for (const ifaddrs* entry = raw; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_PACKET ||
        device.name != entry->ifa_name)
      continue;
    const auto* link = reinterpret_cast<const sockaddr_ll*>(entry->ifa_addr);
    std::memcpy(device.target.mac.data(), link->sll_addr, device.target.mac.size());
  }
  device.target.answer_arp =
      options.listen.family() == AF_INET && !owned && !is_unspecified(options.listen);
  if (options.listen.family() == AF_INET6 && !owned && !is_unspecified(options.listen)) {
    return usage(fmt::format("{}: the kernel must have an IPv6 address, it answers who has it",
                             to_string(options.listen)));
  }
  return device;
}

void print_frames_ready(const ServerOptions& options, const FrameDevice& device,
                        const std::string& more) {
  fmt::print("ready pid={} port={} proto=udp listen={} stack={} device={}{}\n", getpid(),
             options.listen.port(), to_string(options.listen), name_of(options.stack.kind),
             device.name, more);
  std::fflush(stdout);
}

Status serve_frames(Server& server) {
  switch (server.options().stack.kind) {
    case StackKind::kAfXdp:
      return serve_af_xdp(server);
    case StackKind::kTap:
      return serve_tap(server);
    default:
      return serve_packet(server);
  }
}

}  // namespace whylate::echo
