// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace whylate::cli {
namespace {

using ::testing::HasSubstr;

struct OutputTest : ::testing::Test {
  std::string directory;
  std::string path;

  OutputTest() {
    std::string name = (std::filesystem::temp_directory_path() / "whylate-output-XXXXXX").string();
    const char* made = ::mkdtemp(name.data());
    EXPECT_NE(made, nullptr);
    directory = name;
    path = directory + "/data";
  }
  ~OutputTest() override { std::filesystem::remove_all(directory); }

  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
};

TEST_F(OutputTest, WritesWhatWasAdded) {
  Result<Output> output = Output::to_file(path);
  ASSERT_TRUE(output.ok());
  output->add("one\n");
  EXPECT_EQ(content(), "");
  ASSERT_TRUE(output->flush().ok());
  EXPECT_EQ(content(), "one\n");
  output->add("two\n");
  ASSERT_TRUE(output->close().ok());
  EXPECT_EQ(content(), "one\ntwo\n");
}

TEST_F(OutputTest, NamesTheFileItCannotOpen) {
  const Result<Output> output = Output::to_file(directory + "/none/data");
  ASSERT_FALSE(output.ok());
  EXPECT_EQ(output.error().code, ExitCode::kRuntimeError);
  EXPECT_THAT(output.error().message, HasSubstr("/none/data"));
}

TEST_F(OutputTest, FullDeviceIsARuntimeError) {
  Result<Output> output = Output::to_file("/dev/full");
  ASSERT_TRUE(output.ok());
  output->add("line\n");
  const Status status = output->flush();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ExitCode::kRuntimeError);
  EXPECT_THAT(status.error().message, HasSubstr("No space left"));
}

// A limit on the file's size stands in for a full disk: the write stops in the middle of a line.
TEST_F(OutputTest, LeavesOnlyWholeLinesWhenTheDiskIsFull) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {25, 25};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    Result<Output> output = Output::to_file(path);
    output->add("0123456\n");
    if (!output->flush().ok()) ::_exit(1);
    output->add("abcdefg\nABCDEFG\nnot whole\n");
    ::_exit(output->flush().ok() ? 2 : 42);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_EQ(content(), "0123456\nabcdefg\nABCDEFG\n");
}

TEST_F(OutputTest, AReaderThatLeftIsNoError) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::signal(SIGPIPE, SIG_IGN);
    int ends[2];
    if (::pipe(ends) != 0 || ::dup2(ends[1], STDOUT_FILENO) < 0) ::_exit(1);
    Output output = Output::to_stdout();
    output.look_for_reader();
    if (output.reader_gone()) ::_exit(2);
    ::close(ends[0]);
    output.look_for_reader();
    if (!output.reader_gone()) ::_exit(3);
    Output other = Output::to_stdout();
    other.add("x\n");
    ::_exit(other.flush().ok() && other.reader_gone() ? 42 : 4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

}  // namespace
}  // namespace whylate::cli
