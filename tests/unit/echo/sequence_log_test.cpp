// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/sequence_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace whylate::echo {
namespace {

TEST(SequenceLog, KeepsOrderAcrossChunks) {
  ReadLog log(true);
  constexpr std::uint64_t kReads = 200'000;
  for (std::uint64_t i = 0; i < kReads; ++i) log.add(i * 3, static_cast<std::int64_t>(i));
  ASSERT_EQ(log.size(), kReads);
  for (std::uint64_t i = 0; i < kReads; i += 997) {
    EXPECT_EQ(log.at(i).id, i * 3);
    EXPECT_EQ(log.at(i).read_ns, static_cast<std::int64_t>(i));
  }
}

TEST(SequenceLog, OffMeansEmpty) {
  ReadLog log(false);
  log.add(1, 2);
  EXPECT_EQ(log.size(), 0U);
}

TEST(SequenceLog, WritesALinePerRead) {
  ReadLog first(true);
  ReadLog second(true);
  first.add(10, 100);
  first.add(std::nullopt, 200);
  second.add(UINT64_MAX, 150);
  const auto path = std::filesystem::path(testing::TempDir()) / "whylate_reads_test";
  ASSERT_TRUE(write_sequence_log(path, {{71, &first}, {72, &second}}).ok());
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(text,
            "# whylate.reads/1: tid order id read_ns (CLOCK_MONOTONIC)\n"
            "71 0 10 100\n71 1 - 200\n72 0 18446744073709551615 150\n");
  std::filesystem::remove(path);
}

TEST(SequenceLog, FullDiskIsTold) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  ReadLog log(true);
  log.add(1, 2);
  const auto status = write_sequence_log("/dev/full", {{1, &log}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ExitCode::kRuntimeError);
}

}  // namespace
}  // namespace whylate::echo
