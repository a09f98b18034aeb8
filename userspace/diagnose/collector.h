// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "diagnose/keeper.h"
#include "request/decode.h"
#include "request/request.h"

namespace whylate {

/// The incomplete requests that had a record: an event of theirs is missing, so that they are in no
/// latency figure and nothing is blamed.
struct IncompleteSeen {
  /// By quality flag of the record (WL_Q_INCOMPLETE); a request can have several.
  std::map<std::uint32_t, std::uint64_t> by_flag;
  std::uint64_t longest_ns = 0;  ///< arrival to end, of those whose arrival is known
};

/// What a run remembers of the requests that passed by, beside the kernel's totals. Bounded memory:
/// nothing grows with the number of requests.
class Collector {
 public:
  explicit Collector(std::size_t slowest) : slowest_(slowest) {}

  void add(const Request& request);

  /// Where refused records are counted.
  SelfTest& self_test() { return self_test_; }
  const SelfTest& self_test() const { return self_test_; }

  const SlowestKeeper& slowest() const { return slowest_; }
  const StalledTime& stalled() const { return stalled_; }

  /// The median so far; it means nothing when only slow requests have records (--slower-than).
  std::optional<std::uint64_t> median_ns() const { return median_.ns(); }

  std::uint64_t records() const { return records_; }
  const IncompleteSeen& incomplete() const { return incomplete_; }
  const std::array<std::uint64_t, 6>& origins() const { return origins_; }
  const std::set<std::uint32_t>& rx_devices() const { return rx_devices_; }
  bool saw_tcp() const { return saw_tcp_; }

  /// How often idle_exit left which state, by CPU and cpuidle index (-1: unknown).
  const std::map<std::pair<std::uint32_t, int>, std::uint64_t>& idle_exits() const {
    return idle_exits_;
  }

  /// The first few local addresses requests came to, "10.7.0.2:9000/udp".
  const std::set<std::string>& endpoints() const { return endpoints_; }

 private:
  SelfTest self_test_;
  SlowestKeeper slowest_;
  StalledTime stalled_;
  RunningMedian median_;
  std::uint64_t records_ = 0;
  IncompleteSeen incomplete_;
  std::array<std::uint64_t, 6> origins_{};
  std::set<std::uint32_t> rx_devices_;
  bool saw_tcp_ = false;
  std::map<std::pair<std::uint32_t, int>, std::uint64_t> idle_exits_;
  std::set<std::string> endpoints_;
  std::set<std::uint64_t> cookies_;
};

}  // namespace whylate
