// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The responder on an AF_XDP socket: requests never reach the kernel's stack.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <poll.h>
#include <sys/mman.h>
#include <xdp/xsk.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "echo/clock.h"
#include "echo/server.h"
#include "echo/sockets.h"
#include "echo/stack.h"
#include "echo/stack_frames.h"
#include "echo/stop.h"
#include "stack_xdp.skel.h"

namespace whylate::echo {
namespace {

constexpr std::uint32_t kFrames = 2'048;
constexpr std::uint32_t kFrameBytes = 4'096;
constexpr std::size_t kAreaBytes = std::size_t{kFrames} * kFrameBytes;
constexpr int kKickTries = 1'000;

/// libbpf and libxdp return -errno.
Error failed(std::string_view what, int result) {
  errno = -result;
  return system_error(what);
}

/// The socket with its packet memory; frames go from the fill ring through receive and transmit
/// rings to the completion ring and back.
class XdpPort {
 public:
  XdpPort() = default;
  XdpPort(const XdpPort&) = delete;
  XdpPort& operator=(const XdpPort&) = delete;
  ~XdpPort();

  Status open(const FrameDevice& device, unsigned queue);

  int fd() const { return xsk_socket__fd(socket_); }
  /// The next frame; empty when there is none. Must be followed by send() or drop().
  std::span<std::uint8_t> receive();
  bool send(std::size_t bytes);
  void drop() { give_back(address_); }
  /// Returns sent frames to the kernel for receiving.
  void reap();

 private:
  void give_back(std::uint64_t address);

  void* area_ = MAP_FAILED;
  xsk_umem* umem_ = nullptr;
  xsk_socket* socket_ = nullptr;
  xsk_ring_prod fill_{};
  xsk_ring_cons completion_{};
  xsk_ring_cons rx_{};
  xsk_ring_prod tx_{};
  std::uint64_t address_ = 0;  ///< of the frame in hand
};

XdpPort::~XdpPort() {
  if (socket_ != nullptr) xsk_socket__delete(socket_);
  if (umem_ != nullptr) xsk_umem__delete(umem_);
  if (area_ != MAP_FAILED) munmap(area_, kAreaBytes);
}

Status XdpPort::open(const FrameDevice& device, unsigned queue) {
  area_ = mmap(nullptr, kAreaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area_ == MAP_FAILED) return system_error("packet memory");
  xsk_umem_config memory{};
  memory.fill_size = kFrames;
  memory.comp_size = kFrames;
  memory.frame_size = kFrameBytes;
  int result = xsk_umem__create(&umem_, area_, kAreaBytes, &fill_, &completion_, &memory);
  if (result != 0) return failed("AF_XDP packet memory", result);

  xsk_socket_config config{};
  config.rx_size = kFrames;
  config.tx_size = kFrames;
  config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
  // Without XDP_COPY the kernel decides silently between copying and not.
  config.bind_flags = XDP_COPY | XDP_USE_NEED_WAKEUP;
  result = xsk_socket__create(&socket_, device.name.c_str(), queue, umem_, &rx_, &tx_, &config);
  if (result != 0) {
    return failed(fmt::format("AF_XDP socket on {} queue {}", device.name, queue), result);
  }
  for (std::uint32_t i = 0; i < kFrames; ++i) give_back(std::uint64_t{i} * kFrameBytes);
  return Done{};
}

std::span<std::uint8_t> XdpPort::receive() {
  std::uint32_t index = 0;
  if (xsk_ring_cons__peek(&rx_, 1, &index) == 0) return {};
  const xdp_desc* descriptor = xsk_ring_cons__rx_desc(&rx_, index);
  address_ = descriptor->addr;
  auto* data = static_cast<std::uint8_t*>(xsk_umem__get_data(area_, address_));
  const std::span<std::uint8_t> frame{data, descriptor->len};
  xsk_ring_cons__release(&rx_, 1);
  return frame;
}

bool XdpPort::send(std::size_t bytes) {
  std::uint32_t index = 0;
  if (xsk_ring_prod__reserve(&tx_, 1, &index) == 0) {
    drop();
    return false;
  }
  xdp_desc* descriptor = xsk_ring_prod__tx_desc(&tx_, index);
  descriptor->addr = address_;
  descriptor->len = static_cast<std::uint32_t>(bytes);
  descriptor->options = 0;
  xsk_ring_prod__submit(&tx_, 1);
  // A device that is busy leaves the frame in the ring: ask again, for a moment.
  for (int i = 0; i < kKickTries && xsk_ring_prod__needs_wakeup(&tx_); ++i) {
    if (::sendto(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0) return true;
    if (errno != EAGAIN && errno != EBUSY && errno != ENOBUFS) return false;
    reap();
  }
  return true;
}

void XdpPort::reap() {
  std::uint32_t index = 0;
  const std::uint32_t sent = xsk_ring_cons__peek(&completion_, kFrames, &index);
  for (std::uint32_t i = 0; i < sent; ++i) {
    give_back(*xsk_ring_cons__comp_addr(&completion_, index + i));
  }
  if (sent > 0) xsk_ring_cons__release(&completion_, sent);
}

void XdpPort::give_back(std::uint64_t address) {
  std::uint32_t index = 0;
  // There is room for every frame there is.
  if (xsk_ring_prod__reserve(&fill_, 1, &index) == 0) return;
  // Received packets start within the frame, behind the headroom.
  *xsk_ring_prod__fill_addr(&fill_, index) = address - address % kFrameBytes;
  xsk_ring_prod__submit(&fill_, 1);
}

/// The loaded program and its link: the kernel takes it off the device when this process ends.
class XdpProgram {
 public:
  Status attach(const ServerOptions& options, const FrameDevice& device, int socket);

 private:
  std::unique_ptr<stack_xdp_bpf, decltype(&stack_xdp_bpf__destroy)> object_{nullptr,
                                                                            stack_xdp_bpf__destroy};
  Fd link_;
};

void configure(stack_xdp_bpf& object, const FrameTarget& target) {
  const Endpoint& listen = target.listen;
  auto& config = *object.rodata;
  config.cfg_ipv6 = listen.family() == AF_INET6;
  config.cfg_arp = target.answer_arp;
  config.cfg_port = htons(listen.port());
  std::uint32_t address[4] = {};
  if (config.cfg_ipv6) {
    std::memcpy(address, &reinterpret_cast<const sockaddr_in6*>(&listen.storage)->sin6_addr, 16);
  } else {
    std::memcpy(address, &reinterpret_cast<const sockaddr_in*>(&listen.storage)->sin_addr, 4);
  }
  std::memcpy(config.cfg_address, address, sizeof address);
  config.cfg_any_address = (address[0] | address[1] | address[2] | address[3]) == 0;
}

Status XdpProgram::attach(const ServerOptions& options, const FrameDevice& device, int socket) {
  libbpf_set_print(nullptr);
  object_.reset(stack_xdp_bpf__open());
  if (!object_) return system_error("opening the XDP program");
  configure(*object_, device.target);
  int result = stack_xdp_bpf__load(object_.get());
  if (result != 0) return failed("loading the XDP program", result);
  const std::uint32_t queue = options.stack.queue;
  result = bpf_map_update_elem(bpf_map__fd(object_->maps.echo_sockets), &queue, &socket, BPF_ANY);
  if (result != 0) return failed("putting the socket into the XDP program's map", result);
  LIBBPF_OPTS(bpf_link_create_opts, link,
              .flags = options.stack.native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE);
  const int fd = bpf_link_create(bpf_program__fd(object_->progs.echo_redirect),
                                 static_cast<int>(device.index), BPF_XDP, &link);
  if (fd < 0) {
    return failed(fmt::format("attaching the XDP program to {} in {} mode", device.name,
                              options.stack.native ? "native" : "generic"),
                  fd);
  }
  link_ = Fd(fd);
  return Done{};
}

/// Serves what the XDP program let pass, from an ordinary socket. Counts in `passed`.
class PassedRequests {
 public:
  Status open(const ServerOptions& options) {
    if (!options.stack.kernel_socket) return Done{};
    ServerOptions nonblocking = options;
    nonblocking.mode = ServerMode::kSpin;
    auto socket = open_server_socket(nonblocking, options.listen);
    if (!socket) return socket.error();
    socket_ = std::move(*socket);
    buffer_.resize(65'536);
    return Done{};
  }
  int fd() const { return socket_.get(); }
  std::uint64_t count() const { return count_; }

  bool serve_one(Server& server, Worker& worker) {
    if (!socket_.valid()) return false;
    sockaddr_storage peer;
    socklen_t peer_bytes = sizeof peer;
    const ssize_t got = ::recvfrom(socket_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT,
                                   reinterpret_cast<sockaddr*>(&peer), &peer_bytes);
    if (got < 0) return false;
    ++count_;
    const auto size = static_cast<std::size_t>(got);
    server.handle(worker, {buffer_.data(), size}, monotonic_ns());
    server.finish(worker, ::sendto(socket_.get(), buffer_.data(), size, MSG_NOSIGNAL,
                                   reinterpret_cast<const sockaddr*>(&peer), peer_bytes) == got);
    return true;
  }

 private:
  Fd socket_;
  std::vector<std::uint8_t> buffer_;
  std::uint64_t count_ = 0;
};

void report(const XdpPort& port, const ServerOptions& options, std::uint64_t through_xdp,
            std::uint64_t passed) {
  xdp_statistics statistics{};
  socklen_t length = sizeof statistics;
  fmt::print(stderr, "AF_XDP ({}, copy, queue {}): {} requests; ordinary socket: {}",
             options.stack.native ? "native" : "generic", options.stack.queue, through_xdp, passed);
  if (getsockopt(port.fd(), SOL_XDP, XDP_STATISTICS, &statistics, &length) == 0) {
    fmt::print(stderr, "; dropped {}", statistics.rx_dropped);
    if (length >= offsetof(xdp_statistics, rx_ring_full) + sizeof statistics.rx_ring_full) {
      fmt::print(stderr, ", ring full {}", statistics.rx_ring_full);
    }
  }
  fmt::print(stderr, "\n");
}

}  // namespace

Status serve_af_xdp(Server& server) {
  const ServerOptions& options = server.options();
  auto device = find_frame_device(options);
  if (!device) return device.error();
  XdpPort port;
  if (auto opened = port.open(*device, options.stack.queue); !opened) return opened;
  PassedRequests passed;
  if (auto opened = passed.open(options); !opened) return opened;
  // Declared last: the program goes before the socket it redirects to.
  XdpProgram program;
  if (auto attached = program.attach(options, *device, port.fd()); !attached) return attached;
  Worker& worker = server.add_worker();
  server.begin_thread(worker, 0);
  print_frames_ready(options, *device,
                     fmt::format(" mode={} queue={}", options.stack.native ? "native" : "generic",
                                 options.stack.queue));

  std::uint64_t through_xdp = 0;
  pollfd waits[3] = {
      {port.fd(), POLLIN, 0}, {stop_event_fd(), POLLIN, 0}, {passed.fd(), POLLIN, 0}};
  while (!stop_requested()) {
    port.reap();
    const std::span<std::uint8_t> bytes = port.receive();
    if (bytes.empty()) {
      if (passed.serve_one(server, worker)) continue;
      if (options.mode != ServerMode::kSpin) ::poll(waits, 3, -1);
      continue;
    }
    const std::int64_t read_ns = monotonic_ns();
    const ParsedFrame frame = parse_frame(bytes, device->target);
    if (frame.kind == FrameKind::kOther) {
      port.drop();
      continue;
    }
    const bool request = frame.kind == FrameKind::kRequest;
    if (request) server.handle(worker, frame.payload, read_ns);
    make_answer(frame, device->target);
    const bool sent = port.send(frame.whole.size());
    if (request) {
      ++through_xdp;
      server.finish(worker, sent);
    }
  }
  report(port, options, through_xdp, passed.count());
  return Done{};
}

}  // namespace whylate::echo
