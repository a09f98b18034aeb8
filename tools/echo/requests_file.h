// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "echo/stats.h"

namespace whylate::echo {

/// The first line of a requests file.
struct RequestsHeader {
  std::string proto;
  std::string to;
  std::optional<std::int64_t> rate_millihertz;  ///< nothing: closed loop
  std::uint64_t burst = 1;
  std::uint64_t count = 0;  ///< requests that were to be sent
  std::uint64_t size_bytes = 0;
  std::uint64_t first_id = 0;
  std::uint64_t seed = 0;
  std::int64_t start_ns = 0;           ///< CLOCK_MONOTONIC
  std::int64_t start_realtime_ns = 0;  ///< CLOCK_REALTIME at the same moment
  std::int64_t timeout_ns = 0;
  bool stamps = false;
};

/// One request as read back.
struct NumberedRequest {
  std::uint64_t id = 0;
  RequestRecord record;
};

struct RequestsFile {
  RequestsHeader header;
  std::vector<NumberedRequest> requests;
};

/// Writes the JSON lines `whylate.client/1`: the header, then every request that was sent, by id.
/// requests[i] has the number header.first_id + i.
Status write_requests_file(const std::string& path, const RequestsHeader& header,
                           const std::vector<RequestRecord>& requests);

/// Reads such a file; ExitCode::kBadInput names the line at fault.
Result<RequestsFile> read_requests_file(const std::string& path);

/// The lines themselves, without the line end.
std::string header_line(const RequestsHeader& header);
std::string request_line(std::uint64_t id, const RequestRecord& request, bool stamps);

}  // namespace whylate::echo
