// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/collector.h"

#include <fmt/format.h>

#include "request/address.h"
#include "request/names.h"

namespace whylate {
namespace {

constexpr std::size_t kMaxSockets = 64;  // enough for a headline; bounds the memory

}  // namespace

void Collector::add(const Request& request) {
  const wl_request& record = request.record;
  ++records_;
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
