// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The responder on a packet socket: it gets a copy of each frame, with or without rings.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
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
constexpr unsigned kRingFrameBytes = 2'048;
constexpr unsigned kRingFrames = 1'024;
constexpr unsigned kRingBlockBytes = 65'536;
// Where the kernel looks for a frame to send when PACKET_TX_HAS_OFF is off.
constexpr std::size_t kTxDataOffset = TPACKET2_HDRLEN - sizeof(sockaddr_ll);

/// Everything that is neither UDP to the port nor ARP is turned away before it is queued. Fragments
/// beyond the first carry no port and are turned away, too.
Status attach_filter(const Fd& fd, std::uint16_t port) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_ARP, 13, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 8, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 12),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 10),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 20),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 8, 0),
      BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
      BPF_STMT(BPF_LD | BPF_H | BPF_IND, 16),
      BPF_JUMP(BPF_JMP | BPF_JA, 3, 0, 0),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 3),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 56),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kMaxFrameBytes),
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
  if (setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) {
    return system_error("SO_ATTACH_FILTER");
  }
  return Done{};
}

/// A memory mapping, unmapped on destruction.
class Mapping {
 public:
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Status map(const Fd& fd, std::size_t bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (data == MAP_FAILED) return system_error("mapping the packet rings");
    data_ = static_cast<std::uint8_t*>(data);
    bytes_ = bytes;
    return Done{};
  }
  std::uint8_t* data() const { return data_; }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The socket and, when asked for, its rings: receive ring first, transmit ring behind it.
class PacketPort {
 public:
  Status open(const ServerOptions& options, const FrameDevice& device);

  /// The next frame; empty when there is none. Valid until release().
  std::span<std::uint8_t> receive();
  void release();
  /// Sends a frame; false when the kernel would not take it.
  bool send(std::span<const std::uint8_t> frame);
  int fd() const { return fd_.get(); }

 private:
  tpacket2_hdr* slot(std::uint8_t* ring, unsigned index) const {
    return reinterpret_cast<tpacket2_hdr*>(ring + std::size_t{index} * kRingFrameBytes);
  }
  // The kernel writes the status from another CPU.
  static std::uint32_t status_of(const tpacket2_hdr* header) {
    return __atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE);
  }
  static void set_status(tpacket2_hdr* header, std::uint32_t status) {
    __atomic_store_n(&header->tp_status, status, __ATOMIC_RELEASE);
  }

  Fd fd_;
  bool ring_ = false;
  Mapping rings_;
  unsigned rx_next_ = 0;
  unsigned tx_next_ = 0;
  std::vector<std::uint8_t> buffer_;
};

Status PacketPort::open(const ServerOptions& options, const FrameDevice& device) {
  // Protocol 0: nothing is received before the filter is there and the device chosen.
  fd_ = Fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_.valid()) return system_error("packet socket");
  if (auto set = attach_filter(fd_, options.listen.port()); !set) return set;
  // Otherwise what this program sends would come back as a request.
  if (auto set = set_option(fd_, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1, "PACKET_IGNORE_OUTGOING");
      !set)
    return set;
  if (options.stack.qdisc_bypass) {
    auto set = set_option(fd_, SOL_PACKET, PACKET_QDISC_BYPASS, 1, "PACKET_QDISC_BYPASS");
    if (!set) return set;
  }
  ring_ = options.stack.ring;
  if (ring_) {
    if (auto set = set_option(fd_, SOL_PACKET, PACKET_VERSION, TPACKET_V2, "PACKET_VERSION"); !set)
      return set;
    constexpr unsigned kBlocks = kRingFrames / (kRingBlockBytes / kRingFrameBytes);
    const tpacket_req request{kRingBlockBytes, kBlocks, kRingFrameBytes, kRingFrames};
    for (const int ring : {PACKET_RX_RING, PACKET_TX_RING}) {
      if (setsockopt(fd_.get(), SOL_PACKET, ring, &request, sizeof request) != 0) {
        return system_error("packet ring");
      }
    }
    constexpr std::size_t kBytes = 2 * std::size_t{kRingFrames} * kRingFrameBytes;
    if (auto mapped = rings_.map(fd_, kBytes); !mapped) return mapped;
  } else {
    buffer_.resize(kMaxFrameBytes);
  }
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(device.index);
  if (::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return system_error(fmt::format("binding the packet socket to {}", device.name));
  }
  return Done{};
}

std::span<std::uint8_t> PacketPort::receive() {
  if (!ring_) {
    const ssize_t got = ::recv(fd_.get(), buffer_.data(), buffer_.size(), 0);
    if (got <= 0) return {};
    return {buffer_.data(), static_cast<std::size_t>(got)};
  }
  while (true) {
    auto* header = slot(rings_.data(), rx_next_);
    if ((status_of(header) & TP_STATUS_USER) == 0) return {};
    if (header->tp_snaplen == header->tp_len) {
      return {reinterpret_cast<std::uint8_t*>(header) + header->tp_mac, header->tp_snaplen};
    }
    release();  // longer than a slot of the ring
  }
}

void PacketPort::release() {
  if (!ring_) return;
  set_status(slot(rings_.data(), rx_next_), TP_STATUS_KERNEL);
  rx_next_ = (rx_next_ + 1) % kRingFrames;
}

bool PacketPort::send(std::span<const std::uint8_t> frame) {
  if (!ring_) {
    while (true) {
      if (::send(fd_.get(), frame.data(), frame.size(), MSG_NOSIGNAL) >= 0) return true;
      if ((errno != EAGAIN && errno != EINTR) || !wait_writable(fd_.get())) return false;
    }
  }
  auto* header = slot(rings_.data() + std::size_t{kRingFrames} * kRingFrameBytes, tx_next_);
  if (status_of(header) != TP_STATUS_AVAILABLE || frame.size() > kRingFrameBytes - kTxDataOffset) {
    return false;
  }
  std::memcpy(reinterpret_cast<std::uint8_t*>(header) + kTxDataOffset, frame.data(), frame.size());
  header->tp_len = static_cast<std::uint32_t>(frame.size());
  set_status(header, TP_STATUS_SEND_REQUEST);
  tx_next_ = (tx_next_ + 1) % kRingFrames;
  return ::send(fd_.get(), nullptr, 0, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

}  // namespace

Status serve_packet(Server& server) {
  const ServerOptions& options = server.options();
  auto device = find_frame_device(options);
  if (!device) return device.error();
  PacketPort port;
  if (auto opened = port.open(options, *device); !opened) return opened;
  Worker& worker = server.add_worker();
  server.begin_thread(worker, 0);
  print_frames_ready(options, *device,
                     fmt::format(" ring={} qdisc_bypass={}", options.stack.ring ? "yes" : "no",
                                 options.stack.qdisc_bypass ? "yes" : "no"));

  pollfd waits[2] = {{port.fd(), POLLIN, 0}, {stop_event_fd(), POLLIN, 0}};
  while (!stop_requested()) {
    const std::span<std::uint8_t> bytes = port.receive();
    if (bytes.empty()) {
      if (options.mode != ServerMode::kSpin) ::poll(waits, 2, -1);
      continue;
    }
    const std::int64_t read_ns = monotonic_ns();
    const ParsedFrame frame = parse_frame(bytes, device->target);
    if (frame.kind == FrameKind::kRequest) server.handle(worker, frame.payload, read_ns);
    if (frame.kind != FrameKind::kOther) {
      make_answer(frame, device->target);
      const bool sent = port.send(frame.whole);
      if (frame.kind == FrameKind::kRequest) server.finish(worker, sent);
    }
    port.release();
  }
  return Done{};
}

}  // namespace whylate::echo
