// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stack/evidence_counter.h"
#include "stack/evidence_vendor.h"

// What the collectors find out about a process, as plain values. The decision (decide.h) sees
// nothing else, so a test writes down a process of any stack without having it.
//
// Rules: strings are raw, as the kernel gave them (whoever prints escapes). An std::optional that
// is empty means "not known", never "none"; why it is not known stands in Evidence::could_not_read.
// Nothing here is ever read by a call that changes state: no SO_ERROR, no PACKET_STATISTICS, no
// promiscuous mode, and no file of the target's namespaces is executed.

namespace whylate::stack {

/// What a file descriptor or a mapping refers to. Decided from the kind of file system object and
/// the *registered name* of the device number (/proc/devices, /proc/misc), never from a path a user
/// can choose: a regular file called /dev/onload is kOther.
enum class ObjectKind {
  kOther,
  kSocket,           ///< socket:[inode]
  kIoUring,          ///< anon_inode:[io_uring]
  kEventPoll,        ///< anon_inode:[eventpoll]
  kEventFd,          ///< anon_inode:[eventfd]
  kBpfMap,           ///< anon_inode:bpf-map
  kBpfProgram,       ///< anon_inode:bpf-prog
  kTun,              ///< /dev/net/tun (misc device 200)
  kVhostNet,         ///< /dev/vhost-net
  kVfioContainer,    ///< /dev/vfio/vfio
  kVfioGroup,        ///< /dev/vfio/N
  kVfioDevice,       ///< anon_inode:[vfio-device], /dev/vfio/devices/vfioN
  kIommuFd,          ///< /dev/iommu
  kUio,              ///< /dev/uioN
  kPciResource,      ///< /sys/.../resourceN of a PCI device
  kUverbs,           ///< /dev/infiniband/uverbsN
  kRdmaCm,           ///< /dev/infiniband/rdma_cm
  kInfinibandEvent,  ///< anon_inode:[infinibandevent]
  kSfcChar,          ///< /dev/sfc_char: ef_vi, TCPDirect
  kOnloadDevice,     ///< /dev/onload, /dev/onload_epoll
  kOnloadSocket,     ///< "onload:[tcp:3:17]" of the onloadfs pseudo file system
  kExasock,          ///< /dev/exasock
  kExanic,           ///< /dev/exanicN, /dev/exabond-IF
  kHugePages,        ///< a file on hugetlbfs, or a huge memfd
  kMemfd,            ///< /memfd:NAME
  kDpdkRuntime,      ///< below a DPDK run-time directory (/run/dpdk/PREFIX): a name, not proof
  kStatsFile,        ///< vmastat.PID, xliostat.PID: a name, not proof
};

/// What the fdinfo of a BPF map or program says.
struct BpfObject {
  std::uint32_t type = 0;  ///< map_type (17: xskmap) or prog_type (6: XDP)
  std::uint32_t id = 0;
};

/// One file descriptor. Threads that share a table are listed once.
struct FdEntry {
  int fd = -1;
  pid_t tid = 0;  ///< the thread in whose table it was found (the leader's, unless it has its own)
  std::string link;  ///< target of /proc/PID/task/TID/fd/N
  ObjectKind kind = ObjectKind::kOther;
  std::uint64_t inode = 0;          ///< socket:[inode]; else st_ino
  std::uint64_t device = 0;         ///< st_dev of the object
  std::uint64_t device_number = 0;  ///< st_rdev: which device, for device files
  std::string device_name;          ///< what that number is registered as; "" when not registered
  std::string protocol;  ///< system.sockprotoname: "TCP", "XDP", "PACKET"; "" when unreadable
  std::optional<BpfObject> bpf;      ///< kBpfMap, kBpfProgram
  std::string interface;             ///< kTun: the line `iff:` of fdinfo; "" when not attached
  std::vector<int> epoll_fds;        ///< kEventPoll: the descriptors it watches
  bool shared_with_others = false;   ///< another process holds the same socket (inode)
  std::vector<pid_t> other_holders;  ///< those processes, at most 8
};

/// One mapping that says something about a network path; heap, stack and plain files are left out.
struct MapEntry {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset =
      0;  ///< AF_XDP: 0 rx, 0x80000000 tx, 0x100000000 fill, 0x180000000 completion
  std::string path;
  ObjectKind kind = ObjectKind::kOther;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;  ///< of the mapped object; sockets: the socket's inode
  bool shared = false;
  bool writable = false;
};

/// Libraries and marks of network stacks in mapped files.
enum class LibraryKind {
  kOnload,      ///< libonload.so, libcitransport0.so
  kOnloadExt,   ///< libonload_ext: an API stub, not acceleration
  kTcpDirect,   ///< libonload_zf
  kEfVi,        ///< libciul
  kExasock,     ///< libexasock_preload
  kExasockExt,  ///< an API stub
  kVma,         ///< libvma
  kXlio,        ///< libxlio
  kVerbs,       ///< libibverbs, librdmacm, libmlx5
  kDpdk,        ///< librte_eal
  kXdp,         ///< libxdp
  kVppSession,  ///< libvcl_ldpreload, libvppcom
  kVpp,         ///< libvlib, libvnet
  kFStack,      ///< libfstack, libff_syscall
  kIoUring,     ///< liburing
};

/// A mapped executable or library that carries the name or the marks of a network stack.
struct Library {
  LibraryKind kind = LibraryKind::kDpdk;
  std::string path;
  std::string soname;               ///< DT_SONAME; "" when it has none or cannot be read
  std::string build_id;             ///< hex; "" when none
  bool name_matches = false;        ///< the file is called like the library
  std::optional<bool> marks_match;  ///< it exports what the real one does; empty: could not be read
};

/// Which sock_diag family (or file in /proc/net) a row comes from.
enum class DiagFamily { kInet, kPacket, kUnix, kXdp };

/// tcp_info's counters of a TCP socket: they move when the kernel carries its data.
struct TcpBytes {
  Counter bytes_acked;
  Counter bytes_received;
  Counter segs_in;
  Counter segs_out;
};

/// A row of sock_diag in the target's network namespace.
struct DiagRow {
  DiagFamily family = DiagFamily::kInet;
  std::uint64_t inode = 0;
  std::uint64_t cookie = 0;
  int address_family = 0;  ///< AF_INET, AF_INET6
  int protocol = 0;        ///< IPPROTO_TCP...; packet: ethertype in host order
  std::uint8_t state = 0;  ///< TCP: 1 established, 7 closed, 10 listen, 13 bound and inactive
  std::string local;       ///< "10.0.0.1:9000", "[::]:9000"; unix: its path, abstract with '@'
  std::string remote;      ///< "" when not connected; unix: the path of the other end
  std::uint16_t local_port = 0;
  std::uint16_t remote_port = 0;
  std::uint32_t rx_queue_bytes = 0;
  std::uint32_t tx_queue_bytes = 0;
  std::optional<TcpBytes> tcp;
  Counter drops;              ///< packets the socket had no room for
  std::uint32_t ifindex = 0;  ///< packet, xdp, bound inet: 0 is any
  // packet_diag
  bool rx_ring = false;
  bool tx_ring = false;
  std::optional<std::uint32_t> fanout_id;
  // xdp_diag
  std::optional<std::uint32_t> queue;
  std::optional<bool> zero_copy;
  // unix_diag
  std::uint64_t peer_inode = 0;
  pid_t peer_pid = 0;  ///< who holds the other end; 0 unknown
};

/// What the kernel knows of one socket beyond sock_diag. From the BPF iterator of the window or,
/// where the user allowed it, from a borrowed descriptor. Empty: not read.
struct SocketFacts {
  std::uint64_t inode = 0;
  std::string source;                         ///< "iter/task_file", "getsockopt"
  std::optional<std::uint32_t> busy_poll_us;  ///< SO_BUSY_POLL (sk_ll_usec)
  std::optional<bool> prefer_busy_poll;
  std::optional<std::uint32_t> napi_id;  ///< 0: no NAPI has ever delivered to it
  std::optional<bool> qdisc_bypass;      ///< AF_PACKET: PACKET_QDISC_BYPASS
  std::optional<std::uint32_t> xdp_ifindex;
  std::optional<std::uint32_t> xdp_queue;
  std::optional<bool> xdp_zero_copy;
  std::optional<std::uint64_t> xdp_rx_dropped;
  std::optional<std::uint64_t> xdp_ring_full;
};

/// An epoll instance whose waits poll the device (EPIOCSPARAMS).
struct EpollFacts {
  int fd = -1;
  std::uint32_t busy_poll_us = 0;
  std::uint32_t budget = 0;
  bool prefer = false;
};

/// One io_uring instance from its fdinfo.
struct IoUring {
  int fd = -1;
  std::optional<pid_t> sq_thread;                 ///< SqThread; empty: none
  std::vector<std::string> registered_files;      ///< as listed: "socket:[192612]"
  std::vector<std::uint64_t> registered_sockets;  ///< inodes of those that are sockets
  std::optional<bool> napi_busy_poll;             ///< the line `NAPI:`; empty: old kernel
};

/// How an XDP program sits on an interface.
enum class XdpMode { kNone, kGeneric, kNative, kOffload };

/// Readings that tell what a device passed, whichever way.
struct DeviceCounters {
  Counter rx_packets;  ///< /proc/net/dev
  Counter tx_packets;
  Counter rx_bytes;
  Counter tx_bytes;
  Counter rx_dropped;
  std::map<std::string, Counter> ethtool;  ///< ethtool -S, by name; only those that exist
};

/// An interface of the target's network namespace.
struct Interface {
  std::uint32_t ifindex = 0;
  std::string name;
  std::string kind;    ///< IFLA_INFO_KIND: "veth", "tun"; "" for hardware
  std::string driver;  ///< "mlx5_core"; "" unknown
  bool up = false;
  bool loopback = false;
  std::uint32_t promiscuity = 0;
  std::vector<std::string> addresses;
  XdpMode xdp_mode = XdpMode::kNone;
  std::uint32_t xdp_program = 0;  ///< program id, 0 none
  std::string xdp_program_name;
  std::vector<std::uint32_t> xdp_maps;  ///< map ids the program uses; empty when unreadable
  bool xdp_maps_known = false;
  DeviceCounters counters;
};

/// A PCI device that a user-space driver holds.
struct UserDevice {
  std::string bdf;        ///< "0000:3b:00.0"
  std::string driver;     ///< vfio-pci, uio_pci_generic, igb_uio
  std::string pci_class;  ///< "0x020000" is Ethernet
  bool has_netdev = false;
};

/// One thread: who spins, and where.
struct ThreadUse {
  pid_t tid = 0;
  std::string comm;
  Counter user_ticks;
  Counter system_ticks;
  Counter voluntary_switches;
  Counter involuntary_switches;
};

/// A row of /proc/net/protocols.
struct ProtocolUse {
  std::string name;
  std::uint64_t sockets = 0;
};

/// The process itself.
struct ProcessFacts {
  pid_t pid = 0;
  std::string comm;
  std::string executable;  ///< link of /proc/PID/exe
  std::vector<std::string> arguments;
  std::uint64_t start_ns = 0;  ///< after boot
  uid_t uid = 0;
  std::vector<pid_t> nspid;  ///< from our pid namespace inwards
  bool other_net_namespace = false;
  bool other_mount_namespace = false;
  bool other_pid_namespace = false;
  std::uint64_t net_namespace = 0;                   ///< inode
  std::vector<std::uint64_t> thread_net_namespaces;  ///< those that differ from it
  std::vector<std::string>
      environment;                  ///< only what network stacks read: LD_PRELOAD, EF_*, VMA_*...
  std::optional<bool> secure_exec;  ///< AT_SECURE: the preload of the environment was ignored
  std::optional<bool> statically_linked;
  std::uint64_t hugetlb_bytes = 0;
  std::uint64_t pinned_bytes = 0;  ///< VmPin
  bool vanished = false;           ///< ended before the window did
};

/// Everything found about one process.
struct Evidence {
  ProcessFacts process;
  std::vector<FdEntry> fds;
  std::vector<MapEntry> maps;
  std::vector<Library> libraries;
  std::vector<DiagRow> diag;  ///< rows of sockets this process holds, and orphans
  std::vector<std::uint64_t>
      orphans;                 ///< inet inodes of the namespace that no process's table holds
  bool orphans_known = false;  ///< false: not every process could be looked at
  bool xdp_diag_available = false;
  std::vector<SocketFacts> socket_facts;
  std::vector<EpollFacts> epolls;
  std::vector<IoUring> rings;
  std::vector<Interface> interfaces;
  std::vector<UserDevice> user_devices;
  std::vector<ThreadUse> threads;
  std::vector<ProtocolUse> protocols;  ///< those with sockets, of the target's namespace
  std::map<std::string, Counter>
      snmp;  ///< "Udp.InDatagrams", "Udp.NoPorts", "Tcp.InSegs", of the namespace
  std::optional<OnloadEvidence> onload;
  std::optional<ExasockEvidence> exasock;
  std::vector<OffloadStats> offload_stats;
  std::optional<DpdkEvidence> dpdk;
  std::optional<RdmaEvidence> rdma;
  std::vector<SmcRow> smc;
  std::vector<std::uint64_t>
      vanished_sockets;          ///< open at the start of the window, gone at its end
  std::uint64_t collect_ns = 0;  ///< what collecting cost, both readings
  std::vector<Unreadable> could_not_read;
};

}  // namespace whylate::stack
