// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Causes made on purpose: the slowest requests must be put down to them, and without the cause the
// same load must not be. No test here looks at an absolute time.
#include "causes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <memory>

#include "support/host.h"

namespace whylate::live {
namespace {

/// So many requests must show a cause for a test to prove anything.
constexpr std::size_t kEnough = 20;
const Args kPaced = {"--rate", "250", "--count", "600"};
/// Wants more than its share of a CPU, so that a fair scheduler must let others run first, time and
/// again: a server that sleeps most of the time may preempt nearly always.
const Rig kGreedy = {{"--work-us", "1000"}, {"--count", "1500", "--wait", "block"}, {}};

/// The verdict of the slowest with the cause, and without it.
struct Guilt {
  TraceResult with;
  TraceResult without;
};

/// `cause` starts what is to blame and keeps it going as long as what it returns lives.
template <typename Cause>
Guilt try_load(const Rig& rig, const Cause& cause) {
  Guilt guilt;
  {
    const auto alive = cause();
    guilt.with = run_rig(rig);
  }
  guilt.without = run_rig(rig);
  return guilt;
}

/// The same for a cause inside the server.
Guilt try_servers(const Rig& guilty, const Rig& innocent) {
  Guilt guilt;
  guilt.with = run_rig(guilty);
  guilt.without = run_rig(innocent);
  return guilt;
}

/// The requests that are late beyond what the same load does without the cause must name it, often
/// and seldom wrongly. What a hypervisor takes from either run lands in any stage, so that nothing
/// here asks that no other stage be late.
void expect_label(const Guilt& guilt, const std::string& stage, const std::string& culprit) {
  const std::uint64_t late_ns = 2 * median_total_ns(guilt.without);
  const std::vector<Record> with = later_than(guilt.with, late_ns);
  const std::vector<Record> without = later_than(guilt.without, late_ns);
  const std::size_t named = with_culprit(with, stage, culprit);
  EXPECT_GE(named, kEnough) << culprit << " wanted; " << describe(with);
  EXPECT_GT(named * 10, with_stage(with, stage) * 8)
      << stage << " is put down to others; " << describe(with);
  EXPECT_LT(with_culprit(without, stage, culprit) * 4, named)
      << stage << " not wanted; " << describe(without);
}

TEST(Causes, OneHogOnTheRespondersCpu) {
  const Guilt guilt = try_load(kGreedy, [] { return std::make_unique<StressNg>(cpus().server); });
  expect_label(guilt, "run_queue", "stress-ng");
  const std::uint64_t all = held_ns(guilt.with, "run_queue", "");
  ASSERT_GT(all, 0u);
  EXPECT_GT(held_ns(guilt.with, "run_queue", "stress-ng") * 10, all * 8)
      << "the hog's share of the waits is too small";
}

// Whoever ran last before the responder is a bystander, as often as it may be there.
TEST(Causes, TwoHogsAndATaskThatRunsBrieflyLast) {
  const int cpu = cpus().server;
  TraceResult result;
  {
    const Child first = start_load({"hog-a", cpu});
    const Child second = start_load({"hog-b", cpu});
    const Child brief = start_load({.name = "brief", .cpu = cpu, .busy_us = 30, .idle_us = 1000});
    result = run_rig(kGreedy);
  }
  // Later than twice the work itself.
  const std::vector<Record> late = later_than(result, 2'000'000);
  const std::size_t hogs =
      with_culprit(late, "run_queue", "hog-a") + with_culprit(late, "run_queue", "hog-b");
  EXPECT_GE(hogs, kEnough) << describe(late);
  EXPECT_GT(hogs * 10, with_stage(late, "run_queue") * 8) << describe(late);
  EXPECT_EQ(with_culprit(late, "run_queue", "brief"), 0u) << describe(late);

  const std::uint64_t a = held_ns(result, "run_queue", "hog-a");
  const std::uint64_t b = held_ns(result, "run_queue", "hog-b");
  const std::uint64_t brief = held_ns(result, "run_queue", "brief");
  const double named = static_cast<double>(a + b + brief);
  ASSERT_GT(named, 0);
  EXPECT_GT(static_cast<double>(a) / named, 0.3);
  EXPECT_LT(static_cast<double>(a) / named, 0.7);
  EXPECT_GT(static_cast<double>(b) / named, 0.3);
  EXPECT_LT(static_cast<double>(b) / named, 0.7);
  EXPECT_GT(brief, 0u) << "the brief task was never seen: the test proves nothing";
  EXPECT_LT(static_cast<double>(brief) / named, 0.15);
  // The summary's blame says the same.
  std::map<std::string, std::uint64_t> blame;
  for (const Json& row : result.summary["blame"]) {
    if (row["stage"] == "run_queue" && row["comm"].is_string())
      blame[row["comm"]] += row["ns"].get<std::uint64_t>();
  }
  EXPECT_EQ(blame["hog-a"], a);
  EXPECT_EQ(blame["hog-b"], b);
}

TEST(Causes, RealTimeTask) {
  const Guilt guilt = try_load({{}, kPaced, {}}, [] {
    return start_load({.name = "rt-task",
                       .cpu = cpus().server,
                       .policy = SCHED_FIFO,
                       .priority = 50,
                       .busy_us = 4000,
                       .idle_us = 16000});
  });
  expect_label(guilt, "run_queue", "rt-task");
  for (const Record& record : slowest_of(guilt.with)) {
    if (record.stage != "run_queue" || record.culprit.rfind("rt-task", 0) != 0) continue;
    EXPECT_THAT(record.text, ::testing::HasSubstr("SCHED_FIFO, priority 50"));
    for (const Occupant& occupant : record.occupants) {
      if (occupant.comm == "rt-task") {
        EXPECT_EQ(occupant.policy, "SCHED_FIFO");
      }
    }
  }
}

TEST(Causes, CpuQuota) {
  const Rig free = {{"--work-us", "1000"}, {"--count", "600", "--wait", "block"}, {}};
  Guilt guilt;
  std::string group_name;
  {
    const QuotaGroup group(10'000, 50'000);
    group_name = group.name();
    Rig limited = free;
    limited.in_server = [&group] { group.enter(); };
    guilt.with = run_rig(limited);
  }
  guilt.without = run_rig(free);
  expect_label(guilt, "throttled", "CPU quota of /" + group_name);
  const auto total = [](const TraceResult& result, const char* stage) {
    return result.summary["stages"][stage]["total_ns"].get<std::uint64_t>();
  };
  EXPECT_GT(total(guilt.with, "throttled"),
            total(guilt.with, "run_queue") + total(guilt.with, "app_run_queue"))
      << "the quota was booked as contention";
  EXPECT_EQ(total(guilt.without, "throttled"), 0u);
}

TEST(Causes, ComputingInTheApplication) {
  expect_label(try_servers({{"--work-us", "1000"}, kPaced, {}}, {{}, kPaced, {}}), "app",
               "application");
}

TEST(Causes, TheApplicationSleeps) {
  expect_label(try_servers({{"--sleep-us", "1500"}, kPaced, {}}, {{}, kPaced, {}}), "app_blocked",
               "clock_nanosleep");
}

TEST(Causes, LockHeldByAnotherThread) {
  const Guilt guilt = try_servers({{"--lock-us", "3000", "--lock-every", "10"}, kPaced, {}},
                                  {{"--lock-us", "1", "--lock-every", "1000"}, kPaced, {}});
  expect_label(guilt, "app_blocked", "lock-holder[");
  for (const Record& record : slowest_of(guilt.with)) {
    if (record.stage == "app_blocked") {
      EXPECT_THAT(record.text, ::testing::HasSubstr("futex"));
    }
  }
}

TEST(Causes, BurstsQueueOnTheSocket) {
  expect_label(
      try_servers({{"--work-us", "20"}, {"--rate", "20", "--burst", "50", "--count", "1000"}, {}},
                  {{"--work-us", "20"}, {"--rate", "500", "--count", "1000"}, {}}),
      "socket_queue", "application");
}

/// The names that idle states of that CPU can have here.
std::vector<std::string> idle_names(int cpu) {
  std::vector<std::string> names;
  for (int state = 0; state < 16; ++state) {
    std::string name = read_text("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                                 "/cpuidle/state" + std::to_string(state) + "/name");
    while (!name.empty() && name.back() == '\n') name.pop_back();
    if (!name.empty()) names.push_back(name);
  }
  if (names.empty()) names = {"default_idle", "poll"};
  return names;
}

TEST(Causes, SporadicTrafficToAnIdleCpu) {
  const Rig sparse = {{}, {"--gap-us", "5000", "--count", "300", "--wait", "block"}, {}};
  const int cpu = cpus().server;
  Guilt guilt;
  guilt.with = run_rig(sparse);
  // A task of the idle class takes nothing from the responder, but keeps its CPU from idling.
  {
    const Child spinner = start_load({.name = "spinner", .cpu = cpu, .policy = SCHED_IDLE});
    guilt.without = run_rig(sparse);
  }
  // Not a matter of the slowest: nearly every request meets the idle CPU.
  const std::vector<Record> idle = later_than(guilt.with, 0);
  EXPECT_TRUE(is_majority(idle, "idle_exit")) << describe(idle);
  EXPECT_GT(with_culprit(idle, "idle_exit", "idle ") * 2, idle.size()) << describe(idle);
  const std::vector<Record> busy = later_than(guilt.without, 0);
  EXPECT_FALSE(is_majority(busy, "idle_exit")) << describe(busy);
  const std::vector<std::string> names = idle_names(cpu);
  std::uint64_t named = 0;
  for (const Record& record : guilt.with.records) {
    if (record.stage_ns("idle_exit") == 0) continue;
    EXPECT_THAT(names, ::testing::Contains(record.idle_name));
    ++named;
  }
  EXPECT_GT(named * 10, guilt.with.records.size() * 9) << "most requests should meet an idle CPU";
  const double share = guilt.without.summary["stages"]["idle_exit"]["share"];
  EXPECT_LT(share, 0.01) << "a CPU that is busy all the time cannot have left an idle state";
}

}  // namespace
}  // namespace whylate::live
