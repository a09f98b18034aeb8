// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// DPDK's testpmd answering real requests through each of the devices that need no hardware, beside
// what tcpdump and ss show of it.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "support/attached.h"
#include "support/host.h"
#include "support/trace.h"
#include "support/witness.h"

namespace whylate::live {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kPort = 7777;
constexpr std::uint64_t kRequests = 2'000;

/// A device of DPDK's, and what is true of it.
struct Vdev {
  const char* name;
  std::string device;    ///< --vdev
  std::string kind;      ///< of the socket or handle beneath: "xdp", "packet", "tun"
  std::string stack;     ///< ... and its stack
  std::string address;   ///< where requests go
  bool tap = false;      ///< the kernel itself is the client
  bool sees_in = false;  ///< by tcpdump
  bool sees_out = false;
};

constexpr const char* kTap = "wldtap";

const std::vector<Vdev>& vdevs() {
  const std::string interface = VethPair::kServerDevice;
  static const std::vector<Vdev> kVdevs = {
      {"af_xdp", "net_af_xdp0,iface=" + interface, "xdp", "af_xdp", VethPair::kServerAddress4},
      // An address the kernel does not own: it gets every frame, too, and would refuse.
      {"af_packet", "net_af_packet0,iface=" + interface, "packet", "af_packet", "10.83.0.9", false,
       true, false},
      {"af_packet_through_the_qdisc", "net_af_packet0,iface=" + interface + ",qdisc_bypass=0",
       "packet", "af_packet", "10.83.0.9", false, true, true},
      {"tap", fmt::format("net_tap0,iface={}", kTap), "tun", "tun_tap", "10.84.0.2", true, true,
       true},
  };
  return kVdevs;
}

/// testpmd in a namespace: it sends every frame back with its addresses and ports swapped, which is
/// what an echo server does.
class Testpmd {
 public:
  Testpmd(const NetNs& space, const std::string& vdev) {
    int input[2];
    if (::pipe2(input, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    SpawnOptions options;
    options.netns_fd = space.fd();
    // It ends when its standard input does.
    options.in_child = [&] { ::dup2(input[0], STDIN_FILENO); };
    child_ = Child::spawn(
        {"stdbuf", "-oL", "dpdk-testpmd", "--no-huge", "-m", "256", "--no-pci", "-l", "0,1",
         "--vdev=" + vdev, "--file-prefix=" + prefix_, "--", "--forward-mode=5tswap",
         // AF_XDP's fill ring takes thousands of buffers away from the pool.
         "--total-num-mbufs=16384", "-a"},
        options);
    ::close(input[0]);
    input_ = input[1];
    if (!child_.wait_line("forwards packets on", 30'000)) {
      throw std::runtime_error("testpmd does not start: " + child_.out() + child_.err());
    }
  }
  ~Testpmd() {
    child_.send(SIGTERM);
    ::close(input_);
    child_.wait();
    std::filesystem::remove_all("/run/dpdk/" + prefix_);  // DPDK leaves it behind
  }
  Testpmd(const Testpmd&) = delete;
  Testpmd& operator=(const Testpmd&) = delete;
  pid_t pid() const { return child_.pid(); }

 private:
  std::string prefix_ = fmt::format("wld{}", ::getpid());
  int input_ = -1;
  Child child_;
};

std::string address_of_device(const NetNs& space, const std::string& device) {
  SpawnOptions options;
  options.netns_fd = space.fd();
  const Child ip = Child::run({"ip", "-j", "link", "show", "dev", device}, options);
  const Json links = Json::parse(ip.out(), nullptr, false);
  return links.is_array() && !links.empty() ? links[0].value("address", "") : "";
}

class Dpdk : public ::testing::TestWithParam<int> {};

TEST_P(Dpdk, IsNamedWithWhatCarriesItBeneath) {
  const Vdev& vdev = vdevs().at(static_cast<std::size_t>(GetParam()));
  const std::set<int> before = tracer_programs();
  {
    const VethPair pair;
    SpawnOptions at_client;
    at_client.netns_fd = vdev.tap ? pair.server().fd() : pair.client().fd();
    // Between virtual devices checksums are left half done; a swap would not make them right.
    if (!vdev.tap) {
      ASSERT_EQ(Child::run({"ethtool", "-K", VethPair::kClientDevice, "tx", "off"}, at_client)
                    .exit_code(),
                0);
    }
    const Testpmd testpmd(pair.server(), vdev.device);
    const NetNs& client_space = vdev.tap ? pair.server() : pair.client();
    const std::string device = vdev.tap ? kTap : VethPair::kServerDevice;
    if (vdev.tap) pair.server().ip(fmt::format("addr add 10.84.0.1/24 dev {}", kTap));
    // testpmd answers no ARP.
    client_space.ip(
        fmt::format("neigh replace {} lladdr {} dev {}", vdev.address,
                    vdev.tap ? "02:00:00:00:00:09" : address_of_device(pair.server(), device),
                    vdev.tap ? kTap : VethPair::kClientDevice));
    Tcpdump tcpdump(pair.server(), device, vdev.address, kPort);
    Child client = start_client({"--to", fmt::format("{}:{}", vdev.address, kPort), "--rate", "333",
                                 "--count", std::to_string(kRequests)},
                                at_client);
    sleep_ms(500);
    const Child stack = Child::run(
        {whylate_path(), "stack", "-p", std::to_string(testpmd.pid()), "-w", "2s", "--json"});
    ASSERT_EQ(stack.exit_code(), 0) << stack.err();
    const Json report = Json::parse(stack.out(), nullptr, false);
    ASSERT_FALSE(report.is_discarded()) << stack.out();
    const std::size_t ss_udp = ss_lines(pair.server(), "--udp", testpmd.pid());
    const std::size_t ss_tcp = ss_lines(pair.server(), "--tcp", testpmd.pid());
    const std::size_t ss_packet = ss_lines(pair.server(), "--packet", testpmd.pid());
    const std::size_t ss_xdp = ss_lines(pair.server(), "--xdp", testpmd.pid());
    client.wait(60'000);
    const Json summary = Json::parse(client.out(), nullptr, false);
    ASSERT_FALSE(summary.is_discarded()) << client.err();
    // AF_XDP takes whatever comes in, so the last word goes out there.
    pair.server().ip(fmt::format("neigh replace {} lladdr {} dev {}", VethPair::kClientAddress4,
                                 address_of_device(pair.client(), VethPair::kClientDevice),
                                 VethPair::kServerDevice));
    const Tcpdump::Captured captured = vdev.sees_in
                                           ? tcpdump.stop(client_space)
                                           : tcpdump.stop(pair.server(), VethPair::kClientAddress4);

    // What is so: the traffic was real, and each witness saw of it what it can.
    EXPECT_EQ(summary.value("received", std::uint64_t{0}), kRequests);
    EXPECT_EQ(captured.in, vdev.sees_in ? kRequests : 0U);
    EXPECT_EQ(captured.out, vdev.sees_out ? kRequests : 0U);
    EXPECT_EQ(ss_udp + ss_tcp, 0U);
    EXPECT_EQ(ss_packet, vdev.kind == "packet" ? 1U : 0U);

    // What is said.
    EXPECT_EQ(report["verdict"], "dpdk") << report.dump(1);
    EXPECT_EQ(report["confidence"], "certain");
    EXPECT_EQ(report["derived_from_source"], false);
    EXPECT_EQ(report["tcpdump"]["rx"], captured.in > 0 ? "sees" : "blind");
    EXPECT_EQ(report["tcpdump"]["tx"], captured.out > 0 ? "sees" : "blind");
    const Json* beneath = nullptr;
    for (const Json& socket : report["sockets"]) {
      if (socket["kind"] == vdev.kind) beneath = &socket;
    }
    ASSERT_NE(beneath, nullptr) << report.dump(1);
    EXPECT_EQ((*beneath)["stack"], vdev.stack);
    for (const char* direction : {"rx", "tx"}) {
      const Json& one = (*beneath)[direction];
      const std::uint64_t seen = direction == std::string("rx") ? captured.in : captured.out;
      EXPECT_EQ(one["tcpdump"], seen > 0 ? "sees" : "blind") << one;
      ASSERT_TRUE(one["packets"].is_number()) << one;
      EXPECT_GT(one["packets"], 0) << one;
      EXPECT_LE(one["packets"], kRequests + 20) << one;
    }
    const bool listed = ss_packet + ss_xdp > 0;
    EXPECT_EQ((*beneath)["ss"], listed ? "lists" : "hides") << *beneath;
    EXPECT_EQ((*beneath)["interface"], device);
    EXPECT_EQ(report["ss"]["lists"], listed ? 1 : 0);
    EXPECT_THAT(report["headline"].get<std::string>(), HasSubstr("DPDK over"));
  }
  EXPECT_TRUE(only_left(before));
}

INSTANTIATE_TEST_SUITE_P(Vdevs, Dpdk, ::testing::Range(0, static_cast<int>(vdevs().size())),
                         [](const ::testing::TestParamInfo<int>& param) {
                           return vdevs().at(static_cast<std::size_t>(param.param)).name;
                         });

}  // namespace
}  // namespace whylate::live
