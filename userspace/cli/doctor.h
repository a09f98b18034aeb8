// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "capture/attach_plan.h"
#include "capture/features.h"
#include "capture/privileges.h"
#include "capture/session.h"
#include "host/cpuidle.h"
#include "host/kernel.h"

namespace whylate::cli {

struct DoctorOptions {
  std::string root;  ///< for tests; "" = this machine
  std::string btf_path = capture::kVmlinuxBtf;
  std::optional<pid_t> pid;  ///< judge for this process's devices and sockets
  bool syscalls = false;
  bool json = false;
  /// Lists the sockets of a process; empty in a build without live capture.
  std::function<Result<std::vector<capture::SocketInfo>>(std::optional<pid_t>)> list_sockets;
};

/// Everything `whylate doctor` knows; values, no layout.
struct DoctorReport {
  host::KernelInfo kernel;
  std::vector<int> cpus_possible;
  std::vector<int> cpus_online;
  capture::Privileges privileges;
  std::optional<capture::Features> features;  ///< nothing: BTF cannot be read
  host::CpuidleInfo cpuidle;
  std::optional<pid_t> pid;
  std::string comm;  ///< of the process, with pid
  bool syscalls = false;
  std::optional<capture::Plan> plan;   ///< nothing: the kernel lacks something required
  std::vector<std::string> obstacles;  ///< why tracing is not possible; empty: it is
  std::vector<std::string> warnings;
  bool possible() const { return obstacles.empty(); }
};

/// Looks. Error: the process does not exist or cannot be traced.
Result<DoctorReport> examine(const DoctorOptions& options);

/// The report for people; ends with a line end, plain characters only.
std::string doctor_text(const DoctorReport& report);

/// The report as schema whylate.doctor/1.
nlohmann::json doctor_json(const DoctorReport& report);

/// `whylate doctor`: prints to stdout; kDone when tracing is possible, kUnsupported when not.
ExitCode run_doctor(const DoctorOptions& options);

}  // namespace whylate::cli
