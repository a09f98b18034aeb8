// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "base/duration.h"
#include "base/escape.h"
#include "cli/options.h"
#include "record.h"

namespace whylate::cli {
namespace {

constexpr std::uint64_t kMaxIdOffset = 9000;  // a jumbo frame
constexpr std::uint64_t kMaxSlowest = 10000;  // each costs about a kilobyte
// A page is the least that the kernel takes; each of these KiB stays resident.
constexpr std::uint64_t kMinRingKib = 4;
constexpr std::uint64_t kMaxRingKib = 512 * 1024;

Error usage(std::string message) { return Error{ExitCode::kUsage, std::move(message)}; }

/// A whole decimal number of [low, high].
Result<std::uint64_t> parse_number(std::string_view option, std::string_view text,
                                   std::uint64_t low, std::uint64_t high) {
  std::uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    return usage(
        fmt::format("{}: '{}' is not a number from {} to {}", option, escape(text), low, high));
  }
  return value;
}

Result<std::uint64_t> parse_option_duration(std::string_view option, std::string_view text) {
  Result<std::uint64_t> value = parse_duration(text);
  if (value.ok()) return value;
  return usage(fmt::format("{}: {}", option, value.error().message));
}

/// "9000", "9000/udp" or "9000/tcp".
template <typename Options>
Status parse_port(std::string_view text, Options& options) {
  std::string_view number = text;
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const std::string_view proto = text.substr(slash + 1);
    number = text.substr(0, slash);
    if (proto == "udp") {
      options.proto = WL_PROTO_UDP;
    } else if (proto == "tcp") {
      options.proto = WL_PROTO_TCP;
    } else {
      return usage(fmt::format("--port: '{}' is not N, N/udp or N/tcp", escape(text)));
    }
  }
  Result<std::uint64_t> port = parse_number("--port", number, 1, 65535);
  if (!port.ok()) return port.error();
  options.port = static_cast<std::uint16_t>(*port);
  return Done{};
}

/// The texts of the trace options before they are judged.
struct RawTrace {
  std::string pid, comm, port, duration, count, slower_than, id_offset, id_bytes, output, slowest,
      ring;
  std::vector<std::string> without;
  bool syscalls = false;
  bool json = false;
  bool json_lines = false;
};

void add_trace(CLI::App& app, RawTrace& raw) {
  CLI::App* trace = app.add_subcommand(
      "trace", "follow the requests of a running server and say why the slow ones were late");
  trace->add_option("-p,--pid", raw.pid, "process to trace")->option_text("PID");
  trace->add_option("--comm", raw.comm, "trace every process of this name")->option_text("NAME");
  trace
      ->add_option("--port", raw.port,
                   "trace whoever serves this local port; with another selection: only this port")
      ->option_text("N[/udp|/tcp]");
  trace->add_option("-d,--duration", raw.duration, "end after this time (10s, 500ms, 2m)")
      ->option_text("TIME");
  trace->add_option("-c,--count", raw.count, "end after so many requests")->option_text("N");
  trace
      ->add_option("--slower-than", raw.slower_than,
                   "keep details of slower requests only; the totals still hold all of them")
      ->option_text("TIME");
  trace
      ->add_option("--id-offset", raw.id_offset,
                   "read a request number (little endian) at this offset of the payload")
      ->option_text("BYTES");
  trace->add_option("--id-bytes", raw.id_bytes, "its width: 1, 2, 4 or 8 (default 8)")
      ->option_text("N");
  trace->add_flag("--syscalls", raw.syscalls,
                  "tell `send` apart by hooking system calls (slows every one on the host)");
  trace->add_option("--slowest", raw.slowest, "how many slow requests to list (default 10)")
      ->option_text("N");
  trace
      ->add_option("--ring", raw.ring,
                   "room for details not yet read, in KiB, a power of two (default 8192)")
      ->option_text("KIB");
  trace->add_flag("--json", raw.json, "print the summary as one JSON object");
  trace->add_flag("--json-lines", raw.json_lines,
                  "print every request as a line of JSON as it ends, the summary last");
  trace->add_option("-o,--output", raw.output, "write the data there instead of to stdout")
      ->option_text("FILE");
  trace->add_option("--without", raw.without, "leave out one of the tracer's programs (repeatable)")
      ->option_text("PROGRAM");
  trace->footer("A command to launch and trace is given after `--`.");
}

Status fill_selection(const RawTrace& raw, const CLI::App& app, TraceOptions& options) {
  if (app.count("--pid") > 0) {
    Result<std::uint64_t> pid =
        parse_number("--pid", raw.pid, 1, std::numeric_limits<pid_t>::max());
    if (!pid.ok()) return pid.error();
    options.pid = static_cast<pid_t>(*pid);
  }
  if (app.count("--comm") > 0) {
    if (raw.comm.empty()) return usage("--comm: the name is empty");
    options.comm = raw.comm;
  }
  if (app.count("--port") > 0) {
    Status port = parse_port(raw.port, options);
    if (!port.ok()) return port.error();
  }
  const int selections =
      (options.pid ? 1 : 0) + (options.comm ? 1 : 0) + (options.command.empty() ? 0 : 1);
  if (selections > 1) return usage("give only one of -p, --comm and -- CMD");
  if (selections == 0 && !options.port) {
    return usage("say what to trace: -p PID, --comm NAME, --port N or -- CMD ARGS");
  }
  return Done{};
}

Result<Command> finish_trace(const RawTrace& raw, const CLI::App& app,
                             std::vector<std::string> command) {
  TraceOptions options;
  options.command = std::move(command);
  Status selection = fill_selection(raw, app, options);
  if (!selection.ok()) return selection.error();

  if (app.count("--duration") > 0) {
    Result<std::uint64_t> duration = parse_option_duration("--duration", raw.duration);
    if (!duration.ok()) return duration.error();
    if (*duration == 0) return usage("--duration: must be above 0");
    options.duration_ns = *duration;
  }
  if (app.count("--slower-than") > 0) {
    Result<std::uint64_t> limit = parse_option_duration("--slower-than", raw.slower_than);
    if (!limit.ok()) return limit.error();
    options.slower_than_ns = *limit;
  }
  if (app.count("--count") > 0) {
    Result<std::uint64_t> count =
        parse_number("--count", raw.count, 1, std::numeric_limits<std::int64_t>::max());
    if (!count.ok()) return count.error();
    options.count = *count;
  }
  if (app.count("--slowest") > 0) {
    Result<std::uint64_t> slowest = parse_number("--slowest", raw.slowest, 0, kMaxSlowest);
    if (!slowest.ok()) return slowest.error();
    options.slowest = static_cast<std::uint32_t>(*slowest);
  }
  if (app.count("--ring") > 0) {
    Result<std::uint64_t> kib = parse_number("--ring", raw.ring, kMinRingKib, kMaxRingKib);
    if (!kib.ok() || (*kib & (*kib - 1)) != 0) {
      return usage(fmt::format("--ring: '{}' is not a power of two from {} to {}", escape(raw.ring),
                               kMinRingKib, kMaxRingKib));
    }
    options.ring_bytes = static_cast<std::uint32_t>(*kib * 1024);
  }
  if (app.count("--id-offset") > 0) {
    Result<std::uint64_t> offset = parse_number("--id-offset", raw.id_offset, 0, kMaxIdOffset - 1);
    if (!offset.ok()) return offset.error();
    options.id_offset = static_cast<std::uint32_t>(*offset);
  }
  if (app.count("--id-bytes") > 0) {
    if (!options.id_offset) return usage("--id-bytes needs --id-offset");
    Result<std::uint64_t> width = parse_number("--id-bytes", raw.id_bytes, 1, 8);
    if (!width.ok() || (*width & (*width - 1)) != 0) {
      return usage(fmt::format("--id-bytes: '{}' is not 1, 2, 4 or 8", escape(raw.id_bytes)));
    }
    options.id_bytes = static_cast<std::uint32_t>(*width);
  }
  if (raw.json && raw.json_lines) return usage("give only one of --json and --json-lines");
  if (raw.json) options.format = Format::kJson;
  if (raw.json_lines) options.format = Format::kJsonLines;
  if (app.count("--output") > 0) {
    if (raw.output.empty()) return usage("--output: the file name is empty");
    options.output_file = raw.output;
  }
  options.syscalls = raw.syscalls;
  options.programs_off = raw.without;
  return Command(std::move(options));
}

Result<Command> finish_correlate(CorrelateOptions options, const std::string& slowest,
                                 const CLI::App& app) {
  if (app.count("--slowest") > 0) {
    Result<std::uint64_t> number = parse_number("--slowest", slowest, 1, kMaxSlowest);
    if (!number.ok()) return number.error();
    options.slowest = static_cast<std::uint32_t>(*number);
  }
  return Command(std::move(options));
}

/// The texts of the stack options before they are judged.
struct RawStack {
  std::string pid, comm, port, window;
  bool explain = false;
  bool borrow = false;
  bool json = false;
};

void add_stack(CLI::App& app, RawStack& raw) {
  CLI::App* stack = app.add_subcommand(
      "stack", "which network stack carries a process's traffic, and what tcpdump and ss miss");
  stack->add_option("-p,--pid", raw.pid, "process to judge")->option_text("PID");
  stack->add_option("--comm", raw.comm, "judge every process of this name")->option_text("NAME");
  stack->add_option("--port", raw.port, "judge whoever serves this local port")
      ->option_text("N[/udp|/tcp]");
  stack->add_option("-w,--window", raw.window, "watch the traffic for so long (default 2s)")
      ->option_text("TIME");
  stack->add_flag("--explain", raw.explain, "draw the way of a packet and where it is left");
  stack->add_flag("--borrow", raw.borrow,
                  "duplicate the process's sockets for a moment to read their options");
  stack->add_flag("--json", raw.json, "print JSON, one line for each process");
}

Result<Command> finish_stack(const RawStack& raw, const CLI::App& app) {
  constexpr std::uint64_t kMaxWindowNs = 3'600 * kNsPerSecond;
  StackCommand command;
  if (app.count("--pid") > 0) {
    Result<std::uint64_t> pid =
        parse_number("--pid", raw.pid, 1, std::numeric_limits<pid_t>::max());
    if (!pid.ok()) return pid.error();
    command.pid = static_cast<pid_t>(*pid);
  }
  if (app.count("--comm") > 0) {
    if (raw.comm.empty()) return usage("--comm: the name is empty");
    command.comm = raw.comm;
  }
  if (app.count("--port") > 0) {
    Status port = parse_port(raw.port, command);
    if (!port.ok()) return port.error();
  }
  const int selections = (command.pid ? 1 : 0) + (command.comm ? 1 : 0) + (command.port ? 1 : 0);
  if (selections != 1) return usage("give exactly one of -p PID, --comm NAME and --port N");
  if (app.count("--window") > 0) {
    Result<std::uint64_t> window = parse_option_duration("--window", raw.window);
    if (!window.ok()) return window.error();
    if (*window == 0 || *window > kMaxWindowNs)
      return usage("--window: must be above 0, at most 1h");
    command.window_ns = *window;
  }
  if (raw.explain && raw.json) return usage("give only one of --explain and --json");
  command.explain = raw.explain;
  command.borrow = raw.borrow;
  command.json = raw.json;
  return Command(std::move(command));
}

/// CLI11 would only say that an argument was not expected.
Status check_command_name(const std::vector<std::string>& args, const CLI::App& app) {
  if (!args.empty() && args.front().substr(0, 1) == "-") return Done{};
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!args.empty() && command->get_name() == args.front()) return Done{};
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  if (args.empty()) return usage("no command given; there are " + names);
  return usage(fmt::format("no command '{}'; there are {}", escape(args.front()), names));
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return escape(text);
}

}  // namespace

Result<Command> parse_command_line(const std::vector<std::string>& args) {
  const auto separator = std::find(args.begin(), args.end(), "--");
  std::vector<std::string> own(args.begin(), separator);
  std::vector<std::string> command;
  if (separator != args.end()) {
    command.assign(separator + 1, args.end());
    if (command.empty()) return usage("no command after --");
  }

  CLI::App app("tells why a request was late", "whylate");
  app.require_subcommand(1);
  app.set_version_flag("--version", "whylate " WHYLATE_VERSION);

  RawTrace raw;
  add_trace(app, raw);

  RawStack raw_stack;
  add_stack(app, raw_stack);

  CorrelateOptions correlate_options;
  std::string correlate_slowest;
  CLI::App* correlate = app.add_subcommand(
      "correlate", "join what a client measured with what the responder's host explains");
  correlate
      ->add_option("--requests", correlate_options.requests_file,
                   "output of `whylate trace --json-lines --id-offset B`")
      ->option_text("FILE")
      ->required();
  correlate
      ->add_option("--client", correlate_options.client_file,
                   "requests as the client saw them (schema whylate.client/1)")
      ->option_text("FILE")
      ->required();
  correlate->add_option("--slowest", correlate_slowest, "how many requests to list (default 10)")
      ->option_text("N");
  correlate->add_flag("--json", correlate_options.json, "print JSON");

  DoctorCommand doctor_command;
  std::string doctor_pid;
  CLI::App* doctor =
      app.add_subcommand("doctor", "what this kernel and these privileges allow, stage by stage");
  doctor->add_option("-p,--pid", doctor_pid, "judge for this process")->option_text("PID");
  doctor->add_flag("--syscalls", doctor_command.syscalls, "judge for trace --syscalls");
  doctor->add_flag("--json", doctor_command.json, "print JSON");

  if (Status named = check_command_name(own, app); !named.ok()) return named.error();
  try {
    // CLI11 takes the arguments from the end of the vector.
    std::reverse(own.begin(), own.end());
    app.parse(std::move(own));
  } catch (const CLI::CallForHelp&) {
    return Command(app.help());
  } catch (const CLI::CallForVersion& version) {
    return Command(std::string(version.what()) + "\n");
  } catch (const CLI::ParseError& error) {
    return usage(one_line(error.what()));
  }

  if (app.got_subcommand("trace")) {
    return finish_trace(raw, *app.get_subcommand("trace"), std::move(command));
  }
  if (!command.empty()) return usage("only trace takes a command after --");
  if (app.got_subcommand("stack")) return finish_stack(raw_stack, *app.get_subcommand("stack"));
  if (app.got_subcommand(correlate)) {
    return finish_correlate(std::move(correlate_options), correlate_slowest, *correlate);
  }
  if (doctor->count("--pid") > 0) {
    Result<std::uint64_t> pid =
        parse_number("--pid", doctor_pid, 1, std::numeric_limits<pid_t>::max());
    if (!pid.ok()) return pid.error();
    doctor_command.pid = static_cast<pid_t>(*pid);
  }
  return Command(std::move(doctor_command));
}

}  // namespace whylate::cli
