// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Bad input and lacking privilege: one clear line, the right exit code, nothing left attached.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/attached.h"
#include "support/host.h"
#include "support/trace.h"

namespace whylate::live {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Refusals : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(only_left(before_)); }

  /// It must end at once with that exit code, and say why in one line.
  template <typename Matcher>
  void expect_refused(const Args& argv, int exit_code, const Matcher& why) {
    Child child = Child::run(argv, {}, 20'000);
    EXPECT_EQ(child.exit_code(), exit_code) << ::testing::PrintToString(argv) << child.err();
    EXPECT_EQ(child.out(), "") << ::testing::PrintToString(argv);
    const std::vector<std::string> lines = split_lines(child.err());
    ASSERT_EQ(lines.size(), 1u) << ::testing::PrintToString(argv) << child.err();
    EXPECT_THAT(lines[0], AllOf(StartsWith("whylate: "), why)) << ::testing::PrintToString(argv);
  }

  template <typename Matcher>
  void expect_trace_refused(const Args& args, int exit_code, const Matcher& why) {
    expect_refused(Args{whylate_path(), "trace", "-d", "1s"} + args, exit_code, why);
  }

 private:
  std::set<int> before_ = tracer_programs();
};

TEST_F(Refusals, WrongTargets) {
  const Child sleeper = Child::spawn({"sleep", "100"});
  sleep_ms(100);
  const std::string pid = std::to_string(sleeper.pid());
  Child ended = Child::run({"true"});

  expect_trace_refused({"-p", std::to_string(ended.pid())}, 2,
                       HasSubstr(std::to_string(ended.pid())));
  expect_trace_refused({"-p", "2"}, 2, HasSubstr("kernel thread"));
  expect_trace_refused({"-p", pid}, 2, AllOf(HasSubstr(pid), HasSubstr("socket")));
  expect_trace_refused({"--port", "1/udp"}, 2, HasSubstr("1/udp"));
  expect_trace_refused({"--comm", "nobody-has-it"}, 2, HasSubstr("nobody-has-it"));
  expect_trace_refused({"-p", "0"}, 2, HasSubstr("--pid"));
  expect_trace_refused({"-p", "one"}, 2, HasSubstr("--pid"));
  expect_trace_refused({}, 2, HasSubstr("-p"));
  for (const char* command : {"stack", "doctor"}) {
    expect_refused({whylate_path(), command, "-p", std::to_string(ended.pid())}, 2,
                   HasSubstr("no such process"));
    expect_refused({whylate_path(), command, "-p", "2"}, 2, HasSubstr("kernel thread"));
  }
}

TEST_F(Refusals, APortThatTheProcessDoesNotHave) {
  Server server({});
  expect_trace_refused(server.trace_args({"--port", "1"}), 2, HasSubstr("no socket on port 1"));
  expect_trace_refused(server.trace_args({"--port", fmt::format("{}/tcp", server.port())}), 2,
                       HasSubstr("no socket on port"));
}

TEST_F(Refusals, NonsenseNumbers) {
  Server server({});
  for (const char* duration :
       {"banana", "-5s", "0s", "", "5 parsecs", "99999999999999999999s", "1e400s", "nan"}) {
    expect_refused(Args{whylate_path(), "trace", "-d", duration} + server.trace_args(), 2,
                   HasSubstr("--duration"));
  }
  expect_trace_refused(server.trace_args({"--slower-than", "fast"}), 2, HasSubstr("--slower-than"));
  expect_trace_refused(server.trace_args({"-c", "0"}), 2, HasSubstr("--count"));
  expect_trace_refused(server.trace_args({"--id-offset", "0", "--id-bytes", "3"}), 2,
                       HasSubstr("--id-bytes"));
  expect_trace_refused(server.trace_args({"--port", "70000"}), 2, HasSubstr("--port"));
}

TEST_F(Refusals, CommandsAndFilesThatCannotBe) {
  Server server({});
  expect_trace_refused(server.trace_args({"-o", scratch_path("none/such")}), 5,
                       HasSubstr("none/such"));
  const Child missing =
      Child::run({whylate_path(), "trace", "-d", "1s", "--", "/nonexistent/command"});
  EXPECT_EQ(missing.exit_code(), 2) << missing.err();
  EXPECT_THAT(missing.err(), HasSubstr("cannot run the command"));
  expect_refused({whylate_path(), "correlate", "--requests", scratch_path("none"), "--client",
                  scratch_path("none")},
                 4, HasSubstr("cannot read"));
}

/// Runs as nobody, with these capabilities alone.
Args as_nobody(const std::string& capabilities) {
  Args argv = {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"};
  if (!capabilities.empty()) {
    argv =
        argv + Args{"--inh-caps", "-all," + capabilities, "--ambient-caps", "-all," + capabilities};
  }
  return argv;
}

TEST_F(Refusals, MissingPrivilegeIsNamed) {
  Server server({});
  const Args trace = Args{public_whylate(), "trace", "-d", "1s"} + server.trace_args();
  expect_refused(as_nobody("") + trace, 3, AllOf(HasSubstr("CAP_BPF"), HasSubstr("CAP_PERFMON")));
  expect_refused(as_nobody("+bpf") + trace, 3, HasSubstr("CAP_PERFMON is missing"));
  expect_refused(as_nobody("+perfmon") + trace, 3, HasSubstr("CAP_BPF is missing"));
  const Args by_port =
      Args{public_whylate(), "trace", "-d", "1s", "--port", std::to_string(server.port())};
  expect_refused(as_nobody("") + by_port, 3, HasSubstr("CAP_BPF"));
}

TEST_F(Refusals, TwoCapabilitiesAreEnough) {
  Server server({});
  // The duration is a bound: a change of the user frees a child from dying with its parent.
  Trace trace(server.trace_args({"-d", "60s"}), {}, as_nobody("+bpf,+perfmon"));
  const Json client =
      run_client({"--to", server.address("127.0.0.1"), "--count", "1000", "--wait", "block"});
  EXPECT_EQ(client["received"], 1000);
  const TraceResult result = trace.stop();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.observed(), 1000u);
  EXPECT_EQ(result.complete(), 1000u);
}

TEST_F(Refusals, NoBtf) {
  Server server({});
  std::string script = "mount --bind /dev/null /sys/kernel/btf/vmlinux && exec \"$0\" \"$@\"";
  expect_refused(Args{"unshare", "-m", "sh", "-c", script, whylate_path(), "trace", "-d", "1s"} +
                     server.trace_args(),
                 3, HasSubstr("BTF"));
}

}  // namespace
}  // namespace whylate::live
