// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace whylate::live {

/// How a child is started.
struct SpawnOptions {
  int netns_fd = -1;               ///< network namespace to enter first; -1: stay
  std::function<void()> in_child;  ///< runs in the child right before the exec
  int stdout_fd = -1;              ///< where its output goes; -1: a file that out() reads
};

/// A process that this test started and that ends with it: at the latest in the destructor, or,
/// when the test itself dies, by the kernel. Only its own pid is ever signalled.
class Child {
 public:
  Child() = default;
  Child(Child&& other) noexcept { swap(other); }
  Child& operator=(Child&& other) noexcept {
    Child gone(std::move(other));
    swap(gone);
    return *this;
  }
  ~Child();

  /// Starts argv[0], looked up in PATH.
  static Child spawn(const std::vector<std::string>& argv, const SpawnOptions& options = {});

  /// Runs `body` in a forked copy of the test, without an exec; the child exits when it returns.
  static Child fork(const std::function<void()>& body);

  /// Starts argv and waits for its end, at most `timeout_ms`.
  static Child run(const std::vector<std::string>& argv, const SpawnOptions& options = {},
                   int timeout_ms = 60'000);

  pid_t pid() const { return pid_; }
  bool running();
  void send(int signal_number);

  /// Waits for the end: the exit code, or 128 + the signal that killed it. None: still running.
  std::optional<int> wait(int timeout_ms = 20'000);
  std::optional<int> exit_code() const { return exit_code_; }

  std::string out() const;  ///< what it has written to standard output so far
  std::string err() const;  ///< and to standard error

  /// The first whole line of out() or err() that contains `text`; none when the process ended or
  /// the time was up before.
  std::optional<std::string> wait_line(const std::string& text, int timeout_ms = 20'000);

 private:
  void swap(Child& other) noexcept;

  pid_t pid_ = -1;
  std::optional<int> exit_code_;
  std::string out_file_;
  std::string err_file_;
};

/// The text of a file; empty when there is none.
std::string read_text(const std::string& path);

/// Writes a value to a file of the kernel; false when it was refused.
bool write_text(const std::string& path, const std::string& text);

std::vector<std::string> split_lines(const std::string& text);

/// A path in a directory of this test program's own, which is removed at its end. Everybody may
/// read and enter it.
std::string scratch_path(const std::string& name);
void remove_scratch();

void sleep_ms(int ms);
std::uint64_t monotonic_ns();

}  // namespace whylate::live
