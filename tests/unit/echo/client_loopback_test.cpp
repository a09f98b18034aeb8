// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The client against responders that misbehave on purpose, over loopback.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <functional>
#include <thread>

#include "echo/client.h"
#include "echo/client_report.h"
#include "echo/payload.h"
#include "echo/sockets.h"

namespace whylate::echo {
namespace {

/// A UDP responder whose answer to each datagram is what `behave` sends.
class Responder {
 public:
  using Send = std::function<void(std::span<const std::uint8_t>)>;
  using Behave = std::function<void(std::vector<std::uint8_t>, const Send&)>;

  explicit Responder(Behave behave) : behave_(std::move(behave)) {
    auto fd = open_socket(AF_INET, Proto::kUdp, false);
    fd_ = std::move(*fd);
    const Endpoint any = *parse_endpoint("127.0.0.1:0");
    EXPECT_EQ(::bind(fd_.get(), any.raw(), any.length), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~Responder() {
    stop_ = true;
    thread_.join();
  }
  Endpoint endpoint() const { return *local_endpoint(fd_); }

 private:
  void serve() {
    while (!stop_) {
      pollfd wait{fd_.get(), POLLIN, 0};
      if (::poll(&wait, 1, 20) != 1) continue;
      std::vector<std::uint8_t> bytes(65'536);
      sockaddr_storage peer{};
      socklen_t length = sizeof peer;
      auto* address = reinterpret_cast<sockaddr*>(&peer);
      const ssize_t got = ::recvfrom(fd_.get(), bytes.data(), bytes.size(), 0, address, &length);
      if (got < 0) continue;
      bytes.resize(static_cast<std::size_t>(got));
      behave_(bytes, [&](std::span<const std::uint8_t> reply) {
        ::sendto(fd_.get(), reply.data(), reply.size(), 0, address, length);
      });
    }
  }

  Behave behave_;
  Fd fd_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

ClientOptions options_for(const Responder& responder, std::uint64_t count) {
  ClientOptions options;
  options.to = responder.endpoint();
  options.count = count;
  options.first_id = 1'000;
  options.block = true;
  options.timeout_ns = 20'000'000'000;
  return options;
}

ClientSummary run(const ClientOptions& options) {
  auto result = run_client(options);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return summarize(*result);
}

TEST(ClientLoopback, FaithfulResponder) {
  const Responder responder([](auto bytes, const auto& send) { send(bytes); });
  auto options = options_for(responder, 500);
  options.window = 4;
  const auto summary = run(options);
  EXPECT_EQ(summary.sent, 500U);
  EXPECT_EQ(summary.received, 500U);
  EXPECT_EQ(summary.oddities.mismatched + summary.oddities.duplicates + summary.oddities.unexpected,
            0U);
  EXPECT_FALSE(summary.latency_intended);
}

TEST(ClientLoopback, AChangedByteIsAMismatchAndFails) {
  const Responder responder([](auto bytes, const auto& send) {
    if (payload_id(bytes) == 1'007U) bytes.back() ^= 1;
    send(bytes);
  });
  const auto summary = run(options_for(responder, 20));
  EXPECT_EQ(summary.received, 20U);
  EXPECT_EQ(summary.oddities.mismatched, 1U);
  EXPECT_EQ(exit_code(summary), ExitCode::kRuntimeError);
}

TEST(ClientLoopback, AShortReplyIsAMismatch) {
  const Responder responder([](auto bytes, const auto& send) {
    if (payload_id(bytes) == 1'003U) bytes.resize(20);
    send(bytes);
  });
  EXPECT_EQ(run(options_for(responder, 10)).oddities.mismatched, 1U);
}

TEST(ClientLoopback, SecondRepliesAreCountedApart) {
  const Responder responder([](auto bytes, const auto& send) {
    send(bytes);
    send(bytes);
  });
  auto options = options_for(responder, 50);
  options.window = 2;
  const auto summary = run(options);
  EXPECT_EQ(summary.received, 50U);
  EXPECT_GT(summary.oddities.duplicates, 0U);
  EXPECT_EQ(summary.oddities.unexpected, 0U);
}

TEST(ClientLoopback, RepliesToNothingSentAreUnexpected) {
  const Responder responder([](auto bytes, const auto& send) {
    std::vector<std::uint8_t> other(bytes.size());
    fill_payload(other, 999'999, 1);
    send(other);
    send(std::vector<std::uint8_t>(3, 0));
    send(bytes);
  });
  const auto summary = run(options_for(responder, 10));
  EXPECT_EQ(summary.received, 10U);
  EXPECT_EQ(summary.oddities.unexpected, 20U);
}

TEST(ClientLoopback, UnansweredIsLostNeverZero) {
  const Responder responder([](auto bytes, const auto& send) {
    if (*payload_id(bytes) % 2 == 0) send(bytes);
  });
  auto options = options_for(responder, 10);
  options.rate_millihertz = 1'000'000;
  options.block = false;
  options.timeout_ns = 500'000'000;
  auto result = run_client(options);
  ASSERT_TRUE(result.ok());
  const auto summary = summarize(*result);
  EXPECT_EQ(summary.sent, 10U);
  EXPECT_EQ(summary.received + summary.lost, 10U);
  EXPECT_GE(summary.lost, 5U);
  for (std::size_t i = 1; i < 10; i += 2) EXPECT_EQ(result->requests[i].received_ns, kUnknownNs);
}

TEST(ClientLoopback, AReplyAfterTheTimeoutIsLateAndItsRequestLost) {
  std::vector<std::uint8_t> held;
  const Responder responder([&held](auto bytes, const auto& send) {
    if (payload_id(bytes) == 1'000U) {
      held = bytes;  // answered with the second request's reply, after the first has timed out
      return;
    }
    send(held);
    send(bytes);
  });
  auto options = options_for(responder, 2);
  options.timeout_ns = 100'000'000;
  const auto summary = run(options);
  EXPECT_EQ(summary.sent, 2U);
  EXPECT_EQ(summary.lost, 1U);
  EXPECT_EQ(summary.oddities.late, 1U);
  EXPECT_EQ(summary.oddities.duplicates, 0U);
}

TEST(ClientLoopback, ScheduleIsNeverRebased) {
  const Responder responder([](auto bytes, const auto& send) { send(bytes); });
  auto options = options_for(responder, 60);
  options.block = false;
  options.rate_millihertz = 500'000;
  options.burst = 3;
  options.senders = 2;
  options.connections = 4;
  auto result = run_client(options);
  ASSERT_TRUE(result.ok());
  for (std::size_t i = 0; i < 60; ++i) {
    const auto& request = result->requests[i];
    EXPECT_EQ(request.intended_ns, result->start_ns + static_cast<std::int64_t>(i / 3) * 2'000'000)
        << i;
    EXPECT_GE(request.sent_ns, request.intended_ns) << i;
  }
  EXPECT_EQ(summarize(*result).received, 60U);
}

TEST(ClientLoopback, NobodyListensOnTcp) {
  ClientOptions options;
  options.proto = Proto::kTcp;
  // A port that was free a moment ago: bound without listening, it refuses.
  auto fd = open_socket(AF_INET, Proto::kTcp, false);
  const Endpoint any = *parse_endpoint("127.0.0.1:0");
  ASSERT_EQ(::bind(fd->get(), any.raw(), any.length), 0);
  options.to = *local_endpoint(*fd);
  options.count = 1;
  auto result = run_client(options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ExitCode::kRuntimeError);
  EXPECT_NE(result.error().message.find("connect"), std::string::npos);
}

}  // namespace
}  // namespace whylate::echo
