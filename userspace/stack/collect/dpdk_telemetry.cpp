// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/dpdk_telemetry.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace whylate::stack::collect {
namespace {

constexpr timeval kPatience = {1, 0};
constexpr std::size_t kGreetingBytes = 16 * 1024;
constexpr std::size_t kMostBytes = 1u << 20u;
// A second process of one run-time directory listens on dpdk_telemetry.v2:1, and so on.
constexpr int kMostProcesses = 16;

}  // namespace

DpdkTelemetry::DpdkTelemetry(const Context& context, const std::string& directory,
                             std::string* why_not) {
  for (int i = 0; i < kMostProcesses; ++i) {
    const std::string end = i == 0 ? "" : ":" + std::to_string(i);
    const TargetFile file(context, directory + "/dpdk_telemetry.v2" + end);
    if (!file.ok()) {
      if (why_not->empty()) *why_not = std::strerror(file.error());
      continue;
    }
    if (try_socket(context, file.path(), why_not)) return;
  }
}

DpdkTelemetry::~DpdkTelemetry() {
  if (fd_ >= 0) ::close(fd_);
}

bool DpdkTelemetry::try_socket(const Context& context, const std::string& path,
                               std::string* why_not) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  // A full backlog would block the connect: the socket does not wait.
  fd_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  const bool connected =
      fd_ >= 0 &&
      ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      ::getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0;
  if (!connected || peer.pid != context.pid) {
    *why_not = connected ? "another process listens on its socket" : std::strerror(errno);
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
    return false;
  }
  ::fcntl(fd_, F_SETFL, 0);
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
  most_bytes_ = kGreetingBytes;
  const auto greeting = receive();
  if (!greeting) {
    *why_not = "it does not answer";
    return false;
  }
  const nlohmann::json json = nlohmann::json::parse(*greeting, nullptr, false);
  if (json.is_object()) {
    const auto version = json.find("version");
    if (version != json.end() && version->is_string()) version_ = version->get<std::string>();
    const auto most = json.find("max_output_len");
    if (most != json.end() && most->is_number_unsigned()) {
      most_bytes_ = std::min<std::size_t>(most->get<std::size_t>(), kMostBytes);
    }
  }
  return true;
}

std::optional<std::string> DpdkTelemetry::receive() {
  std::string answer(std::max(most_bytes_, kGreetingBytes), '\0');
  const ssize_t bytes = ::recv(fd_, answer.data(), answer.size(), 0);
  if (bytes <= 0) {
    ::close(fd_);
    fd_ = -1;
    return std::nullopt;
  }
  answer.resize(static_cast<std::size_t>(bytes));
  return answer;
}

std::optional<std::string> DpdkTelemetry::ask(const std::string& question) {
  if (fd_ < 0) return std::nullopt;
  if (::send(fd_, question.data(), question.size(), MSG_NOSIGNAL) < 0) return std::nullopt;
  return receive();
}

}  // namespace whylate::stack::collect
