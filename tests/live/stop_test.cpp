// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A server that somebody stops is not busy: by a signal, a debugger, or a freezer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "causes.h"
#include "support/host.h"

namespace whylate::live {
namespace {

constexpr int kStopMs = 200;
constexpr std::uint64_t kLateNs = 20'000'000;

void sleep_for(int milliseconds) { ::usleep(static_cast<useconds_t>(milliseconds) * 1'000); }

void by_signal(pid_t pid) {
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  sleep_for(kStopMs);
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
}

void by_debugger(pid_t pid) {
  std::vector<pid_t> held;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& entry : std::filesystem::directory_iterator(tasks)) {
    const pid_t tid = std::stoi(entry.path().filename().string());
    ASSERT_EQ(::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr), 0);
    ASSERT_EQ(::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(tid, &status, __WALL), tid);
    held.push_back(tid);
  }
  sleep_for(kStopMs);
  for (const pid_t tid : held) ASSERT_EQ(::ptrace(PTRACE_DETACH, tid, nullptr, nullptr), 0);
}

void write_to(const std::string& file, const std::string& text) {
  std::ofstream stream(file);
  stream << text << std::flush;
  ASSERT_TRUE(stream.good()) << file;
}

/// A cgroup below `root` whose tasks a file freezes; empty where this machine has no such
/// hierarchy.
struct Freezer {
  std::string root, file, freeze, thaw;
};

void by_freezer(const Freezer& freezer, pid_t pid) {
  const std::string group = freezer.root + "/whylate-live-" + std::to_string(::getpid());
  ASSERT_EQ(::mkdir(group.c_str(), 0755), 0) << group;
  write_to(group + "/cgroup.procs", std::to_string(pid));
  write_to(group + "/" + freezer.file, freezer.freeze);
  sleep_for(kStopMs);
  write_to(group + "/" + freezer.file, freezer.thaw);
  sleep_for(20);
  write_to(freezer.root + "/cgroup.procs", std::to_string(pid));
  for (int i = 0; i < 100 && ::rmdir(group.c_str()) != 0 && errno == EBUSY; ++i) sleep_for(10);
}

/// Stops the server once while a client asks; what is late must say so, and nothing else may.
template <typename Cause>
void expect_stopped(const Args& server_args, const Cause& cause, const std::string& culprit,
                    std::size_t enough) {
  Server server(server_args);
  Trace trace(server.trace_args());
  Args args = {"--to", server.address("127.0.0.1"), "--rate", "500", "--count", "400"};
  for (std::size_t i = 0; i + 1 < server_args.size(); ++i) {
    if (server_args[i] == "--proto") args = args + Args{"--proto", server_args[i + 1]};
  }
  Child client = start_client(args);
  sleep_for(250);
  cause(server.pid());
  ASSERT_TRUE(client.wait()) << "the client does not end";
  const TraceResult result = trace.stop();
  const std::vector<Record> late = later_than(result, kLateNs);
  const std::size_t named = with_culprit(late, "socket_queue", culprit);
  EXPECT_GE(named, enough) << describe(late);
  EXPECT_GE(named * 10, late.size() * 9) << describe(late);
  for (const Record& record : late) {
    if (record.culprit == culprit) {
      EXPECT_THAT(record.text, ::testing::Not(::testing::HasSubstr("busy"))) << record.text;
    }
  }
}

TEST(Stop, Signal) {
  for (const char* mode : {"blocking", "epoll"}) {
    expect_stopped({"--mode", mode}, by_signal, "stop signal", 40);
    // One read takes what has come meanwhile, as one request.
    expect_stopped({"--mode", mode, "--proto", "tcp"}, by_signal, "stop signal", 1);
  }
}

TEST(Stop, Debugger) {
  for (const char* mode : {"blocking", "epoll"}) {
    expect_stopped({"--mode", mode}, by_debugger, "debugger or tracer", 40);
  }
}

TEST(Stop, FreezerOfCgroupV1) {
  const Freezer freezer = {"/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"};
  if (::access(freezer.root.c_str(), W_OK) != 0) GTEST_SKIP() << "no freezer of cgroup v1 here";
  for (const char* mode : {"blocking", "epoll"}) {
    expect_stopped(
        {"--mode", mode}, [&](pid_t pid) { by_freezer(freezer, pid); }, "freezer", 40);
  }
}

TEST(Stop, FreezerOfCgroupV2) {
  Freezer freezer = {"/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0"};
  if (::access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0) freezer.root = "/sys/fs/cgroup";
  if (::access(freezer.root.c_str(), W_OK) != 0) GTEST_SKIP() << "no cgroup v2 here";
  for (const char* mode : {"blocking", "epoll"}) {
    expect_stopped(
        {"--mode", mode}, [&](pid_t pid) { by_freezer(freezer, pid); }, "freezer", 40);
  }
}

// At work on a request, in a sleep of its own.
TEST(Stop, WhileItWorksOnARequest) {
  Server server({"--sleep-us", "8000"});
  Trace trace(server.trace_args());
  Child client =
      start_client({"--to", server.address("127.0.0.1"), "--rate", "100", "--count", "100"});
  sleep_for(200);
  for (int i = 0; i < 6; ++i) {
    server.child().send(SIGSTOP);
    sleep_for(50);
    server.child().send(SIGCONT);
    sleep_for(60);
  }
  ASSERT_TRUE(client.wait());
  const TraceResult result = trace.stop();
  std::size_t right = 0;
  for (const Record& record : result.records) {
    if (record.stage != "app_blocked" || record.stage_ns("app_blocked") < 40'000'000) continue;
    EXPECT_EQ(record.culprit, "stop signal") << record.text;
    ++right;
  }
  EXPECT_GE(right, 1u);
}

}  // namespace
}  // namespace whylate::live
