// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every way to receive: each request once, with the number that the server read, answered or said
// to be not.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "support/host.h"
#include "support/trace.h"

namespace whylate::live {
namespace {

const Args kWithId = {"--id-offset", "0", "--id-bytes", "8"};

struct Way {
  std::string name;
  Args server;
  Args client;
};

std::vector<std::uint64_t> sorted_ids(const TraceResult& result) {
  std::vector<std::uint64_t> ids;
  for (const Record& record : result.records) {
    if (record.id) ids.push_back(*record.id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<std::uint64_t> sorted_ids(const ReadLog& log) {
  std::vector<std::uint64_t> ids;
  for (const auto& [tid, reads] : log) {
    for (const Read& read : reads) ids.push_back(read.id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

/// The ids in the order in which the reads ended.
std::vector<std::uint64_t> ids_by_read(TraceResult result) {
  std::stable_sort(result.records.begin(), result.records.end(),
                   [](const Record& a, const Record& b) { return a.recv_ns < b.recv_ns; });
  std::vector<std::uint64_t> ids;
  for (const Record& record : result.records) ids.push_back(record.id.value_or(~0ull));
  return ids;
}

class PairingWays : public ::testing::TestWithParam<Way> {};

TEST_P(PairingWays, EveryReadHasItsPacket) {
  const Way& way = GetParam();
  Server server(way.server);
  Trace trace(server.trace_args(kWithId));
  const Json client = run_client(way.client + Args{"--to", server.address("127.0.0.1")});
  const TraceResult result = trace.stop();
  const ReadLog log = server.stop();
  EXPECT_EQ(result.lost_sum(), 0u) << result.summary["lost"].dump();
  EXPECT_EQ(sorted_ids(result), sorted_ids(log));
  std::uint64_t unanswered = 0;
  std::uint64_t unmatched =
      result.unmatched_sum() - result.unmatched("peek") - result.unmatched("dropped");
  for (const Record& record : result.records) unanswered += record.is("no_reply");
  EXPECT_EQ(unanswered, 0u);
  EXPECT_EQ(unmatched, 0u) << result.summary["requests"].dump();
  if (log.size() == 1) {
    std::vector<std::uint64_t> read;
    for (const Read& one : log.begin()->second) read.push_back(one.id);
    EXPECT_EQ(ids_by_read(result), read) << "the order of the reads";
  }
}

const Args kClosed = {"--count", "2000", "--wait", "block"};
const Args kBursts = {"--count", "2000", "--rate", "200", "--burst", "10"};

INSTANTIATE_TEST_SUITE_P(
    , PairingWays,
    ::testing::Values(
        Way{"poll", {"--mode", "poll"}, kClosed}, Way{"select", {"--mode", "select"}, kClosed},
        Way{"peek", {"--peek"}, kClosed},
        Way{"reuseport",
            {"--reuseport", "--threads", "2"},
            kClosed + Args{"--connections", "4", "--window", "4"}},
        Way{"recvmmsg", {"--batch", "8"}, kBursts},
        Way{"recvmmsg_sendmmsg", {"--batch", "8", "--send", "sendmmsg"}, kBursts},
        Way{"recvmmsg_of_several_peers",
            {"--batch", "8"},
            kClosed + Args{"--connections", "4", "--window", "8"}},
        Way{"io_uring", {"--mode", "io_uring"}, kClosed},
        Way{"io_uring_multishot", {"--mode", "io_uring", "--uring-multishot"}, kBursts},
        Way{"io_uring_defer", {"--mode", "io_uring", "--uring-defer"}, kClosed},
        Way{"io_uring_sqpoll",
            {"--mode", "io_uring", "--uring-sqpoll", "--send", "io_uring"},
            kClosed},
        Way{"io_uring_workers",
            {"--mode", "io_uring", "--uring-async", "--send", "io_uring"},
            kClosed},
        Way{"tcp_rcvlowat",
            {"--proto", "tcp", "--rcvlowat", "64"},
            kClosed + Args{"--proto", "tcp", "--segment-bytes", "16"}},
        // The first segment of each connection ends the handshake, too.
        Way{"tcp_defer_accept",
            {"--proto", "tcp", "--mode", "epoll", "--defer-accept", "5"},
            kClosed + Args{"--proto", "tcp", "--fresh-sockets"}},
        // Ten requests in one segment, each with a read of its own: most begin in the middle.
        Way{"tcp_coalesced",
            {"--proto", "tcp"},
            kBursts + Args{"--proto", "tcp", "--coalesce", "10"}}),
    [](const auto& one) { return one.param.name; });

// The requests of one call wait for each other, and say so.
TEST(PairingBatch, TheWaitBehindEarlierOnesIsNamed) {
  Server server({"--batch", "8", "--work-us", "100"});
  Trace trace(server.trace_args(kWithId));
  run_client(Args{"--to", server.address("127.0.0.1")} + kBursts);
  const TraceResult result = trace.stop();
  server.stop();
  std::uint64_t behind = 0;
  std::uint64_t most = 0;
  for (const Record& record : result.records) {
    behind += record.behind > 0;
    most = std::max(most, record.behind);
    if (record.behind > 0) {
      EXPECT_TRUE(record.is("batched"));
    }
  }
  EXPECT_GT(behind, 100u);
  EXPECT_EQ(most, 7u) << "of eight the last one waits for seven";
}

// One packet, three sockets: each has its own record, its rank, and what the others cost it.
TEST(PairingMulticast, TheRankInTheFanOutIsToldPerSocket) {
  const VethPair veth;
  SpawnOptions at_server;
  at_server.netns_fd = veth.server().fd();
  SpawnOptions at_client;
  at_client.netns_fd = veth.client().fd();
  Server server({"--listen", "0.0.0.0:0", "--group", "239.83.1.1", "--interface",
                 VethPair::kServerDevice, "--reuseport", "--threads", "3", "--answer", "0"},
                at_server);
  Trace trace(server.trace_args(kWithId));
  run_client({"--to", server.address("239.83.1.1"), "--interface", VethPair::kClientDevice,
              "--count", "1000", "--gap-us", "500", "--wait", "block"},
             at_client);
  const TraceResult result = trace.stop();
  const ReadLog log = server.stop();
  // A socket that never answers ends its last request with the trace.
  std::map<std::uint64_t, std::set<std::uint64_t>> ranks;
  std::map<std::uint64_t, std::map<std::uint64_t, std::uint64_t>> earlier;
  for (const Record& record : result.records) {
    ASSERT_TRUE(record.is("multicast"));
    ASSERT_TRUE(record.id);
    EXPECT_TRUE(ranks[*record.id].insert(record.fanout_rank).second)
        << "two sockets with one rank, packet " << *record.id;
    earlier[*record.id][record.fanout_rank] = record.fanout_ns;
  }
  EXPECT_EQ(log.size(), 3u);
  std::uint64_t whole = 0;
  for (const auto& [id, seen] : ranks) {
    if (seen.size() < 3) continue;
    ++whole;
    EXPECT_EQ(seen, (std::set<std::uint64_t>{1, 2, 3}));
    EXPECT_EQ(earlier[id][1], 0u);
    EXPECT_GT(earlier[id][2], 0u);
    EXPECT_GT(earlier[id][3], earlier[id][2]);
  }
  EXPECT_GE(whole, 990u);
}

// The thread that reads counts; who was woken in its place is named.
TEST(PairingHandOver, AnotherThreadThanTheWokenOneReads) {
  Server server({"--mode", "epoll", "--share-epoll", "--threads", "3"});
  Trace trace(server.trace_args(kWithId));
  run_client(
      {"--to", server.address("127.0.0.1"), "--count", "3000", "--window", "3", "--wait", "block"});
  const TraceResult result = trace.stop();
  const ReadLog log = server.stop();
  // Two reads that overlap may leave one without its packet: then it is counted, not guessed.
  const auto seen = sorted_ids(result);
  const auto logged = sorted_ids(log);
  EXPECT_TRUE(std::includes(logged.begin(), logged.end(), seen.begin(), seen.end()))
      << "a number twice, or one that nobody read";
  EXPECT_GE(seen.size() * 100, logged.size() * 99);
  EXPECT_GE(result.observed() + result.unmatched_sum() + result.lost_sum(), logged.size());
  std::uint64_t handed_over = 0;
  for (const Record& record : result.records) {
    if (record.woken == 0) continue;
    ++handed_over;
    EXPECT_NE(record.woken, record.tid);
    EXPECT_TRUE(log.count(record.woken) || record.woken == server.pid()) << record.woken;
  }
  EXPECT_GT(handed_over, 0u);
}

}  // namespace
}  // namespace whylate::live
