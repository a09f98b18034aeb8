// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stack/collect/netlink.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// Which families to ask for. Asking can load a kernel module, so only for what the process has.
struct DiagQuery {
  bool inet = true;  ///< TCP and UDP of both IP versions; RAW where the kernel has it
  bool mptcp = false;
  bool packet = false;
  bool unix_sockets = false;
  bool xdp = false;
  bool smc = false;
};

/// What one family answered with; `error` 0 is success.
struct DiagError {
  const char* family;  ///< "inet_diag tcp", "packet_diag", ...
  int error = 0;
};

struct DiagAnswer {
  std::vector<DiagRow> rows;
  std::vector<SmcRow> smc;
  std::vector<SocketFacts> facts;  ///< xdp_diag tells more than a row holds
  std::vector<DiagError> errors;
};

/// Dumps the tables of the calling thread's network namespace. TIME_WAIT and requests that are not
/// sockets yet are left out: no descriptor can refer to them. Counters get their `before`.
DiagAnswer dump_sockets(const DiagQuery& query);

/// One message of a dump as a row. Exposed for tests.
std::optional<DiagRow> parse_inet_row(const nlmsghdr* message, int protocol);
std::optional<DiagRow> parse_packet_row(const nlmsghdr* message);
std::optional<DiagRow> parse_unix_row(const nlmsghdr* message);
std::optional<DiagRow> parse_xdp_row(const nlmsghdr* message, SocketFacts* facts);
std::optional<SmcRow> parse_smc_row(const nlmsghdr* message);

}  // namespace whylate::stack::collect
