// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/options.h"

#include <gtest/gtest.h>

namespace whylate::echo {
namespace {

Result<Command> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "whylate-echo");
  return parse_args(static_cast<int>(arguments.size()), arguments.data());
}

ServerOptions server(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "server");
  auto command = parse(arguments);
  EXPECT_TRUE(command.ok()) << (command.ok() ? "" : command.error().message);
  return std::get<ServerOptions>(*command);
}

ClientOptions client(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"client", "--to", "127.0.0.1:9"});
  auto command = parse(arguments);
  EXPECT_TRUE(command.ok()) << (command.ok() ? "" : command.error().message);
  return std::get<ClientOptions>(*command);
}

TEST(Options, ServerDefaults) {
  const auto options = server({});
  EXPECT_EQ(options.proto, Proto::kUdp);
  EXPECT_EQ(options.mode, ServerMode::kBlocking);
  EXPECT_EQ(to_string(options.listen), "127.0.0.1:0");
  EXPECT_EQ(options.threads, 1);
  EXPECT_EQ(options.count, 0U);
  EXPECT_EQ(options.lock_hold_ns, 0);
}

TEST(Options, ServerEverything) {
  const auto options =
      server({"--listen",    "0.0.0.0:9000", "--mode", "epoll",        "--threads", "3",
              "--reuseport", "--cpu",        "0,2-3",  "--work-us",    "20",        "--sleep-us",
              "30",          "--lock-us",    "5000",   "--lock-every", "20",        "--group",
              "239.1.1.1",   "--interface",  "lo",     "--rcvbuf",     "4096",      "--count",
              "7",           "--log",        "f",      "--drain"});
  EXPECT_EQ(options.mode, ServerMode::kEpoll);
  EXPECT_TRUE(options.reuseport);
  EXPECT_TRUE(options.drain);
  EXPECT_EQ(options.cpus, (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(options.work_ns, 20'000);
  EXPECT_EQ(options.sleep_ns, 30'000);
  EXPECT_EQ(options.lock_hold_ns, 5'000'000);
  EXPECT_EQ(options.lock_every_ns, 20'000'000);
  ASSERT_TRUE(options.group);
  ASSERT_TRUE(options.interface);
  EXPECT_EQ(options.rcvbuf_bytes, 4096);
  EXPECT_EQ(options.count, 7U);
  EXPECT_EQ(options.log_file, "f");
}

TEST(Options, ClientDefaultsToAClosedLoop) {
  const auto options = client({});
  EXPECT_FALSE(options.rate_millihertz);
  EXPECT_EQ(options.window, 1U);
  EXPECT_EQ(options.count, 10'000U);
  EXPECT_EQ(options.size_bytes, 64U);
  EXPECT_EQ(options.timeout_ns, 1'000'000'000);
}

TEST(Options, ClientSchedule) {
  const auto options = client({"--rate", "0.5", "--burst", "8", "--senders", "2", "--connections",
                               "6", "--first-id", "18446744073709541615"});
  EXPECT_EQ(options.rate_millihertz, 500);
  EXPECT_EQ(options.burst, 8U);
  EXPECT_EQ(options.connections, 6);
  EXPECT_EQ(options.first_id, 18446744073709541615ULL);
  EXPECT_EQ(client({"--threads", "3"}).connections, 3);
}

TEST(Options, HelpIsNotAnError) {
  for (std::vector<const char*> arguments :
       {std::vector<const char*>{"--help"}, {"server", "--help"}, {"client", "--help"}}) {
    auto command = parse(arguments);
    ASSERT_TRUE(command.ok());
    EXPECT_FALSE(std::get<HelpText>(*command).text.empty());
  }
  // Where the number lies, and that receive stamps concern the whole host, must be found in the
  // help.
  const std::string text = std::get<HelpText>(*parse({"client", "--help"})).text;
  EXPECT_NE(text.find("--id-offset 0 --id-bytes 8"), std::string::npos);
  EXPECT_NE(text.find("whole host"), std::string::npos);
}

TEST(Options, MistakesAreUsageErrorsOfOneLine) {
  const std::vector<std::vector<const char*>> mistakes = {
      {},
      {"nonsense"},
      {"client"},
      {"client", "--to", "nowhere"},
      {"client", "--to", "127.0.0.1:0"},
      {"client", "--to", "127.0.0.1:9", "--rate", "0"},
      {"client", "--to", "127.0.0.1:9", "--rate", "-3"},
      {"client", "--to", "127.0.0.1:9", "--rate", "fast"},
      {"client", "--to", "127.0.0.1:9", "--count", "0"},
      {"client", "--to", "127.0.0.1:9", "--count", "-1"},
      {"client", "--to", "127.0.0.1:9", "--size", "15"},
      {"client", "--to", "127.0.0.1:9", "--size", "65508"},
      {"client", "--to", "127.0.0.1:9", "--burst", "2"},
      {"client", "--to", "127.0.0.1:9", "--rate", "9", "--window", "2"},
      {"client", "--to", "127.0.0.1:9", "--rate", "9", "--gap-us", "2"},
      {"client", "--to", "127.0.0.1:9", "--rate", "9", "--wait", "block"},
      {"client", "--to", "127.0.0.1:9", "--window", "2", "--gap-us", "2"},
      {"client", "--to", "127.0.0.1:9", "--senders", "2", "--connections", "3"},
      {"client", "--to", "127.0.0.1:9", "--cpu", "1-"},
      {"client", "--to", "127.0.0.1:9", "--bind", "[::1]:1"},
      {"client", "--to", "127.0.0.1:9", "--interface", "lo"},
      {"client", "--to", "127.0.0.1:9", "--hdr-tag", "x"},
      {"client", "--to", "127.0.0.1:9", "--first-id", "18446744073709551615"},
      {"client", "--to", "239.0.0.1:9", "--proto", "tcp"},
      {"client", "--to", "239.0.0.1:9", "--interface", "nosuchdevice"},
      {"server", "--proto", "sctp"},
      {"server", "--mode", "poll"},
      {"server", "--threads", "0"},
      {"server", "--work-us", "-1"},
      {"server", "--rcvbuf", "0"},
      {"server", "--proto", "tcp", "--threads", "2"},
      {"server", "--proto", "tcp", "--reuseport"},
      {"server", "--proto", "tcp", "--group", "239.0.0.1"},
      {"server", "--group", "10.0.0.1"},
      {"server", "--group", "ff05::1"},
      {"server", "--interface", "lo"},
      {"server", "--drain"},
      {"server", "stray"},
  };
  for (const auto& arguments : mistakes) {
    std::string line;
    for (const char* argument : arguments) line += std::string(" ") + argument;
    auto command = parse(arguments);
    ASSERT_FALSE(command.ok()) << line;
    EXPECT_EQ(command.error().code, ExitCode::kUsage) << line;
    EXPECT_EQ(command.error().message.find('\n'), std::string::npos) << command.error().message;
  }
}

TEST(Options, CpuLists) {
  EXPECT_EQ(*parse_cpu_list("3"), (std::vector<int>{3}));
  EXPECT_EQ(*parse_cpu_list("1,0"), (std::vector<int>{1, 0}));
  EXPECT_EQ(*parse_cpu_list("0-2,7"), (std::vector<int>{0, 1, 2, 7}));
  for (const char* bad : {"", ",", "1,", "-1", "2-1", "a", "1 2", "0-99999", "99999999999"}) {
    EXPECT_FALSE(parse_cpu_list(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace whylate::echo
