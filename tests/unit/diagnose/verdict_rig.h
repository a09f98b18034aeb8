// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "diagnose/verdict.h"
#include "unit/request/builder.h"

namespace whylate::test {

inline RunContext context() {
  RunContext context;
  context.machine = "x86_64";
  context.own_pid = 77;
  return context;
}

inline Verdict judge(const Request& request, const RunContext& with = context()) {
  const std::optional<Verdict> verdict = diagnose(request, with, std::nullopt);
  EXPECT_TRUE(verdict);
  return verdict.value_or(Verdict{});
}

/// A request that waited 1 ms for the CPU.
inline Request waiting() {
  return make_request({{WL_STAGE_STACK, 500}, {WL_STAGE_RUN_QUEUE, 1'000'000}});
}

}  // namespace whylate::test
