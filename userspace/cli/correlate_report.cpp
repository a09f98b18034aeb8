// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/duration.h"
#include "base/escape.h"
#include "base/log.h"
#include "cli/correlate.h"
#include "cli/output.h"
#include "report/json.h"

namespace whylate::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string_view explained_by_name(ExplainedBy by) {
  switch (by) {
    case ExplainedBy::kClient:
      return "client";
    case ExplainedBy::kHost:
      return "host";
    case ExplainedBy::kRest:
      return "rest";
    case ExplainedBy::kUnknown:
      break;
  }
  return "unknown";
}

Json or_null(const std::optional<std::uint64_t>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

std::string shown(const std::optional<std::uint64_t>& ns) {
  return ns ? format_duration(*ns) : std::string("-");
}

Result<std::ifstream> open_file(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    return Error{ExitCode::kBadInput,
                 fmt::format("cannot read {}: {}", escape(path), std::strerror(errno))};
  }
  return in;
}

}  // namespace

std::string correlation_to_text(const Correlation& result) {
  std::string text = fmt::format(
      "{} joined   responder {} requests, {} only there   client {} requests, {} only there, {} "
      "without a reply\n",
      result.joined, result.host_requests, result.only_host, result.client_requests,
      result.only_client, result.unanswered);
  if (result.duplicate_ids_host > 0 || result.duplicate_ids_client > 0) {
    text += fmt::format(
        "left out, the id occurs more than once: {} ids at the responder, {} at the "
        "client\n",
        result.duplicate_ids_host, result.duplicate_ids_client);
  }
  if (result.host_without_id > 0) {
    text += fmt::format("{} requests of the responder carry no id (trace with --id-offset)\n",
                        result.host_without_id);
  }
  if (!result.host_has_summary) {
    text +=
        "INCOMPLETE: the responder's file has no summary line: its trace still runs, or was cut "
        "off\n";
  }
  if (result.host_lost_something) text += "INCOMPLETE: the trace of the responder lost something\n";
  if (result.slowest.empty()) {
    text += "no request is on both sides\n";
    return text;
  }
  text += fmt::format("slowest as the client saw them, from the {} time{}\n",
                      result.from_intended ? "intended" : "sending",
                      result.shared_clock ? "; both sides have one clock" : "");
  text += fmt::format(" {:>10} {:>9} {:>11} {:>9} {:>9}", "id", "client", "client late",
                      "this host", "rest");
  if (result.shared_clock) text += fmt::format(" {:>9} {:>9}", "before", "after");
  text += "\n";
  for (const CorrelatedRequest& row : result.slowest) {
    text +=
        fmt::format(" {:>10} {:>9} {:>11} {:>9} {:>9}", row.id, format_duration(row.client_ns),
                    format_duration(row.client_late_ns), shown(row.host_ns), shown(row.rest_ns));
    if (result.shared_clock) {
      text += fmt::format(" {:>9} {:>9}", shown(row.before_ns), shown(row.after_ns));
    }
    text += fmt::format("\n     {}: {}\n", explained_by_name(row.explained_by), escape(row.text));
  }
  text += "rest: outside this host or before the first mark\n";
  return text;
}

Json correlation_to_json(const Correlation& result) {
  Json json;
  json["schema"] = "whylate.correlate/1";
  json["host_requests"] = result.host_requests;
  json["client_requests"] = result.client_requests;
  json["joined"] = result.joined;
  json["only_host"] = result.only_host;
  json["only_client"] = result.only_client;
  json["unanswered"] = result.unanswered;
  json["duplicate_ids"] = {{"host", result.duplicate_ids_host},
                           {"client", result.duplicate_ids_client}};
  json["host_without_id"] = result.host_without_id;
  json["host_complete"] =
      result.host_has_summary ? Json(!result.host_lost_something) : Json(nullptr);
  json["shared_clock"] = result.shared_clock;
  json["from"] = result.from_intended ? "intended" : "sent";
  json["slowest"] = Json::array();
  for (const CorrelatedRequest& row : result.slowest) {
    json["slowest"].push_back({{"id", row.id},
                               {"client_ns", row.client_ns},
                               {"client_late_ns", row.client_late_ns},
                               {"host_ns", or_null(row.host_ns)},
                               {"rest_ns", or_null(row.rest_ns)},
                               {"before_ns", or_null(row.before_ns)},
                               {"after_ns", or_null(row.after_ns)},
                               {"explained_by", explained_by_name(row.explained_by)},
                               {"unanswered_predecessor", or_null(row.unanswered_predecessor)},
                               {"stage", text_or_null(row.stage)},
                               {"culprit", text_or_null(row.culprit)},
                               {"text", row.text}});
  }
  return json;
}

int run_correlate(const CorrelateOptions& options) {
  Result<std::ifstream> host_in = open_file(options.requests_file);
  if (!host_in.ok()) return fail(host_in.error());
  Result<HostFile> host = read_host_file(*host_in, options.requests_file);
  if (!host.ok()) return fail(host.error());
  Result<std::ifstream> client_in = open_file(options.client_file);
  if (!client_in.ok()) return fail(client_in.error());
  Result<ClientFile> client = read_client_file(*client_in, options.client_file);
  if (!client.ok()) return fail(client.error());

  const Correlation result = correlate(*host, *client, options.slowest);
  Output output = Output::to_stdout();
  output.add(options.json ? dump_json_pretty(correlation_to_json(result)) + "\n"
                          : correlation_to_text(result));
  Status written = output.flush();
  if (!written.ok()) return fail(written.error());
  return static_cast<int>(result.joined > 0 ? ExitCode::kDone : ExitCode::kFinding);
}

}  // namespace whylate::cli
