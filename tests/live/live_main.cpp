// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "support/child.h"

namespace {

/// Nothing in this program works without root, and nothing that it writes outlives it.
class NeedsRoot : public ::testing::Environment {
 public:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "the live tests need root";
  }
  void TearDown() override { whylate::live::remove_scratch(); }
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new NeedsRoot);
  return RUN_ALL_TESTS();
}
