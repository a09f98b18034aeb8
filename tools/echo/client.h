// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "echo/options.h"
#include "echo/stats.h"

namespace whylate::echo {

/// What went otherwise than one reply per request.
struct Oddities {
  std::uint64_t late = 0;          ///< replies after the timeout; their requests count as lost
  std::uint64_t duplicates = 0;    ///< second replies
  std::uint64_t mismatched = 0;    ///< replies whose bytes differ from the request's
  std::uint64_t unexpected = 0;    ///< replies to no request of this socket
  std::uint64_t refused = 0;       ///< ICMP port unreachable
  std::uint64_t send_errors = 0;   ///< requests that could not be sent
  int send_errno = 0;              ///< why, for one of them
  std::uint64_t disconnected = 0;  ///< TCP connections the server ended

  Oddities& operator+=(const Oddities& other);
};

/// A finished run. requests[i] has the number first_id + i.
struct ClientRun {
  std::vector<RequestRecord> requests;
  std::int64_t start_ns = 0;           ///< CLOCK_MONOTONIC
  std::int64_t start_realtime_ns = 0;  ///< CLOCK_REALTIME at the same moment
  std::int64_t end_ns = 0;
  bool interrupted = false;
  Oddities oddities;
};

/// Sends all requests, in the calling thread and, with several senders, further ones. Ends early on
/// a signal.
Result<ClientRun> run_client(const ClientOptions& options);

}  // namespace whylate::echo
