// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "record.h"

namespace whylate {

/// One finished request with those who held the CPU while it waited.
struct Request {
  wl_request record{};
  std::vector<wl_occupant> occupants;
};

inline std::uint64_t total_ns(const Request& request) {
  return request.record.end_ns - request.record.start_ns;
}

/// False when an event of the request is missing: it is counted, but gets no verdict.
inline bool is_complete(const Request& request) {
  return (request.record.quality & WL_Q_INCOMPLETE) == 0;
}

/// False when the next read ended the request instead of a reply.
inline bool has_reply(const Request& request) {
  return (request.record.quality & WL_Q_NO_REPLY) == 0;
}

/// True for the first two requests, which are left out of "slowest".
inline bool is_cold(const Request& request) { return (request.record.quality & WL_Q_COLD) != 0; }

}  // namespace whylate
