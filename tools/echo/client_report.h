// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

#include "base/result.h"
#include "echo/client.h"
#include "echo/requests_file.h"

namespace whylate::echo {

/// The client's result in figures; text and JSON render the same.
struct ClientSummary {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t lost = 0;
  std::int64_t duration_ns = 0;
  bool interrupted = false;
  std::optional<Figures> latency;
  std::optional<Figures> latency_intended;
  std::optional<Figures> lateness;
  Oddities oddities;
};

ClientSummary summarize(const ClientRun& run);

std::string to_text(const ClientOptions& options, const ClientSummary& summary);
/// One object, `whylate.client_summary/1`, without a line end.
std::string to_json(const ClientOptions& options, const ClientSummary& summary);

/// The first line of the requests file.
RequestsHeader requests_header(const ClientOptions& options, const ClientRun& run);

/// Writes a HdrHistogram V2 log: the latencies from actual send; with a schedule, also those from
/// intended send, tagged `intended`.
Status write_hdr_log(const std::string& path, const std::string& tag, const ClientRun& run);

/// 0 done; 1 nothing was answered; 5 replies were wrong or the server ended a connection.
ExitCode exit_code(const ClientSummary& summary);

/// `850ns`, `4.15us`, `1.55ms`, `2.00s`.
std::string human_duration(std::int64_t ns);

}  // namespace whylate::echo
