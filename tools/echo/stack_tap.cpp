// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The responder behind a TAP interface: it is the host at the other end of that wire, with an
// Ethernet address of its own, and answers ARP itself.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "echo/clock.h"
#include "echo/server.h"
#include "echo/sockets.h"
#include "echo/stack.h"
#include "echo/stack_frames.h"
#include "echo/stop.h"

namespace whylate::echo {
namespace {

constexpr std::size_t kMaxFrameBytes = 65'536;
constexpr const char* kDefaultName = "wltap0";
// Locally administered.
constexpr MacAddress kOwnMac = {0x02, 0x77, 0x6c, 0x74, 0x61, 0x70};

/// Makes the interface, or takes on one that is there and free, and sets it up.
Result<Fd> open_tap(const std::string& name) {
  Fd tap(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!tap.valid()) return system_error("/dev/net/tun");
  ifreq request{};
  if (name.size() >= sizeof request.ifr_name) {
    return Error{ExitCode::kUsage, fmt::format("--device {}: too long a name", name)};
  }
  std::memcpy(request.ifr_name, name.data(), name.size());
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (::ioctl(tap.get(), TUNSETIFF, &request) != 0) return system_error("TUNSETIFF " + name);
  const Fd control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!control.valid()) return system_error("socket");
  if (::ioctl(control.get(), SIOCGIFFLAGS, &request) != 0) return system_error("SIOCGIFFLAGS");
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  if (::ioctl(control.get(), SIOCSIFFLAGS, &request) != 0) return system_error("SIOCSIFFLAGS");
  return tap;
}

}  // namespace

Status serve_tap(Server& server) {
  const ServerOptions& options = server.options();
  if (options.listen.family() != AF_INET) {
    return Error{ExitCode::kUsage, "--stack tap answers at an IPv4 address"};
  }
  FrameDevice device;
  device.name = options.stack.device.empty() ? kDefaultName : options.stack.device;
  device.target = {kOwnMac, options.listen, true};
  auto tap = open_tap(device.name);
  if (!tap) return tap.error();
  Worker& worker = server.add_worker();
  server.begin_thread(worker, 0);
  print_frames_ready(options, device, "");

  std::vector<std::uint8_t> buffer(kMaxFrameBytes);
  pollfd waits[2] = {{tap->get(), POLLIN, 0}, {stop_event_fd(), POLLIN, 0}};
  while (!stop_requested()) {
    const ssize_t got = ::read(tap->get(), buffer.data(), buffer.size());
    if (got <= 0) {
      if (options.mode != ServerMode::kSpin) ::poll(waits, 2, -1);
      continue;
    }
    const std::int64_t read_ns = monotonic_ns();
    const ParsedFrame frame =
        parse_frame({buffer.data(), static_cast<std::size_t>(got)}, device.target);
    if (frame.kind == FrameKind::kRequest) server.handle(worker, frame.payload, read_ns);
    if (frame.kind == FrameKind::kOther) continue;
    make_answer(frame, device.target);
    const ssize_t put = ::write(tap->get(), frame.whole.data(), frame.whole.size());
    if (frame.kind == FrameKind::kRequest) server.finish(worker, put >= 0);
  }
  return Done{};
}

}  // namespace whylate::echo
