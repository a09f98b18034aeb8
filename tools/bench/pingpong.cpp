// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// UDP ping-pong over loopback between two pinned processes that block in recv, or spin in it. It
// measures one thing: the round trip, as the client sees it. With --control one pair of processes
// stays alive while tracers come and go, so that samples differ by nothing but the tracer.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kExitUsage = 2;
constexpr int kExitRuntime = 5;
constexpr int kMaxPayloadBytes = 1472;

struct Options {
  int client_cpu = 0;
  int server_cpu = 1;
  int payload_bytes = 64;
  int rounds = 5;
  int count = 60000;
  int warmup = 2000;
  bool control = false;
  bool spin = false;
};

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "pingpong: %s: %s\n", what, std::strerror(errno));
  _exit(kExitRuntime);
}

void pin_to(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) die("cannot pin to the CPU");
}

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

/// A UDP socket bound to 127.0.0.1 on a port the kernel picks.
int loopback_socket(sockaddr_in& bound) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) die("socket");
  bound = {};
  bound.sin_family = AF_INET;
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof bound;
  if (bind(fd, reinterpret_cast<sockaddr*>(&bound), length) != 0) die("bind");
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0) die("getsockname");
  return fd;
}

/// recv; with `spin` it is called again and again until something is there, so that nobody sleeps.
ssize_t receive(int fd, char* payload, size_t size_bytes, bool spin) {
  for (;;) {
    const ssize_t length = recv(fd, payload, size_bytes, spin ? MSG_DONTWAIT : 0);
    if (length >= 0 || !spin || errno != EAGAIN) return length;
  }
}

[[noreturn]] void serve(int fd, int cpu, bool spin, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitRuntime);
  prctl(PR_SET_NAME, "pingpong-server");
  // ^C goes to the whole process group; the client decides when the pair ends.
  std::signal(SIGINT, SIG_IGN);
  pin_to(cpu);
  char payload[kMaxPayloadBytes];
  for (;;) {
    const ssize_t length = receive(fd, payload, sizeof payload, spin);
    if (length < 0) die("server: recv");
    if (send(fd, payload, static_cast<size_t>(length), 0) != length) die("server: send");
  }
}

/// Without a server the client would wait for ever.
void on_server_ended(int) {
  static constexpr char kMessage[] = "pingpong: the server ended\n";
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  _exit(kExitRuntime);
}

volatile pid_t server_pid = 0;

/// Asked to end in the middle of a sample: the server is ended and reaped first, so that it is
/// never left to others.
void on_ending_signal(int) {
  std::signal(SIGCHLD, SIG_DFL);
  kill(server_pid, SIGKILL);
  waitpid(server_pid, nullptr, 0);
  _exit(kExitRuntime);
}

class Client {
 public:
  Client(int fd, int payload_bytes, bool spin)
      : fd_(fd), spin_(spin), payload_(static_cast<size_t>(payload_bytes), 'w') {}

  /// One round trip in ns. The reply must carry the number that was sent.
  int64_t round_trip() {
    const uint64_t sent = ++sequence_;
    std::memcpy(payload_.data(), &sent, sizeof sent);
    const int64_t start_ns = now_ns();
    if (send(fd_, payload_.data(), payload_.size(), 0) < 0) die("client: send");
    if (receive(fd_, payload_.data(), payload_.size(), spin_) < 0) die("client: recv");
    const int64_t end_ns = now_ns();
    uint64_t received = 0;
    std::memcpy(&received, payload_.data(), sizeof received);
    if (received != sent) {
      std::fprintf(stderr, "pingpong: reply %ju to request %ju\n", uintmax_t{received},
                   uintmax_t{sent});
      _exit(kExitRuntime);
    }
    return end_ns - start_ns;
  }

  /// Measures `count` round trips after `warmup` unmeasured ones and prints one JSON line.
  void sample(int count, int warmup) {
    for (int i = 0; i < warmup; ++i) round_trip();
    times_ns_.resize(static_cast<size_t>(count));
    const int64_t start_ns = now_ns();
    for (int64_t& time_ns : times_ns_) time_ns = round_trip();
    const int64_t duration_ns = now_ns() - start_ns;
    std::sort(times_ns_.begin(), times_ns_.end());
    const auto at = [this](double share) {
      return times_ns_[static_cast<size_t>(share * static_cast<double>(times_ns_.size() - 1))];
    };
    fmt::print(
        "{{\"count\":{},\"rtt_min_ns\":{},\"rtt_p50_ns\":{},\"rtt_p99_ns\":{},\"rtt_max_ns\":{},"
        "\"duration_ns\":{}}}\n",
        count, at(0), at(0.5), at(0.99), at(1), duration_ns);
    std::fflush(stdout);
  }

 private:
  int fd_;
  bool spin_;
  std::vector<char> payload_;
  uint64_t sequence_ = 0;
  std::vector<int64_t> times_ns_;
};

/// Obeys "sample COUNT [WARMUP]" and "quit", one a line, until standard input ends.
int obey(Client& client, int default_warmup) {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command.empty()) continue;
    if (command == "quit") return 0;
    int count = 0;
    int warmup = default_warmup;
    if (command != "sample" || !(words >> count) || count <= 0) {
      fmt::print(stderr, "pingpong: expected 'sample COUNT [WARMUP]' or 'quit'\n");
      return kExitUsage;
    }
    if (!(words >> warmup) || warmup < 0) warmup = default_warmup;
    client.sample(count, warmup);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{
      "UDP ping-pong over loopback between two pinned processes; prints one JSON line per sample."};
  const auto cpu_number = CLI::Range(0, CPU_SETSIZE - 1);
  const auto positive = CLI::Range(1, 100'000'000);
  app.add_option("--client-cpu", options.client_cpu, "CPU of the client")
      ->check(cpu_number)
      ->capture_default_str();
  app.add_option("--server-cpu", options.server_cpu, "CPU of the server")
      ->check(cpu_number)
      ->capture_default_str();
  app.add_option("--bytes", options.payload_bytes, "payload size")
      ->check(CLI::Range(8, kMaxPayloadBytes))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "samples to take")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--count", options.count, "round trips per sample")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--warmup", options.warmup, "unmeasured round trips before each sample")
      ->check(CLI::Range(0, 100'000'000))
      ->capture_default_str();
  app.add_flag("--control", options.control,
               "take 'sample COUNT [WARMUP]' and 'quit' from standard input");
  app.add_flag("--spin", options.spin, "both sides read without blocking, in a loop");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }

  sockaddr_in client_address{};
  sockaddr_in server_address{};
  const int client_fd = loopback_socket(client_address);
  const int server_fd = loopback_socket(server_address);
  const auto connect_to = [](int fd, const sockaddr_in& peer) {
    if (connect(fd, reinterpret_cast<const sockaddr*>(&peer), sizeof peer) != 0) die("connect");
  };
  connect_to(client_fd, server_address);
  connect_to(server_fd, client_address);

  std::signal(SIGCHLD, on_server_ended);
  const pid_t self = getpid();
  const pid_t server = fork();
  if (server < 0) die("fork");
  if (server == 0) {
    std::signal(SIGCHLD, SIG_DFL);
    close(client_fd);
    serve(server_fd, options.server_cpu, options.spin, self);
  }
  server_pid = server;
  std::signal(SIGINT, on_ending_signal);
  std::signal(SIGTERM, on_ending_signal);
  close(server_fd);
  pin_to(options.client_cpu);
  fmt::print("{{\"server_pid\":{},\"client_pid\":{},\"port\":{}}}\n", server, self,
             ntohs(server_address.sin_port));
  std::fflush(stdout);

  Client client(client_fd, options.payload_bytes, options.spin);
  int code = 0;
  if (options.control) {
    code = obey(client, options.warmup);
  } else {
    for (int round = 0; round < options.rounds; ++round)
      client.sample(options.count, options.warmup);
  }

  std::signal(SIGCHLD, SIG_DFL);
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  return code;
}
