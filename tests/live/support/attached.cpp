// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "support/attached.h"

#include <algorithm>
#include <stdexcept>

#include "support/trace.h"

namespace whylate::live {
namespace {

// The kernel frees programs a grace period after the last user let go.
constexpr int kPatienceMs = 5000;

Json bpftool(const char* what) {
  const Child child = Child::run({"bpftool", "-j", what, "show"});
  Json json = Json::parse(child.out(), nullptr, false);
  if (child.exit_code() != 0 || !json.is_array()) {
    throw std::runtime_error("bpftool: " + child.err());
  }
  return json;
}

std::set<int> linked_programs() {
  std::set<int> ids;
  for (const Json& link : bpftool("link")) ids.insert(link.value("prog_id", 0));
  return ids;
}

}  // namespace

std::set<int> tracer_programs() {
  std::set<int> ids;
  for (const Json& program : bpftool("prog")) {
    const std::string name = program.value("name", "");
    const bool ours = name.rfind("wl_", 0) == 0 || name.rfind("window_", 0) == 0;
    if (ours) ids.insert(program["id"].get<int>());
  }
  return ids;
}

bool only_left(const std::set<int>& before) {
  for (int waited = 0; waited < kPatienceMs; waited += 100) {
    const std::set<int> now = tracer_programs();
    const std::set<int> linked = linked_programs();
    const bool none =
        std::all_of(now.begin(), now.end(), [&](int id) { return before.count(id) > 0; });
    const bool none_linked = std::none_of(now.begin(), now.end(), [&](int id) {
      return before.count(id) == 0 && linked.count(id) > 0;
    });
    if (none && none_linked) return true;
    sleep_ms(100);
  }
  return false;
}

}  // namespace whylate::live
