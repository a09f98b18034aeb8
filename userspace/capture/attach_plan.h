// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "capture/features.h"
#include "host/cpuidle.h"
#include "host/netdev.h"
#include "record.h"

namespace whylate::capture {

/// A BPF program and the tracepoint it needs.
struct ProgramInfo {
  const char* program;
  const char* tracepoint;
  const char* since;  ///< first kernel that has it in the form used here
  int min_args;       ///< the program reads that many arguments
  bool required;      ///< without it nothing can be traced
};

/// Every program of the tracer but those of old_read_programs().
std::span<const ProgramInfo> programs();

/// The programs that stand in for sk_data_ready and sock_recv_length where a kernel lacks them
/// (bpf/probes/read_old.bpf.h).
std::span<const ProgramInfo> old_read_programs();

/// What the plan depends on besides the kernel. Filled by gather_plan_inputs().
struct PlanInputs {
  bool syscalls = false;       ///< --syscalls
  host::CpuidleInfo cpuidle;   ///< no CPUs: not known
  bool devices_known = false;  ///< false: any kind of device has to be reckoned with
  std::string devices_why_unknown;
  std::vector<host::NetDevice> devices;  ///< of the target's network namespaces
  bool sockets_known = false;            ///< false: any socket has to be reckoned with
  bool has_tcp = false;
  bool has_udp = false;
  bool napi_threads = false;   ///< some device is polled by kernel threads
  bool loopback_only = false;  ///< every socket known is bound to a loopback address
};

struct ProgramOff {
  std::string program;
  std::string reason;
};

/// How one stage will be measured here. Exactly one of `how` and `why_not` is filled.
struct StagePlan {
  bool measured = false;
  std::string how;
  std::string why_not;
};

/// The decision, before anything is loaded.
struct Plan {
  std::vector<ProgramOff> programs_off;        ///< in the order of programs()
  std::array<StagePlan, WL_NR_STAGES> stages;  ///< by enum wl_stage
  /// The state every idle CPU is in, when that is known without the hook wl_cpu_idle.
  std::optional<int> fixed_idle_state;
  /// Reads are told by old_read_programs(): stages are merged, see their `how` and `why_not`.
  bool old_reads = false;

  /// Names for Config::programs_off.
  std::vector<std::string> off_names() const;
  bool is_off(const std::string& program) const;
};

/// Whether no request can be followed without this program.
bool is_indispensable(std::string_view program, const Plan& plan);

/// What this kernel lacks to trace anything; one line each, empty when nothing.
std::vector<std::string> missing_requirements(const Features& features);

/// Decides which programs to attach and what each stage will be. Pure. Error (kUnsupported, one
/// line): everything of missing_requirements().
Result<Plan> make_plan(const Features& features, const PlanInputs& inputs);

}  // namespace whylate::capture
