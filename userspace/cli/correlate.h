// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/options.h"

namespace whylate::cli {

/// A request as the responder's host saw it.
struct HostRequest {
  std::uint64_t id = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t total_ns = 0;
  bool complete = false;  ///< false: an event is missing, its figures explain nothing
  std::string stage;
  std::string culprit;
  std::string text;
};

/// The responder's side: output of `whylate trace --json-lines`.
struct HostFile {
  std::vector<HostRequest> requests;
  std::uint64_t without_id = 0;
  bool has_summary = false;
  bool lost_something = false;  ///< the summary line says INCOMPLETE
};

/// A request as the client saw it; CLOCK_MONOTONIC of the client's host.
struct ClientRequest {
  std::uint64_t id = 0;
  std::optional<std::uint64_t> intended_ns;  ///< none: the client keeps no schedule
  std::uint64_t sent_ns = 0;
  std::optional<std::uint64_t> received_ns;  ///< none: no reply came
};

/// The client's side: schema whylate.client/1.
struct ClientFile {
  std::vector<ClientRequest> requests;  ///< in the order of the file
};

/// Read one side. `name` stands in errors (kBadInput: "NAME:LINE: reason").
Result<HostFile> read_host_file(std::istream& in, const std::string& name);
Result<ClientFile> read_client_file(std::istream& in, const std::string& name);

enum class ExplainedBy { kClient, kHost, kRest, kUnknown };

/// One request seen from both sides. The parts sum to client_ns when `rest_ns` is known.
struct CorrelatedRequest {
  std::uint64_t id = 0;
  std::uint64_t client_ns = 0;  ///< from the intended time where there is one, else from sending
  std::uint64_t client_late_ns = 0;        ///< the client's own: sent after it was intended
  std::optional<std::uint64_t> host_ns;    ///< none: the responder's record is incomplete
  std::optional<std::uint64_t> rest_ns;    ///< outside this host, or before the first mark
  std::optional<std::uint64_t> before_ns;  ///< with a shared clock: sent until the first mark
  std::optional<std::uint64_t> after_ns;   ///< with a shared clock: last mark until received
  ExplainedBy explained_by = ExplainedBy::kUnknown;
  std::optional<std::uint64_t> unanswered_predecessor;  ///< sent before, no reply yet when due
  std::string stage;
  std::string culprit;
  std::string text;  ///< what explains it, in a sentence
};

struct Correlation {
  std::uint64_t host_requests = 0;
  std::uint64_t client_requests = 0;
  std::uint64_t joined = 0;
  std::uint64_t only_host = 0;  ///< ids that only the responder's side has
  std::uint64_t only_client = 0;
  std::uint64_t unanswered = 0;          ///< joined or not: the client got no reply
  std::uint64_t duplicate_ids_host = 0;  ///< ids that occur more than once: left out of the join
  std::uint64_t duplicate_ids_client = 0;
  std::uint64_t host_without_id = 0;
  bool host_lost_something = false;
  bool host_has_summary = false;  ///< false: whether something was lost is not known
  bool shared_clock = false;      ///< both sides were stamped by one clock (one host)
  bool from_intended = false;
  std::vector<CorrelatedRequest> slowest;  ///< by client_ns, slowest first
};

/// Joins by id. Pure.
Correlation correlate(const HostFile& host, const ClientFile& client, std::size_t slowest);

std::string correlation_to_text(const Correlation& correlation);
/// Schema whylate.correlate/1.
nlohmann::ordered_json correlation_to_json(const Correlation& correlation);

/// `whylate correlate`: prints to stdout. Returns the exit code.
int run_correlate(const CorrelateOptions& options);

}  // namespace whylate::cli
