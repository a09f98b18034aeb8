// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "base/escape.h"
#include "base/signals.h"

namespace whylate::cli {
namespace {

constexpr int kPatienceMs = 2000;

Error failed(const char* what) {
  return Error{ExitCode::kRuntimeError, fmt::format("{}: {}", what, std::strerror(errno))};
}

void sleep_ms(int ms) {
  timespec time = {ms / 1000, (ms % 1000) * 1'000'000L};
  ::nanosleep(&time, nullptr);
}

[[noreturn]] void run_child(int release_fd, int failure_fd, char* const* argv) {
  char go = 0;
  ssize_t n = 0;
  do {
    n = ::read(release_fd, &go, 1);
  } while (n < 0 && errno == EINTR);
  if (n != 1) ::_exit(127);
  reset_signals_for_child();
  ::execvp(argv[0], argv);
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = ::write(failure_fd, &reason, sizeof reason);
  ::_exit(127);
}

}  // namespace

Result<std::unique_ptr<LaunchedCommand>> LaunchedCommand::start(
    const std::vector<std::string>& argv) {
  // Made before the fork: the child of a threaded process may not allocate.
  std::vector<std::string> copy = argv;
  std::vector<char*> pointers;
  for (std::string& arg : copy) pointers.push_back(arg.data());
  pointers.push_back(nullptr);

  int release_pipe[2];
  int failure_pipe[2];
  if (::pipe2(release_pipe, O_CLOEXEC) != 0) return failed("cannot make a pipe");
  if (::pipe2(failure_pipe, O_CLOEXEC) != 0) {
    Error error = failed("cannot make a pipe");
    ::close(release_pipe[0]);
    ::close(release_pipe[1]);
    return error;
  }
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(release_pipe[1]);
    ::close(failure_pipe[0]);
    run_child(release_pipe[0], failure_pipe[1], pointers.data());
  }
  Error error = failed("cannot start a process");
  ::close(release_pipe[0]);
  ::close(failure_pipe[1]);
  if (pid < 0) {
    ::close(release_pipe[1]);
    ::close(failure_pipe[0]);
    return error;
  }
  return std::unique_ptr<LaunchedCommand>(
      new LaunchedCommand(pid, release_pipe[1], failure_pipe[0]));
}

LaunchedCommand::~LaunchedCommand() {
  if (release_fd_ >= 0) ::close(release_fd_);
  if (failure_fd_ >= 0) ::close(failure_fd_);
  if (exit_code()) return;
  ::kill(pid_, SIGTERM);
  if (wait_exit(kPatienceMs)) return;
  ::kill(pid_, SIGKILL);
  wait_exit(kPatienceMs);
}

Status LaunchedCommand::release() {
  const char go = 1;
  const bool told = ::write(release_fd_, &go, 1) == 1;
  ::close(release_fd_);
  release_fd_ = -1;
  if (!told) return Error{ExitCode::kRuntimeError, "the command ended before it could start"};
  int reason = 0;
  ssize_t n = 0;
  do {
    n = ::read(failure_fd_, &reason, sizeof reason);
  } while (n < 0 && errno == EINTR);
  ::close(failure_fd_);
  failure_fd_ = -1;
  if (n == static_cast<ssize_t>(sizeof reason)) {
    return Error{ExitCode::kUsage,
                 fmt::format("cannot run the command: {}", std::strerror(reason))};
  }
  return Done{};
}

std::optional<int> LaunchedCommand::exit_code() {
  if (exit_code_) return exit_code_;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return exit_code_;
}

std::optional<int> LaunchedCommand::wait_exit(int timeout_ms) {
  constexpr int kStepMs = 5;
  for (int waited = 0; waited < timeout_ms; waited += kStepMs) {
    if (exit_code()) break;
    sleep_ms(kStepMs);
  }
  return exit_code();
}

}  // namespace whylate::cli
