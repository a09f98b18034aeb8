// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/privileges.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/host/temp_tree.h"

namespace whylate::capture {
namespace {

using test::TempTree;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::uint64_t kBpf = 1ull << 39;
constexpr std::uint64_t kPerfmon = 1ull << 38;
constexpr std::uint64_t kSysAdmin = 1ull << 21;

Privileges with(const TempTree& tree, std::uint64_t effective, const std::string& lockdown = "",
                const std::string& uid_map = "         0          0 4294967295\n") {
  tree.write("/proc/self/status",
             fmt::format("Name:\tx\nCapInh:\t0\nCapEff:\t{:016x}\nCapBnd:\t000001ffffffffff\n"
                         "Seccomp:\t2\n",
                         effective));
  tree.write("/proc/self/uid_map", uid_map);
  if (!lockdown.empty()) tree.write("/sys/kernel/security/lockdown", lockdown);
  return read_privileges(tree.root());
}

TEST(Privileges, NamesExactlyWhatIsMissing) {
  struct Case {
    std::uint64_t effective;
    const char* start;  // "" when nothing is missing
    const char* have;
  };
  for (const Case& c :
       {Case{0, "CAP_BPF and CAP_PERFMON are missing", "none"},
        Case{kBpf, "CAP_PERFMON is missing (have CAP_BPF)", "CAP_BPF"},
        Case{kPerfmon, "CAP_BPF is missing (have CAP_PERFMON)", "CAP_PERFMON"},
        Case{kBpf | kPerfmon, "", "CAP_BPF, CAP_PERFMON"}, Case{kSysAdmin, "", "CAP_SYS_ADMIN"}}) {
    TempTree tree;
    const Privileges privileges = with(tree, c.effective);
    EXPECT_EQ(describe_capabilities(privileges), c.have);
    const Status status = check_privileges(privileges);
    if (*c.start == '\0') {
      EXPECT_TRUE(status.ok());
    } else {
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code, ExitCode::kUnsupported);
      EXPECT_THAT(status.error().message, StartsWith(c.start));
      EXPECT_EQ(status.error().message.find('\n'), std::string::npos);
    }
  }
}

TEST(Privileges, LockdownStopsOnlyWhenConfidential) {
  TempTree tree;
  EXPECT_EQ(with(tree, kSysAdmin, "none [integrity] confidentiality\n").lockdown, "integrity");
  EXPECT_TRUE(check_privileges(read_privileges(tree.root())).ok());
  const Privileges locked = with(tree, kBpf, "none integrity [confidentiality]\n");
  EXPECT_EQ(missing_privileges(locked).size(), 2u);
  EXPECT_THAT(check_privileges(locked).error().message, HasSubstr("CAP_PERFMON"));
  EXPECT_THAT(check_privileges(locked).error().message, HasSubstr("confidentiality"));
}

TEST(Privileges, CapabilitiesOfAUserNamespaceDoNotCount) {
  TempTree tree;
  const Privileges inner = with(tree, ~0ull, "", "         0       1000          1\n");
  EXPECT_FALSE(inner.initial_user_namespace);
  ASSERT_FALSE(check_privileges(inner).ok());
  EXPECT_THAT(check_privileges(inner).error().message, HasSubstr("user namespace"));
}

TEST(Privileges, UnreadableIsNotMissing) {
  TempTree tree;
  const Privileges privileges = read_privileges(tree.root());
  EXPECT_FALSE(privileges.effective.has_value());
  EXPECT_EQ(privileges.lockdown, "");
  EXPECT_TRUE(check_privileges(privileges).ok());
}

TEST(Privileges, SeccompIsRead) {
  TempTree tree;
  EXPECT_EQ(with(tree, 0).seccomp_mode, 2);
}

}  // namespace
}  // namespace whylate::capture
