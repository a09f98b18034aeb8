// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace whylate::echo {

/// Marks a time that is not known; it is written as null, never as a number.
constexpr std::int64_t kUnknownNs = -1;

/// What the client recorded of one request. Times are CLOCK_MONOTONIC, the stamps CLOCK_REALTIME.
struct RequestRecord {
  std::int64_t intended_ns = kUnknownNs;  ///< by the schedule; unknown in closed loop
  std::int64_t sent_ns = kUnknownNs;      ///< read just before the send call
  std::int64_t received_ns = kUnknownNs;  ///< read just after the receive call returned
  std::int64_t tx_stamp_ns = kUnknownNs;
  std::int64_t rx_stamp_ns = kUnknownNs;
  bool mismatch = false;  ///< the reply's bytes were not those sent
};

/// Figures of a set of latencies. Percentiles are by nearest rank on the sorted exact values: the
/// p-th is the value at rank ceil(p/100 * n), so it is always a value that occurred.
struct Figures {
  std::uint64_t count = 0;
  std::int64_t min_ns = 0;
  std::int64_t p50_ns = 0;
  std::int64_t p90_ns = 0;
  std::int64_t p99_ns = 0;
  std::int64_t p99_9_ns = 0;
  std::int64_t max_ns = 0;
  /// The largest but for the first two requests, which are cold; nothing with fewer than three
  /// requests.
  std::optional<std::int64_t> slowest_but_first_two_ns;
};

/// The value at rank ceil(p/100 * n) of a sorted, non-empty vector; `percent_milli` is 1000 p
/// (p99.9: 99900).
std::int64_t nearest_rank(const std::vector<std::int64_t>& sorted, std::uint32_t percent_milli);

enum class Origin { kSent, kIntended };

/// A request's latency from the chosen origin; nothing when it was not answered or has no such
/// origin.
std::optional<std::int64_t> latency_ns(const RequestRecord& request, Origin origin);

/// Figures over all answered requests, in send order; nothing when there is none.
std::optional<Figures> latency_figures(const std::vector<RequestRecord>& requests, Origin origin);

/// How late the client itself sent: actual minus intended, over all that were sent; nothing in
/// closed loop.
std::optional<Figures> lateness_figures(const std::vector<RequestRecord>& requests);

}  // namespace whylate::echo
