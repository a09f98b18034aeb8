// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/attach_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <set>

#include "base/stage_names.h"
#include "capture/plan_inputs.h"

namespace whylate::capture {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// A kernel that has everything.
Features full_features() {
  Features features;
  for (const ProgramInfo& info : programs()) features.tracepoints[info.tracepoint] = 4;
  for (const ProgramInfo& info : old_read_programs()) features.tracepoints[info.tracepoint] = 4;
  features.iter_task_file = true;
  features.cfs_throttled_self_time = true;
  features.task_throttled = true;
  features.task_state = true;
  features.udp_reader_queue = true;
  return features;
}

host::NetDevice device(const char* name, host::DeviceKind kind, const char* qdisc,
                       const char* kind_name = "") {
  host::NetDevice device;
  device.name = name;
  device.kind = kind;
  device.kind_name = kind_name;
  device.qdisc = qdisc;
  device.up = true;
  return device;
}

const host::NetDevice kLo = device("lo", host::DeviceKind::kLoopback, "noqueue");
const host::NetDevice kVeth = device("v0", host::DeviceKind::kVeth, "noqueue", "veth");
const host::NetDevice kVethQueue = device("v0", host::DeviceKind::kVeth, "tbf", "veth");
const host::NetDevice kNic = device("eth0", host::DeviceKind::kPhysical, "fq_codel");
const host::NetDevice kTun = device("tun0", host::DeviceKind::kVirtual, "fq", "tun");
const host::NetDevice kVlan = device("eth0.7", host::DeviceKind::kStacked, "noqueue", "vlan");

host::CpuIdleStates idle_cpu(int cpu, std::vector<std::pair<int, bool>> states) {
  host::CpuIdleStates idle;
  idle.cpu = cpu;
  for (const auto& [index, disabled] : states) {
    host::IdleState state;
    state.index = index;
    state.name = "S" + std::to_string(index);
    state.disabled = disabled;
    idle.states.push_back(state);
  }
  return idle;
}

PlanInputs on(std::vector<host::NetDevice> devices, bool loopback_only = false) {
  PlanInputs inputs;
  inputs.devices_known = true;
  inputs.devices = std::move(devices);
  inputs.loopback_only = loopback_only;
  inputs.cpuidle.driver = "intel_idle";
  inputs.cpuidle.governor = "menu";
  inputs.cpuidle.cpus = {idle_cpu(0, {{0, false}, {1, false}}),
                         idle_cpu(1, {{0, false}, {1, false}})};
  return inputs;
}

Plan plan_of(const PlanInputs& inputs, const Features& features = full_features()) {
  Result<Plan> plan = make_plan(features, inputs);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
  return plan.ok() ? std::move(*plan) : Plan{};
}

const StagePlan& stage(const Plan& plan, int which) {
  return plan.stages[static_cast<std::size_t>(which)];
}

TEST(AttachPlan, EveryStageIsEitherMeasuredOrSaysWhyNot) {
  for (const bool syscalls : {false, true}) {
    for (const auto& devices :
         {std::vector{kLo}, std::vector{kLo, kVeth}, std::vector{kLo, kNic}}) {
      PlanInputs inputs = on(devices);
      inputs.syscalls = syscalls;
      const Plan plan = plan_of(inputs);
      for (int i = 0; i < WL_NR_STAGES; ++i) {
        EXPECT_EQ(stage(plan, i).measured, !stage(plan, i).how.empty()) << stage_name(i);
        EXPECT_EQ(stage(plan, i).measured, stage(plan, i).why_not.empty()) << stage_name(i);
      }
      std::set<std::string> names;
      for (const ProgramOff& off : plan.programs_off) {
        EXPECT_FALSE(off.reason.empty()) << off.program;
        EXPECT_TRUE(names.insert(off.program).second) << off.program;
      }
      // What is required is never left out.
      for (const ProgramInfo& info : programs()) {
        EXPECT_FALSE(info.required && plan.is_off(info.program)) << info.program;
      }
    }
  }
}

struct HookCase {
  const char* name;
  std::vector<host::NetDevice> devices;
  bool loopback_only;
  bool syscalls;
  bool queue_off;
  bool napi_off;
  const char* hard_irq_why_not;  // "" when it is measured
};

class Hooks : public testing::TestWithParam<HookCase> {};

TEST_P(Hooks, FollowTheDevices) {
  const HookCase& c = GetParam();
  PlanInputs inputs = on(c.devices, c.loopback_only);
  inputs.syscalls = c.syscalls;
  inputs.has_udp = true;
  const Plan plan = plan_of(inputs);
  EXPECT_EQ(plan.is_off("wl_net_dev_queue"), c.queue_off);
  EXPECT_EQ(stage(plan, WL_STAGE_TX_QUEUE).measured, !c.queue_off);
  EXPECT_EQ(plan.is_off("wl_napi_poll"), c.napi_off);
  EXPECT_EQ(stage(plan, WL_STAGE_HARD_IRQ).why_not, c.hard_irq_why_not);
  EXPECT_EQ(plan.is_off("wl_sys_enter"), !c.syscalls);
  EXPECT_EQ(plan.is_off("wl_sys_exit"), !c.syscalls);
  EXPECT_EQ(stage(plan, WL_STAGE_SEND).measured, c.syscalls);
  EXPECT_FALSE(plan.is_off("wl_tcp_probe"));
  EXPECT_FALSE(plan.is_off("wl_irq_entry"));  // interrupts steal time whatever the device
}

constexpr const char* kByVeth = "packets arrive through veth: there is no hard interrupt";
constexpr const char* kByLo = "packets arrive through loopback: there is no hard interrupt";

INSTANTIATE_TEST_SUITE_P(
    Devices, Hooks,
    testing::Values(
        HookCase{"loopback", {kLo}, false, false, true, true, kByLo},
        HookCase{"veth", {kLo, kVeth}, false, false, true, true, kByVeth},
        HookCase{"veth_syscalls", {kLo, kVeth}, false, true, false, true, kByVeth},
        HookCase{"veth_with_qdisc", {kLo, kVethQueue}, false, false, false, true, kByVeth},
        HookCase{"nic", {kLo, kNic}, false, false, false, false, ""},
        HookCase{"nic_bound_to_loopback", {kLo, kNic}, true, false, true, true, kByLo},
        HookCase{"veth_bound_to_loopback", {kLo, kVethQueue}, true, false, true, true, kByLo},
        HookCase{"tun",
                 {kLo, kTun},
                 false,
                 false,
                 false,
                 true,
                 "packets arrive through tun: there is no hard interrupt"},
        HookCase{"vlan_of_another_namespace", {kLo, kVlan}, false, false, true, false, ""},
        HookCase{"no_devices", {}, false, false, true, true, kByLo}),
    [](const testing::TestParamInfo<HookCase>& tested) { return tested.param.name; });

TEST(AttachPlan, UnknownDevicesLeaveNothingOut) {
  PlanInputs inputs = on({});
  inputs.devices_known = false;
  inputs.devices_why_unknown = "no permission";
  const Plan plan = plan_of(inputs);
  EXPECT_THAT(plan.off_names(), UnorderedElementsAre("wl_sys_enter", "wl_sys_exit"));
  EXPECT_TRUE(stage(plan, WL_STAGE_HARD_IRQ).measured);
  EXPECT_THAT(stage(plan, WL_STAGE_HARD_IRQ).how, HasSubstr("no permission"));
  EXPECT_TRUE(stage(plan, WL_STAGE_TX_QUEUE).measured);
}

TEST(AttachPlan, AQueueThatIsNotKnownCounts) {
  host::NetDevice odd = kVeth;
  odd.qdisc.clear();
  EXPECT_FALSE(plan_of(on({kLo, odd})).is_off("wl_net_dev_queue"));
}

TEST(AttachPlan, ThreadsThatPollADeviceNeedTheEndOfAPoll) {
  PlanInputs inputs = on({kLo, kVeth});
  EXPECT_TRUE(plan_of(inputs).is_off("wl_napi_poll"));
  inputs.napi_threads = true;
  const Plan plan = plan_of(inputs);
  EXPECT_FALSE(plan.is_off("wl_napi_poll"));
  EXPECT_THAT(stage(plan, WL_STAGE_SOFTIRQ_WAIT).how, HasSubstr("NAPI threads"));
}

TEST(AttachPlan, TheEndOfASendIsForTcpAlone) {
  PlanInputs inputs = on({kLo});
  inputs.sockets_known = true;
  EXPECT_FALSE(plan_of(inputs).is_off("wl_sock_send_length")) << "it may open any socket yet";
  inputs.has_udp = true;
  EXPECT_TRUE(plan_of(inputs).is_off("wl_sock_send_length"));
  EXPECT_FALSE(stage(plan_of(inputs), WL_STAGE_TX_QUEUE).measured);
  inputs.has_tcp = true;
  const Plan plan = plan_of(inputs);
  EXPECT_FALSE(plan.is_off("wl_sock_send_length"));
  EXPECT_TRUE(plan.is_off("wl_net_dev_queue"));
  EXPECT_TRUE(stage(plan, WL_STAGE_TX_QUEUE).measured);
  EXPECT_THAT(stage(plan, WL_STAGE_TX_QUEUE).how, HasSubstr("end of the send"));
}

struct IdleCase {
  const char* name;
  const char* governor;
  std::vector<host::CpuIdleStates> cpus;
  std::optional<int> fixed;
};

class Idle : public testing::TestWithParam<IdleCase> {};

TEST_P(Idle, HookOnlyWhereThereIsAChoice) {
  const IdleCase& c = GetParam();
  PlanInputs inputs = on({kLo});
  inputs.cpuidle.governor = c.governor;
  inputs.cpuidle.cpus = c.cpus;
  const Plan plan = plan_of(inputs);
  EXPECT_EQ(plan.fixed_idle_state, c.fixed);
  EXPECT_EQ(plan.is_off("wl_cpu_idle"), c.fixed.has_value());
  EXPECT_TRUE(stage(plan, WL_STAGE_IDLE_EXIT).measured);
}

INSTANTIATE_TEST_SUITE_P(
    States, Idle,
    testing::Values(
        IdleCase{"two_states", "menu", {idle_cpu(0, {{0, false}, {1, false}})}, std::nullopt},
        IdleCase{"one_disabled", "menu", {idle_cpu(0, {{0, false}, {1, true}})}, 0},
        IdleCase{"haltpoll_ignores_it",
                 "haltpoll",
                 {idle_cpu(0, {{0, false}, {1, true}})},
                 std::nullopt},
        IdleCase{"default_idle", "", {idle_cpu(0, {{1, false}}), idle_cpu(1, {{1, false}})}, 1},
        IdleCase{"one_cpu_has_a_choice",
                 "menu",
                 {idle_cpu(0, {{1, false}}), idle_cpu(1, {{0, false}, {1, false}})},
                 std::nullopt},
        IdleCase{"cpus_differ",
                 "menu",
                 {idle_cpu(0, {{1, false}}), idle_cpu(1, {{0, false}})},
                 std::nullopt},
        IdleCase{"all_disabled", "menu", {idle_cpu(0, {{0, true}, {1, true}})}, std::nullopt},
        IdleCase{"not_known", "", {}, std::nullopt}),
    [](const testing::TestParamInfo<IdleCase>& tested) { return tested.param.name; });

TEST(AttachPlan, AMissingRequiredTracepointIsNamedWithItsKernel) {
  for (const ProgramInfo& info : programs()) {
    if (!info.required) continue;
    Features features = full_features();
    features.tracepoints.erase(info.tracepoint);
    const Result<Plan> plan = make_plan(features, on({kLo}));
    ASSERT_FALSE(plan.ok()) << info.tracepoint;
    EXPECT_EQ(plan.error().code, ExitCode::kUnsupported);
    EXPECT_THAT(plan.error().message, HasSubstr(info.tracepoint));
    EXPECT_THAT(plan.error().message, HasSubstr(info.since));
    EXPECT_EQ(plan.error().message.find('\n'), std::string::npos);
  }
}

TEST(AttachPlan, WhatNothingWorksWithoutIsKnown) {
  Plan plan = plan_of(on({kLo, kNic}));
  for (const char* name :
       {"wl_sched_switch", "wl_exit", "wl_sock_recv_length", "wl_netif_receive_skb"}) {
    EXPECT_TRUE(is_indispensable(name, plan)) << name;
  }
  for (const char* name : {"wl_irq_entry", "wl_net_dev_queue", "wl_old_consume_skb", "nonsense"}) {
    EXPECT_FALSE(is_indispensable(name, plan)) << name;
  }
  plan.old_reads = true;
  EXPECT_TRUE(is_indispensable("wl_old_consume_skb", plan));
  EXPECT_FALSE(is_indispensable("wl_sock_recv_length", plan));
}

TEST(AttachPlan, EverythingMissingIsTold) {
  Features features = full_features();
  features.tracepoints.erase("sk_data_ready");
  features.tracepoints.erase("sock_recv_length");
  features.tracepoints.erase("consume_skb");
  features.tracepoints["sched_switch"] = 3;
  features.iter_task_file = false;
  EXPECT_EQ(missing_requirements(features).size(), 3u);
  const Result<Plan> plan = make_plan(features, on({kLo}));
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(
      plan.error().message,
      HasSubstr("no tracepoint sk_data_ready and no tracepoint sock_recv_length (since 6.3), "
                "and this kernel has no tracepoint consume_skb"));
  EXPECT_THAT(plan.error().message, HasSubstr("sched_switch has 3 arguments"));
  EXPECT_THAT(missing_requirements(full_features()), IsEmpty());
}

// One optional hook that is not there must not stop the rest.
TEST(AttachPlan, EachOptionalTracepointMayBeMissing) {
  for (const ProgramInfo& info : programs()) {
    const std::string_view name = info.tracepoint;
    if (info.required || name == "sk_data_ready" || name == "sock_recv_length") continue;
    Features features = full_features();
    features.tracepoints.erase(info.tracepoint);
    PlanInputs inputs = on({kLo, kNic});
    inputs.syscalls = true;
    const Plan plan = plan_of(inputs, features);
    EXPECT_THAT(plan.off_names(), UnorderedElementsAre(info.program));
    EXPECT_THAT(plan.programs_off[0].reason, HasSubstr(info.tracepoint));
  }
}

TEST(AttachPlan, WithoutTheTracepointsOfReadsOthersTellThem) {
  EXPECT_FALSE(plan_of(on({kLo, kNic})).old_reads);
  for (const char* gone : {"sk_data_ready", "sock_recv_length"}) {
    Features features = full_features();
    features.tracepoints.erase(gone);
    PlanInputs inputs = on({kLo, kNic});
    inputs.sockets_known = true;
    inputs.has_udp = true;
    const Plan plan = plan_of(inputs, features);
    EXPECT_TRUE(plan.old_reads);
    // Half of them would be worse than none.
    EXPECT_THAT(plan.off_names(), testing::IsSupersetOf({"wl_sk_data_ready", "wl_sock_recv_length",
                                                         "wl_netif_receive_skb", "wl_kfree_skb"}));
    for (const ProgramOff& off : plan.programs_off) EXPECT_FALSE(off.reason.empty());
    EXPECT_THAT(stage(plan, WL_STAGE_STACK).why_not, HasSubstr("merged into socket_queue"));
    EXPECT_THAT(stage(plan, WL_STAGE_STACK).why_not, HasSubstr(gone));
    EXPECT_THAT(stage(plan, WL_STAGE_RECV).how, HasSubstr("consume_skb"));
    inputs.has_tcp = true;
    EXPECT_THAT(stage(plan_of(inputs, features), WL_STAGE_STACK).how,
                HasSubstr("TCP: netif_receive_skb to tcp_probe"));
  }
}

TEST(AttachPlan, DegradedStagesSayWhy) {
  Features features = full_features();
  features.cfs_throttled_self_time = false;
  for (const char* gone : {"irq_handler_entry", "net_dev_queue", "sys_enter"}) {
    features.tracepoints.erase(gone);
  }
  PlanInputs inputs = on({kLo, kNic});
  inputs.syscalls = true;
  inputs.has_udp = true;
  const Plan plan = plan_of(inputs, features);
  EXPECT_THAT(stage(plan, WL_STAGE_THROTTLED).why_not, HasSubstr("throttled_clock_self_time"));
  EXPECT_THAT(stage(plan, WL_STAGE_HARD_IRQ).why_not, HasSubstr("irq_handler_entry"));
  EXPECT_THAT(stage(plan, WL_STAGE_TX_QUEUE).why_not, HasSubstr("net_dev_queue"));
  EXPECT_THAT(stage(plan, WL_STAGE_SEND).why_not, HasSubstr("sys_enter"));
  EXPECT_THAT(stage(plan, WL_STAGE_APP).how, HasSubstr("net_dev_start_xmit"));
}

TEST(AttachPlan, WithoutVectorsTimerInterruptsStayInApp) {
  Features features = full_features();
  for (const ProgramInfo& info : programs()) {
    if (std::string(info.program).rfind("wl_vec_", 0) == 0) {
      features.tracepoints.erase(info.tracepoint);
    }
  }
  const Plan plan = plan_of(on({kLo, kNic}), features);
  EXPECT_TRUE(plan.is_off("wl_vec_reschedule_entry"));
  EXPECT_TRUE(stage(plan, WL_STAGE_APP_IRQ).measured);
  EXPECT_THAT(stage(plan, WL_STAGE_APP_IRQ).how, HasSubstr("stay in app"));
}

SocketInfo socket_at(int family, std::initializer_list<int> address, std::uint8_t proto) {
  SocketInfo socket;
  socket.family = family;
  socket.proto = proto;
  std::size_t i = 0;
  for (const int byte : address) socket.local_addr[i++] = static_cast<std::uint8_t>(byte);
  return socket;
}

TEST(PlanInputs, LoopbackOnlyNeedsEverySocketThere) {
  const SocketInfo lo4 = socket_at(AF_INET, {127, 1, 2, 3}, WL_PROTO_UDP);
  const SocketInfo any4 = socket_at(AF_INET, {0, 0, 0, 0}, WL_PROTO_TCP);
  const SocketInfo lo6 =
      socket_at(AF_INET6, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, WL_PROTO_TCP);
  const SocketInfo mapped =
      socket_at(AF_INET6, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}, WL_PROTO_TCP);
  const SocketInfo any6 = socket_at(AF_INET6, {}, WL_PROTO_TCP);
  const auto gather = [](std::vector<SocketInfo> sockets) {
    return gather_plan_inputs("", {}, false, &sockets);
  };
  EXPECT_TRUE(gather({lo4, lo6, mapped}).loopback_only);
  EXPECT_FALSE(gather({lo4, any4}).loopback_only);
  EXPECT_FALSE(gather({lo6, any6}).loopback_only);
  EXPECT_FALSE(gather({}).loopback_only);
  const PlanInputs both = gather({lo4, any4});
  EXPECT_TRUE(both.sockets_known && both.has_udp && both.has_tcp);
  const PlanInputs unknown = gather_plan_inputs("", {}, true, nullptr);
  EXPECT_FALSE(unknown.sockets_known);
  EXPECT_FALSE(unknown.loopback_only);
  EXPECT_TRUE(unknown.syscalls);
  EXPECT_TRUE(unknown.devices_known);
}

TEST(PlanInputs, AProcessThatIsNotThereLeavesDevicesUnknown) {
  const pid_t pids[] = {0x3fffffff};
  const PlanInputs inputs = gather_plan_inputs("", pids, false, nullptr);
  EXPECT_FALSE(inputs.devices_known);
  EXPECT_FALSE(inputs.devices_why_unknown.empty());
}

}  // namespace
}  // namespace whylate::capture
