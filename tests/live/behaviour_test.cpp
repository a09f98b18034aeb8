// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How a run begins and ends, and what it leaves behind: nothing.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/attached.h"
#include "support/host.h"
#include "support/trace.h"

namespace whylate::live {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kMostToEndNs = 2'000'000'000;

/// Checks at its end that no program of the tracer stayed.
class Behaviour : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(only_left(before_)) << "programs of the tracer are still in the kernel";
  }

 private:
  std::set<int> before_ = tracer_programs();
};

/// A client that goes on for longer than any of these tests.
Child endless_client(const Server& server) {
  return start_client({"--to", server.address("127.0.0.1"), "--gap-us", "500", "--wait", "block",
                       "--count", "1000000", "--cpu", std::to_string(cpus().client)});
}

TEST_F(Behaviour, SlowerThanKeepsFewRecordsAndAllTotals) {
  Server server({"--lock-us", "3000", "--lock-every", "20"});
  Trace trace(server.trace_args({"--slower-than", "1ms"}));
  run_client({"--to", server.address("127.0.0.1"), "--gap-us", "500", "--wait", "block", "--count",
              "2000"});
  const TraceResult result = trace.stop();
  EXPECT_EQ(result.observed(), 2000u);
  EXPECT_EQ(result.summary["stages"]["app"]["measured"], true);
  ASSERT_GT(result.records.size(), 0u);
  EXPECT_LT(result.records.size(), 2000u);
  for (const Record& record : result.records) ASSERT_GE(record.total_ns, 1'000'000u);
  EXPECT_GE(result.summary["latency_ns"]["max"].get<std::uint64_t>(), 1'000'000u);
}

TEST_F(Behaviour, SlowerThanEverythingKeepsOnlyTotals) {
  Server server({});
  Trace trace(server.trace_args({"--slower-than", "1h"}));
  run_client({"--to", server.address("127.0.0.1"), "--wait", "block", "--count", "1000"});
  const TraceResult result = trace.stop();
  EXPECT_EQ(result.observed(), 1000u);
  EXPECT_EQ(result.complete(), 1000u);
  EXPECT_TRUE(result.records.empty());
  EXPECT_TRUE(result.summary["latency_ns"]["p99"].is_number_unsigned());
}

TEST_F(Behaviour, EndsAfterACountOfRequests) {
  Server server({});
  const Child client = endless_client(server);
  for (const Args& more : {Args{"-c", "100"}, Args{"-c", "100", "--slower-than", "1h"}}) {
    Trace trace(server.trace_args(more));
    const TraceResult result = trace.finish();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_GE(result.observed(), 100u);
  }
}

TEST_F(Behaviour, EndsAfterADuration) {
  Server server({});
  const Child client = endless_client(server);
  Trace trace(server.trace_args({"-d", "700ms"}));
  const TraceResult result = trace.finish();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GE(result.summary["duration_ns"].get<std::uint64_t>(), 700'000'000u);
  EXPECT_GT(result.observed(), 0u);
}

TEST_F(Behaviour, SignalsEndWithTheFullReport) {
  Server server({});
  const Child client = endless_client(server);
  for (const int number : {SIGINT, SIGTERM}) {
    for (const bool ignored : {false, true}) {
      SpawnOptions options;
      if (ignored) options.in_child = [number] { ::signal(number, SIG_IGN); };
      Trace trace(server.trace_args(), options);
      sleep_ms(200);
      const std::uint64_t begin_ns = monotonic_ns();
      trace.child().send(number);
      ASSERT_TRUE(trace.child().wait()) << "signal " << number << " is not heard";
      EXPECT_LT(monotonic_ns() - begin_ns, kMostToEndNs);
      const TraceResult result = trace.finish();
      EXPECT_EQ(result.exit_code, 0) << result.err;
      ASSERT_FALSE(result.summary.is_null()) << "no report after signal " << number;
      EXPECT_GT(result.observed(), 0u);
      EXPECT_EQ(result.records.size(), result.observed());
    }
  }
}

/// A pipe of which the test reads, when it wants to.
struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    close_read();
    close_write();
  }
  void close_read() { ::close(std::exchange(read_end, -1)); }
  void close_write() { ::close(std::exchange(write_end, -1)); }
  int read_end = -1;
  int write_end = -1;
};

TEST_F(Behaviour, ASecondSignalAborts) {
  Server server({});
  const Child client = endless_client(server);
  Pipe pipe;
  SpawnOptions options;
  options.stdout_fd = pipe.write_end;
  Child trace =
      Child::spawn(Args{whylate_path(), "trace", "--json-lines"} + server.trace_args(), options);
  ASSERT_TRUE(trace.wait_line("attached in")) << trace.err();
  // Nobody reads: the pipe fills, and the report cannot be written.
  sleep_ms(1000);
  trace.send(SIGTERM);
  EXPECT_FALSE(trace.wait(700)) << "it ended although its report could not be written";
  trace.send(SIGTERM);
  EXPECT_EQ(trace.wait(2000), 128 + SIGTERM);
}

TEST_F(Behaviour, AClosedOutputPipeEndsQuietly) {
  Server server({});
  const Child client = endless_client(server);
  for (const Args& format : {Args{"--json-lines"}, Args{}}) {
    Pipe pipe;
    SpawnOptions options;
    options.stdout_fd = pipe.write_end;
    Child trace =
        Child::spawn(Args{whylate_path(), "trace"} + format + server.trace_args(), options);
    pipe.close_write();
    ASSERT_TRUE(trace.wait_line("attached in")) << trace.err();
    if (!format.empty()) {
      char byte = 0;
      EXPECT_EQ(::read(pipe.read_end, &byte, 1), 1) << "no line while it runs";
    }
    pipe.close_read();
    EXPECT_EQ(trace.wait(5000), 0) << "a reader that went away must end it";
    EXPECT_EQ(split_lines(trace.err()).size(), 1u) << trace.err();
  }
}

TEST_F(Behaviour, TargetExits) {
  // After requests: the report, and exit code 0.
  Server server({"--count", "200"});
  Trace trace(server.trace_args());
  run_client({"--to", server.address("127.0.0.1"), "--wait", "block", "--count", "200"});
  TraceResult result = trace.finish();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("target exited"));
  EXPECT_EQ(result.observed(), 200u);

  // Before any: exit code 1.
  Server unused({});
  Trace idle(unused.trace_args());
  unused.stop();
  result = idle.finish();
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("target exited"));
  ASSERT_FALSE(result.summary.is_null());
  EXPECT_EQ(result.observed(), 0u);
}

TEST_F(Behaviour, ALaunchedCommandEndsWithTheTrace) {
  Trace trace({"--", echo_path(), "server"});
  const std::optional<std::string> ready = trace.child().wait_line("ready pid=");
  ASSERT_TRUE(ready);
  const pid_t pid = std::stoi(ready->substr(ready->find("pid=") + 4));
  ASSERT_EQ(::kill(pid, 0), 0);
  const TraceResult result = trace.stop();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(::kill(pid, 0), 0) << "the launched command still runs";
}

TEST_F(Behaviour, KilledItLeavesNothingAttached) {
  Server server({});
  const Child client = endless_client(server);
  Trace trace(server.trace_args());
  trace.child().send(SIGKILL);
  EXPECT_EQ(trace.child().wait(), 128 + SIGKILL);
}

TEST_F(Behaviour, NoTraffic) {
  Server server({});
  for (const char* format : {"--json", "--json-lines"}) {
    const Child trace =
        Child::run(Args{whylate_path(), "trace", "-d", "300ms", format} + server.trace_args());
    EXPECT_EQ(trace.exit_code(), 0) << trace.err();
    const Json summary = Json::parse(trace.out(), nullptr, false);
    ASSERT_FALSE(summary.is_discarded()) << trace.out();
    EXPECT_EQ(summary["requests"]["observed"], 0);
    EXPECT_TRUE(summary["latency_ns"]["p99"].is_null());
    EXPECT_TRUE(summary["stages"]["app"]["share"].is_null());
    EXPECT_TRUE(summary["slowest"].empty());
  }
  const Child text = Child::run(Args{whylate_path(), "trace", "-d", "300ms"} + server.trace_args());
  EXPECT_EQ(text.exit_code(), 0) << text.err();
  EXPECT_THAT(text.out(), HasSubstr("0 requests"));
  EXPECT_THAT(text.out(), ::testing::Not(HasSubstr("nan")));
}

TEST_F(Behaviour, FullDisk) {
  // In a mount namespace of this process's own: gone with it.
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
  ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  const std::string directory = scratch_path("full");
  ASSERT_EQ(::mkdir(directory.c_str(), 0755), 0);
  ASSERT_EQ(::mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=1m"), 0);
  const std::string file = directory + "/records";
  Server server({});
  const Child client = endless_client(server);
  const std::uint64_t begin_ns = monotonic_ns();
  Child trace =
      Child::spawn(Args{whylate_path(), "trace", "--json-lines", "-o", file} + server.trace_args());
  EXPECT_EQ(trace.wait(30'000), 5) << trace.err();
  EXPECT_THAT(trace.err(), HasSubstr("No space left"));
  EXPECT_EQ(split_lines(trace.err()).size(), 2u) << "attached, and why it ended: " << trace.err();
  const std::string written = read_text(file);
  ASSERT_FALSE(written.empty());
  EXPECT_EQ(written.back(), '\n') << "the last line is cut";
  const TraceResult result = read_trace_file(file, monotonic_ns() - begin_ns);
  EXPECT_GT(result.records.size(), 100u);
  EXPECT_EQ(::umount2(directory.c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace whylate::live
