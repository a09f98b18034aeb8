// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stack/evidence_counter.h"

// What drivers and libraries other than the kernel's own stack say of themselves: a part of the
// evidence (evidence.h).

namespace whylate::stack {

// ---- Vendor sources. Each is present only when its source exists. ----

/// A row of /proc/driver/onload/stacks.
struct OnloadStack {
  std::uint32_t id = 0;
  std::string name;
  pid_t pid = 0;
  Counter rx_events;
  Counter tx_events;
};

struct OnloadEvidence {
  bool module_loaded = false;
  std::string version;
  std::vector<OnloadStack> stacks;  ///< of the whole host; those of this process by its descriptors
};

/// A socket as the netlink family "exasock" lists it.
struct ExasockSocket {
  pid_t pid = 0;
  int fd = -1;
  std::string local;
  std::string remote;
};

struct ExasockEvidence {
  bool module_loaded = false;
  bool family_registered = false;
  std::vector<ExasockSocket> sockets;
};

/// A socket in a statistics file of VMA or XLIO.
struct OffloadSocket {
  int fd = -1;
  std::uint64_t inode = 0;
  bool offloaded = false;
  Counter offloaded_rx_packets;
  Counter offloaded_tx_packets;
  Counter os_rx_packets;
  Counter os_tx_packets;
};

struct OffloadStats {
  bool xlio = false;  ///< else VMA
  std::string path;
  std::string version;
  bool version_known = false;  ///< otherwise nothing below is filled
  std::vector<OffloadSocket> sockets;
};

/// A port as DPDK's telemetry names it.
struct DpdkPort {
  std::string name;    ///< "net_af_xdp0", "0000:3b:00.0"
  std::string driver;  ///< "net_af_xdp", "mlx5_pci"; "" unknown
  Counter rx_packets;
  Counter tx_packets;
  Counter rx_no_buffer;
};

struct DpdkEvidence {
  std::string run_directory;    ///< "/run/dpdk/rte"; "" when none is open
  std::optional<bool> primary;  ///< holds the lock on `config`
  pid_t primary_pid = 0;        ///< of the same run directory; 0 unknown
  std::string version;          ///< from telemetry
  std::vector<std::string> eal_parameters;
  std::vector<DpdkPort> ports;
  bool telemetry_answered = false;
};

/// A queue pair or identifier that the RDMA subsystem books on this process.
struct RdmaResource {
  std::string device;  ///< "mlx5_0"
  std::string kind;    ///< "qp", "cm_id", "mr"
  std::string type;    ///< "RAW_PACKET", "RC"
  std::uint32_t number = 0;
};

struct RdmaEvidence {
  std::vector<RdmaResource> resources;           ///< of this pid
  std::map<std::string, std::string> netdev_of;  ///< "uverbs0" or "mlx5_0" to interface name
  std::map<std::string, Counter> counters;       ///< "mlx5_0/1/port_rcv_packets"
};

/// A socket of a family with a transport of its own beneath: SMC, MPTCP.
struct SmcRow {
  std::uint64_t inode = 0;
  std::optional<bool> fell_back;  ///< to TCP
  std::string mode;               ///< "SMCR", "SMCD", "TCP"
};

}  // namespace whylate::stack
