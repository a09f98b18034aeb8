// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Loads and attaches the floor object, says "attached", and waits for SIGINT or SIGTERM.
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "floor.skel.h"

namespace {

constexpr int kExitUnsupported = 3;
constexpr int kExitRuntime = 5;
constexpr std::string_view kPrefix = "floor_";

/// Leaves out programs whose tracepoint this kernel lacks, and names them. Returns how many are
/// left out.
int skip_missing_tracepoints(bpf_object* object) {
  int missing = 0;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object) {
    const char* tracepoint = bpf_program__name(program) + kPrefix.size();
    if (libbpf_find_vmlinux_btf_id(tracepoint, BPF_TRACE_RAW_TP) <= 0) {
      std::fprintf(stderr, "floor: this kernel has no tracepoint %s, left out\n", tracepoint);
      bpf_program__set_autoload(program, false);
      ++missing;
    }
  }
  return missing;
}

}  // namespace

int main() {
  // Default action first: a script's background command starts with SIGINT ignored, and an ignored
  // signal never ends a sigwait. Blocked before anything is attached: a signal that comes early
  // then ends the wait below at once.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  sigprocmask(SIG_BLOCK, &ending, nullptr);

  libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
  floor_bpf* skeleton = floor_bpf__open();
  if (skeleton == nullptr) {
    std::fprintf(stderr, "floor: cannot open the object: %s\n", std::strerror(errno));
    return kExitRuntime;
  }
  const int missing = skip_missing_tracepoints(skeleton->obj);
  int error = floor_bpf__load(skeleton);
  if (error == 0) error = floor_bpf__attach(skeleton);
  if (error != 0) {
    std::fprintf(stderr, "floor: cannot load or attach: %s\n", std::strerror(-error));
    floor_bpf__destroy(skeleton);
    return kExitUnsupported;
  }
  std::fprintf(stderr, "floor: attached %d programs\n", skeleton->skeleton->prog_cnt - missing);

  int signal_number = 0;
  sigwait(&ending, &signal_number);
  floor_bpf__destroy(skeleton);
  return 0;
}
