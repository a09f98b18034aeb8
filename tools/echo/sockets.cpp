// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/sockets.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <cstring>

#include "echo/stack.h"

namespace whylate::echo {
namespace {

Status join_group(const Fd& fd, const ServerOptions& options) {
  const Endpoint& group = *options.group;
  const Interface interface = options.interface.value_or(Interface{});
  int result = 0;
  if (group.family() == AF_INET6) {
    ipv6_mreq request{};
    request.ipv6mr_multiaddr = reinterpret_cast<const sockaddr_in6*>(&group.storage)->sin6_addr;
    request.ipv6mr_interface = interface.index;
    result = setsockopt(fd.get(), IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request);
  } else {
    ip_mreqn request{};
    request.imr_multiaddr = reinterpret_cast<const sockaddr_in*>(&group.storage)->sin_addr;
    request.imr_address = interface.address;
    request.imr_ifindex = static_cast<int>(interface.index);
    result = setsockopt(fd.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
  }
  if (result != 0) return system_error("joining the multicast group");
  return Done{};
}

}  // namespace

Error system_error(std::string_view what) {
  const int error = errno;
  const bool privilege = error == EPERM || error == EACCES;
  return Error{privilege ? ExitCode::kUnsupported : ExitCode::kRuntimeError,
               fmt::format("{}: {}", what, std::strerror(error))};
}

Result<Fd> open_socket(int family, Proto proto, bool nonblocking) {
  const int type = (proto == Proto::kTcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC |
                   (nonblocking ? SOCK_NONBLOCK : 0);
  Fd fd(::socket(family, type, 0));
  if (!fd.valid()) return system_error("socket");
  return fd;
}

Status set_option(const Fd& fd, int level, int name, int value, std::string_view what) {
  if (setsockopt(fd.get(), level, name, &value, sizeof value) != 0) return system_error(what);
  return Done{};
}

Result<Endpoint> local_endpoint(const Fd& fd) {
  Endpoint endpoint;
  endpoint.length = sizeof endpoint.storage;
  if (getsockname(fd.get(), endpoint.raw(), &endpoint.length) != 0)
    return system_error("getsockname");
  return endpoint;
}

Result<Fd> open_server_socket(const ServerOptions& options, const Endpoint& listen) {
  const bool tcp = options.proto == Proto::kTcp;
  // io_uring would report EAGAIN of a non-blocking socket instead of waiting for data.
  const bool nonblocking =
      options.mode != ServerMode::kBlocking && options.mode != ServerMode::kUring;
  auto opened = open_socket(listen.family(), options.proto, nonblocking);
  if (!opened) return opened.error();
  Fd fd = std::move(*opened);
  // A group may have several listeners; a TCP server must be able to come back at once.
  if (tcp || options.group) {
    if (auto set = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"); !set)
      return set.error();
  }
  if (options.rcvlowat_bytes > 0) {
    auto set = set_option(fd, SOL_SOCKET, SO_RCVLOWAT, options.rcvlowat_bytes, "SO_RCVLOWAT");
    if (!set) return set.error();
  }
  if (options.defer_accept_s > 0) {
    auto set =
        set_option(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, options.defer_accept_s, "TCP_DEFER_ACCEPT");
    if (!set) return set.error();
  }
  if (options.reuseport) {
    if (auto set = set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1, "SO_REUSEPORT"); !set)
      return set.error();
  }
  if (options.rcvbuf_bytes > 0) {
    auto set = set_option(fd, SOL_SOCKET, SO_RCVBUF, options.rcvbuf_bytes, "SO_RCVBUF");
    if (!set) return set.error();
  }
  if (::bind(fd.get(), listen.raw(), listen.length) != 0) {
    return system_error(fmt::format("bind to {}", to_string(listen)));
  }
  if (options.stack.kind == StackKind::kBusyPoll) {
    if (auto set = set_busy_poll(fd, options.stack); !set) return set.error();
  }
  if (options.group) {
    if (auto joined = join_group(fd, options); !joined) return joined.error();
  }
  if (tcp && ::listen(fd.get(), 1024) != 0) return system_error("listen");
  return fd;
}

Status pin_thread(const std::vector<int>& cpus, std::size_t thread) {
  if (cpus.empty()) return Done{};
  const int cpu = cpus[thread % cpus.size()];
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    return system_error(fmt::format("pinning to CPU {}", cpu));
  return Done{};
}

void name_thread(const char* name) { pthread_setname_np(pthread_self(), name); }

}  // namespace whylate::echo
