// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/netdev.h"

#include <gtest/gtest.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace whylate::host {
namespace {

// Builds netlink messages as the kernel would send them.
class Builder {
 public:
  void begin(unsigned short type) {
    pad();
    start_ = bytes_.size();
    nlmsghdr header{};
    header.nlmsg_type = type;
    append(&header, sizeof(header));
  }
  void end() {
    const std::uint32_t length = static_cast<std::uint32_t>(bytes_.size() - start_);
    std::memcpy(bytes_.data() + start_, &length, sizeof(length));
  }
  void attribute(unsigned short type, const void* data, std::size_t size) {
    rtattr head{};
    head.rta_type = type;
    head.rta_len = static_cast<unsigned short>(RTA_LENGTH(size));
    append(&head, sizeof(head));
    append(data, size);
    pad();
  }
  void text(unsigned short type, const char* value) {
    attribute(type, value, std::strlen(value) + 1);
  }
  void link(int ifindex, unsigned flags, const char* name, const char* qdisc, const char* kind,
            bool parent) {
    begin(RTM_NEWLINK);
    ifinfomsg info{};
    info.ifi_index = ifindex;
    info.ifi_flags = flags;
    append(&info, sizeof(info));
    text(IFLA_IFNAME, name);
    if (qdisc != nullptr) text(IFLA_QDISC, qdisc);
    if (kind != nullptr) {
      Builder inner;
      inner.text(IFLA_INFO_KIND, kind);
      attribute(IFLA_LINKINFO | NLA_F_NESTED, inner.bytes_.data(), inner.bytes_.size());
    }
    if (parent) text(IFLA_PARENT_DEV_NAME, "0000:00:03.0");
    end();
  }
  std::span<const std::byte> view() const { return bytes_; }
  void append(const void* data, std::size_t size) {
    const std::byte* const from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }
  void truncate(std::size_t size) { bytes_.resize(size); }

 private:
  void pad() { bytes_.resize((bytes_.size() + 3) / 4 * 4); }
  std::vector<std::byte> bytes_;
  std::size_t start_ = 0;
};

TEST(NetDevices, KindsAndQueues) {
  Builder messages;
  messages.link(1, IFF_UP | IFF_LOOPBACK, "lo", "noqueue", nullptr, false);
  messages.link(2, IFF_UP, "eth0", "mq", nullptr, true);
  messages.link(3, IFF_UP, "veth0", "noqueue", "veth", false);
  messages.link(4, 0, "ifb0", "noop", "ifb", false);
  messages.link(5, IFF_UP, "eth0.7", "noqueue", "vlan", false);
  messages.link(6, IFF_UP, "odd0", nullptr, nullptr, false);
  std::vector<NetDevice> devices;
  const Result<bool> more = parse_link_messages(messages.view(), devices);
  ASSERT_TRUE(more.ok());
  EXPECT_TRUE(*more);
  ASSERT_EQ(devices.size(), 6u);
  const DeviceKind kinds[] = {DeviceKind::kLoopback, DeviceKind::kPhysical, DeviceKind::kVeth,
                              DeviceKind::kVirtual,  DeviceKind::kStacked,  DeviceKind::kUnknown};
  const bool hard_irq[] = {false, true, false, false, true, true};
  const bool queue[] = {false, true, false, false, false, true};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(devices[i].ifindex, static_cast<int>(i) + 1);
    EXPECT_EQ(devices[i].kind, kinds[i]) << devices[i].name;
    EXPECT_EQ(devices[i].may_have_hard_irq(), hard_irq[i]) << devices[i].name;
    EXPECT_EQ(devices[i].has_queue(), queue[i]) << devices[i].name;
  }
  EXPECT_EQ(devices[1].name, "eth0");
  EXPECT_EQ(devices[1].qdisc, "mq");
  EXPECT_EQ(devices[2].kind_name, "veth");
  EXPECT_FALSE(devices[3].up);
  EXPECT_TRUE(devices[4].up);
}

TEST(NetDevices, EndErrorAndDamage) {
  std::vector<NetDevice> devices;
  Builder done;
  done.begin(NLMSG_DONE);
  done.end();
  const Result<bool> end = parse_link_messages(done.view(), devices);
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(*end);

  Builder refused;
  refused.begin(NLMSG_ERROR);
  nlmsgerr error{};
  error.error = -EPERM;
  refused.append(&error, sizeof(error));
  refused.end();
  EXPECT_FALSE(parse_link_messages(refused.view(), devices).ok());

  // Cut anywhere: an error or fewer devices, never a read beyond the end.
  Builder whole;
  whole.link(2, IFF_UP, "eth0", "mq", "vlan", true);
  const std::size_t size = whole.view().size();
  for (std::size_t cut = 0; cut < size; ++cut) {
    std::vector<std::byte> part(whole.view().begin(),
                                whole.view().begin() + static_cast<std::ptrdiff_t>(cut));
    std::vector<NetDevice> found;
    (void)parse_link_messages(part, found);
    EXPECT_TRUE(found.empty()) << cut;
  }
}

TEST(NetDevices, ThisNamespaceHasLoopback) {
  const Result<NetDevices> own = read_net_devices(0);
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_NE(own->netns, 0u);
  EXPECT_TRUE(std::any_of(own->devices.begin(), own->devices.end(), [](const NetDevice& device) {
    return device.kind == DeviceKind::kLoopback && device.ifindex == 1;
  }));
  const Result<NetDevices> by_pid = read_net_devices(getpid());
  ASSERT_TRUE(by_pid.ok());
  EXPECT_EQ(by_pid->netns, own->netns);
  EXPECT_FALSE(read_net_devices(0x3fffffff).ok());
}

}  // namespace
}  // namespace whylate::host
