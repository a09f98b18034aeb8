// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/blame.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/escape.h"
#include "request/names.h"

namespace whylate {
namespace {

// The kernel keeps real-time priorities upside down: 99 is the lowest, 0 the highest.
constexpr int kRealTimePriorities = 100;

}  // namespace

std::vector<wl_occupant> occupants_of(const Request& request, wl_stage stage) {
  std::vector<wl_occupant> merged;
  std::uint64_t named = 0;
  for (const wl_occupant& occupant : request.occupants) {
    if (occupant.stage != stage || occupant.ns == 0) continue;
    named += occupant.ns;
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const wl_occupant& other) {
      return other.kind == occupant.kind && other.pid == occupant.pid;
    });
    if (same == merged.end()) {
      merged.push_back(occupant);
    } else {
      same->ns += occupant.ns;
      same->switches += occupant.switches;
      if (same->cpu != occupant.cpu) same->cpu = WL_NO_CPU;
    }
  }
  const std::uint64_t wait = request.record.stage_ns[stage];
  if (!merged.empty() && named < wait) {
    const auto unknown = std::find_if(merged.begin(), merged.end(), [](const wl_occupant& other) {
      return other.kind == WL_OCC_UNKNOWN;
    });
    if (unknown != merged.end()) {
      unknown->ns += wait - named;
    } else {
      wl_occupant rest{};
      rest.ns = wait - named;
      rest.kind = WL_OCC_UNKNOWN;
      rest.stage = stage;
      rest.cpu = WL_NO_CPU;
      merged.push_back(rest);
    }
  }
  std::stable_sort(merged.begin(), merged.end(),
                   [](const wl_occupant& a, const wl_occupant& b) { return a.ns > b.ns; });
  return merged;
}

std::string occupant_label(const wl_occupant& occupant) {
  switch (occupant.kind) {
    case WL_OCC_TASK:
      return fmt::format("{}[{}]", escape_field(occupant.comm), occupant.pid);
    case WL_OCC_IRQ:
      return "device interrupts";
    case WL_OCC_TIMER:
      return "the local timer";
    case WL_OCC_IPI:
      return "inter-processor interrupts";
    case WL_OCC_IRQ_WORK:
      return "irq_work";
    case WL_OCC_SOFTIRQ:
      return "softirqs";
    case WL_OCC_IDLE:
      return "the idle task";
    case WL_OCC_QUOTA:
      return "CPU quota";
    default:
      return "other tasks";
  }
}

bool is_theft(std::uint8_t kind) {
  return kind == WL_OCC_IRQ || kind == WL_OCC_TIMER || kind == WL_OCC_IPI ||
         kind == WL_OCC_IRQ_WORK || kind == WL_OCC_SOFTIRQ;
}

std::string cgroup_path(const RunContext& context, std::uint64_t cgroup) {
  const auto it = context.cgroups.find(cgroup);
  return it == context.cgroups.end() ? std::string() : escape(it->second);
}

std::optional<std::uint64_t> autogroup_of(std::uint64_t cgroup) {
  if ((cgroup & WL_AUTOGROUP) == 0) return std::nullopt;
  return cgroup & ~WL_AUTOGROUP;
}

bool outranks_ordinary(const wl_occupant& occupant) {
  return occupant.kind == WL_OCC_TASK &&
         (occupant.policy == 1 || occupant.policy == 2 || occupant.policy == 6);
}

std::string occupant_policy(const wl_occupant& occupant) {
  if (occupant.kind != WL_OCC_TASK) return {};
  const std::string_view policy = policy_name(occupant.policy);
  if (occupant.policy == 1 || occupant.policy == 2) {
    return fmt::format("{}, priority {}", policy, kRealTimePriorities - 1 - occupant.prio);
  }
  if (occupant.policy == 6) return std::string(policy);
  return fmt::format("{}, nice {}", policy, occupant.nice);
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "";
  const auto value =
      static_cast<std::uint64_t>((static_cast<unsigned __int128>(part) * 200 + whole) /
                                 (static_cast<unsigned __int128>(whole) * 2));
  if (value == 0 && part > 0) return "<1 %";
  // Not "100 %" while something is missing.
  if (value == 100 && part < whole) return ">99 %";
  return fmt::format("{} %", value);
}

int idle_state_of(const Request& request, const RunContext& context) {
  if (request.record.stage_ns[WL_STAGE_IDLE_EXIT] == 0) return -1;
  if (request.record.idle_state >= 0) return request.record.idle_state;
  return context.fixed_idle_state.value_or(-1);
}

std::string idle_state_name(const RunContext& context, std::uint32_t cpu, int state) {
  const auto it = context.idle_states.find({cpu, state});
  return it == context.idle_states.end() ? std::string() : escape(it->second.name);
}

}  // namespace whylate
