// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "record.h"

namespace whylate {

/// Names of the stages in path order, as text and JSON spell them. The only such table.
inline constexpr std::array<std::string_view, WL_NR_STAGES> kStageNames = {
    "hard_irq",      "softirq_wait", "softirq_poll", "backlog",   "stack",    "socket_queue",
    "wakeup",        "idle_exit",    "run_queue",    "throttled", "recv",     "app",
    "app_run_queue", "app_blocked",  "app_irq",      "send",      "tx_queue", "unattributed",
};
static_assert(kStageNames[WL_STAGE_BACKLOG] == "backlog");
static_assert(kStageNames[WL_STAGE_RUN_QUEUE] == "run_queue");
static_assert(kStageNames[WL_STAGE_APP_IRQ] == "app_irq");
static_assert(kStageNames[WL_STAGE_UNATTRIBUTED] == "unattributed");

/// The name of an enum wl_stage value; "unknown" when it is none.
constexpr std::string_view stage_name(int stage) {
  if (stage < 0 || stage >= WL_NR_STAGES) return "unknown";
  return kStageNames[static_cast<std::size_t>(stage)];
}

/// The enum wl_stage value of a name, or nothing.
constexpr std::optional<int> stage_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kStageNames.size(); ++i) {
    if (kStageNames[i] == name) return static_cast<int>(i);
  }
  return std::nullopt;
}

}  // namespace whylate
