// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <array>
#include <cstddef>

#include "stack/verdict.h"

namespace whylate::stack {
namespace {

constexpr const char* kTapSeesRx =
    "its packets pass the receive tap (packet_type in __netif_receive_skb_core) on the way to "
    "the socket";
constexpr const char* kTapSeesTx =
    "its packets pass the transmit tap (dev_queue_xmit_nit) behind the queueing discipline";
constexpr const char* kOwnDriver =
    "a driver in user space owns the device: no sk_buff is built, so no tap is passed";
constexpr const char* kNoSocket = "there is no kernel socket: nothing for sock_diag to list";

constexpr auto kTraits = std::to_array<StackTraits>({
    {Stack::kNone, "none", "no network stack", Sight::kUnknown, "there is no traffic to see",
     Sight::kUnknown, "there is no traffic to see", Listing::kHides, "it has no sockets", "", true,
     false},
    {Stack::kUnknown, "unknown", "an unknown stack", Sight::kUnknown,
     "which stack carries it is not known", Sight::kUnknown, "which stack carries it is not known",
     Listing::kHides, "sock_diag does not know it", "", true, false},
    {Stack::kMixed, "mixed", "several stacks", Sight::kUnknown, "differs from socket to socket",
     Sight::kUnknown, "differs from socket to socket", Listing::kHides,
     "differs from socket to socket", "", true, false},
    {Stack::kKernel, "kernel", "the kernel's stack", Sight::kSees, kTapSeesRx, Sight::kSees,
     kTapSeesTx, Listing::kLists, "it is in the kernel's tables", "tcpdump ; ss -tuanpie", true,
     false},
    {Stack::kKernelBusyPoll, "kernel_busy_poll", "the kernel's stack with busy polling",
     Sight::kSees, "busy polling changes who fetches packets from the device, not their way",
     Sight::kSees, kTapSeesTx, Listing::kLists,
     "it is in the kernel's tables; ss has no column for busy polling", "tcpdump ; ss -tuanpie",
     true, false},
    {Stack::kIoUring, "io_uring", "the kernel's stack through io_uring", Sight::kSees,
     "io_uring changes how the process asks, not the packets' way", Sight::kSees, kTapSeesTx,
     Listing::kLists, "it is in the kernel's tables",
     "tcpdump ; ss -tuan (without -p) ; /proc/PID/fdinfo of the io_uring descriptor", true, false},
    {Stack::kSmc, "smc", "SMC", Sight::kBlind,
     "data goes through RDMA writes or shared memory; only the TCP handshake passes the tap",
     Sight::kBlind,
     "data goes through RDMA writes or shared memory; only the TCP handshake passes the tap",
     Listing::kShadow, "ss lists the TCP socket of the handshake; its bytes stand still",
     "smcss -a ; smc_rnics ; smcr stats", false, true},
    {Stack::kMptcp, "mptcp", "the kernel's stack with MPTCP", Sight::kSees, kTapSeesRx,
     Sight::kSees, kTapSeesTx, Listing::kLists,
     "ss -M lists it; each subflow is a TCP socket of its own", "tcpdump ; ss -Manpie ; ip mptcp",
     true, false},
    {Stack::kAfXdp, "af_xdp", "AF_XDP", Sight::kBlind,
     "XDP redirects the packet before the receive tap: in the driver (native), or ahead of the "
     "tap in __netif_receive_skb_core (generic)",
     Sight::kBlind,
     "the transmit path hands the frame to the driver directly (__dev_direct_xmit, or zero copy "
     "without any sk_buff) and skips dev_queue_xmit_nit",
     Listing::kHides, "AF_XDP is no inet family: only ss --xdp lists it, through xdp_diag",
     "xdpdump -i IFACE (receive only) ; bpftool net ; ethtool -S IFACE ; capture at the peer or on "
     "a mirror port",
     true, true},
    {Stack::kAfPacket, "af_packet", "AF_PACKET", Sight::kSees,
     "a packet socket is a tap itself: tcpdump stands beside it and gets its own copy",
     Sight::kSees, kTapSeesTx, Listing::kLists,
     "only ss -0 lists it: a packet socket is in no inet table", "ss -0anpe ; tcpdump -i IFACE",
     true, true},
    {Stack::kTun, "tun_tap", "TUN/TAP", Sight::kSees,
     "on the tun or tap interface only: packets cross it between kernel and process", Sight::kSees,
     "on the tun or tap interface only: packets cross it between kernel and process",
     Listing::kHides, "/dev/net/tun is a device, not a socket", "tcpdump -i IFACE ; ip -s link",
     true, true},
    {Stack::kUserDriver, "user_driver", "a device driver in user space", Sight::kBlind, kOwnDriver,
     Sight::kBlind, kOwnDriver, Listing::kHides, kNoSocket,
     "counters of the switch port ; capture on a mirror port", false, true},
    {Stack::kDpdk, "dpdk", "DPDK", Sight::kBlind, kOwnDriver, Sight::kBlind, kOwnDriver,
     Listing::kHides, kNoSocket,
     "dpdk-dumpcap (the primary must have rte_pdump) ; dpdk-proc-info --xstats ; dpdk-telemetry.py",
     false, true},
    {Stack::kFStack, "f_stack", "F-Stack", Sight::kBlind, kOwnDriver, Sight::kBlind, kOwnDriver,
     Listing::kHides, "its sockets live in a FreeBSD stack in the process's own memory",
     "ff_netstat ; ff_traffic ; pcap= in F-Stack's config.ini", false, true},
    {Stack::kVpp, "vpp", "VPP", Sight::kBlind,
     "VPP takes the packet from the device itself; a linux-cp tap shows only what it punts",
     Sight::kBlind, "VPP hands the packet to the device itself", Listing::kHides,
     "its sessions live in VPP's memory",
     "vppctl show session verbose ; vppctl trace add ; vppctl pcap trace", false, true},
    {Stack::kOnload, "onload", "OpenOnload", Sight::kBlind,
     "the adapter's filter puts the packet into the process's own receive ring; the kernel's "
     "driver never gets it",
     Sight::kBlind, "the process writes the frame into the adapter's send queue itself",
     Listing::kShadow, "Onload's kernel module keeps a shadow socket that no process's table holds",
     "onload_stackdump lots ; onload_tcpdump", false, true},
    {Stack::kTcpDirect, "tcpdirect", "TCPDirect", Sight::kBlind,
     "the adapter's filter puts the packet into the process's own receive ring", Sight::kBlind,
     "the process writes the frame into the adapter's send queue itself", Listing::kHides,
     "zockets are no file descriptors", "zf_stackdump ; solar_capture in sniff mode", false, true},
    {Stack::kEfVi, "ef_vi", "ef_vi", Sight::kBlind,
     "the adapter's filter puts the packet into the process's own receive ring", Sight::kBlind,
     "the process writes the frame into the adapter's send queue itself", Listing::kHides,
     kNoSocket, "solar_capture in sniff mode ; ethtool -S IFACE", false, true},
    {Stack::kExasock, "exasock", "exasock", Sight::kBlind,
     "the exanic driver's intercept takes the packet before netif_receive_skb", Sight::kBlind,
     "the process writes the frame into the card's send buffer itself", Listing::kShadow,
     "the native socket beneath is bound, yet carries nothing",
     "exasock-stat ; exanic-capture (receive only) ; exanic-config", false, true},
    {Stack::kVma, "vma", "VMA", Sight::kBlind,
     "a steering rule of the adapter puts the packet into the process's own queue pair",
     Sight::kBlind, "the process posts the frame to its own queue pair", Listing::kShadow,
     "VMA also opens, binds and connects a kernel socket, which carries nothing",
     "vma_stats -p PID -v 4 ; tcpdump -i mlx5_0 (libpcap with rdmasniff)", false, true},
    {Stack::kXlio, "xlio", "XLIO", Sight::kBlind,
     "a steering rule of the adapter puts the packet into the process's own queue pair",
     Sight::kBlind, "the process posts the frame to its own queue pair", Listing::kShadow,
     "XLIO keeps a kernel socket for what listens or connects; accepted connections have none",
     "xlio_stats -p PID -v 4 ; tcpdump -i mlx5_0 (libpcap with rdmasniff)", false, true},
    {Stack::kRdma, "rdma", "RDMA verbs", Sight::kBlind,
     "the adapter writes to the process's memory; nothing passes the netdev", Sight::kBlind,
     "the adapter reads from the process's memory; nothing passes the netdev", Listing::kHides,
     "queue pairs are no sockets",
     "rdma res show qp ; rdma statistic ; tcpdump -i mlx5_0 (libpcap with rdmasniff)", false, true},
});

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTraits.size(); ++i) {
    if (static_cast<std::size_t>(kTraits[i].stack) != i) return false;
  }
  return true;
}
static_assert(in_order(), "one row for each Stack, in its order");

}  // namespace

const StackTraits& traits(Stack stack) { return kTraits[static_cast<std::size_t>(stack)]; }

const char* name(Confidence confidence) {
  switch (confidence) {
    case Confidence::kCertain:
      return "certain";
    case Confidence::kLikely:
      return "likely";
    case Confidence::kPossible:
      return "possible";
    case Confidence::kUnknown:
      break;
  }
  return "unknown";
}

const char* name(Sight sight) {
  switch (sight) {
    case Sight::kSees:
      return "sees";
    case Sight::kBlind:
      return "blind";
    case Sight::kPartly:
      return "partly";
    case Sight::kUnknown:
      break;
  }
  return "unknown";
}

const char* name(Listing listing) {
  switch (listing) {
    case Listing::kLists:
      return "lists";
    case Listing::kShadow:
      return "shadow";
    case Listing::kHides:
      break;
  }
  return "hides";
}

}  // namespace whylate::stack
