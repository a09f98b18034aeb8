// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <algorithm>

#include "base/escape.h"
#include "stack/rules.h"

namespace whylate::stack {
namespace {

constexpr const char* kDpdkThreads[] = {"rte-worker-",  "dpdk-worker",   "eal-intr-thread",
                                        "dpdk-intr",    "rte_mp_handle", "dpdk-mp-msg",
                                        "telemetry-v2", "dpdk-telemet"};

/// Ports of DPDK that stand for hardware, not for a socket of the kernel.
bool is_virtual_port(const DpdkPort& port) {
  static constexpr const char* kVirtual[] = {
      "net_af_xdp", "net_af_packet", "net_tap",   "net_pcap",        "net_null",
      "net_ring",   "net_memif",     "net_vhost", "net_virtio_user", "net_bonding"};
  return std::any_of(std::begin(kVirtual), std::end(kVirtual), [&port](const char* prefix) {
    return port.driver.rfind(prefix, 0) == 0 || port.name.rfind(prefix, 0) == 0;
  });
}

/// What DPDK's telemetry counted on hardware ports.
void count_telemetry(const View& view, SocketVerdict& verdict) {
  if (!view.evidence().dpdk) return;
  for (const DpdkPort& port : view.evidence().dpdk->ports) {
    if (is_virtual_port(port)) continue;
    const std::optional<std::uint64_t> rx = port.rx_packets.moved();
    const std::optional<std::uint64_t> tx = port.tx_packets.moved();
    if (rx) verdict.rx.packets = verdict.rx.packets.value_or(0) + *rx;
    if (tx) verdict.tx.packets = verdict.tx.packets.value_or(0) + *tx;
    add_fact(verdict, "DPDK telemetry",
             fmt::format("port {}: {} in and {} out in the window", escape(port.name),
                         packets_text(rx.value_or(0)), packets_text(tx.value_or(0))));
  }
  if (verdict.moved().value_or(0) > 0) verdict.confidence = Confidence::kCertain;
}

/// Which user of a device this is; without a mark it stays `otherwise`.
Stack owner_of_device(const View& view, Stack otherwise, SocketVerdict& verdict) {
  const Framework found = framework(view);
  if (found.stack == Stack::kUnknown) return otherwise;
  add_fact(verdict, fmt::format("process {}", view.evidence().process.pid), found.why);
  return found.stack;
}

bool explained_by_offload(const View& view) {
  return view.library(LibraryKind::kVma) != nullptr ||
         view.library(LibraryKind::kXlio) != nullptr || !view.evidence().offload_stats.empty();
}

}  // namespace

Framework framework(const View& view) {
  const Evidence& evidence = view.evidence();
  const bool dpdk_threads =
      std::any_of(std::begin(kDpdkThreads), std::end(kDpdkThreads),
                  [&view](const char* prefix) { return view.thread_named(prefix); });
  Framework found;
  if (evidence.dpdk &&
      (!evidence.dpdk->run_directory.empty() || evidence.dpdk->telemetry_answered)) {
    found = {Stack::kDpdk, Confidence::kLikely,
             evidence.dpdk->telemetry_answered
                 ? "its DPDK telemetry socket answers"
                 : "it holds files of " + escape(evidence.dpdk->run_directory)};
  } else if (dpdk_threads) {
    found = {Stack::kDpdk, Confidence::kPossible, "its threads are named like those of DPDK"};
  }
  if (view.thread_named("vpp_main") &&
      (view.thread_named("vpp_wk_") || view.library(LibraryKind::kVpp) != nullptr)) {
    found = {Stack::kVpp, Confidence::kLikely, "its threads are vpp_main and workers"};
  }
  if (found.stack == Stack::kDpdk && view.library(LibraryKind::kFStack) != nullptr) {
    found.stack = Stack::kFStack;
    found.confidence = Confidence::kPossible;
    found.why = "it carries the marks of F-Stack on top of DPDK: " +
                escape(view.library(LibraryKind::kFStack)->path);
  }
  return found;
}

bool is_user_driver(const View&, const Subject& subject) {
  return subject.object == ObjectKind::kVfioGroup || subject.object == ObjectKind::kVfioDevice ||
         subject.object == ObjectKind::kUio;
}

void judge_user_driver(const View& view, const Subject& subject, SocketVerdict& verdict) {
  const bool vfio = subject.object != ObjectKind::kUio;
  verdict.kind = vfio ? "vfio" : "uio";
  const Stack stack = owner_of_device(view, Stack::kUserDriver, verdict);
  use_traits(verdict, stack);
  verdict.confidence = Confidence::kLikely;
  add_fact(verdict, fd_source(view, *subject.fd()), escape(subject.fd()->link));
  bool network = view.evidence().user_devices.empty();
  std::string devices;
  for (const UserDevice& device : view.evidence().user_devices) {
    network = network || device.pci_class.empty() || device.pci_class.rfind("0x02", 0) == 0;
    devices += fmt::format("{}{} ({}{})", devices.empty() ? "" : ", ", escape(device.bdf),
                           escape(device.driver), device.has_netdev ? "" : ", no netdev");
  }
  verdict.detail = devices;
  if (!network) {
    use_traits(verdict, Stack::kUserDriver);
    verdict.confidence = Confidence::kUnknown;
    verdict.detail += "; none of them is a network device";
    verdict.rx.packets = verdict.tx.packets = 0;
    return;
  }
  if (stack == Stack::kUserDriver) {
    verdict.detail += verdict.detail.empty() ? "" : "; ";
    verdict.detail += "DPDK, SPDK, VPP and virtual machines look alike from here";
  }
  count_telemetry(view, verdict);
}

bool is_verbs(const View& view, const Subject& subject) {
  return subject.object == ObjectKind::kUverbs && !explained_by_offload(view);
}

void judge_verbs(const View& view, const Subject& subject, SocketVerdict& verdict) {
  verdict.kind = "verbs";
  add_fact(verdict, fd_source(view, *subject.fd()), escape(subject.fd()->link));
  std::size_t raw = 0;
  std::size_t pairs = 0;
  if (view.evidence().rdma) {
    for (const RdmaResource& resource : view.evidence().rdma->resources) {
      if (resource.kind != "qp") continue;
      ++pairs;
      if (resource.type == "RAW_PACKET") ++raw;
      add_fact(verdict, "rdma resources",
               fmt::format("queue pair {} of {}, type {}", resource.number, escape(resource.device),
                           escape(resource.type)));
    }
  }
  const Stack stack =
      raw > 0 || pairs == 0 ? owner_of_device(view, Stack::kRdma, verdict) : Stack::kRdma;
  use_traits(verdict, stack);
  if (pairs == 0) {
    verdict.confidence = Confidence::kPossible;
    verdict.detail = view.evidence().rdma
                         ? "a verbs device is open, and no queue pair is booked on this process"
                         : "a verbs device is open; its queue pairs could not be listed";
  } else if (raw > 0 && stack == Stack::kRdma) {
    verdict.confidence = Confidence::kPossible;
    verdict.detail = "raw packet queue pairs: DPDK on mlx5, VMA, XLIO or a program of its own";
  } else {
    verdict.confidence = Confidence::kLikely;
    verdict.detail = fmt::format("{} queue pair{}", pairs, pairs == 1 ? "" : "s");
  }
  if (stack != Stack::kRdma) {
    verdict.detail += "; the netdev stays and looks healthy, but gets only what is not steered";
    count_telemetry(view, verdict);
  }
}

bool is_sfc(const View&, const Subject& subject) { return subject.object == ObjectKind::kSfcChar; }

void judge_sfc(const View& view, const Subject& subject, SocketVerdict& verdict) {
  verdict.kind = "sfc_char";
  const bool onload_handle = view.has_fd_of(ObjectKind::kOnloadDevice);
  const bool direct = onload_handle && !view.has_fd_of(ObjectKind::kOnloadSocket);
  use_traits(verdict, direct ? Stack::kTcpDirect : Stack::kEfVi);
  // The port's counters are shared by all users of the port: nothing here is this process's alone.
  verdict.confidence = Confidence::kLikely;
  add_fact(verdict, fd_source(view, *subject.fd()), escape(subject.fd()->link));
  if (direct) add_fact(verdict, "descriptors", "/dev/onload is open too, without an Onload socket");
  if (!view.maps_kind(ObjectKind::kSfcChar) && !unreadable(view.evidence(), "/maps")) {
    verdict.confidence = Confidence::kPossible;
    verdict.detail = "the device is open, and none of its rings is mapped";
  }
}

bool is_exanic(const View& view, const Subject& subject) {
  return subject.object == ObjectKind::kExanic && view.count_fds(ObjectKind::kExasock) == 0;
}

void judge_exanic(const View& view, const Subject& subject, SocketVerdict& verdict) {
  use_traits(verdict, Stack::kUserDriver);
  verdict.kind = "exanic";
  verdict.confidence = Confidence::kLikely;
  verdict.detail = "libexanic: the card's buffers are mapped, without sockets";
  add_fact(verdict, fd_source(view, *subject.fd()), escape(subject.fd()->link));
}

bool is_dpdk_secondary(const View& view, const Subject& subject) {
  if (subject.object != ObjectKind::kDpdkRuntime || !view.evidence().dpdk) return false;
  const bool device = view.has_fd_of(ObjectKind::kVfioGroup) ||
                      view.has_fd_of(ObjectKind::kVfioDevice) || view.has_fd_of(ObjectKind::kUio) ||
                      view.has_fd_of(ObjectKind::kUverbs);
  return view.evidence().dpdk->primary == std::optional<bool>(false) && !device;
}

void judge_dpdk_secondary(const View& view, const Subject& subject, SocketVerdict& verdict) {
  use_traits(verdict, Stack::kDpdk);
  verdict.kind = "dpdk:secondary";
  verdict.confidence = Confidence::kLikely;
  const DpdkEvidence& dpdk = *view.evidence().dpdk;
  verdict.detail = dpdk.primary_pid != 0
                       ? fmt::format(
                             "secondary of process {}, whose ports it uses (a capture or "
                             "statistics tool of DPDK looks the same)",
                             dpdk.primary_pid)
                       : "secondary process: it uses the ports of a primary that was not found";
  if (subject.fd() != nullptr) {
    add_fact(verdict, fd_source(view, *subject.fd()), escape(subject.fd()->link));
  }
  add_fact(verdict, "/proc/locks",
           "another process holds the lock on " + escape(dpdk.run_directory) + "/config");
}

}  // namespace whylate::stack
