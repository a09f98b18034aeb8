// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/vendor_onload.h"

#include <algorithm>

#include "host/file.h"

namespace whylate::stack::collect {
namespace {

constexpr const char* kStacks = "/proc/driver/onload/stacks";
// The identifier with its colon, pid, uid, and the counters of the release that was read.
constexpr std::size_t kFewestColumns = 5;

}  // namespace

std::vector<OnloadStack> parse_onload_stacks(std::string_view text) {
  std::vector<OnloadStack> stacks;
  for (const std::string_view line : host::split_lines(text)) {
    const auto words = host::split_words(line);
    if (words.size() < kFewestColumns || words[0].empty() || words[0].back() != ':') continue;
    const auto id = host::parse_u64(words[0].substr(0, words[0].size() - 1));
    if (!id) continue;
    OnloadStack stack;
    stack.id = static_cast<std::uint32_t>(*id);
    // 0: the process lives in another pid namespace, or has ended.
    stack.pid = static_cast<pid_t>(host::parse_u64(words[1]).value_or(0));
    stack.rx_events.before = host::parse_u64(words[words.size() - 2]);
    stack.tx_events.before = host::parse_u64(words[words.size() - 1]);
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

void collect_onload(const Context& context, Reading reading, Evidence& evidence) {
  const bool loaded = host::exists(context.path("/sys/module/onload")) ||
                      host::exists(context.path("/proc/driver/onload"));
  if (!loaded) return;
  const auto text = host::read_file(context.path(kStacks));
  if (reading == Reading::kAfter) {
    if (!text || !evidence.onload) return;
    for (const OnloadStack& now : parse_onload_stacks(*text)) {
      for (OnloadStack& stack : evidence.onload->stacks) {
        if (stack.id != now.id) continue;
        stack.rx_events.after = now.rx_events.before;
        stack.tx_events.after = now.tx_events.before;
      }
    }
    return;
  }
  OnloadEvidence onload;
  onload.module_loaded = true;
  const auto version = host::read_trimmed(context.path("/sys/module/onload/version"));
  onload.version =
      version ? *version
              : host::read_trimmed(context.path("/proc/driver/onload/version")).value_or("");
  if (text) {
    onload.stacks = parse_onload_stacks(*text);
  } else {
    context.cannot_read(kStacks, "the file cannot be read",
                        "whether events pass through its Onload stacks");
  }
  evidence.onload = std::move(onload);
}

}  // namespace whylate::stack::collect
