// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/stage_names.h"
#include "unit/host/temp_tree.h"

namespace whylate::cli {
namespace {

using test::TempTree;
using ::testing::HasSubstr;
using ::testing::Not;

// A report made by hand: what is shown must not depend on this machine.
DoctorReport good_report() {
  DoctorReport report;
  report.kernel.release = "6.18.0";
  report.kernel.machine = "x86_64";
  report.kernel.clocksource = "tsc";
  report.cpus_possible = {0, 1, 2, 3};
  report.cpus_online = {0, 2};
  report.privileges.effective = ~0ull;
  report.cpuidle.driver = "none";
  for (const int cpu : {0, 2}) {
    host::IdleState state;
    state.index = 1;
    state.name = "default_idle";
    report.cpuidle.cpus.push_back({cpu, {state}});
  }
  capture::Features features;
  for (const capture::ProgramInfo& info : capture::programs()) {
    features.tracepoints[info.tracepoint] = 4;
  }
  features.iter_task_file = true;
  capture::PlanInputs inputs;
  inputs.cpuidle = report.cpuidle;
  inputs.devices_known = true;
  report.plan = *capture::make_plan(features, inputs);
  report.features = features;
  return report;
}

TEST(Doctor, TextShowsEveryStageOnceAndTheVerdict) {
  const std::string text = doctor_text(good_report());
  for (const std::string_view name : kStageNames) {
    const std::string line = "\n  " + std::string(name) + " ";
    const std::size_t at = text.find(line);
    ASSERT_NE(at, std::string::npos) << name;
    EXPECT_EQ(text.find(line, at + 1), std::string::npos) << name;
  }
  EXPECT_THAT(text, HasSubstr("possible 0-3, online 0,2"));
  EXPECT_THAT(text, HasSubstr("CPU 0,2: default_idle (exit latency not known)"));
  EXPECT_THAT(text, HasSubstr("hard_irq       not measured: packets arrive through loopback"));
  EXPECT_THAT(text, HasSubstr("\ntracing is possible\n"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Doctor, TextListsAllObstacles) {
  DoctorReport report = good_report();
  report.plan.reset();
  report.obstacles = {"first thing", "second thing"};
  const std::string text = doctor_text(report);
  EXPECT_THAT(text, HasSubstr("NOT possible\n  first thing\n  second thing\n"));
}

TEST(Doctor, JsonSaysNullForWhatIsNotKnown) {
  DoctorReport report;
  report.obstacles = {"no BTF"};
  const nlohmann::json json = doctor_json(report);
  EXPECT_EQ(json["schema"], "whylate.doctor/1");
  EXPECT_EQ(json["possible"], false);
  for (const char* key : {"tracepoints", "fields", "target", "stages", "programs_off"}) {
    EXPECT_TRUE(json[key].is_null()) << key;
  }
  EXPECT_TRUE(json["kernel"]["virtualised"].is_null());
  EXPECT_TRUE(json["kernel"]["cpus_online"].is_null());
  EXPECT_TRUE(json["privileges"]["cap_bpf"].is_null());
  EXPECT_TRUE(json["privileges"]["lockdown"].is_null());
}

TEST(Doctor, JsonHasTheStagesInPathOrder) {
  const nlohmann::json json = doctor_json(good_report());
  EXPECT_EQ(json["possible"], true);
  ASSERT_EQ(json["stages"].size(), static_cast<std::size_t>(WL_NR_STAGES));
  for (std::size_t i = 0; i < kStageNames.size(); ++i) {
    const nlohmann::json& stage = json["stages"][i];
    EXPECT_EQ(stage["name"], kStageNames[i]);
    EXPECT_EQ(stage["measured"].get<bool>(), stage["why_not"].is_null());
    EXPECT_NE(stage["how"].is_null(), stage["why_not"].is_null());
  }
  EXPECT_EQ(json["tracepoints"].size(), capture::programs().size());
  EXPECT_TRUE(json["cpuidle"]["driver"].is_null());
  EXPECT_TRUE(json["cpuidle"]["cpus"][0]["states"][0]["latency_ns"].is_null());
}

TEST(Doctor, NamesFromOutsideAreEscaped) {
  DoctorReport report = good_report();
  report.pid = 7;
  report.comm = "a\x1b[31m\n\xff";
  report.cpuidle.cpus[0].states[0].name = "C\x07";
  EXPECT_EQ(doctor_text(report).find('\x1b'), std::string::npos);
  EXPECT_EQ(doctor_text(report).find('\x07'), std::string::npos);
  EXPECT_NO_THROW((void)doctor_json(report).dump());
}

TEST(Doctor, AllObstaclesOfABadHost) {
  TempTree tree;
  tree.write("/proc/self/status", "CapEff:\t0000000000000000\nSeccomp:\t0\n");
  tree.write("/sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
  tree.write("/sys/devices/system/cpu/online", "0\n");
  tree.write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  tree.write("/proc/sys/kernel/bpf_stats_enabled", "1\n");
  DoctorOptions options;
  options.root = tree.root();
  options.btf_path = tree.root() + "/no-btf";
  const Result<DoctorReport> report = examine(options);
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->possible());
  EXPECT_EQ(report->obstacles.size(), 3u);
  EXPECT_EQ(report->warnings.size(), 2u);
  const std::string text = doctor_text(*report);
  EXPECT_THAT(text, HasSubstr("CAP_BPF and CAP_PERFMON are missing"));
  EXPECT_THAT(text, HasSubstr("confidentiality"));
  EXPECT_THAT(text, HasSubstr("hpet"));
  EXPECT_THAT(text, HasSubstr("bpf_stats_enabled"));
}

TEST(Doctor, AWrongProcessIsAnError) {
  DoctorOptions options;
  options.pid = 0x3fffffff;
  EXPECT_FALSE(examine(options).ok());
}

}  // namespace
}  // namespace whylate::cli
