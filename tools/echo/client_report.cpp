// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/client_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "echo/file.h"
#include "report/hdr/hdr.h"

namespace whylate::echo {
namespace {

using Json = nlohmann::ordered_json;

/// The counts of what went wrong, with their JSON keys and what a person reads.
struct OddityRow {
  const char* key;
  const char* text;
  std::uint64_t count;
};

std::vector<OddityRow> rows_of(const Oddities& oddities) {
  return {
      {"late", "replies after the timeout", oddities.late},
      {"duplicates", "second replies", oddities.duplicates},
      {"mismatched", "replies whose bytes differ from the request's", oddities.mismatched},
      {"unexpected", "replies to no request of this client", oddities.unexpected},
      {"refused", "refusals (nobody listens there)", oddities.refused},
      {"send_errors", "requests that could not be sent", oddities.send_errors},
      {"disconnected", "connections that the server ended", oddities.disconnected},
  };
}

Json to_json(const std::optional<Figures>& figures) {
  if (!figures) return nullptr;
  Json slowest = nullptr;
  if (figures->slowest_but_first_two_ns) slowest = *figures->slowest_but_first_two_ns;
  return Json{{"count", figures->count}, {"min", figures->min_ns},
              {"p50", figures->p50_ns},  {"p90", figures->p90_ns},
              {"p99", figures->p99_ns},  {"p99_9", figures->p99_9_ns},
              {"max", figures->max_ns},  {"slowest_but_first_two", slowest}};
}

void append_row(std::string& out, const char* name, const std::optional<Figures>& figures) {
  if (!figures) return;
  out += fmt::format(
      "{:<22}{:>10}{:>10}{:>10}{:>10}{:>10}\n", name, human_duration(figures->p50_ns),
      human_duration(figures->p99_ns), human_duration(figures->p99_9_ns),
      human_duration(figures->max_ns),
      figures->slowest_but_first_two_ns ? human_duration(*figures->slowest_but_first_two_ns) : "-");
}

std::string pace_of(const ClientOptions& options) {
  if (!options.rate_millihertz) {
    std::string text = fmt::format("closed loop, window {}", options.window);
    if (options.gap_ns > 0) text += fmt::format(", gap {}", human_duration(options.gap_ns));
    return text;
  }
  std::string text = fmt::format("{}/s", static_cast<double>(*options.rate_millihertz) / 1000.0);
  if (options.burst > 1) text += fmt::format(" bursts of {}", options.burst);
  return text;
}

}  // namespace

std::string human_duration(std::int64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1'000) return fmt::format("{}ns", ns);
  if (ns < 1'000'000) return fmt::format("{:.2f}us", value / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.2f}ms", value / 1e6);
  return fmt::format("{:.2f}s", value / 1e9);
}

ClientSummary summarize(const ClientRun& run) {
  ClientSummary summary;
  for (const auto& request : run.requests) {
    if (request.sent_ns == kUnknownNs) continue;
    ++summary.sent;
    if (request.received_ns != kUnknownNs) ++summary.received;
  }
  summary.lost = summary.sent - summary.received;
  summary.duration_ns = run.end_ns - run.start_ns;
  summary.interrupted = run.interrupted;
  summary.latency = latency_figures(run.requests, Origin::kSent);
  summary.latency_intended = latency_figures(run.requests, Origin::kIntended);
  summary.lateness = lateness_figures(run.requests);
  summary.oddities = run.oddities;
  return summary;
}

std::string to_text(const ClientOptions& options, const ClientSummary& summary) {
  std::string out =
      fmt::format("{} {}   {}   {} sent, {} received, {} lost{}\n", name_of(options.proto),
                  to_string(options.to), pace_of(options), summary.sent, summary.received,
                  summary.lost, summary.interrupted ? "   INTERRUPTED" : "");
  if (summary.latency) {
    out += fmt::format("{:<22}{:>10}{:>10}{:>10}{:>10}  slowest but the first two\n", "", "median",
                       "p99", "p99.9", "max");
    append_row(out, "from actual send", summary.latency);
    append_row(out, "from intended send", summary.latency_intended);
  }
  if (summary.lateness) {
    out += fmt::format("the client itself sent late by: median {}, max {}\n",
                       human_duration(summary.lateness->p50_ns),
                       human_duration(summary.lateness->max_ns));
  }
  for (const auto& row : rows_of(summary.oddities)) {
    if (row.count > 0) out += fmt::format("{} {}\n", row.count, row.text);
  }
  return out;
}

std::string to_json(const ClientOptions& options, const ClientSummary& summary) {
  Json json{{"schema", "whylate.client_summary/1"},
            {"proto", name_of(options.proto)},
            {"to", to_string(options.to)},
            {"mode", options.rate_millihertz ? "schedule" : "closed_loop"},
            {"rate_millihertz", nullptr},
            {"burst", options.burst},
            {"window", nullptr},
            {"count", options.count},
            {"size_bytes", options.size_bytes},
            {"senders", options.senders},
            {"connections", options.connections},
            {"interrupted", summary.interrupted},
            {"duration_ns", summary.duration_ns},
            {"sent", summary.sent},
            {"received", summary.received},
            {"lost", summary.lost}};
  if (options.rate_millihertz) {
    json["rate_millihertz"] = *options.rate_millihertz;
  } else {
    json["window"] = options.window;
  }
  for (const auto& row : rows_of(summary.oddities)) json[row.key] = row.count;
  json["latency_ns"] = to_json(summary.latency);
  json["latency_intended_ns"] = to_json(summary.latency_intended);
  json["send_lateness_ns"] = to_json(summary.lateness);
  return json.dump();
}

RequestsHeader requests_header(const ClientOptions& options, const ClientRun& run) {
  RequestsHeader header;
  header.proto = name_of(options.proto);
  header.to = to_string(options.to);
  header.rate_millihertz = options.rate_millihertz;
  header.burst = options.burst;
  header.count = options.count;
  header.size_bytes = options.size_bytes;
  header.first_id = options.first_id;
  header.seed = options.seed;
  header.start_ns = run.start_ns;
  header.start_realtime_ns = run.start_realtime_ns;
  header.timeout_ns = options.timeout_ns;
  header.stamps = options.stamps;
  return header;
}

Status write_hdr_log(const std::string& path, const std::string& tag, const ClientRun& run) {
  auto file = OutputFile::create(path);
  if (!file) return file.error();
  const double start_s = static_cast<double>(run.start_realtime_ns) / 1e9;
  const double length_s = static_cast<double>(run.end_ns - run.start_ns) / 1e9;
  file->write(hdr::log_header(start_s, " whylate-echo client, latencies in nanoseconds"));
  const std::pair<Origin, std::string> logs[] = {{Origin::kSent, tag},
                                                 {Origin::kIntended, "intended"}};
  for (const auto& [origin, name] : logs) {
    hdr::Histogram histogram;
    for (const auto& request : run.requests) {
      if (const auto latency = latency_ns(request, origin)) histogram.record(*latency);
    }
    if (origin == Origin::kIntended && histogram.total_count() == 0) continue;
    file->write(hdr::log_line(histogram, 0.0, length_s, name));
  }
  return file->close();
}

ExitCode exit_code(const ClientSummary& summary) {
  // A server that ends after its last reply has done nothing wrong.
  const bool unserved = summary.lost > 0 || summary.oddities.send_errors > 0;
  const bool cut_off = summary.oddities.disconnected > 0 && unserved;
  const bool nothing_sent = summary.sent == 0 && summary.oddities.send_errors > 0;
  if (summary.oddities.mismatched > 0 || cut_off || nothing_sent) return ExitCode::kRuntimeError;
  if (summary.received == 0) return ExitCode::kFinding;
  return ExitCode::kDone;
}

}  // namespace whylate::echo
