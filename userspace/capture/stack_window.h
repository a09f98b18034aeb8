// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "bpf/stack_window.h"
#include "stack/traffic.h"

namespace whylate::capture {

/// Which redirect: interface, map, type of the map, slot.
using RedirectKey = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;

/// All counters of the traffic window at one moment, as the kernel side keeps them.
struct WindowReading {
  std::vector<wl_window_line> lines;                  ///< sockets and epolls, one per descriptor
  std::map<std::uint64_t, wl_window_socket> sockets;  ///< by inode; also closed ones
  std::map<std::uint32_t, wl_window_device> devices;  ///< by index
  std::map<RedirectKey, wl_window_redirect> redirects;
  /// Packets sent as the devices count them. At the start read after the counters above, at the end
  /// before them: so the tap's count covers it, and what exceeds the tap passed beside it.
  std::map<std::string, std::uint64_t> device_tx;
};

/// What lies between two readings. `cpus`: possible CPUs of the host; a packet that came through no
/// NAPI instance carries a CPU's number where others carry the instance's. `interfaces`: those of
/// the namespace by index; where nothing passed, 0 was counted.
stack::TrafficWindow window_between(const WindowReading& before, const WindowReading& after,
                                    std::uint64_t net_namespace, std::uint32_t cpus,
                                    const std::map<std::uint32_t, std::string>& interfaces = {});

/// Takes back what a hook that could not attach would have counted: 0 from there is no count.
/// `tracepoint` as in Unreadable::source.
void forget_uncounted(stack::TrafficWindow& window, const std::string& tracepoint);

}  // namespace whylate::capture
