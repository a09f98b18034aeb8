// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"

namespace whylate::cli {

enum class Format { kText, kJson, kJsonLines };

/// `whylate trace`. Exactly one of pid, comm, command or port selects the target; a port beside pid
/// or comm narrows it.
struct TraceOptions {
  std::optional<pid_t> pid;
  std::optional<std::string> comm;
  std::optional<std::uint16_t> port;
  std::optional<std::uint8_t> proto;         ///< WL_PROTO_TCP or WL_PROTO_UDP, only with a port
  std::vector<std::string> command;          ///< argv of the program to launch
  std::optional<std::uint64_t> duration_ns;  ///< none: until a signal or the target's end
  std::optional<std::uint64_t> count;        ///< end after so many requests
  std::uint64_t slower_than_ns = 0;
  std::optional<std::uint32_t> id_offset;
  std::uint32_t id_bytes = 8;
  bool syscalls = false;
  Format format = Format::kText;
  std::optional<std::string> output_file;  ///< data goes here instead of stdout
  std::uint32_t slowest = 10;
  std::optional<std::uint32_t> ring_bytes;  ///< of the record ring; none: the session's default
  std::vector<std::string> programs_off;    ///< hooks to leave out, for tests and measurements
};

/// `whylate correlate`.
struct CorrelateOptions {
  std::string requests_file;
  std::string client_file;
  std::uint32_t slowest = 10;
  bool json = false;
};

/// `whylate doctor`.
struct DoctorCommand {
  std::optional<pid_t> pid;  ///< judge for this process; none: in general
  bool syscalls = false;     ///< judge as if --syscalls were given
  bool json = false;
};

/// `whylate stack`. Exactly one of pid, comm and port selects.
struct StackCommand {
  std::optional<pid_t> pid;
  std::optional<std::string> comm;
  std::optional<std::uint16_t> port;
  std::optional<std::uint8_t> proto;  ///< WL_PROTO_TCP or WL_PROTO_UDP, only with a port
  std::uint64_t window_ns = 2'000'000'000;
  bool explain = false;
  bool borrow = false;  ///< borrow descriptors for getsockopt calls that only read
  bool json = false;
};

/// What the command line asks for. A std::string holds text for stdout (help, version): print it
/// and leave with exit code 0.
using Command =
    std::variant<std::string, TraceOptions, CorrelateOptions, DoctorCommand, StackCommand>;

/// argv to Command; reads nothing but its argument. Errors carry kUsage and one line.
/// `args` is argv without the program's name.
Result<Command> parse_command_line(const std::vector<std::string>& args);

}  // namespace whylate::cli
