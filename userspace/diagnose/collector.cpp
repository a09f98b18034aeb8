// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/collector.h"

#include <fmt/format.h>

#include <algorithm>

#include "request/address.h"
#include "request/names.h"

namespace whylate {
namespace {

constexpr std::size_t kMaxSockets = 64;  // enough for a headline; bounds the memory

void note_incomplete(const wl_request& record, IncompleteSeen& seen) {
  for (std::uint32_t flag = 1; flag != 0; flag <<= 1) {
    if ((record.quality & WL_Q_INCOMPLETE & flag) != 0) ++seen.by_flag[flag];
  }
  if ((record.quality & (WL_Q_NO_ARRIVAL | WL_Q_DEBT_UNPAID)) != 0) return;
  if (record.end_ns > record.start_ns) {
    seen.longest_ns = std::max<std::uint64_t>(seen.longest_ns, record.end_ns - record.start_ns);
  }
}

}  // namespace

void Collector::add(const Request& request) {
  const wl_request& record = request.record;
  ++records_;
  if ((record.quality & WL_Q_INCOMPLETE) != 0) note_incomplete(record, incomplete_);
  slowest_.add(request);
  stalled_.add(request);
  median_.add(request);
  if (record.origin < origins_.size()) ++origins_[record.origin];
  if (record.rx_ifindex != 0 && rx_devices_.size() < kMaxSockets) {
    rx_devices_.insert(record.rx_ifindex);
  }
  if (record.proto == WL_PROTO_TCP) saw_tcp_ = true;
  if (record.stage_ns[WL_STAGE_IDLE_EXIT] > 0) ++idle_exits_[{record.run_cpu, record.idle_state}];
  if (cookies_.size() < kMaxSockets && cookies_.insert(record.sk_cookie).second) {
    endpoints_.insert(fmt::format("{}/{}",
                                  format_endpoint(record.family, record.laddr, record.lport),
                                  proto_name(record.proto)));
  }
}

}  // namespace whylate
