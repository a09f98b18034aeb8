// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/process_facts.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "host/file.h"
#include "stack/collect/elf_file.h"
#include "stack/collect/netns.h"

namespace whylate::stack::collect {
namespace {

std::vector<std::string> split_nul(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// "Name:\t 12 kB" of /proc/PID/status in bytes.
std::uint64_t status_bytes(std::string_view text, std::string_view name) {
  for (const std::string_view line : host::split_lines(text)) {
    if (line.substr(0, name.size()) != name || line.substr(name.size(), 1) != ":") continue;
    const auto words = host::split_words(line.substr(name.size() + 1));
    if (words.size() == 2) return host::parse_u64(words[0]).value_or(0) * 1024;
  }
  return 0;
}

// Words 14 and 15 of /proc/PID/task/TID/stat; the name before them may hold anything.
void read_ticks(const std::string& text, std::optional<std::uint64_t>& user,
                std::optional<std::uint64_t>& system) {
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos) return;
  const auto words = host::split_words(host::trim(std::string_view(text).substr(close + 1)));
  if (words.size() < 13) return;
  user = host::parse_u64(words[11]);
  system = host::parse_u64(words[12]);
}

std::optional<std::uint64_t> status_number(std::string_view text, std::string_view name) {
  for (const std::string_view line : host::split_lines(text)) {
    if (line.substr(0, name.size()) != name || line.substr(name.size(), 1) != ":") continue;
    return host::parse_u64(host::trim(line.substr(name.size() + 1)));
  }
  return std::nullopt;
}

// "Uid:\treal\teffective\tsaved\tfile system"
uid_t effective_uid(std::string_view text) {
  for (const std::string_view line : host::split_lines(text)) {
    if (line.substr(0, 4) != "Uid:") continue;
    const auto words = host::split_words(line);
    if (words.size() > 2) return static_cast<uid_t>(host::parse_u64(words[2]).value_or(0));
  }
  return 0;
}

bool differs(const Context& context, const char* kind) {
  const auto ours = namespace_inode(std::string("/proc/self/ns/") + kind);
  const auto theirs = namespace_inode(context.proc() + "/ns/" + kind);
  return ours && theirs && *ours != *theirs;
}

void read_namespaces(const Context& context, ProcessFacts& process) {
  errno = 0;
  const auto own = namespace_inode(context.proc() + "/ns/net");
  if (!own) {
    context.cannot_read_errno("/proc/" + std::to_string(context.pid) + "/ns/net", errno,
                              "CAP_SYS_PTRACE", "in which network namespace it is");
    return;
  }
  process.net_namespace = *own;
  process.other_net_namespace = differs(context, "net");
  process.other_mount_namespace = differs(context, "mnt");
  process.other_pid_namespace = differs(context, "pid");
  for (const pid_t tid : numeric_names(context.proc() + "/task")) {
    const auto inode = namespace_inode(context.proc() + "/task/" + std::to_string(tid) + "/ns/net");
    auto& others = process.thread_net_namespaces;
    if (inode && *inode != *own &&
        std::find(others.begin(), others.end(), *inode) == others.end()) {
      others.push_back(*inode);
    }
  }
}

}  // namespace

std::vector<std::string> stack_variables(std::string_view environment) {
  constexpr std::array<std::string_view, 14> kStarts = {
      "LD_PRELOAD=", "LD_AUDIT=", "EF_",  "ZF_", "EXASOCK_", "VMA_",  "XLIO_",
      "LDP_",        "VCL_",      "VPP_", "FF_", "RTE_",     "MLX4_", "MLX5_"};
  std::vector<std::string> kept;
  for (std::string& variable : split_nul(environment)) {
    const bool wanted = std::any_of(kStarts.begin(), kStarts.end(), [&](std::string_view start) {
      return std::string_view(variable).substr(0, start.size()) == start;
    });
    if (wanted) kept.push_back(std::move(variable));
  }
  return kept;
}

std::optional<bool> secure_exec(std::string_view auxv) {
  while (auxv.size() >= sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t entry;
    std::memcpy(&entry, auxv.data(), sizeof(entry));
    if (entry.a_type == AT_SECURE) return entry.a_un.a_val != 0;
    if (entry.a_type == AT_NULL) break;
    auxv.remove_prefix(sizeof(entry));
  }
  return std::nullopt;
}

void collect_process(const Context& context, Evidence& evidence) {
  ProcessFacts& process = evidence.process;
  const std::string base = context.proc();
  int error = 0;
  process.executable = read_link(base + "/exe", &error);
  if (process.executable.empty()) {
    context.cannot_read_errno("/proc/" + std::to_string(context.pid) + "/exe", error,
                              "CAP_SYS_PTRACE", "which program it runs");
  }
  if (const auto text = host::read_file(base + "/cmdline")) process.arguments = split_nul(*text);
  if (const auto text = host::read_file(base + "/environ")) {
    process.environment = stack_variables(*text);
  } else {
    context.cannot_read("/proc/" + std::to_string(context.pid) + "/environ",
                        "CAP_SYS_PTRACE is missing", "the settings of a network stack");
  }
  if (const auto text = host::read_file(base + "/auxv")) process.secure_exec = secure_exec(*text);
  if (const auto text = host::read_file(base + "/status")) {
    process.hugetlb_bytes = status_bytes(*text, "HugetlbPages");
    process.pinned_bytes = status_bytes(*text, "VmPin");
    process.uid = effective_uid(*text);
  }
  if (const auto elf = read_elf(base + "/exe")) process.statically_linked = !elf->has_interpreter;
  if (context.live()) read_namespaces(context, process);
}

void collect_threads(const Context& context, Reading reading, Evidence& evidence) {
  for (const pid_t tid : numeric_names(context.proc() + "/task")) {
    const std::string base = context.proc() + "/task/" + std::to_string(tid);
    const auto stat = host::read_file(base + "/stat");
    const auto status = host::read_file(base + "/status");
    if (!stat || !status) continue;  // ended meanwhile
    auto& threads = evidence.threads;
    auto thread = std::find_if(threads.begin(), threads.end(),
                               [&](const ThreadUse& t) { return t.tid == tid; });
    if (thread == threads.end()) {
      // Threads that begin within the window have no first reading and are left out.
      if (reading == Reading::kAfter) continue;
      threads.emplace_back();
      thread = threads.end() - 1;
      thread->tid = tid;
      const std::size_t open = stat->find('(');
      const std::size_t close = stat->rfind(')');
      if (open != std::string::npos && close != std::string::npos && close > open) {
        thread->comm = stat->substr(open + 1, close - open - 1);
      }
    }
    std::optional<std::uint64_t> user, system;
    read_ticks(*stat, user, system);
    set_counter(thread->user_ticks, reading, user);
    set_counter(thread->system_ticks, reading, system);
    set_counter(thread->voluntary_switches, reading,
                status_number(*status, "voluntary_ctxt_switches"));
    set_counter(thread->involuntary_switches, reading,
                status_number(*status, "nonvoluntary_ctxt_switches"));
  }
}

}  // namespace whylate::stack::collect
