// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <algorithm>

#include "base/escape.h"
#include "stack/rules.h"

namespace whylate::stack {
namespace {

/// Libraries that stand in for the kernel's sockets, and the settings that keep sockets out of
/// them.
struct Interposer {
  LibraryKind library;
  Stack stack;
  const char* preload;      ///< what LD_PRELOAD then contains
  const char* settings[4];  ///< variables by which a socket is meant to stay on the kernel
};

constexpr Interposer kInterposers[] = {
    {LibraryKind::kOnload,
     Stack::kOnload,
     "libonload.so",
     {"EF_DONT_ACCELERATE=1", "EF_TCP_LISTEN_HANDOVER=1", "EF_TCP_CONNECT_HANDOVER=1",
      "EF_UDP_PORT_HANDOVER"}},
    {LibraryKind::kExasock,
     Stack::kExasock,
     "libexasock_preload",
     {"EXASOCK_DEFAULT_DISABLE", nullptr, nullptr, nullptr}},
    {LibraryKind::kVma,
     Stack::kVma,
     "libvma.so",
     {"VMA_OFFLOADED_SOCKETS=0", nullptr, nullptr, nullptr}},
    {LibraryKind::kXlio,
     Stack::kXlio,
     "libxlio.so",
     {"XLIO_OFFLOADED_SOCKETS=0", nullptr, nullptr, nullptr}},
    {LibraryKind::kVppSession,
     Stack::kVpp,
     "libvcl_ldpreload",
     {nullptr, nullptr, nullptr, nullptr}},
};

/// Why a library that LD_PRELOAD names is not there, and what to do about it.
struct NotLoaded {
  std::string why;
  std::string remedy;
};

NotLoaded why_not_loaded(const View& view, const Interposer& interposer) {
  const ProcessFacts& process = view.evidence().process;
  if (const Library* fake = view.impostor(interposer.library)) {
    return {fmt::format("what is mapped under its name ({}) is not {}", escape(fake->path),
                        traits(interposer.stack).title),
            ""};
  }
  if (process.statically_linked.value_or(false)) {
    return {"the program is linked statically, so LD_PRELOAD has no effect",
            "link the program dynamically"};
  }
  if (process.secure_exec.value_or(false)) {
    // ld.so(8), "Secure-execution mode".
    return {"the program runs with raised privileges (AT_SECURE), so the loader ignored LD_PRELOAD",
            "start it without set-user-ID and file capabilities, or give LD_PRELOAD a bare name "
            "and its library, in a standard directory, the set-user-ID bit"};
  }
  return {"it is not mapped: dropped by a wrapper, not found, or the environment was changed later",
          "start the program itself, not its wrapper, with LD_DEBUG=libs to see what the loader "
          "tried"};
}

}  // namespace

std::vector<Accelerator> accelerators(const View& view) {
  std::vector<Accelerator> found;
  const std::string preload = view.environment("LD_PRELOAD").value_or("");
  for (const Interposer& interposer : kInterposers) {
    const Library* library = view.library(interposer.library);
    const bool asked = preload.find(interposer.preload) != std::string::npos;
    if (library == nullptr && !asked) continue;
    Accelerator accelerator;
    accelerator.stack = interposer.stack;
    accelerator.loaded = library != nullptr;
    if (library != nullptr) {
      accelerator.sign = escape(library->path) + " is mapped";
      accelerator.remedy = fmt::format(
          "the socket's address must be on an interface that {} accelerates, and the socket made "
          "after its library was loaded; its own log names the reason",
          traits(interposer.stack).title);
    } else {
      accelerator.sign = fmt::format("LD_PRELOAD names {}", interposer.preload);
      const auto [why, remedy] = why_not_loaded(view, interposer);
      accelerator.not_loaded = why;
      accelerator.remedy = remedy;
      // A file that is something else cannot have fallen back.
      if (view.impostor(interposer.library) != nullptr) accelerator.stack = Stack::kUnknown;
    }
    for (const char* setting : interposer.settings) {
      if (setting == nullptr) continue;
      const std::optional<std::string> value = view.environment_with_prefix(setting);
      if (value) accelerator.configured = escape(*value);
    }
    found.push_back(std::move(accelerator));
  }
  return found;
}

void judge_fallback(const View& view, const std::vector<Accelerator>& accelerators,
                    SocketVerdict& verdict, std::vector<StackFinding>& findings) {
  const bool kernel = verdict.stack == Stack::kKernel || verdict.stack == Stack::kKernelBusyPoll ||
                      verdict.stack == Stack::kIoUring;
  if (!kernel || verdict.fell_back || verdict.moved().value_or(0) == 0) return;
  for (const Accelerator& accelerator : accelerators) {
    if (accelerator.stack == Stack::kUnknown) continue;
    const char* title = traits(accelerator.stack).title;
    const std::string socket = verdict.fd           ? fmt::format("descriptor {}", *verdict.fd)
                               : verdict.inode == 0 ? "what was closed in the window"
                                                    : fmt::format("socket:[{}]", verdict.inode);
    if (is_loopback_address(verdict.local)) {
      add_finding(
          findings,
          {"kernel_by_route",
           fmt::format("{} is on loopback, which {} leaves to the kernel", socket, title), ""});
      continue;
    }
    if (!accelerator.configured.empty()) {
      add_finding(findings, {"kernel_by_configuration",
                             fmt::format("{} is on the kernel although {}; {} asks for that",
                                         socket, accelerator.sign, accelerator.configured),
                             ""});
      continue;
    }
    verdict.fell_back = true;
    verdict.remedy = accelerator.remedy;
    add_fact(verdict, fmt::format("process {}", view.evidence().process.pid),
             accelerator.sign +
                 (accelerator.not_loaded.empty() ? "" : ", but " + accelerator.not_loaded));
  }
}

}  // namespace whylate::stack
