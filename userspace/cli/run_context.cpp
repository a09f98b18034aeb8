// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/run_context.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "host/interrupts.h"
#include "host/kernel.h"
#include "host/netdev.h"
#include "host/process.h"
#include "host/quota.h"

namespace whylate::cli {
namespace {

constexpr std::uint64_t kNsPerUsec = 1000;
constexpr std::uint8_t kTcpListen = 10;

void fill_cpuidle(RunContext& context, const host::CpuidleInfo& cpuidle) {
  for (const host::CpuIdleStates& cpu : cpuidle.cpus) {
    for (const host::IdleState& state : cpu.states) {
      IdleState& entry = context.idle_states[{static_cast<std::uint32_t>(cpu.cpu), state.index}];
      entry.name = state.name;
      if (state.latency_us) entry.exit_latency_ns = *state.latency_us * kNsPerUsec;
    }
  }
}

void fill_quota(RunContext& context, const host::ProcessInfo& process) {
  context.cgroup = process.cgroup_v2;
  for (const auto& [controllers, path] : process.cgroup_v1) {
    // "cpu" as a whole word: "cpuset" and "cpuacct" are other controllers.
    if (("," + controllers + ",").find(",cpu,") != std::string::npos) context.cgroup = path;
  }
  const Result<host::QuotaInfo> quota = host::read_quota("", process);
  context.quota_us.reset();
  context.period_us.reset();
  if (!quota.ok() || !quota->tightest) return;
  const host::QuotaLevel& level = quota->levels[*quota->tightest];
  context.cgroup = level.path;
  context.quota_us = level.quota_us;
  context.period_us = level.period_us;
}

void fill_process(RunContext& context, const host::ProcessInfo& process) {
  context.pid = process.pid;
  context.comm = process.comm;
  context.start_ns = process.start_ns;
  fill_quota(context, process);
}

}  // namespace

RunContext read_run_context(const TraceOptions& options, const Target& target,
                            const capture::Plan& plan, const capture::PlanInputs& inputs) {
  RunContext context;
  context.pids = target.pids();
  fill_process(context, target.processes.front());
  const host::KernelInfo kernel = host::read_kernel("");
  context.kernel_release = kernel.release;
  context.machine = kernel.machine;
  context.virtualised = kernel.virtualised;
  fill_cpuidle(context, inputs.cpuidle);
  context.fixed_idle_state = plan.fixed_idle_state;
  if (const Result<host::InterruptNames> names = host::read_interrupts(""); names.ok()) {
    for (const auto& [irq, actions] : *names) {
      context.irq_names[irq] = host::interrupt_name(*names, irq);
    }
  }
  const Result<host::NetDevices> devices = host::read_net_devices(target.processes.front().pid);
  if (devices.ok()) {
    for (const host::NetDevice& device : devices->devices) {
      context.devices[static_cast<std::uint32_t>(device.ifindex)] = {device.name, device.qdisc};
    }
  }
  add_sockets(context, target.sockets);
  context.syscalls = options.syscalls;
  context.slower_than_ns = options.slower_than_ns;
  for (int i = 0; i < WL_NR_STAGES; ++i) {
    context.stages[i] = {plan.stages[i].measured, plan.stages[i].why_not};
  }
  context.own_pid = ::getpid();
  return context;
}

void add_sockets(RunContext& context, const std::vector<capture::SocketInfo>& sockets) {
  for (const capture::SocketInfo& socket : sockets) {
    if (!context.inodes.emplace(socket.sk_cookie, socket.inode).second) continue;
    LocalSocket local;
    local.proto = socket.proto;
    local.family = socket.family == AF_INET6 ? 6 : 4;
    std::copy(std::begin(socket.local_addr), std::end(socket.local_addr),
              std::begin(local.address));
    local.port = socket.local_port;
    local.inode = socket.inode;
    local.cookie = socket.sk_cookie;
    local.serves =
        socket.proto == WL_PROTO_UDP ? socket.remote_port == 0 : socket.tcp_state == kTcpListen;
    context.sockets.push_back(local);
  }
}

void refresh_process(RunContext& context, pid_t pid) {
  const Result<host::ProcessInfo> process = host::read_process("", pid);
  if (process.ok()) fill_process(context, *process);
}

}  // namespace whylate::cli
