// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/privileges.h"

#include <linux/capability.h>

#include <charconv>

#include "host/file.h"

namespace whylate::capture {
namespace {

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

// "none [integrity] confidentiality" -> "integrity"
std::string selected(const std::string& text) {
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return "";
  return text.substr(open + 1, close - open - 1);
}

// The initial user namespace maps every id to itself.
bool is_initial_namespace(const std::string& uid_map) {
  const std::vector<std::string_view> lines = host::split_lines(uid_map);
  if (lines.size() != 1) return lines.empty();
  const std::vector<std::string_view> words = host::split_words(lines[0]);
  return words.size() == 3 && words[0] == "0" && words[1] == "0" && words[2] == "4294967295";
}

}  // namespace

bool Privileges::can_bpf() const { return has(CAP_BPF) || has(CAP_SYS_ADMIN); }
bool Privileges::can_perfmon() const { return has(CAP_PERFMON) || has(CAP_SYS_ADMIN); }

Privileges read_privileges(const std::string& root) {
  Privileges privileges;
  if (const Result<std::string> text = host::read_file(root + "/proc/self/status")) {
    for (const std::string_view line : host::split_lines(*text)) {
      const std::size_t colon = line.find(':');
      if (colon == std::string_view::npos) continue;
      const std::string_view name = line.substr(0, colon);
      const std::string_view value = host::trim(line.substr(colon + 1));
      if (name == "CapEff") privileges.effective = parse_hex(value);
      if (name == "CapBnd") privileges.bounding = parse_hex(value).value_or(0);
      if (name == "Seccomp") {
        privileges.seccomp_mode = static_cast<int>(host::parse_u64(value).value_or(0));
      }
    }
  }
  if (const Result<std::string> map = host::read_file(root + "/proc/self/uid_map")) {
    privileges.initial_user_namespace = is_initial_namespace(*map);
  }
  if (const auto text = host::read_trimmed(root + "/sys/kernel/security/lockdown")) {
    privileges.lockdown = selected(*text);
  }
  return privileges;
}

std::string describe_capabilities(const Privileges& privileges) {
  std::string text;
  const auto add = [&](int capability, const char* name) {
    if (privileges.has(capability)) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(CAP_BPF, "CAP_BPF");
  add(CAP_PERFMON, "CAP_PERFMON");
  add(CAP_SYS_ADMIN, "CAP_SYS_ADMIN");
  return text.empty() ? "none" : text;
}

std::vector<std::string> missing_privileges(const Privileges& privileges) {
  std::vector<std::string> missing;
  const bool bpf = privileges.can_bpf();
  const bool perfmon = privileges.can_perfmon();
  // When /proc cannot be read nothing is claimed: the load itself will tell.
  if (privileges.effective && !(bpf && perfmon)) {
    if (!bpf && !perfmon) {
      missing.push_back("CAP_BPF and CAP_PERFMON are missing: run as root or give both");
    } else if (!bpf) {
      missing.push_back("CAP_BPF is missing (have CAP_PERFMON): run as root or give both");
    } else {
      missing.push_back("CAP_PERFMON is missing (have CAP_BPF): run as root or give both");
    }
  } else if (privileges.effective && !privileges.initial_user_namespace) {
    missing.push_back(
        "the capabilities are held in a user namespace only, BPF needs them in the initial one: "
        "run outside the container or as real root");
  }
  if (privileges.lockdown == "confidentiality") {
    missing.push_back(
        "kernel lockdown is 'confidentiality': BPF may not read kernel memory (boot with "
        "lockdown=integrity or none)");
  }
  return missing;
}

Status check_privileges(const Privileges& privileges) {
  const std::vector<std::string> missing = missing_privileges(privileges);
  if (missing.empty()) return Done{};
  std::string line;
  for (const std::string& one : missing) line += (line.empty() ? "" : "; ") + one;
  return Error{ExitCode::kUnsupported, line};
}

}  // namespace whylate::capture
