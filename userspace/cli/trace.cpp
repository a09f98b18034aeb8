// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/trace.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/duration.h"
#include "base/escape.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/signals.h"
#include "capture/attach_plan.h"
#include "capture/plan_inputs.h"
#include "capture/session.h"
#include "cli/launch.h"
#include "cli/output.h"
#include "cli/placement.h"
#include "cli/run_context.h"
#include "cli/select_target.h"
#include "cli/stack.h"
#include "cli/trace_xsk.h"
#include "diagnose/collector.h"
#include "diagnose/summary.h"
#include "host/cgroups.h"
#include "host/steal.h"
#include "report/json.h"
#include "report/text.h"

namespace whylate::cli {
namespace {

constexpr std::uint64_t kDrainEveryNs = 20 * kNsPerMs;
// So long it reads records without a pause: a target that shares the CPU waits no longer than that.
// Twice as long each time that some are left, up to the longest turn: the ring must not fill.
constexpr std::uint64_t kTurnNs = 100'000;
constexpr std::uint64_t kLongestTurnNs = 20 * kNsPerMs;
constexpr std::uint64_t kPauseNs = 100'000;
constexpr std::uint64_t kAdoptEveryNs = kNsPerSecond;
// A launched command opens its sockets right after its start.
constexpr std::uint64_t kAdoptEveryAtStartNs = 50 * kNsPerMs;
constexpr std::uint64_t kStartNs = 2 * kNsPerSecond;
constexpr std::uint64_t kCountEveryNs = 100 * kNsPerMs;
constexpr std::uint64_t kGroupsEveryNs = 200 * kNsPerMs;

std::uint64_t clock_ns(clockid_t clock) {
  timespec time = {};
  ::clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(time.tv_nsec);
}

/// Sleeps; a signal ends it early.
void sleep_ns(std::uint64_t ns) {
  timespec time = {static_cast<time_t>(ns / kNsPerSecond), static_cast<long>(ns % kNsPerSecond)};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

std::optional<std::uint64_t> steal_now_ns() {
  const Result<host::Steal> steal = host::read_steal("");
  if (!steal.ok()) return std::nullopt;
  return steal->total_ns;
}

/// One run of the tracer, from the target to the report.
class TraceRun {
 public:
  TraceRun(const TraceOptions& options, Output output)
      : options_(options), output_(std::move(output)), collector_(options.slowest) {}

  Result<int> run();

 private:
  Status attach();
  Status follow();
  /// Reads records for turn_ns_ at most; true: none is left.
  Result<bool> drain_turn();
  Status drain_all();
  Status adopt();
  bool is_over(std::uint64_t now_ns);
  Result<int> report();
  /// Without a single request: says so when another stack carries the target.
  void explain_silence();
  void take(std::span<const std::byte> bytes);
  void name_group(std::uint64_t id);

  const TraceOptions& options_;
  Output output_;
  Collector collector_;
  RunContext context_;
  std::unique_ptr<LaunchedCommand> command_;
  std::unique_ptr<capture::Session> session_;
  std::uint64_t open_ns_ = 0;   // nothing was seen before
  std::uint64_t begin_ns_ = 0;  // every hook was in
  std::uint64_t next_count_ns_ = 0;
  std::uint64_t turn_ns_ = kTurnNs;
  std::uint64_t next_groups_ns_ = 0;
  std::uint64_t cpu_begin_ns_ = 0;
  std::optional<std::uint64_t> steal_begin_ns_;
  bool target_gone_ = false;
};

Status TraceRun::attach() {
  // The kernel's types (5 MiB and more) are read and parsed three times.
  const KeptHeap kept_heap;
  std::optional<pid_t> launched;
  if (!options_.command.empty()) {
    Result<std::unique_ptr<LaunchedCommand>> command = LaunchedCommand::start(options_.command);
    if (!command.ok()) return command.error();
    command_ = std::move(*command);
    launched = command_->pid();
  }
  Result<Target> target = select_target(options_, launched);
  if (!target.ok()) return target.error();

  const std::vector<pid_t> pids = target->pids();
  const capture::PlanInputs inputs = capture::gather_plan_inputs(
      "", pids, options_.syscalls, target->sockets_known ? &target->sockets : nullptr);
  const Result<capture::Plan> plan = capture::make_plan(target->features, inputs);
  if (!plan.ok()) return plan.error();
  for (const std::string& name : options_.programs_off) {
    if (!capture::is_indispensable(name, *plan)) continue;
    return Error{ExitCode::kUsage,
                 fmt::format("--without {}: no request can be followed without it", escape(name))};
  }
  context_ = read_run_context(options_, *target, *plan, inputs);

  capture::Config config;
  config.tgids = pids;
  config.still_there = [&target](pid_t pid) {
    return std::any_of(target->processes.begin(), target->processes.end(),
                       [&](const host::ProcessInfo& one) {
                         if (one.pid != pid) return false;
                         const Result<host::ProcessInfo> now = host::read_process("", pid);
                         return now.ok() && now->start_ticks == one.start_ticks;
                       });
  };
  config.port = options_.port;
  config.proto = options_.proto;
  config.slower_than_ns = options_.slower_than_ns;
  config.id_offset = options_.id_offset;
  config.id_bytes = options_.id_bytes;
  config.count = options_.count.value_or(0);
  config.syscalls = options_.syscalls;
  if (options_.ring_bytes) config.ring_bytes = *options_.ring_bytes;
  config.fixed_idle_state = plan->fixed_idle_state;
  config.old_reads = plan->old_reads;
  config.preemptible = target->features.tracepoints_preemptible;
  config.programs_off = plan->off_names();
  config.programs_off.insert(config.programs_off.end(), options_.programs_off.begin(),
                             options_.programs_off.end());
  // After the fork: a launched command keeps the CPUs it was given.
  keep_away_from(pids);
  open_ns_ = clock_ns(CLOCK_MONOTONIC);
  Result<std::unique_ptr<capture::Session>> session = capture::Session::open(config);
  if (!session.ok()) return session.error();
  session_ = std::move(*session);
  log_line(fmt::format("attached in {:.0f} ms", session_->attach_ms()));
  if (plan->old_reads) {
    log_line(
        "this kernel lacks sk_data_ready or sock_recv_length (since 6.3): the time from the stack "
        "to the socket is part of socket_queue");
  }

  begin_ns_ = clock_ns(CLOCK_MONOTONIC);
  cpu_begin_ns_ = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  steal_begin_ns_ = steal_now_ns();
  if (command_ != nullptr) {
    Status released = command_->release();
    if (!released.ok()) return released;
  }
  return adopt();
}

Status TraceRun::adopt() {
  Result<std::vector<capture::SocketInfo>> sockets = session_->adopt_sockets();
  if (!sockets.ok()) return sockets.error();
  add_sockets(context_, *sockets);
  if (command_ != nullptr) refresh_process(context_, command_->pid());
  return Done{};
}

/// Groups come and go: one that is not known yet is looked for, but not more often than that.
void TraceRun::name_group(std::uint64_t id) {
  if (id == 0 || (id & WL_AUTOGROUP) != 0 || context_.cgroups.count(id) != 0) return;
  const std::uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
  if (now_ns < next_groups_ns_) return;
  next_groups_ns_ = now_ns + kGroupsEveryNs;
  context_.cgroups.merge(host::read_cgroups(""));
}

void TraceRun::take(std::span<const std::byte> bytes) {
  const std::uint64_t run_ns = clock_ns(CLOCK_MONOTONIC) - open_ns_;
  Result<Request> request = read_request(bytes, run_ns, collector_.self_test());
  if (!request.ok()) return;  // counted, and shown in the report
  for (const wl_occupant& occupant : request->occupants) name_group(occupant.cgroup);
  collector_.add(*request);
  if (options_.format != Format::kJsonLines) return;
  const std::optional<std::uint64_t> median_ns =
      options_.slower_than_ns == 0 ? collector_.median_ns() : std::nullopt;
  const std::optional<Verdict> verdict = diagnose(*request, context_, median_ns);
  output_.add(dump_json_line(request_to_json(*request, context_, verdict)) + "\n");
}

Result<bool> TraceRun::drain_turn() {
  const std::uint64_t turn_end_ns = clock_ns(CLOCK_MONOTONIC) + turn_ns_;
  const Result<bool> emptied = session_->drain([&](std::span<const std::byte> bytes) {
    take(bytes);
    return clock_ns(CLOCK_MONOTONIC) < turn_end_ns;
  });
  if (!emptied.ok()) return emptied.error();
  turn_ns_ = *emptied ? kTurnNs : std::min(turn_ns_ * 2, kLongestTurnNs);
  Status flushed = output_.flush();
  if (!flushed.ok()) return flushed.error();
  return *emptied;
}

Status TraceRun::drain_all() {
  while (true) {
    const Result<bool> emptied = drain_turn();
    if (!emptied.ok()) return emptied.error();
    if (*emptied) return Done{};
  }
}

bool TraceRun::is_over(std::uint64_t now_ns) {
  if (stop_requested() || output_.reader_gone()) return true;
  if (options_.duration_ns && now_ns - begin_ns_ >= *options_.duration_ns) return true;
  if (session_->target_gone() || (command_ != nullptr && command_->exit_code())) {
    target_gone_ = true;
    return true;
  }
  if (!options_.count) return false;
  if (options_.slower_than_ns == 0 && collector_.records() >= *options_.count) return true;
  // Not every request has a record (--slower-than, a full ring), but the totals have them all.
  if (now_ns < next_count_ns_) return false;
  next_count_ns_ = now_ns + kCountEveryNs;
  const Result<capture::Totals> totals = session_->totals();
  if (!totals.ok()) return false;
  const wl_counters& counters = totals->counters;
  return counters.complete + counters.incomplete + counters.no_reply >= *options_.count;
}

Status TraceRun::follow() {
  std::uint64_t next_adopt_ns = begin_ns_;
  bool emptied = true;
  while (true) {
    std::uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (is_over(now_ns)) return Done{};
    if (now_ns >= next_adopt_ns) {
      const bool starting = command_ != nullptr && now_ns - begin_ns_ < kStartNs;
      next_adopt_ns = now_ns + (starting ? kAdoptEveryAtStartNs : kAdoptEveryNs);
      Status adopted = adopt();
      if (!adopted.ok()) return adopted;
    }
    std::uint64_t wait_ns = emptied ? kDrainEveryNs : kPauseNs;
    now_ns = clock_ns(CLOCK_MONOTONIC);
    if (options_.duration_ns) {
      const std::uint64_t end_ns = begin_ns_ + *options_.duration_ns;
      wait_ns = std::min(wait_ns, end_ns > now_ns ? end_ns - now_ns : 0);
    }
    if (!stop_requested()) sleep_ns(wait_ns);
    const Result<bool> drained = drain_turn();
    if (!drained.ok()) return drained.error();
    emptied = *drained;
    output_.look_for_reader();
  }
}

void TraceRun::explain_silence() {
  for (const pid_t pid : context_.pids) {
    const std::optional<std::string> other = other_stack(pid);
    if (other) log_line(*other);
  }
}

Result<int> TraceRun::report() {
  const Result<capture::Totals> totals = session_->totals();
  if (!totals.ok()) return totals.error();
  for (const capture::BlameTotal& row : totals->blame) name_group(row.value.cgroup);
  const Summary summary = build_summary(*totals, collector_, context_);
  switch (options_.format) {
    case Format::kText:
      output_.add(summary_to_text(summary));
      break;
    case Format::kJson:
      output_.add(dump_json_pretty(summary_to_json(summary)) + "\n");
      break;
    case Format::kJsonLines:
      output_.add(dump_json_line(summary_to_json(summary)) + "\n");
      break;
  }
  Status written = output_.close();
  if (!written.ok()) return written.error();
  if (summary.observed == 0 && !target_gone_) explain_silence();
  // The text says so itself; a file of lines hides it in the last one.
  if (options_.format != Format::kText && !summary.is_whole) {
    log_line("INCOMPLETE: the report lacks something: \"lost\" in the summary says what");
  }
  if (target_gone_) {
    log_line(fmt::format("target exited after {}", format_seconds(context_.duration_ns)));
    if (command_ != nullptr) {
      const int code = command_->exit_code().value_or(0);
      if (code != 0) return code;
    }
    if (summary.observed == 0) return static_cast<int>(ExitCode::kFinding);
  }
  return static_cast<int>(ExitCode::kDone);
}

Result<int> TraceRun::run() {
  Status attached = attach();
  if (!attached.ok()) return attached.error();
  const Status followed = follow();
  const std::uint64_t end_ns = clock_ns(CLOCK_MONOTONIC);
  context_.own_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_begin_ns_;
  context_.duration_ns = end_ns - begin_ns_;
  session_->detach();
  if (!followed.ok()) return followed.error();
  if (const std::optional<std::uint64_t> steal_ns = steal_now_ns(); steal_ns && steal_begin_ns_) {
    context_.steal_ns = *steal_ns - std::min(*steal_ns, *steal_begin_ns_);
  }
  Status drained = drain_all();
  if (!drained.ok()) return drained.error();
  // Nobody reads the report either.
  if (output_.reader_gone()) return static_cast<int>(ExitCode::kDone);
  return report();
}

}  // namespace

int run_trace(const TraceOptions& options) {
  handle_signals();
  Result<Output> output =
      options.output_file ? Output::to_file(*options.output_file) : Result(Output::to_stdout());
  if (!output.ok()) return fail(output.error());
  TraceRun run(options, std::move(*output));
  Result<int> code = run.run();
  // Without a socket whose requests could be told apart: AF_XDP can be followed another way.
  if (!code.ok() && code.error().code == ExitCode::kUnsupported) {
    if (const std::optional<stack::StackReport> target = af_xdp_target(options)) {
      Result<Output> again =
          options.output_file ? Output::to_file(*options.output_file) : Result(Output::to_stdout());
      if (!again.ok()) return fail(again.error());
      code = run_xsk_trace(options, *target, std::move(*again));
    }
  }
  return code.ok() ? *code : fail(code.error());
}

}  // namespace whylate::cli
