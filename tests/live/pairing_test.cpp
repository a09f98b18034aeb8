// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The number that whylate found in a packet is the one that the server got from that very read.
// Equal counts would prove nothing: one lost event shifts the origin of every later request.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "support/host.h"
#include "support/trace.h"

namespace whylate::live {
namespace {

struct Pairing {
  std::uint64_t reads = 0;   // in the server's log
  std::uint64_t paired = 0;  // records found in it
  std::uint64_t right = 0;
  std::uint64_t unsure = 0;      // flagged: order of neighbours unknown
  std::uint64_t wrong = 0;       // without such a flag
  std::uint64_t no_id = 0;       // the number's place in the packets is not known, and it says so
  std::uint64_t no_detail = 0;   // counted, but the ring had no room for the record
  std::uint64_t incomplete = 0;  // no arrival known: no number, and none is claimed
};

bool is_incomplete(const Record& record) {
  return record.is("no_arrival") || record.is("debt_unpaid") || record.is("no_thread");
}

/// Finds for each record the read it belongs to: the thread's first log entry at or after the time
/// whylate saw the read end. The server takes that time right after the call, and before the next.
Pairing pair_up(const TraceResult& result, const ReadLog& log) {
  Pairing pairing;
  for (const auto& [tid, reads] : log) pairing.reads += reads.size();
  std::map<pid_t, std::uint64_t> last_read_ns;
  int shown = 0;
  for (const Record& record : result.records) {
    const auto thread = log.find(record.tid);
    if (thread == log.end() || record.recv_ns == 0) {
      ADD_FAILURE() << "a record of a read that no thread of the server made, seq start "
                    << record.start_ns;
      continue;
    }
    const std::vector<Read>& reads = thread->second;
    const auto read = std::lower_bound(
        reads.begin(), reads.end(), record.recv_ns,
        [](const Read& one, std::uint64_t time_ns) { return one.read_ns < time_ns; });
    if (read == reads.end()) {
      ADD_FAILURE() << "a record after the server's last read";
      continue;
    }
    EXPECT_NE(last_read_ns[record.tid], read->read_ns) << "two records for one read";
    last_read_ns[record.tid] = read->read_ns;
    ++pairing.paired;
    if (is_incomplete(record)) {
      ++pairing.incomplete;
      continue;
    }
    const bool unsure = record.is("order_unsure") || record.is("shared_socket");
    if (unsure) ++pairing.unsure;
    if (!record.id && record.is("no_id")) {
      ++pairing.no_id;
      continue;
    }
    if (record.id == read->id) {
      ++pairing.right;
    } else if (!unsure) {
      ++pairing.wrong;
      if (shown++ < 3) {
        std::printf("read of number %s paired with the packet of %s; flags %s\n",
                    std::to_string(read->id).c_str(),
                    (record.id ? std::to_string(*record.id) : std::string("none")).c_str(),
                    Json(record.quality).dump().c_str());
      }
    }
  }
  pairing.no_detail = result.summary["lost"]["ring_full"];
  fmt::print(
      "{} reads, {} paired, {} right, {} wrong, {} unsure, {} without number, {} incomplete; "
      "unmatched {}\n",
      pairing.reads, pairing.paired, pairing.right, pairing.wrong, pairing.unsure, pairing.no_id,
      pairing.incomplete, result.summary["requests"]["unmatched"].dump());
  return pairing;
}

const Args kWithId = {"--id-offset", "0", "--id-bytes", "8"};

Args on_cpu(int cpu) { return {"--cpu", std::to_string(cpu)}; }

/// Server and client on a CPU each, the trace over all of it.
Pairing pairing_run(const Args& server_args, const Args& client_args) {
  Server server(server_args + on_cpu(cpus().server));
  Trace trace(server.trace_args(kWithId));
  run_client(client_args + on_cpu(cpus().client) + Args{"--to", server.address("127.0.0.1")});
  const TraceResult result = trace.stop();
  const Pairing pairing = pair_up(result, server.stop());
  EXPECT_EQ(pairing.wrong, 0u);
  EXPECT_EQ(result.records.size() + pairing.no_detail, result.observed());
  return pairing;
}

/// Each of the reads has a right record, but for those whose details found no room: the tracer has
/// only the client's CPU to keep up with the highest rate.
void expect_all(const Pairing& pairing, std::uint64_t reads) {
  EXPECT_EQ(pairing.reads, reads);
  EXPECT_EQ(pairing.right + pairing.no_id + pairing.no_detail, pairing.reads);
  EXPECT_LT(pairing.no_detail, pairing.reads / 10);
  EXPECT_EQ(pairing.unsure, 0u);
  EXPECT_EQ(pairing.incomplete, 0u);
}

TEST(Pairing, ClosedLoop) {
  Pairing pairing;
  pairing = pairing_run({}, {"--count", "30000", "--wait", "block"});
  expect_all(pairing, 30000);
  EXPECT_EQ(pairing.no_id, 0u);
}

TEST(Pairing, WindowOfEight) {
  Pairing pairing;
  { pairing = pairing_run({}, {"--count", "30000", "--wait", "block", "--window", "8"}); }
  expect_all(pairing, 30000);
  EXPECT_EQ(pairing.no_id, 0u);
}

TEST(Pairing, BurstsOfFifty) {
  Pairing pairing;
  { pairing = pairing_run({}, {"--count", "30000", "--rate", "200", "--burst", "50"}); }
  expect_all(pairing, 30000);
  EXPECT_EQ(pairing.no_id, 0u);
}

TEST(Pairing, DropsFromASmallReceiveBuffer) {
  Pairing pairing;
  {
    pairing =
        pairing_run({"--rcvbuf", "4096", "--work-us", "30"},
                    {"--count", "40000", "--rate", "400", "--burst", "25", "--timeout-ms", "200"});
  }
  EXPECT_LT(pairing.reads, 40000u) << "nothing was dropped: the test proves nothing";
  EXPECT_GT(pairing.reads, 4000u);
  expect_all(pairing, pairing.reads);
  EXPECT_EQ(pairing.no_id, 0u);
}

// Two CPUs hand datagrams to one socket as fast as they can, and signal in any order and for each
// other. The kernel's queue tells which is which; where it does not, the flag says so.
TEST(Pairing, TwoSenders) {
  Server server({"--mode", "epoll"});
  Trace trace(server.trace_args(kWithId));
  run_client({"--to", server.address("127.0.0.1"), "--count", "30000", "--senders", "2", "--wait",
              "block"});
  const TraceResult result = trace.stop();
  const Pairing pairing = pair_up(result, server.stop());
  EXPECT_EQ(pairing.wrong, 0u);
  EXPECT_EQ(pairing.reads, 30000u);
  EXPECT_EQ(pairing.right + pairing.incomplete + pairing.no_detail, pairing.reads);
  EXPECT_LE(pairing.unsure * 50, pairing.reads);
  EXPECT_LE(pairing.incomplete * 1000, pairing.reads);
}

TEST(Pairing, SpinningReader) {
  for (const char* proto : {"udp", "tcp"}) {
    Pairing pairing;
    {
      pairing = pairing_run({"--mode", "spin", "--proto", proto},
                            {"--proto", proto, "--count", "15000", "--wait", "block"});
    }
    expect_all(pairing, 15000);
    EXPECT_EQ(pairing.no_id, 0u);
  }
}

TEST(Pairing, AttachWhileTheQueueIsFull) {
  Server server({"--mode", "epoll"});
  server.child().send(SIGSTOP);
  Child early = start_client({"--to", server.address("127.0.0.1"), "--rate", "20000", "--count",
                              "200", "--timeout-ms", "15000"});
  sleep_ms(300);
  Trace trace(server.trace_args(kWithId));
  server.child().send(SIGCONT);
  ASSERT_TRUE(early.wait()) << "the early client does not end";
  const int kLater = 10000;
  run_client({"--to", server.address("127.0.0.1"), "--count", std::to_string(kLater), "--first-id",
              "1000000", "--wait", "block"});
  const TraceResult result = trace.stop();
  const Pairing pairing = pair_up(result, server.stop());
  EXPECT_EQ(pairing.wrong, 0u);
  EXPECT_EQ(pairing.reads, 200u + kLater);
  // The full queue is older than the attach: its arrivals cannot be known. What came later is
  // whole.
  EXPECT_EQ(result.unmatched("unsynced"), 200u) << result.summary["requests"].dump();
  EXPECT_EQ(pairing.right + pairing.no_detail, static_cast<std::uint64_t>(kLater));
}

TEST(Pairing, TwoReadersOnOneSocket) {
  Server server({"--threads", "2"});
  Trace trace(server.trace_args(kWithId));
  run_client({"--to", server.address("127.0.0.1"), "--count", "20000", "--window", "4", "--wait",
              "block"});
  const TraceResult result = trace.stop();
  const Pairing pairing = pair_up(result, server.stop());
  EXPECT_EQ(pairing.wrong, 0u);
  EXPECT_EQ(pairing.reads, 20000u);
  // Neighbours can be swapped where two reads overlap: then they are flagged, and only then.
  EXPECT_GT(pairing.right, pairing.paired * 95 / 100);
  EXPECT_GT(pairing.unsure, 0u);
  EXPECT_LT(pairing.unsure, pairing.paired);
}

TEST(Pairing, TcpWithAWindowOfSixteen) {
  for (const char* mode : {"blocking", "epoll"}) {
    Pairing pairing;
    {
      pairing =
          pairing_run({"--proto", "tcp", "--mode", mode},
                      {"--proto", "tcp", "--count", "15000", "--window", "16", "--wait", "block"});
    }
    expect_all(pairing, 15000);
    // Messages that share a segment with the end of another one.
    EXPECT_LE(pairing.no_id, pairing.reads / 50);
  }
}

TEST(Pairing, Ipv6BothProtocols) {
  for (const char* proto : {"udp", "tcp"}) {
    Server server({"--proto", proto, "--listen", "[::1]:0"});
    Trace trace(server.trace_args(kWithId));
    run_client({"--proto", proto, "--to", server.address("[::1]"), "--count", "10000", "--window",
                "4", "--wait", "block"});
    const TraceResult result = trace.stop();
    const Pairing pairing = pair_up(result, server.stop());
    EXPECT_EQ(pairing.wrong, 0u);
    EXPECT_EQ(pairing.right + pairing.no_id + pairing.no_detail, 10000u);
  }
}

}  // namespace
}  // namespace whylate::live
