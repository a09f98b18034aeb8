// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <string>

namespace whylate::cli {
namespace {

using ::testing::HasSubstr;

constexpr int kPatienceMs = 10'000;

std::string comm_of(pid_t pid) {
  std::string comm;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), comm);
  return comm;
}

TEST(LaunchedCommand, WaitsForItsReleaseAndForwardsItsCode) {
  auto command = LaunchedCommand::start({"/bin/sh", "-c", "exit 7"});
  ASSERT_TRUE(command.ok());
  EXPECT_EQ(comm_of((*command)->pid()).substr(0, 8), "test_cli");  // not yet the program
  EXPECT_FALSE((*command)->exit_code());
  ASSERT_TRUE((*command)->release().ok());
  EXPECT_EQ((*command)->wait_exit(kPatienceMs), 7);
}

TEST(LaunchedCommand, ReportsWhatCannotRun) {
  auto command = LaunchedCommand::start({"/nonexistent/program"});
  ASSERT_TRUE(command.ok());
  const Status released = (*command)->release();
  ASSERT_FALSE(released.ok());
  EXPECT_EQ(released.error().code, ExitCode::kUsage);
  EXPECT_THAT(released.error().message, HasSubstr("No such file"));
}

TEST(LaunchedCommand, ASignalIs128AndItsNumber) {
  auto command = LaunchedCommand::start({"/bin/sh", "-c", "kill -KILL $$"});
  ASSERT_TRUE(command.ok());
  ASSERT_TRUE((*command)->release().ok());
  EXPECT_EQ((*command)->wait_exit(kPatienceMs), 128 + SIGKILL);
}

TEST(LaunchedCommand, IsEndedWithItsOwner) {
  pid_t pid = 0;
  {
    auto command = LaunchedCommand::start({"/bin/sleep", "1000"});
    ASSERT_TRUE(command.ok());
    ASSERT_TRUE((*command)->release().ok());
    pid = (*command)->pid();
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  {
    auto never_released = LaunchedCommand::start({"/bin/sleep", "1000"});
    ASSERT_TRUE(never_released.ok());
    pid = (*never_released)->pid();
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

}  // namespace
}  // namespace whylate::cli
