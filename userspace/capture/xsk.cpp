// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/xsk.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "capture/adopt.h"
#include "capture/features.h"
#include "capture/privileges.h"
#include "xsk_trace.skel.h"

namespace whylate::capture {
namespace {

struct Hook {
  bpf_program* program;
  const char* tracepoint;
  int arguments;
};

std::vector<Hook> hooks_of(xsk_trace_bpf* skeleton) {
  auto& programs = skeleton->progs;
  return {
      {programs.xsk_irq_exit, "irq_handler_exit", 3},
      {programs.xsk_irq_entry, "irq_handler_entry", 2},
      {programs.xsk_softirq_exit, "softirq_exit", 1},
      {programs.xsk_softirq_entry, "softirq_entry", 1},
      {programs.xsk_softirq_raise, "softirq_raise", 1},
      {programs.xsk_redirect, "xdp_redirect", 7},
      {programs.xsk_redirect_err, "xdp_redirect_err", 7},
      {programs.xsk_waking, "sched_waking", 1},
      // The previous state, a fourth argument since 5.18, is not used.
      {programs.xsk_switch, "sched_switch", 0},
      {programs.xsk_sys_enter, "sys_enter", 2},
      {programs.xsk_send_length, "sock_send_length", 3},
  };
}

Error unsupported(const char* what, int error) {
  return Error{ExitCode::kUnsupported,
               fmt::format("cannot {} the hooks for AF_XDP: {}", what, std::strerror(error))};
}

/// The first hook that this kernel has not got, or has otherwise.
Status check_hooks(xsk_trace_bpf* skeleton, const Features& features) {
  for (const Hook& hook : hooks_of(skeleton)) {
    const bool fits = hook.arguments == 0 ? features.has(hook.tracepoint)
                                          : features.args(hook.tracepoint) == hook.arguments;
    if (fits) continue;
    return Error{
        ExitCode::kUnsupported,
        fmt::format("AF_XDP cannot be traced on this kernel: tracepoint {} is {}", hook.tracepoint,
                    features.has(hook.tracepoint) ? "another one" : "missing")};
  }
  return Done{};
}

std::uint32_t cpus() {
  const int count = libbpf_num_possible_cpus();
  return count < 1 ? 1
                   : std::min(static_cast<std::uint32_t>(count), std::uint32_t{WL_XSK_MAX_CPUS});
}

}  // namespace

struct XskSession::Skeleton {
  xsk_trace_bpf* bpf = nullptr;
  ~Skeleton() { xsk_trace_bpf::destroy(bpf); }
};

XskSession::XskSession(pid_t pid) : pid_(pid), skeleton_(std::make_unique<Skeleton>()) {}
XskSession::~XskSession() = default;

Result<std::unique_ptr<XskSession>> XskSession::open(pid_t pid, bool generic) {
  if (Status allowed = check_privileges(read_privileges("")); !allowed) return allowed.error();
  std::unique_ptr<XskSession> session(new XskSession(pid));
  xsk_trace_bpf* bpf = session->skeleton_->bpf = xsk_trace_bpf::open();
  if (bpf == nullptr) return unsupported("open", errno);
  const Result<Features> features = read_features();
  if (!features) return features.error();
  if (Status hooks = check_hooks(bpf, *features); !hooks) return hooks.error();
  bpf->rodata->cfg_generic = generic;
  bpf->rodata->cfg_preemptible = features->tracepoints_preemptible;
  bpf_map__set_max_entries(bpf->maps.xsk_cpus, cpus());
  bpf_map__set_max_entries(bpf->maps.xsk_totals, cpus());
  bpf_program__set_autoattach(bpf->progs.xsk_read_sockets, false);
  if (const int loaded = xsk_trace_bpf::load(bpf); loaded != 0) {
    return unsupported("load", -loaded);
  }
  if (const int attached = xsk_trace_bpf::attach(bpf); attached != 0) {
    return unsupported("attach", -attached);
  }
  Result<std::vector<wl_xsk_line>> lines = session->sockets();
  if (!lines) return lines.error();
  session->first_ = std::move(*lines);
  return session;
}

Result<std::vector<wl_xsk_line>> XskSession::sockets() {
  Result<std::vector<std::byte>> bytes = run_iterator(skeleton_->bpf->progs.xsk_read_sockets, pid_);
  if (!bytes) return bytes.error();
  std::vector<wl_xsk_line> lines(bytes->size() / sizeof(wl_xsk_line));
  if (!lines.empty()) {
    std::memcpy(lines.data(), bytes->data(), lines.size() * sizeof(wl_xsk_line));
  }
  return lines;
}

std::unique_ptr<wl_xsk_totals> XskSession::totals() const {
  auto sum = std::make_unique<wl_xsk_totals>();
  auto one = std::make_unique<wl_xsk_totals>();
  const int fd = bpf_map__fd(skeleton_->bpf->maps.xsk_totals);
  for (std::uint32_t cpu = 0; cpu < cpus(); ++cpu) {
    if (bpf_map_lookup_elem(fd, &cpu, one.get()) != 0) continue;
    sum->redirected += one->redirected;
    sum->failed += one->failed;
    sum->polled += one->polled;
    sum->awake += one->awake;
    sum->woke += one->woke;
    sum->wakes += one->wakes;
    sum->send_calls += one->send_calls;
    sum->lost += one->lost;
    for (int stage = 0; stage < WL_XSK_NR_STAGES; ++stage) {
      sum->count[stage] += one->count[stage];
      sum->total_ns[stage] += one->total_ns[stage];
      sum->max_ns[stage] = std::max(sum->max_ns[stage], one->max_ns[stage]);
      for (int bucket = 0; bucket < static_cast<int>(WL_HIST_BUCKETS); ++bucket) {
        sum->hist[stage][bucket] += one->hist[stage][bucket];
      }
    }
  }
  return sum;
}

std::uint64_t XskSession::redirected() const { return totals()->redirected; }

std::uint64_t XskSession::recursion_misses() const {
  std::uint64_t sum = 0;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skeleton_->bpf->obj) {
    bpf_prog_info info{};
    std::uint32_t bytes = sizeof info;
    const int fd = bpf_program__fd(program);
    if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &bytes) == 0) sum += info.recursion_misses;
  }
  return sum;
}

void XskSession::detach() { xsk_trace_bpf::detach(skeleton_->bpf); }

}  // namespace whylate::capture
