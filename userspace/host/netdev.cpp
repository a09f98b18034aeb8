// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/netdev.h"

#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

namespace whylate::host {
namespace {

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Error failed(const std::string& what, int error) {
  return Error{ExitCode::kRuntimeError, what + ": " + std::strerror(error)};
}

std::string attribute_text(const rtattr* attribute) {
  const char* const text = static_cast<const char*>(RTA_DATA(attribute));
  return std::string(text, ::strnlen(text, RTA_PAYLOAD(attribute)));
}

// RTA_OK and friends of the kernel's headers cast away const and compare signs; this walks instead.
template <typename Visit>
void each_attribute(const std::byte* data, std::size_t size, const Visit& visit) {
  while (size >= sizeof(rtattr)) {
    const rtattr* const attribute = reinterpret_cast<const rtattr*>(data);
    if (attribute->rta_len < sizeof(rtattr) || attribute->rta_len > size) return;
    visit(attribute);
    const std::size_t step = std::min<std::size_t>(RTA_ALIGN(attribute->rta_len), size);
    data += step;
    size -= step;
  }
}

DeviceKind classify(unsigned flags, const std::string& kind_name, bool has_parent) {
  if ((flags & IFF_LOOPBACK) != 0) return DeviceKind::kLoopback;
  if (kind_name == "veth") return DeviceKind::kVeth;
  // Devices that pass on what another device received, in the softirq of that device.
  for (const char* stacked : {"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "bond", "team",
                              "bridge", "vrf", "macsec", "hsr", "dsa", "rmnet"}) {
    if (kind_name == stacked) return DeviceKind::kStacked;
  }
  if (!kind_name.empty()) return DeviceKind::kVirtual;
  return has_parent ? DeviceKind::kPhysical : DeviceKind::kUnknown;
}

void add_link(const std::byte* payload, std::size_t size, std::vector<NetDevice>& devices) {
  if (size < sizeof(ifinfomsg)) return;
  ifinfomsg info;
  std::memcpy(&info, payload, sizeof(info));
  NetDevice device;
  device.ifindex = info.ifi_index;
  device.up = (info.ifi_flags & IFF_UP) != 0;
  bool has_parent = false;
  const std::size_t head = std::min<std::size_t>(NLMSG_ALIGN(sizeof(info)), size);
  each_attribute(payload + head, size - head, [&](const rtattr* attribute) {
    switch (attribute->rta_type & NLA_TYPE_MASK) {
      case IFLA_IFNAME:
        device.name = attribute_text(attribute);
        break;
      case IFLA_QDISC:
        device.qdisc = attribute_text(attribute);
        break;
      case IFLA_PARENT_DEV_NAME:
        has_parent = true;
        break;
      case IFLA_LINKINFO:
        each_attribute(static_cast<const std::byte*>(RTA_DATA(attribute)), RTA_PAYLOAD(attribute),
                       [&](const rtattr* nested) {
                         if ((nested->rta_type & NLA_TYPE_MASK) == IFLA_INFO_KIND) {
                           device.kind_name = attribute_text(nested);
                         }
                       });
        break;
      default:
        break;
    }
  });
  device.kind = classify(info.ifi_flags, device.kind_name, has_parent);
  devices.push_back(std::move(device));
}

// The devices of the calling thread's network namespace.
Result<std::vector<NetDevice>> query_links() {
  const Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (socket.get() < 0) return failed("cannot open rtnetlink", errno);
  struct {
    nlmsghdr header;
    ifinfomsg info;
  } request{};
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof(ifinfomsg));
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.info.ifi_family = AF_UNSPEC;
  if (::send(socket.get(), &request, request.header.nlmsg_len, 0) < 0) {
    return failed("cannot ask rtnetlink for devices", errno);
  }
  std::vector<NetDevice> devices;
  alignas(nlmsghdr) std::byte buffer[32768];
  for (;;) {
    const ssize_t n = ::recv(socket.get(), buffer, sizeof(buffer), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed("rtnetlink gave no answer", n < 0 ? errno : EPIPE);
    const Result<bool> more = parse_link_messages({buffer, static_cast<std::size_t>(n)}, devices);
    if (!more) return more.error();
    if (!*more) return devices;
  }
}

}  // namespace

std::string_view device_kind_name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kLoopback:
      return "loopback";
    case DeviceKind::kVeth:
      return "veth";
    case DeviceKind::kPhysical:
      return "physical";
    case DeviceKind::kStacked:
      return "stacked";
    case DeviceKind::kVirtual:
      return "virtual";
    case DeviceKind::kUnknown:
      break;
  }
  return "unknown";
}

Result<bool> parse_link_messages(std::span<const std::byte> buffer,
                                 std::vector<NetDevice>& devices) {
  while (buffer.size() >= sizeof(nlmsghdr)) {
    nlmsghdr header;
    std::memcpy(&header, buffer.data(), sizeof(header));
    if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > buffer.size()) {
      return Error{ExitCode::kRuntimeError, "rtnetlink sent a damaged message"};
    }
    const std::byte* const payload = buffer.data() + NLMSG_HDRLEN;
    const std::size_t size = header.nlmsg_len - NLMSG_HDRLEN;
    if (header.nlmsg_type == NLMSG_DONE) return false;
    if (header.nlmsg_type == NLMSG_ERROR) {
      int error = EIO;
      if (size >= sizeof(nlmsgerr)) {
        nlmsgerr answer;
        std::memcpy(&answer, payload, sizeof(answer));
        if (answer.error < 0) error = -answer.error;
      }
      return failed("rtnetlink refused to list devices", error);
    }
    if (header.nlmsg_type == RTM_NEWLINK) add_link(payload, size, devices);
    buffer = buffer.subspan(std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), buffer.size()));
  }
  return true;
}

Result<NetDevices> read_net_devices(pid_t pid) {
  const std::string path =
      pid == 0 ? "/proc/self/ns/net" : "/proc/" + std::to_string(pid) + "/ns/net";
  const Fd target(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat wanted {};
  struct stat own {};
  if (target.get() < 0 || ::fstat(target.get(), &wanted) != 0) {
    return failed("cannot look into the network namespace of process " + std::to_string(pid),
                  errno);
  }
  std::optional<Result<std::vector<NetDevice>>> links;
  if (::stat("/proc/self/ns/net", &own) == 0 && own.st_ino == wanted.st_ino &&
      own.st_dev == wanted.st_dev) {
    links = query_links();
  } else {
    // setns() moves one thread: this process stays where it is.
    std::thread([&] {
      if (::setns(target.get(), CLONE_NEWNET) != 0) {
        links = Result<std::vector<NetDevice>>(
            failed("cannot enter the network namespace of process " + std::to_string(pid), errno));
      } else {
        links = query_links();
      }
    }).join();
  }
  if (!*links) return links->error();
  NetDevices result;
  result.netns = wanted.st_ino;
  result.devices = std::move(links->value());
  return result;
}

}  // namespace whylate::host
