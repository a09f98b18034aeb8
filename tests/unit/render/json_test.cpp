// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/stage_names.h"
#include "unit/render/sample_run.h"

namespace whylate {
namespace {

using Json = nlohmann::json;
using test::add_occupant;
using test::make_request;
using test::SampleRun;
using ::testing::IsSupersetOf;

Json reparsed(const nlohmann::ordered_json& json) { return Json::parse(dump_json_line(json)); }

std::vector<std::string> keys_of(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  return keys;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// Every number below: a time is a whole number, none negative, none beyond what a run can be.
/// Points in time are the exception: they count from the boot.
void check_numbers(const Json& json, const std::string& key) {
  if (json.is_object()) {
    for (const auto& item : json.items()) check_numbers(item.value(), item.key());
  } else if (json.is_array()) {
    for (const Json& element : json) check_numbers(element, key);
  } else if (json.is_number()) {
    const bool time = key == "ns" || ends_with(key, "_ns");
    if (time) {
      EXPECT_TRUE(json.is_number_unsigned()) << key << " " << json;
    }
    EXPECT_GE(json.get<double>(), key == "nice" ? -20 : 0) << key;
    if (key != "start_ns" && key != "end_ns" && key != "recv_ns") {
      EXPECT_LE(json.get<double>(), 1e12) << key;
    }
  }
}

TEST(RequestJson, HasEveryKeyOfTheSchema) {
  const SampleRun run;
  const Json json = reparsed(summary_to_json(run.summary()))["slowest"][0];
  EXPECT_EQ(json["schema"], "whylate.request/1");
  EXPECT_THAT(keys_of(json),
              IsSupersetOf({"schema",    "seq",      "id",      "pid",      "tid",     "comm",
                            "proto",     "local",    "remote",  "fd_inode", "origin",  "start_ns",
                            "end_ns",    "total_ns", "stages",  "hard_irq", "softirq", "idle",
                            "occupants", "reply",    "verdict", "quality",  "stopped"}));
  EXPECT_TRUE(json["stopped"].is_null());
  EXPECT_EQ(json["id"], 8121);
  EXPECT_EQ(json["local"], "10.7.0.2:9000");
  EXPECT_EQ(json["remote"], "10.7.0.1:40000");
  EXPECT_EQ(json["origin"], "netif_rx");
  EXPECT_EQ(json["softirq"]["mode"], "inline");
  EXPECT_TRUE(json["hard_irq"].is_null());
  EXPECT_TRUE(json["idle"].is_null());
  EXPECT_TRUE(json["fd_inode"].is_null());
  EXPECT_EQ(json["verdict"]["stage"], "run_queue");
  EXPECT_EQ(json["verdict"]["culprit"], "stress-ng-cpu[991]");
  EXPECT_EQ(json["reply"], true);
}

TEST(RequestJson, StagesSumToTheTotalAndOccupantsToTheirStage) {
  const SampleRun run;
  const Json json = reparsed(summary_to_json(run.summary()));
  ASSERT_EQ(json["slowest"].size(), 2u);
  for (const Json& request : json["slowest"]) {
    std::uint64_t sum = 0;
    std::map<std::string, std::uint64_t> stages;
    for (const Json& stage : request["stages"]) {
      sum += stage["ns"].get<std::uint64_t>();
      stages[stage["name"]] = stage["ns"];
      EXPECT_TRUE(stage_from_name(stage["name"].get<std::string>()));
    }
    EXPECT_EQ(sum, request["total_ns"].get<std::uint64_t>());
    EXPECT_EQ(request["end_ns"].get<std::uint64_t>() - request["start_ns"].get<std::uint64_t>(),
              sum);
    std::map<std::string, std::uint64_t> blamed;
    for (const Json& occupant : request["occupants"]) {
      blamed[occupant["stage"]] += occupant["ns"].get<std::uint64_t>();
    }
    for (const auto& [stage, ns] : blamed) EXPECT_EQ(ns, stages[stage]);
  }
}

TEST(RequestJson, UnknownIsNull) {
  Request request = make_request({{WL_STAGE_APP, 10}});
  request.record.origin = WL_ORIGIN_NONE;
  request.record.quality = WL_Q_NO_ARRIVAL;
  request.record.rx_cpu = WL_NO_CPU;
  request.record.softirq_mode = WL_SOFTIRQ_UNKNOWN;
  request.record.tx_cpu = WL_NO_CPU;
  request.record.recv_cpu = WL_NO_CPU;
  request.record.rport = 0;
  const Json json = reparsed(request_to_json(request, {}, std::nullopt));
  for (const char* key : {"id", "origin", "hard_irq", "softirq", "idle", "verdict", "remote",
                          "first_byte_ns", "fd_inode", "blocked", "waker"}) {
    EXPECT_TRUE(json[key].is_null()) << key;
  }
  EXPECT_TRUE(json["stages"][0]["cpu"].is_null());
  EXPECT_EQ(json["quality"], Json({"no_arrival"}));
}

TEST(RequestJson, StopsAreDescribed) {
  Request request = make_request({{WL_STAGE_SOCKET_QUEUE, 900}, {WL_STAGE_APP_BLOCKED, 90}});
  request.record.stopped_ns[WL_STOP_QUEUE] = 800;
  request.record.stop_kind[WL_STOP_QUEUE] = WL_STOP_FROZEN_ASLEEP;
  Json json = reparsed(request_to_json(request, {}, std::nullopt));
  EXPECT_EQ(json["stopped"],
            Json::array({{{"stage", "socket_queue"}, {"ns", 800}, {"by", "freezer_asleep"}}}));
  request.record.stopped_ns[WL_STOP_APP] = 90;
  request.record.stop_kind[WL_STOP_APP] = WL_STOP_TRACER;
  json = reparsed(request_to_json(request, {}, std::nullopt));
  EXPECT_EQ(json["stopped"][1], Json({{"stage", "app_blocked"}, {"ns", 90}, {"by", "tracer"}}));
}

TEST(RequestJson, IdleAndInterruptAreDescribed) {
  Request request = make_request({{WL_STAGE_HARD_IRQ, 10}, {WL_STAGE_IDLE_EXIT, 90}});
  request.record.origin = WL_ORIGIN_IRQ;
  request.record.irq = 35;
  request.record.irq_cpu = 3;
  request.record.idle_state = 1;
  request.record.quality = WL_Q_IRQ_CPU_IDLE;
  request.record.irq_idle_state = 2;
  request.record.sk_cookie = 9;
  RunContext context;
  context.irq_names[35] = "eth0-rx-0";
  context.idle_states[{1, 1}] = {"C1", 2'000};
  context.inodes[9] = 12'345;
  const Json json = reparsed(request_to_json(request, context, std::nullopt));
  EXPECT_EQ(json["hard_irq"], Json({{"irq", 35}, {"name", "eth0-rx-0"}, {"cpu", 3}}));
  EXPECT_EQ(json["idle"], Json({{"cpu", 1}, {"state", 1}, {"name", "C1"}, {"bound_ns", 2'000}}));
  EXPECT_EQ(json["irq_idle"],
            Json({{"cpu", 3}, {"state", 2}, {"name", nullptr}, {"bound_ns", nullptr}}));
  EXPECT_EQ(json["fd_inode"], 12'345);
}

TEST(SummaryJson, HasEveryKeyOfTheSchema) {
  const SampleRun run;
  const Json json = reparsed(summary_to_json(run.summary()));
  EXPECT_EQ(json["schema"], "whylate.summary/1");
  EXPECT_THAT(keys_of(json),
              IsSupersetOf({"schema", "target", "kernel", "mode", "duration_ns", "requests",
                            "complete", "lost", "latency_ns", "stalled_ns", "stages", "blame",
                            "slowest", "cost", "findings"}));
  EXPECT_THAT(keys_of(json["requests"]),
              IsSupersetOf({"observed", "complete", "incomplete", "unmatched"}));
  EXPECT_THAT(keys_of(json["latency_ns"]),
              IsSupersetOf({"p50", "p90", "p99", "p99_9", "max", "slowest_but_first_two"}));
  EXPECT_THAT(keys_of(json["cost"]),
              IsSupersetOf({"ns_per_request", "cpu_share", "recursion_misses"}));
  EXPECT_EQ(json["stages"].size(), static_cast<std::size_t>(WL_NR_STAGES));
  for (const std::string_view name : kStageNames) {
    EXPECT_THAT(
        keys_of(json["stages"][std::string(name)]),
        IsSupersetOf({"p50_ns", "p99_ns", "max_ns", "total_ns", "share", "measured", "why_not"}));
  }
  EXPECT_EQ(json["mode"], "default");
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["target"]["pid"], 4242);
  EXPECT_EQ(json["requests"]["observed"], 11);
  EXPECT_EQ(json["latency_ns"]["max"], json["latency_ns"]["slowest_but_first_two"]);
  EXPECT_EQ(json["cost"]["ns_per_request"], 900);
}

TEST(SummaryJson, EveryNumberIsInRange) {
  check_numbers(reparsed(summary_to_json(SampleRun().summary())), "");
}

TEST(SummaryJson, AStageIsMeasuredOrSaysWhyNot) {
  const Json json = reparsed(summary_to_json(SampleRun().summary()));
  for (const auto& item : json["stages"].items()) {
    const Json& stage = item.value();
    EXPECT_EQ(stage["measured"].get<bool>(), stage["why_not"].is_null()) << item.key();
    if (stage["measured"].get<bool>()) continue;
    for (const char* key : {"p50_ns", "p99_ns", "max_ns", "total_ns", "share"}) {
      EXPECT_TRUE(stage[key].is_null()) << item.key() << " " << key;
    }
  }
  EXPECT_FALSE(json["stages"]["hard_irq"]["measured"].get<bool>());
}

TEST(SummaryJson, StageTotalsSumToTheWhole) {
  SampleRun run;
  const Json json = reparsed(summary_to_json(run.summary()));
  std::uint64_t sum = 0;
  for (const Json& stage : json["stages"]) {
    if (stage["total_ns"].is_number()) sum += stage["total_ns"].get<std::uint64_t>();
  }
  EXPECT_EQ(sum, run.totals->aggregate.total_ns);
}

TEST(SummaryJson, NoRequests) {
  SampleRun run;
  *run.totals = {};
  run.collector = Collector(2);
  const Json json = reparsed(summary_to_json(run.summary()));
  EXPECT_EQ(json["requests"]["observed"], 0);
  for (const char* key : {"p50", "p99", "max", "slowest_but_first_two"}) {
    EXPECT_TRUE(json["latency_ns"][key].is_null()) << key;
  }
  EXPECT_TRUE(json["cost"]["ns_per_request"].is_null());
  EXPECT_TRUE(json["stalled_ns"].is_null());
  EXPECT_EQ(json["findings"][0]["id"], "no_requests");
}

TEST(SummaryJson, BytesThatAreNotUtf8DoNotThrow) {
  SampleRun run;
  run.context.comm = "\xff\xfe\x01";
  run.context.devices[2].name = "\xc3";
  run.context.stages[WL_STAGE_TX_QUEUE] = {false, "device \xff"};
  Request request = make_request({{WL_STAGE_RUN_QUEUE, 5'000'000}}, 50, 70'000'000);
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 5'000'000, 3, "\xff\xfe");
  test::count_request(*run.totals, run.collector, request);
  const Json json = reparsed(summary_to_json(run.summary()));
  EXPECT_EQ(json["target"]["comm"], "\\xff\\xfe\\x01");
  EXPECT_EQ(json["slowest"][0]["occupants"][0]["comm"], "\\xff\\xfe");
}

TEST(DumpJsonLine, IsOneLine) {
  const std::string line = dump_json_line(summary_to_json(SampleRun().summary()));
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace whylate
