// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/attach_plan.h"
#include "host/file.h"
#include "unit/host/temp_tree.h"

namespace whylate::capture {
namespace {

using ::testing::HasSubstr;

TEST(Features, ReadsTheRunningKernel) {
  if (!host::exists(kVmlinuxBtf)) GTEST_SKIP() << "this kernel has no BTF";
  const Result<Features> features = read_features();
  ASSERT_TRUE(features.ok()) << features.error().message;
  // Their arguments have been the same in every kernel with BTF.
  EXPECT_EQ(features->args("cpu_idle"), 2);
  EXPECT_EQ(features->args("softirq_raise"), 1);
  EXPECT_EQ(features->args("netif_receive_skb"), 1);
  EXPECT_EQ(features->args("net_dev_start_xmit"), 2);
  EXPECT_GE(features->args("sched_switch"), 3);
  EXPECT_EQ(features->args("no_such_tracepoint"), -1);
  EXPECT_FALSE(features->has("no_such_tracepoint"));
  EXPECT_TRUE(features->iter_task_file);
}

TEST(Features, MissingOrDamagedTypeInformationIsOneLine) {
  test::TempTree tree;
  tree.write("/empty", "");
  tree.write("/text", "this is not BTF at all, but long enough to be looked at");
  tree.write("/magic", std::string("\x9f\xeb\x01\x00\x18\x00\x00\x00", 8) + std::string(64, 'x'));
  for (const std::string& path :
       {std::string("/nonexistent/vmlinux"), tree.root() + "/empty", tree.root() + "/text",
        tree.root() + "/magic", std::string("/dev/null")}) {
    testing::internal::CaptureStderr();
    const Result<Features> features = read_features(path);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << path;
    ASSERT_FALSE(features.ok()) << path;
    EXPECT_EQ(features.error().code, ExitCode::kUnsupported);
    EXPECT_THAT(features.error().message, HasSubstr(path));
    EXPECT_THAT(features.error().message, HasSubstr("CONFIG_DEBUG_INFO_BTF"));
    EXPECT_EQ(features.error().message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace whylate::capture
