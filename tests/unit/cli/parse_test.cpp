// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/options.h"
#include "record.h"

namespace whylate::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Args = std::vector<std::string>;

TraceOptions trace(Args args) {
  args.insert(args.begin(), "trace");
  Result<Command> command = parse_command_line(args);
  EXPECT_TRUE(command.ok()) << (command.ok() ? "" : command.error().message);
  if (!command.ok() || !std::holds_alternative<TraceOptions>(*command)) return {};
  return std::get<TraceOptions>(*command);
}

/// The one line an argument list is refused with.
std::string refusal(const Args& args) {
  const Result<Command> command = parse_command_line(args);
  EXPECT_FALSE(command.ok());
  if (command.ok()) return "";
  EXPECT_EQ(command.error().code, ExitCode::kUsage);
  EXPECT_EQ(command.error().message.find('\n'), std::string::npos);
  EXPECT_FALSE(command.error().message.empty());
  return command.error().message;
}

std::string trace_refusal(Args args) {
  args.insert(args.begin(), {"trace", "-p", "1"});
  return refusal(args);
}

TEST(Parse, AnUnknownCommandIsNamedWithThoseThatThereAre) {
  EXPECT_THAT(refusal({"bogus", "-p", "1"}),
              testing::AllOf(HasSubstr("no command 'bogus'"),
                             HasSubstr("trace, stack, correlate, doctor")));
  EXPECT_THAT(refusal({}), HasSubstr("trace, stack, correlate, doctor"));
  EXPECT_THAT(refusal({"trac\n"}), HasSubstr("'trac\\x0a'"));
}

TEST(ParseTrace, Defaults) {
  const TraceOptions options = trace({"-p", "42"});
  EXPECT_EQ(options.pid, 42);
  EXPECT_FALSE(options.comm || options.port || options.proto || options.duration_ns ||
               options.count || options.id_offset || options.output_file);
  EXPECT_EQ(options.slower_than_ns, 0u);
  EXPECT_EQ(options.id_bytes, 8u);
  EXPECT_EQ(options.slowest, 10u);
  EXPECT_FALSE(options.syscalls);
  EXPECT_EQ(options.format, Format::kText);
  EXPECT_TRUE(options.command.empty() && options.programs_off.empty());
}

TEST(ParseTrace, EveryOptionInEveryForm) {
  EXPECT_EQ(trace({"--pid", "42"}).pid, 42);
  EXPECT_EQ(trace({"--pid=42"}).pid, 42);
  EXPECT_EQ(trace({"-p42"}).pid, 42);
  EXPECT_EQ(trace({"--comm", "nginx"}).comm, "nginx");
  EXPECT_EQ(trace({"--port", "9000"}).port, 9000);
  EXPECT_EQ(*trace({"-p", "1", "-d", "10s"}).duration_ns, 10'000'000'000u);
  EXPECT_EQ(*trace({"-p", "1", "--duration", "1.5ms"}).duration_ns, 1'500'000u);
  EXPECT_EQ(*trace({"-p", "1", "-c", "5"}).count, 5u);
  EXPECT_EQ(*trace({"-p", "1", "--count", "5"}).count, 5u);
  EXPECT_EQ(trace({"-p", "1", "--slower-than", "500us"}).slower_than_ns, 500'000u);
  EXPECT_EQ(*trace({"-p", "1", "--id-offset", "0"}).id_offset, 0u);
  EXPECT_EQ(trace({"-p", "1", "--id-offset", "8999", "--id-bytes", "4"}).id_bytes, 4u);
  EXPECT_TRUE(trace({"-p", "1", "--syscalls"}).syscalls);
  EXPECT_EQ(trace({"-p", "1", "--json"}).format, Format::kJson);
  EXPECT_EQ(trace({"-p", "1", "--json-lines"}).format, Format::kJsonLines);
  EXPECT_EQ(trace({"-p", "1", "-o", "f"}).output_file, "f");
  EXPECT_EQ(trace({"-p", "1", "--output", "f"}).output_file, "f");
  EXPECT_EQ(trace({"-p", "1", "--slowest", "3"}).slowest, 3u);
  EXPECT_EQ(trace({"-p", "1", "--ring", "64"}).ring_bytes, 65'536u);
  EXPECT_THAT(trace({"-p", "1", "--without", "a", "--without", "b"}).programs_off,
              ElementsAre("a", "b"));
}

TEST(ParseTrace, PortWithProtocolAndAsAFilter) {
  EXPECT_EQ(trace({"--port", "53/udp"}).proto, WL_PROTO_UDP);
  EXPECT_EQ(trace({"--port", "53/tcp"}).proto, WL_PROTO_TCP);
  EXPECT_FALSE(trace({"--port", "53"}).proto);
  EXPECT_EQ(trace({"-p", "1", "--port", "80"}).port, 80);
  EXPECT_EQ(trace({"--comm", "x", "--port", "80"}).comm, "x");
  for (const char* bad : {"0", "65536", "-1", "x", "80/", "80/sctp", "/udp", "80/udp/tcp", "",
                          " 80", "80 ", "0x50", "99999999999999999999"}) {
    EXPECT_THAT(refusal({"trace", std::string("--port=") + bad}), HasSubstr("port")) << bad;
  }
}

TEST(ParseTrace, CommandAfterTheDashesIsLeftAlone) {
  EXPECT_THAT(trace({"-d", "1s", "--", "server", "-p", "9", "--json", "--", "x"}).command,
              ElementsAre("server", "-p", "9", "--json", "--", "x"));
  EXPECT_THAT(refusal({"trace", "--"}), HasSubstr("no command"));
}

TEST(ParseTrace, ExactlyOneSelection) {
  EXPECT_THAT(refusal({"trace"}), HasSubstr("say what to trace"));
  EXPECT_THAT(refusal({"trace", "-d", "1s"}), HasSubstr("say what to trace"));
  EXPECT_THAT(refusal({"trace", "-p", "1", "--comm", "x"}), HasSubstr("only one"));
  EXPECT_THAT(refusal({"trace", "-p", "1", "--", "x"}), HasSubstr("only one"));
  EXPECT_THAT(refusal({"trace", "--comm", "x", "--", "x"}), HasSubstr("only one"));
  refusal({"trace", "--comm", ""});
}

TEST(ParseTrace, RefusesBadValues) {
  for (const char* pid : {"0", "-5", "abc", "", "1.5", "99999999999", "12x"}) {
    EXPECT_THAT(refusal({"trace", std::string("--pid=") + pid}), HasSubstr("pid")) << pid;
  }
  for (const char* time : {"10", "-1s", "abc", "", "1e9s", "0s", "99999999h"}) {
    trace_refusal({std::string("--duration=") + time});
  }
  for (const char* time : {"10", "-1us", "abc", ""}) {
    trace_refusal({std::string("--slower-than=") + time});
  }
  for (const char* count : {"0", "-1", "abc", "", "1.5"}) {
    trace_refusal({std::string("--count=") + count});
  }
  for (const char* offset : {"9000", "-1", "abc", ""}) {
    trace_refusal({std::string("--id-offset=") + offset});
  }
  for (const char* width : {"0", "3", "5", "6", "7", "9", "16", "-1", "abc", ""}) {
    trace_refusal({"--id-offset", "0", std::string("--id-bytes=") + width});
  }
  EXPECT_THAT(trace_refusal({"--id-bytes", "4"}), HasSubstr("--id-offset"));
  trace_refusal({"--slowest", "-1"});
  trace_refusal({"--slowest", "10001"});
  trace_refusal({"--ring", "2"});
  trace_refusal({"--ring", "100"});
  trace_refusal({"--output="});
  EXPECT_THAT(trace_refusal({"--json", "--json-lines"}), HasSubstr("only one"));
}

TEST(ParseTrace, RefusesWhatItDoesNotKnow) {
  trace_refusal({"--nonsense"});
  trace_refusal({"stray"});
  trace_refusal({"-d"});
  trace_refusal({"-d", "1s", "-d", "2s"});
  EXPECT_THAT(trace_refusal({"--\x1b[31m"}), HasSubstr("\\x1b"));
}

TEST(Parse, SubcommandIsNeeded) {
  refusal({});
  refusal({"nonsense"});
  refusal({"-d", "1s"});
  refusal({"doctor", "--", "x"});
  refusal({"doctor", "trace", "-p", "1"});
}

TEST(Parse, HelpAndVersionAreText) {
  for (const Args& args : {Args{"--help"}, Args{"-h"}, Args{"trace", "--help"}, Args{"trace", "-h"},
                           Args{"correlate", "--help"}, Args{"doctor", "-h"}}) {
    const Result<Command> command = parse_command_line(args);
    ASSERT_TRUE(command.ok());
    EXPECT_TRUE(std::holds_alternative<std::string>(*command));
  }
  EXPECT_THAT(std::get<std::string>(*parse_command_line({"trace", "--help"})),
              HasSubstr("--slower-than"));
  EXPECT_THAT(std::get<std::string>(*parse_command_line({"--version"})), HasSubstr("whylate "));
}

TEST(ParseCorrelate, NeedsBothFiles) {
  const Result<Command> command = parse_command_line(
      {"correlate", "--requests", "a", "--client", "b", "--slowest", "3", "--json"});
  ASSERT_TRUE(command.ok());
  const auto& options = std::get<CorrelateOptions>(*command);
  EXPECT_EQ(options.requests_file, "a");
  EXPECT_EQ(options.client_file, "b");
  EXPECT_EQ(options.slowest, 3u);
  EXPECT_TRUE(options.json);
  refusal({"correlate", "--requests", "a"});
  refusal({"correlate", "--client", "b"});
  refusal({"correlate", "--requests", "a", "--client", "b", "--slowest", "0"});
}

StackCommand stack_command(Args args) {
  args.insert(args.begin(), "stack");
  Result<Command> command = parse_command_line(args);
  EXPECT_TRUE(command.ok()) << (command.ok() ? "" : command.error().message);
  if (!command.ok() || !std::holds_alternative<StackCommand>(*command)) return {};
  return std::get<StackCommand>(*command);
}

TEST(ParseStack, Options) {
  const StackCommand by_pid = stack_command({"-p", "12", "-w", "500ms", "--explain"});
  EXPECT_EQ(by_pid.pid, 12);
  EXPECT_EQ(by_pid.window_ns, 500'000'000u);
  EXPECT_TRUE(by_pid.explain);
  EXPECT_FALSE(by_pid.borrow);
  const StackCommand by_port = stack_command({"--port", "9000/udp", "--json", "--borrow"});
  EXPECT_EQ(by_port.port, 9000);
  EXPECT_EQ(by_port.proto, WL_PROTO_UDP);
  EXPECT_EQ(by_port.window_ns, 2'000'000'000u);
  EXPECT_TRUE(by_port.json);
  EXPECT_TRUE(by_port.borrow);
  EXPECT_EQ(stack_command({"--comm", "redis"}).comm, "redis");
}

TEST(ParseStack, Refusals) {
  refusal({"stack"});
  refusal({"stack", "-p", "0"});
  refusal({"stack", "-p", "1", "--comm", "a"});
  refusal({"stack", "-p", "1", "-w", "0s"});
  refusal({"stack", "-p", "1", "-w", "2h"});
  refusal({"stack", "-p", "1", "-w", "2"});
  refusal({"stack", "--port", "9000/sctp"});
  refusal({"stack", "-p", "1", "--json", "--explain"});
  refusal({"stack", "-p", "1", "--", "true"});
}

TEST(ParseDoctor, Options) {
  const Result<Command> command = parse_command_line({"doctor", "-p", "3", "--syscalls", "--json"});
  ASSERT_TRUE(command.ok());
  const auto& options = std::get<DoctorCommand>(*command);
  EXPECT_EQ(options.pid, 3);
  EXPECT_TRUE(options.syscalls);
  EXPECT_TRUE(options.json);
  EXPECT_EQ(std::get<DoctorCommand>(*parse_command_line({"doctor", "--pid", "4"})).pid, 4);
  refusal({"doctor", "-p", "x"});
}

}  // namespace
}  // namespace whylate::cli
