// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/xsk.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/duration.h"
#include "base/escape.h"

namespace whylate {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json stage_json(const XskStage& stage) {
  const bool measured = stage.why_not.empty();
  return {{"per", name(stage.per)},
          {"count", stage.count},
          {"p50_ns", or_null(stage.p50_ns)},
          {"p99_ns", or_null(stage.p99_ns)},
          {"max_ns", or_null(stage.max_ns)},
          {"total_ns", measured ? Json(stage.total_ns) : Json(nullptr)},
          {"measured", measured},
          {"why_not", measured ? Json(nullptr) : Json(stage.why_not)}};
}

std::string duration_or_dash(const std::optional<std::uint64_t>& ns) {
  return ns ? format_duration(*ns) : std::string("-");
}

}  // namespace

Json xsk_to_json(const XskSummary& summary) {
  Json stages = Json::object();
  for (const XskStage& stage : summary.stages) stages[stage.name] = stage_json(stage);
  return {{"schema", "whylate.af_xdp/1"},
          {"target",
           {{"pid", summary.target.pid},
            {"comm", escape(summary.target.comm)},
            {"start_ns", summary.target.start_ns}}},
          {"kernel", summary.target.kernel},
          {"duration_ns", summary.duration_ns},
          {"sockets", summary.target.sockets},
          {"packets",
           {{"redirected", summary.redirected},
            {"failed", summary.failed},
            {"woke_a_thread", summary.woke},
            {"found_it_awake", summary.awake},
            {"polled", summary.polled},
            {"rx_ring", or_null(summary.rx_frames)},
            {"rx_ring_full", summary.ring_full},
            {"tx_ring", or_null(summary.tx_frames)}}},
          {"wakes", summary.wakes},
          {"transmit_calls", summary.transmit_calls},
          {"complete", summary.complete()},
          {"lost", {{"threads", summary.lost}, {"recursion_misses", summary.recursion_misses}}},
          {"stages", stages},
          {"notes", summary.notes}};
}

std::string xsk_to_text(const XskSummary& summary) {
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{}[{}]   AF_XDP, {} packets redirected to it in {}{}\n",
                 escape(summary.target.comm), summary.target.pid, summary.redirected,
                 format_seconds(summary.duration_ns), summary.complete() ? "" : "   INCOMPLETE");
  for (const std::string& socket : summary.target.sockets) fmt::format_to(out, "  {}\n", socket);
  fmt::format_to(out,
                 "\npackets   {} woke a thread, {} found one awake, {} were polled; {} lost at the "
                 "socket\n",
                 summary.woke, summary.awake, summary.polled, summary.failed);
  if (summary.rx_frames && summary.tx_frames) {
    fmt::format_to(out, "rings     {} frames received, {} frames sent, in {} transmit calls\n",
                   *summary.rx_frames, *summary.tx_frames, summary.transmit_calls);
  }
  fmt::format_to(out, "\n{:<14}{:>10}{:>11}{:>11}{:>11}\n", "stage", "count", "p50", "p99", "max");
  for (const XskStage& stage : summary.stages) {
    if (stage.why_not.empty()) {
      fmt::format_to(out, "{:<14}{:>10}{:>11}{:>11}{:>11}   per {}: {}\n", stage.name, stage.count,
                     duration_or_dash(stage.p50_ns), duration_or_dash(stage.p99_ns),
                     duration_or_dash(stage.max_ns), name(stage.per), stage.meaning);
    } else {
      fmt::format_to(out, "{:<14}{:>10}{:>33}   not measured: {}\n", stage.name, "-", "",
                     stage.why_not);
    }
  }
  text += "\n";
  for (const std::string& note : summary.notes) fmt::format_to(out, "note: {}\n", note);
  return text;
}

}  // namespace whylate
