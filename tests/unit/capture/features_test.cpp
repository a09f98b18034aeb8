// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/features.h"

#include <bpf/btf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

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

/// A kernel's type information with one tracepoint and what tells how tracepoints are guarded.
std::string type_information(bool srcu, bool tracepoint_ext, bool preempt_disable) {
  const std::unique_ptr<btf, void (*)(btf*)> owner(btf__new_empty(), btf__free);
  btf* const b = owner.get();
  const int number = btf__add_int(b, "int", 4, BTF_INT_SIGNED);
  const int pointer = btf__add_ptr(b, 0);
  const int function = btf__add_func_proto(b, 0);
  btf__add_func_param(b, "__data", pointer);
  btf__add_typedef(b, "btf_trace_cpu_idle", btf__add_ptr(b, function));
  if (srcu) btf__add_var(b, "tracepoint_srcu_srcu_data", BTF_VAR_GLOBAL_ALLOCATED, number);
  if (tracepoint_ext) btf__add_struct(b, "tracepoint_ext", 0);
  if (preempt_disable) btf__add_func(b, "bpf_preempt_disable", BTF_FUNC_GLOBAL, function);
  __u32 bytes = 0;
  const void* const data = btf__raw_data(b, &bytes);
  return std::string(static_cast<const char*>(data), bytes);
}

TEST(Features, ProgramsOnTracepointsArePreemptibleSinceTheseAreGuardedBySrcu) {
  test::TempTree tree;
  tree.write("/6.1", type_information(true, false, false));
  tree.write("/6.12", type_information(true, false, true));
  tree.write("/6.18", type_information(false, true, true));
  tree.write("/7", type_information(true, true, true));
  for (const std::string kernel : {"/6.1", "/6.12", "/6.18", "/7"}) {
    const Result<Features> features = read_features(tree.root() + kernel);
    ASSERT_TRUE(features.ok()) << kernel << ": " << features.error().message;
    EXPECT_EQ(features->tracepoints_preemptible, kernel == "/7") << kernel;
  }
}

}  // namespace
}  // namespace whylate::capture
