// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Runs the tests in a child. A run that fails while tasks of others took more than 5 % of a CPU is
// void and repeated: the machine is shared. What a hypervisor takes does not always show, so that a
// failure without visible disturbance must come three times. A record that does not add up fails at
// once.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "support/child.h"
#include "support/host.h"

namespace {

constexpr double kMostForeign = 0.05;
constexpr int kTries = 6;
constexpr int kUnexplained = 3;
constexpr int kNeverExcused = 3;
constexpr const char* kAttempt = "WHYLATE_LIVE_ATTEMPT";

/// Nothing in this program works without root, and nothing that it writes outlives it.
class NeedsRoot : public ::testing::Environment {
 public:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "the live tests need root";
  }
  void TearDown() override { whylate::live::remove_scratch(); }
};

/// Notes a record that no disturbance can excuse; support/trace.cpp checks every one.
class RecordFaults : public ::testing::EmptyTestEventListener {
 public:
  explicit RecordFaults(bool* seen) : seen_(seen) {}
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    const char* file = result.file_name();
    if (result.failed() && file != nullptr && std::strstr(file, "support/trace.cpp") != nullptr) {
      *seen_ = true;
    }
  }

 private:
  bool* seen_;
};

int run_tests(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new NeedsRoot);
  bool record_fault = false;
  ::testing::UnitTest::GetInstance()->listeners().Append(new RecordFaults(&record_fault));
  const int status = RUN_ALL_TESTS();
  return status != 0 && record_fault ? kNeverExcused : status;
}

/// Exit status of one attempt in a process of its own.
int attempt(char** argv) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setenv(kAttempt, "1", 1);
    ::execv("/proc/self/exe", argv);
    ::_exit(127);
  }
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return kNeverExcused;
  return WEXITSTATUS(status);
}

}  // namespace

int main(int argc, char** argv) {
  const bool lists = argc > 1 && std::string(argv[1]).rfind("--gtest_list", 0) == 0;
  if (lists || std::getenv(kAttempt) != nullptr) return run_tests(argc, argv);
  int unexplained = 0;
  for (int i = 0; i < kTries; ++i) {
    const whylate::live::ForeignLoad foreign;
    const int status = attempt(argv);
    if (status == 0) return 0;
    const double share = foreign.share();
    if (status == kNeverExcused) return 1;
    if (share <= kMostForeign && ++unexplained == kUnexplained) return 1;
    std::printf("repeated: others used %.0f %% of a CPU\n", share * 100);
    std::fflush(stdout);
  }
  return 1;
}
