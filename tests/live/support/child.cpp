// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "support/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace whylate::live {
namespace {

constexpr int kStepMs = 2;

[[noreturn]] void give_up(const char* what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

std::string& scratch_directory() {
  static std::string directory;
  if (directory.empty()) {
    char name[] = "/tmp/whylate-live-XXXXXX";
    if (::mkdtemp(name) == nullptr) give_up("mkdtemp");
    ::chmod(name, 0755);
    directory = name;
  }
  return directory;
}

void default_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// In the child: dies with the test, also when the test died before this line.
void die_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
}

}  // namespace

Child::~Child() {
  if (pid_ <= 0 || !running()) return;
  ::kill(pid_, SIGKILL);
  wait();
}

void Child::swap(Child& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(exit_code_, other.exit_code_);
  std::swap(out_file_, other.out_file_);
  std::swap(err_file_, other.err_file_);
}

Child Child::spawn(const std::vector<std::string>& argv, const SpawnOptions& options) {
  static int number = 0;
  Child child;
  child.out_file_ = scratch_path(fmt::format("out-{}", number));
  child.err_file_ = scratch_path(fmt::format("err-{}", number++));
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND;
  const int out =
      options.stdout_fd >= 0 ? options.stdout_fd : ::open(child.out_file_.c_str(), flags, 0666);
  const int err = ::open(child.err_file_.c_str(), flags, 0666);
  if (out < 0 || err < 0) give_up("cannot make an output file");

  std::vector<std::string> copy = argv;
  std::vector<char*> pointers;
  for (std::string& arg : copy) pointers.push_back(arg.data());
  pointers.push_back(nullptr);

  const pid_t parent = ::getpid();
  child.pid_ = ::fork();
  if (child.pid_ < 0) give_up("fork");
  if (child.pid_ == 0) {
    die_with(parent);
    default_signals();
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    if (options.netns_fd >= 0 && ::setns(options.netns_fd, CLONE_NEWNET) != 0) ::_exit(126);
    if (options.in_child) options.in_child();
    ::execvp(pointers[0], pointers.data());
    ::_exit(127);
  }
  if (options.stdout_fd < 0) ::close(out);
  ::close(err);
  return child;
}

Child Child::fork(const std::function<void()>& body) {
  Child child;
  const pid_t parent = ::getpid();
  child.pid_ = ::fork();
  if (child.pid_ < 0) give_up("fork");
  if (child.pid_ == 0) {
    die_with(parent);
    default_signals();
    body();
    ::_exit(0);
  }
  return child;
}

Child Child::run(const std::vector<std::string>& argv, const SpawnOptions& options,
                 int timeout_ms) {
  Child child = spawn(argv, options);
  child.wait(timeout_ms);
  return child;
}

bool Child::running() {
  if (pid_ <= 0 || exit_code_) return false;
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended == 0) return true;
  exit_code_ = ended == pid_ && WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

void Child::send(int signal_number) {
  if (running()) ::kill(pid_, signal_number);
}

std::optional<int> Child::wait(int timeout_ms) {
  const std::uint64_t end_ns = monotonic_ns() + static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
  while (running() && monotonic_ns() < end_ns) sleep_ms(kStepMs);
  return exit_code_;
}

std::string Child::out() const { return read_text(out_file_); }
std::string Child::err() const { return read_text(err_file_); }

std::optional<std::string> Child::wait_line(const std::string& text, int timeout_ms) {
  const std::uint64_t end_ns = monotonic_ns() + static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
  while (true) {
    const bool alive = running();
    for (const std::string& all : {out(), err()}) {
      std::istringstream in(all.substr(0, all.rfind('\n') + 1));
      for (std::string line; std::getline(in, line);) {
        if (line.find(text) != std::string::npos) return line;
      }
    }
    if (!alive || monotonic_ns() > end_ns) return std::nullopt;
    sleep_ms(kStepMs);
  }
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool write_text(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return written;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string scratch_path(const std::string& name) { return scratch_directory() + "/" + name; }

void remove_scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(scratch_directory(), ignored);
  scratch_directory().clear();
}

void sleep_ms(int ms) {
  timespec time = {ms / 1000, (ms % 1000) * 1'000'000L};
  while (::nanosleep(&time, &time) != 0 && errno == EINTR) {
  }
}

std::uint64_t monotonic_ns() {
  timespec time = {};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace whylate::live
