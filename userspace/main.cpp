// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/signals.h"
#include "capture/observe.h"
#include "cli/correlate.h"
#include "cli/doctor.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stack.h"
#if WHYLATE_BPF
#include "cli/trace.h"
#endif

namespace whylate {
namespace {

int print(const std::string& text) {
  cli::Output output = cli::Output::to_stdout();
  output.add(text);
  const Status written = output.flush();
  return written.ok() ? static_cast<int>(ExitCode::kDone) : fail(written.error());
}

int doctor(const cli::DoctorCommand& command) {
  cli::DoctorOptions options;
  options.pid = command.pid;
  options.syscalls = command.syscalls;
  options.json = command.json;
#if WHYLATE_BPF
  options.list_sockets = capture::list_sockets;
#endif
  return static_cast<int>(cli::run_doctor(options));
}

int trace(const cli::TraceOptions& options) {
#if WHYLATE_BPF
  return cli::run_trace(options);
#else
  static_cast<void>(options);
  return fail({ExitCode::kUnsupported, "this build has no live capture (WHYLATE_BPF=OFF)"});
#endif
}

int stack(const cli::StackCommand& command) {
  cli::StackSources sources;
  sources.observe = capture::observe;
#if WHYLATE_BPF
  sources.list_sockets = capture::list_sockets;
#endif
  return cli::run_stack(command, sources);
}

int run(const std::vector<std::string>& args) {
  const Result<cli::Command> command = cli::parse_command_line(args);
  if (!command.ok()) return fail(command.error());
  if (const auto* text = std::get_if<std::string>(&*command)) return print(*text);
  if (const auto* options = std::get_if<cli::TraceOptions>(&*command)) return trace(*options);
  if (const auto* options = std::get_if<cli::CorrelateOptions>(&*command)) {
    return cli::run_correlate(*options);
  }
  if (const auto* command_line = std::get_if<cli::StackCommand>(&*command)) {
    return stack(*command_line);
  }
  return doctor(std::get<cli::DoctorCommand>(*command));
}

}  // namespace
}  // namespace whylate

int main(int argc, char** argv) {
  // Before any output: a closed pipe must show as EPIPE, not end the process.
  whylate::handle_signals();
  try {
    return whylate::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    return whylate::fail({whylate::ExitCode::kRuntimeError, error.what()});
  }
}
