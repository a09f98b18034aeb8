// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared by the options_*.cpp files only.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "echo/options.h"

namespace whylate::echo {

constexpr std::size_t kMaxUdpBytes = 65'507;
constexpr std::size_t kMaxTcpBytes = std::size_t{1} << 20;
constexpr std::int64_t kUs = 1'000;
constexpr std::int64_t kMs = 1'000'000;

/// A range of microseconds up to an hour.
inline CLI::Range microseconds() {
  return CLI::Range(std::int64_t{0}, std::int64_t{3'600'000'000});
}

inline Error usage(std::string message) { return Error{ExitCode::kUsage, std::move(message)}; }

/// Server options as typed, before they are checked and converted.
struct RawServer {
  std::string proto = "udp";
  std::string address = "127.0.0.1:0";
  std::string mode = "blocking";
  std::string cpus;
  std::string group;
  std::string interface;
  std::string answer = "all";
  std::string send = "plain";
  std::int64_t work_us = 0;
  std::int64_t sleep_us = 0;
  std::int64_t lock_us = 0;
  std::int64_t lock_every_ms = 100;
  std::int64_t pause_us = 0;
  std::int64_t reply_after_us = 0;
  RawStack stack;
};

/// Client options as typed.
struct RawClient {
  std::string proto = "udp";
  std::string address;
  std::string cpus;
  std::string interface;
  std::string bind;
  std::string wait = "spin";
  double rate = 0;
  std::int64_t gap_us = 0;
  std::int64_t timeout_ms = 1'000;
  std::int64_t segment_gap_us = 0;
  std::int64_t read_every_us = 0;
};

CLI::App* add_server_options(CLI::App& app, RawServer& raw, ServerOptions& server);
CLI::App* add_client_options(CLI::App& app, RawClient& raw, ClientOptions& client);

/// What was typed, converted and checked for sense as a whole.
Result<Command> finish_server_options(const CLI::App& sub, const RawServer& raw,
                                      ServerOptions server);
Result<Command> finish_client_options(const CLI::App& sub, const RawClient& raw,
                                      ClientOptions client);

/// An interface by name or address; nothing for an empty text.
Result<std::optional<Interface>> parse_interface(const std::string& text);

}  // namespace whylate::echo
