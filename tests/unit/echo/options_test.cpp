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

TEST(Options, ServerWaysToReceive) {
  for (const auto& [name, mode] : {std::pair{"blocking", ServerMode::kBlocking},
                                   {"epoll", ServerMode::kEpoll},
                                   {"poll", ServerMode::kPoll},
                                   {"select", ServerMode::kSelect},
                                   {"spin", ServerMode::kSpin},
                                   {"io_uring", ServerMode::kUring}}) {
    EXPECT_EQ(server({"--mode", name}).mode, mode) << name;
  }
  EXPECT_EQ(server({}).batch, 1);
  EXPECT_EQ(server({"--batch", "32"}).batch, 32);
  EXPECT_TRUE(server({"--peek"}).peek);
  const auto udp = server({"--mode", "epoll", "--share-epoll", "--threads", "4", "--pause-us", "70",
                           "--pause-every", "8"});
  EXPECT_TRUE(udp.share_epoll);
  EXPECT_EQ(udp.pause_ns, 70'000);
  EXPECT_EQ(udp.pause_every, 8U);
  const auto tcp = server({"--proto", "tcp", "--read-bytes", "10", "--rcvlowat", "64"});
  EXPECT_EQ(tcp.read_bytes, 10U);
  EXPECT_EQ(tcp.rcvlowat_bytes, 64);
  EXPECT_EQ(server({"--proto", "tcp", "--defer-accept", "5"}).defer_accept_s, 5);
}

TEST(Options, ServerHandOff) {
  EXPECT_TRUE(server({"--mode", "epoll", "--hand-off", "--threads", "2"}).hand_off);
}

TEST(Options, ServerUring) {
  const auto plain = server({"--mode", "io_uring"});
  EXPECT_FALSE(plain.uring.multishot || plain.uring.defer || plain.uring.sqpoll ||
               plain.uring.async);
  const auto multishot =
      server({"--mode", "io_uring", "--uring-multishot", "--uring-defer", "--send", "io_uring"});
  EXPECT_TRUE(multishot.uring.multishot && multishot.uring.defer);
  EXPECT_EQ(multishot.send, SendWay::kUring);
  EXPECT_TRUE(server({"--mode", "io_uring", "--uring-sqpoll"}).uring.sqpoll);
  EXPECT_TRUE(server({"--mode", "io_uring", "--uring-async", "--batch", "4"}).uring.async);
  EXPECT_TRUE(server({"--send", "io_uring", "--uring-sqpoll"}).uring.sqpoll);
}

TEST(Options, ServerWaysToReply) {
  EXPECT_FALSE(server({}).answer_thread);
  EXPECT_EQ(server({"--answer", "none"}).answer_thread, -1);
  EXPECT_EQ(server({"--answer", "2"}).answer_thread, 2);
  EXPECT_EQ(server({"--send", "sendmmsg"}).send, SendWay::kSendmmsg);
  EXPECT_EQ(server({"--send", "gso"}).send, SendWay::kGso);
  EXPECT_EQ(server({"--proto", "tcp", "--send", "sendfile"}).send, SendWay::kSendfile);
  EXPECT_EQ(server({"--proto", "tcp", "--send", "splice"}).send, SendWay::kSplice);
  EXPECT_TRUE(server({"--reply-thread"}).reply_thread);
  const auto later = server({"--reply-after-us", "300"});
  EXPECT_TRUE(later.reply_thread);
  EXPECT_EQ(later.reply_after_ns, 300'000);
  const auto tcp = server({"--proto", "tcp", "--reply-bytes", "100000", "--reply-split", "10"});
  EXPECT_EQ(tcp.reply_bytes, 100'000U);
  EXPECT_EQ(tcp.reply_split_bytes, 10U);
}

TEST(Options, ClientWays) {
  const auto pieces =
      client({"--proto", "tcp", "--segment-bytes", "24", "--segment-gap-us", "200", "--reply-bytes",
              "4096", "--rcvbuf", "8192", "--read-every-us", "20"});
  EXPECT_EQ(pieces.segment_bytes, 24U);
  EXPECT_EQ(pieces.segment_gap_ns, 200'000);
  EXPECT_EQ(pieces.reply_bytes, 4'096U);
  EXPECT_EQ(pieces.rcvbuf_bytes, 8'192);
  EXPECT_EQ(pieces.read_every_ns, 20'000);
  EXPECT_EQ(client({"--proto", "tcp", "--window", "12", "--coalesce", "4"}).coalesce, 4U);
  EXPECT_EQ(client({"--proto", "tcp", "--rate", "9", "--burst", "8", "--coalesce", "4"}).coalesce,
            4U);
  EXPECT_TRUE(
      client({"--fresh-sockets", "--bind", "127.0.0.1:10000", "--count", "50000"}).fresh_sockets);
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
      {"client", "--to", "127.0.0.1:9", "--coalesce", "2"},
      {"client", "--to", "127.0.0.1:9", "--segment-bytes", "8"},
      {"client", "--to", "127.0.0.1:9", "--proto", "tcp", "--segment-gap-us", "8"},
      {"client", "--to", "127.0.0.1:9", "--proto", "tcp", "--window", "3", "--coalesce", "2"},
      {"client", "--to", "127.0.0.1:9", "--proto", "tcp", "--window", "2", "--coalesce", "2",
       "--connections", "2"},
      {"client", "--to", "127.0.0.1:9", "--fresh-sockets", "--rate", "9"},
      {"client", "--to", "127.0.0.1:9", "--fresh-sockets", "--window", "2"},
      {"client", "--to", "127.0.0.1:9", "--fresh-sockets", "--connections", "2"},
      {"client", "--to", "127.0.0.1:9", "--fresh-sockets", "--bind", "127.0.0.1:10000", "--count",
       "60000"},
      {"client", "--to", "127.0.0.1:9", "--reply-bytes", "65508"},
      {"server", "--mode", "kqueue"},
      {"server", "--batch", "0"},
      {"server", "--batch", "2", "--peek"},
      {"server", "--proto", "tcp", "--batch", "2"},
      {"server", "--read-bytes", "2"},
      {"server", "--rcvlowat", "2"},
      {"server", "--defer-accept", "2"},
      {"server", "--reply-split", "2"},
      {"server", "--reply-bytes", "65508"},
      {"server", "--proto", "tcp", "--send", "gso"},
      {"server", "--send", "pigeon"},
      {"server", "--send", "gso", "--reply-thread"},
      {"server", "--hand-off"},
      {"server", "--mode", "epoll", "--hand-off", "--share-epoll"},
      {"server", "--send", "splice"},
      {"server", "--send", "sendfile"},
      {"server", "--uring-multishot"},
      {"server", "--uring-defer"},
      {"server", "--mode", "io_uring", "--uring-defer", "--uring-sqpoll"},
      {"server", "--mode", "io_uring", "--uring-multishot", "--uring-async"},
      {"server", "--mode", "io_uring", "--peek"},
      {"server", "--mode", "io_uring", "--drain"},
      {"server", "--proto", "tcp", "--send", "io_uring", "--reply-split", "2"},
      {"server", "--share-epoll"},
      {"server", "--mode", "epoll", "--share-epoll", "--reuseport"},
      {"server", "--stack", "packet", "--listen", "10.0.0.2:7", "--mode", "poll"},
      {"server", "--stack", "packet", "--listen", "10.0.0.2:7", "--batch", "2"},
      {"server", "--stack", "packet", "--listen", "10.0.0.2:7", "--reply-thread"},
      {"server", "--answer", "some"},
      {"server", "--answer", "-1"},
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
