// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "support/witness.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <stdexcept>

namespace whylate::live {
namespace {

SpawnOptions in(const NetNs& where) {
  SpawnOptions options;
  options.netns_fd = where.fd();
  return options;
}

}  // namespace

Tcpdump::Tcpdump(const NetNs& where, const std::string& device, const std::string& address,
                 int port)
    : address_(address), port_(port) {
  // Immediate, or what it has captured last is lost at its end; not promiscuous, or it would change
  // what the device receives; a large buffer of short packets, so that a burst does not overrun it.
  child_ = Child::spawn({"tcpdump", "--immediate-mode", "-l", "-n", "-p", "-s", "96", "-B", "16384",
                         "-i", device, fmt::format("udp port {} or udp port {}", port, port + 1)},
                        in(where));
  if (!child_.wait_line("listening on")) {
    throw std::runtime_error("tcpdump does not start: " + child_.err());
  }
}

Tcpdump::Captured Tcpdump::stop(const NetNs& from, const std::string& to) {
  const std::string last = to.empty() ? address_ : to;
  Child::run({"bash", "-c", fmt::format("echo last >/dev/udp/{}/{}", last, port_ + 1)}, in(from));
  if (!child_.wait_line(fmt::format("> {}.{}:", last, port_ + 1))) {
    throw std::runtime_error("tcpdump does not see what it must see: " + child_.err());
  }
  child_.send(SIGINT);
  if (!child_.wait()) throw std::runtime_error("tcpdump does not end");
  if (child_.err().find("\n0 packets dropped by kernel") == std::string::npos) {
    throw std::runtime_error("tcpdump lost packets: " + child_.err());
  }
  Captured captured;
  for (const std::string& line : split_lines(child_.out())) {
    if (line.find(fmt::format("> {}.{}:", address_, port_)) != std::string::npos) ++captured.in;
    if (line.find(fmt::format(" {}.{} >", address_, port_)) != std::string::npos) ++captured.out;
  }
  return captured;
}

Capture::Capture(const NetNs& space, const char* direction, const std::string& filter) {
  // Not promiscuous: looking must not change what is received.
  child_ = Child::spawn(
      {"tcpdump", "-p", "-n", "-l", "-Q", direction, "-i", VethPair::kServerDevice, filter},
      in(space));
  if (!child_.wait_line("listening on")) throw std::runtime_error("tcpdump: " + child_.err());
}

bool Capture::wait_packets(std::size_t count) {
  for (int i = 0; i < 150; ++i) {
    if (split_lines(child_.out()).size() >= count) return true;
    sleep_ms(100);
  }
  return false;
}

std::size_t Capture::stop() {
  child_.send(SIGINT);
  child_.wait();
  return split_lines(child_.out()).size();
}

std::size_t ss_lines(const NetNs& where, const std::string& family, pid_t pid) {
  const Child ss = Child::run({"ss", "-H", "-anp", family}, in(where));
  if (ss.exit_code() != 0) throw std::runtime_error("ss: " + ss.err());
  const std::vector<std::string> lines = split_lines(ss.out());
  return static_cast<std::size_t>(
      std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
        return line.find(fmt::format("pid={},", pid)) != std::string::npos;
      }));
}

std::vector<std::string> ss_lines_of_port(const NetNs& where, const std::string& family, int port) {
  const Child ss =
      Child::run({"ss", "-H", "-anp", family, "sport", "=", fmt::format(":{}", port)}, in(where));
  if (ss.exit_code() != 0) throw std::runtime_error("ss: " + ss.err());
  return split_lines(ss.out());
}

}  // namespace whylate::live
