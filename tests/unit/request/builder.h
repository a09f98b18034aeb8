// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "request/request.h"

namespace whylate::test {

inline void copy_name(char (&field)[WL_COMM_LEN], std::string_view name) {
  std::memset(field, 0, sizeof field);
  std::memcpy(field, name.data(), std::min(name.size(), sizeof field - 1));
}

/// A complete UDP request of echo[4242] whose stages sum to its total.
inline Request make_request(std::initializer_list<std::pair<wl_stage, std::uint64_t>> stages,
                            std::uint64_t seq = 7, std::uint64_t start_ns = 1'000'000) {
  Request request;
  wl_request& record = request.record;
  record.seq = seq;
  record.start_ns = start_ns;
  record.end_ns = start_ns;
  for (const auto& [stage, ns] : stages) {
    record.stage_ns[stage] = ns;
    record.end_ns += ns;
  }
  record.recv_ns = record.end_ns;
  record.tgid = 4242;
  record.tid = 4243;
  copy_name(record.comm, "echo");
  record.irq = WL_NO_IRQ;
  record.blocked_syscall = WL_NO_SYSCALL;
  record.laddr[0] = 10, record.laddr[1] = 7, record.laddr[3] = 2;
  record.raddr[0] = 10, record.raddr[1] = 7, record.raddr[3] = 1;
  record.lport = 9000;
  record.rport = 40000;
  record.irq_cpu = WL_NO_CPU;
  record.rx_cpu = 1;
  record.run_cpu = 1;
  record.recv_cpu = 1;
  record.tx_cpu = 1;
  record.app_cpu = 1;
  record.tx_backlog = WL_NO_BACKLOG;
  record.family = 4;
  record.proto = WL_PROTO_UDP;
  record.origin = WL_ORIGIN_NETIF_RX;
  record.softirq_mode = WL_SOFTIRQ_INLINE;
  record.idle_state = -1;
  record.irq_idle_state = -1;
  return request;
}

inline wl_occupant& add_occupant(Request& request, wl_stage stage, wl_occupant_kind kind,
                                 std::uint64_t ns, std::uint32_t pid = 0,
                                 std::string_view comm = "") {
  wl_occupant occupant{};
  occupant.ns = ns;
  occupant.kind = kind;
  occupant.stage = stage;
  occupant.pid = pid;
  occupant.tgid = pid;
  occupant.prio = 120;
  occupant.cpu = 1;
  occupant.switches = 1;
  copy_name(occupant.comm, comm);
  request.occupants.push_back(occupant);
  request.record.nr_occupants = static_cast<wl_u8>(request.occupants.size());
  return request.occupants.back();
}

/// The bytes the kernel side would have put into the ring.
inline std::vector<std::byte> encode(const Request& request) {
  if (request.occupants.empty()) {
    wl_record_short record{};
    record.header = {WL_REC_REQUEST, sizeof record};
    record.request = request.record;
    std::vector<std::byte> bytes(sizeof record);
    std::memcpy(bytes.data(), &record, sizeof record);
    return bytes;
  }
  wl_record_long record{};
  record.header = {WL_REC_REQUEST_LONG, sizeof record};
  record.request = request.record;
  std::memcpy(record.occupants, request.occupants.data(),
              request.occupants.size() * sizeof(wl_occupant));
  std::vector<std::byte> bytes(sizeof record);
  std::memcpy(bytes.data(), &record, sizeof record);
  return bytes;
}

}  // namespace whylate::test
