// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/plan_inputs.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "host/process.h"

namespace whylate::capture {

bool is_loopback_address(int family, const std::uint8_t (&address)[16]) {
  if (family == AF_INET) return address[0] == 127;
  if (family != AF_INET6) return false;
  in6_addr ip;
  std::memcpy(&ip, address, sizeof(ip));
  if (IN6_IS_ADDR_V4MAPPED(&ip)) return address[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&ip) != 0;
}

PlanInputs gather_plan_inputs(const std::string& root, std::span<const pid_t> pids, bool syscalls,
                              const std::vector<SocketInfo>* sockets) {
  PlanInputs inputs;
  inputs.syscalls = syscalls;
  inputs.napi_threads = host::has_napi_threads(root);
  if (Result<host::CpuidleInfo> cpuidle = host::read_cpuidle(root)) {
    inputs.cpuidle = std::move(*cpuidle);
  }

  std::set<std::uint64_t> seen;
  std::vector<pid_t> all(pids.begin(), pids.end());
  if (all.empty()) all.push_back(0);
  inputs.devices_known = true;
  for (const pid_t pid : all) {
    Result<host::NetDevices> found = host::read_net_devices(pid);
    if (!found) {
      inputs.devices_known = false;
      inputs.devices_why_unknown = found.error().message;
      inputs.devices.clear();
      break;
    }
    if (!seen.insert(found->netns).second) continue;
    inputs.devices.insert(inputs.devices.end(), found->devices.begin(), found->devices.end());
  }

  if (sockets != nullptr) {
    inputs.sockets_known = true;
    for (const SocketInfo& socket : *sockets) {
      inputs.has_tcp = inputs.has_tcp || socket.proto == WL_PROTO_TCP;
      inputs.has_udp = inputs.has_udp || socket.proto == WL_PROTO_UDP;
    }
    // A server without sockets can still open one on any address.
    inputs.loopback_only =
        !sockets->empty() &&
        std::all_of(sockets->begin(), sockets->end(), [](const SocketInfo& socket) {
          return is_loopback_address(socket.family, socket.local_addr);
        });
  }
  return inputs;
}

}  // namespace whylate::capture
