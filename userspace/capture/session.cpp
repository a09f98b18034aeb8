// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/session.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/escape.h"
#include "capture/adopt.h"
#include "capture/features.h"
#include "capture/privileges.h"
#include "capture/totals.h"
#include "whylate.skel.h"

namespace whylate::capture {
namespace {

std::uint64_t monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(t.tv_nsec);
}

/// libbpf's own messages of the attempt in progress; shown only when the attempt fails.
std::string libbpf_log;  // NOLINT(cert-err58-cpp)

int keep_log(libbpf_print_level level, const char* format, va_list args) {
  if (level == LIBBPF_DEBUG) return 0;
  char line[1024];
  vsnprintf(line, sizeof line, format, args);
  if (libbpf_log.size() >= 256 * 1024) return 0;
  libbpf_log += line;
  // A verifier log is cut above, and what comes next must not be glued to it.
  if (libbpf_log.back() != '\n') libbpf_log += '\n';
  return 0;
}

/// The last line of a verifier log that says something, for a one-line message.
std::string last_words(const std::string& log) {
  std::string best;
  std::size_t at = 0;
  while (at < log.size()) {
    std::size_t end = log.find('\n', at);
    if (end == std::string::npos) end = log.size();
    std::string line = log.substr(at, end - at);
    if (line.find("failed to load") != std::string::npos &&
        line.find("prog '") != std::string::npos)
      best = line;
    at = end + 1;
  }
  const std::string prefix = "libbpf: ";
  const std::size_t begin = best.rfind(prefix);
  return begin == std::string::npos ? best : best.substr(begin + prefix.size());
}

struct SkeletonDeleter {
  void operator()(whylate_bpf* s) const { whylate_bpf::destroy(s); }
};
using Skeleton = std::unique_ptr<whylate_bpf, SkeletonDeleter>;

Error load_error(const char* what, int error) {
  if (error == EPERM || error == EACCES) {
    const Status allowed = check_privileges(read_privileges(""));
    if (!allowed) return allowed.error();
  }
  const std::string detail = last_words(libbpf_log);
  return Error{ExitCode::kUnsupported,
               fmt::format("cannot {} the BPF programs: {}{}{}", what, std::strerror(error),
                           detail.empty() ? "" : ": ", detail)};
}

/// Sockets seen in a run, closed ones included, and datagrams that wait for a reader.
constexpr __u32 kOldSockets = 4096;
constexpr __u32 kOldPackets = 16384;

/// Opens the skeleton and sets everything that must be set before the load.
Result<Skeleton> open_skeleton(const Config& config, bool id_any_part) {
  Skeleton skel(whylate_bpf::open());
  if (!skel) return load_error("open", errno);
  const int cpus = libbpf_num_possible_cpus();
  if (cpus < 1) return Error{ExitCode::kUnsupported, "cannot read the number of possible CPUs"};
  bpf_map__set_max_entries(skel->maps.wl_cpus, static_cast<__u32>(cpus));
  bpf_map__set_max_entries(skel->maps.wl_aggregates, static_cast<__u32>(cpus));
  bpf_map__set_max_entries(skel->maps.wl_threads, config.thread_slots);
  bpf_map__set_max_entries(skel->maps.wl_thread_slots, config.thread_slots);
  bpf_map__set_max_entries(skel->maps.wl_udp_states, config.udp_slots);
  bpf_map__set_max_entries(skel->maps.wl_records, config.ring_bytes);
  if (config.old_reads) {
    bpf_map__set_max_entries(skel->maps.wl_old_sockets, kOldSockets);
    bpf_map__set_max_entries(skel->maps.wl_old_packets, kOldPackets);
  }
  const auto off = [&](const char* name) {
    return std::find(config.programs_off.begin(), config.programs_off.end(), name) !=
           config.programs_off.end();
  };
  auto* rodata = skel->rodata;
  rodata->wl_cfg_port = config.port.value_or(0);
  rodata->wl_cfg_proto = config.proto.value_or(0);
  rodata->wl_cfg_slower_than_ns = config.slower_than_ns;
  rodata->wl_cfg_id_offset = config.id_offset.value_or(0);
  rodata->wl_cfg_id_bytes = config.id_offset ? config.id_bytes : 0;
  rodata->wl_cfg_count = config.count;
  rodata->wl_cfg_syscalls = config.syscalls;
  rodata->wl_cfg_old_reads = config.old_reads;
  rodata->wl_cfg_preemptible = config.preemptible;
  rodata->wl_cfg_idle_hook = !off("wl_cpu_idle");
  rodata->wl_cfg_only_idle_state = static_cast<wl_s8>(config.fixed_idle_state.value_or(-1));
  skel->bss->wl_max_slots = config.thread_slots;
  for (const std::string& name : config.programs_off) {
    if (bpf_object__find_program_by_name(skel->obj, name.c_str()) == nullptr)
      return Error{ExitCode::kUsage, fmt::format("the tracer has no program '{}'", escape(name))};
  }
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skel->obj) {
    const std::string_view name = bpf_program__name(program);
    const bool old = name.substr(0, 7) == "wl_old_";
    if (off(bpf_program__name(program)) || (old && !config.old_reads))
      bpf_program__set_autoload(program, false);
  }
  if (id_any_part) {
    bpf_program__set_autoload(skel->progs.wl_netif_receive_skb, false);
    bpf_program__set_autoload(skel->progs.wl_netif_receive_skb_id, true);
  }
  return skel;
}

/// Reading a request number outside the linear part needs a kfunc (6.11); without it only TCP over
/// loopback loses its numbers.
Result<Skeleton> load_skeleton(const Config& config) {
  for (const bool any_part : {true, false}) {
    if (any_part && (!config.id_offset || config.old_reads)) continue;
    Result<Skeleton> skel = open_skeleton(config, any_part);
    if (!skel) return skel;
    libbpf_log.clear();
    const int rc = whylate_bpf::load(skel->get());
    if (rc == 0) return skel;
    if (!any_part) return load_error("load", -rc);
  }
  return Error{ExitCode::kRuntimeError, "unreachable"};
}

bool ends_with(const char* name, const char* suffix) {
  const std::string_view n(name), s(suffix);
  return n.size() >= s.size() && n.substr(n.size() - s.size()) == s;
}

/// What one call of an almost empty program costs: ignored signals to ourselves with and without
/// it, the fastest of many short rounds each, since this machine may be busy.
double measure_call_ns(whylate_bpf* skel) {
  constexpr int kRounds = 24;
  constexpr int kSignals = 100;
  const auto fastest = [] {
    double best = 1e9;
    for (int r = 0; r < kRounds; r++) {
      const std::uint64_t begin = monotonic_ns();
      for (int i = 0; i < kSignals; i++) kill(getpid(), SIGURG);
      best = std::min(best, static_cast<double>(monotonic_ns() - begin) / kSignals);
    }
    return best;
  };
  const auto old = signal(SIGURG, SIG_IGN);
  double without = fastest();
  double with = 0;
  bpf_link* link = bpf_program__attach(skel->progs.wl_calibrate);
  if (link != nullptr) {
    with = fastest();
    bpf_link__destroy(link);
    without = std::min(without, fastest());
  }
  signal(SIGURG, old);
  return std::max(0.0, with - without);
}

}  // namespace

struct Session::Impl {
  Config config;
  Skeleton skel;
  std::vector<bpf_link*> links;
  std::vector<std::pair<pid_t, __u32>> watched;  // as seen from here, as the kernel numbers them
  ring_buffer* ring = nullptr;
  std::function<bool(std::span<const std::byte>)> sink;
  double attach_ms = 0;
  double call_ns = 0;

  ~Impl() {
    detach();
    if (ring != nullptr) ring_buffer__free(ring);
  }

  void detach() {
    if (skel) *static_cast<volatile wl_u32*>(&skel->bss->wl_stopped) = 1;
    for (bpf_link* link : links) bpf_link__destroy(link);
    links.clear();
  }

  /// Hooks that end an interval go in first, so that no interval is opened and never closed.
  Status attach() {
    for (const bool ends : {true, false}) {
      bpf_program* program = nullptr;
      bpf_object__for_each_program(program, skel->obj) {
        const char* name = bpf_program__name(program);
        if (!bpf_program__autoload(program) ||
            bpf_program__type(program) != BPF_PROG_TYPE_TRACING ||
            bpf_program__expected_attach_type(program) == BPF_TRACE_ITER ||
            program == skel->progs.wl_calibrate)
          continue;
        if ((ends_with(name, "_exit") && !ends_with(name, "wl_exit")) != ends) continue;
        bpf_link* link = bpf_program__attach(program);
        if (link == nullptr)
          return Error{ExitCode::kUnsupported,
                       fmt::format("cannot attach {}: {}", name, std::strerror(errno))};
        links.push_back(link);
      }
    }
    return Done{};
  }

  Status watch(pid_t pid) {
    skel->bss->wl_adopt_pass = 0;
    const auto found = run_iterator(skel->progs.wl_adopt_threads, pid);
    __u32 tgid = static_cast<__u32>(pid);
    if (found && found->size() >= sizeof tgid) std::memcpy(&tgid, found->data(), sizeof tgid);
    watched.emplace_back(pid, tgid);
    const __u32 one = 1;
    if (bpf_map_update_elem(bpf_map__fd(skel->maps.wl_targets), &tgid, &one, BPF_NOEXIST) != 0) {
      if (errno == EEXIST) return Done{};
      return Error{ExitCode::kRuntimeError,
                   fmt::format("cannot watch process {}: {}", pid, std::strerror(errno))};
    }
    skel->bss->wl_tgid_filter[tgid & 4095u] = 1;
    __sync_fetch_and_add(&skel->bss->wl_target_count, 1);
    return Done{};
  }

  /// Lets go of those that ended before the hook that sees it was in.
  void drop_ended() {
    if (!config.still_there) return;
    for (const auto& [pid, tgid] : watched) {
      if (config.still_there(pid)) continue;
      if (bpf_map_delete_elem(bpf_map__fd(skel->maps.wl_targets), &tgid) != 0) continue;
      __sync_fetch_and_sub(&skel->bss->wl_target_count, 1);
    }
  }

  /// Gives every thread of the watched processes its state.
  Status adopt_threads() {
    skel->bss->wl_adopt_pass = 2;
    const auto done = run_iterator(skel->progs.wl_adopt_threads, std::nullopt);
    if (!done) return done.error();
    return Done{};
  }

  Result<std::vector<SocketInfo>> adopt_sockets() {
    std::vector<std::byte> lines;
    skel->bss->wl_adopt_epoch++;
    for (const wl_u32 pass : {1u, 2u}) {
      skel->bss->wl_adopt_pass = pass;
      auto bytes = run_iterator(skel->progs.wl_adopt_sockets, std::nullopt);
      if (!bytes) return bytes.error();
      lines = std::move(*bytes);
    }
    return parse_socket_lines(lines);
  }
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::open(const Config& config) {
  const std::uint64_t begin = monotonic_ns();
  libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
  libbpf_set_print(keep_log);
  auto impl = std::make_unique<Impl>();
  impl->config = config;
  Result<Skeleton> skel = load_skeleton(config);
  if (!skel) return skel.error();
  impl->skel = std::move(*skel);
  for (const pid_t tgid : config.tgids) {
    if (Status watched = impl->watch(tgid); !watched) return watched.error();
  }
  if (Status attached = impl->attach(); !attached) return attached.error();
  impl->drop_ended();
  if (Status adopted = impl->adopt_threads(); !adopted) return adopted.error();
  if (auto adopted = impl->adopt_sockets(); !adopted) return adopted.error();
  impl->ring = ring_buffer__new(
      bpf_map__fd(impl->skel->maps.wl_records),
      [](void* context, void* data, std::size_t size) {
        const bool go_on =
            static_cast<Impl*>(context)->sink({static_cast<const std::byte*>(data), size});
        return go_on ? 0 : -ECANCELED;  // the record itself counts as read
      },
      impl.get(), nullptr);
  if (impl->ring == nullptr)
    return Error{ExitCode::kRuntimeError,
                 fmt::format("cannot map the record ring: {}", std::strerror(errno))};
  impl->attach_ms = static_cast<double>(monotonic_ns() - begin) / 1e6;
  impl->call_ns = measure_call_ns(impl->skel.get());
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Result<std::vector<SocketInfo>> Session::adopt_sockets() { return impl_->adopt_sockets(); }

Result<bool> Session::drain(const std::function<bool(std::span<const std::byte>)>& sink) {
  impl_->sink = sink;
  const int rc = ring_buffer__consume(impl_->ring);
  impl_->sink = nullptr;
  if (rc == -ECANCELED) return false;
  if (rc < 0)
    return Error{ExitCode::kRuntimeError,
                 fmt::format("cannot read the record ring: {}", std::strerror(-rc))};
  return true;
}

Status Session::watch(pid_t tgid) {
  if (Status watched = impl_->watch(tgid); !watched) return watched;
  return impl_->adopt_threads();
}

bool Session::target_gone() const {
  return *static_cast<volatile wl_u64*>(&impl_->skel->bss->wl_target_count) == 0;
}

double Session::attach_ms() const { return impl_->attach_ms; }

void Session::detach() { impl_->detach(); }

Result<Totals> Session::totals() const { return read_totals(*impl_->skel, impl_->call_ns); }

Result<std::vector<SocketInfo>> list_sockets(std::optional<pid_t> tgid) {
  libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
  libbpf_set_print(keep_log);
  Skeleton skel(whylate_bpf::open());
  if (!skel) return load_error("open", errno);
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skel->obj) {
    bpf_program__set_autoload(program, program == skel->progs.wl_adopt_sockets);
  }
  libbpf_log.clear();
  if (const int rc = whylate_bpf::load(skel.get()); rc != 0) return load_error("load", -rc);
  auto bytes = run_iterator(skel->progs.wl_adopt_sockets, tgid);
  if (!bytes) return bytes.error();
  return parse_socket_lines(*bytes);
}

}  // namespace whylate::capture
