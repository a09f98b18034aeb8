// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/totals.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "whylate.skel.h"

namespace whylate::capture {
namespace {

void add(wl_counters& to, const wl_counters& from) {
  static_assert(sizeof(wl_counters) % sizeof(wl_u64) == 0);
  auto* t = reinterpret_cast<wl_u64*>(&to);
  const auto* f = reinterpret_cast<const wl_u64*>(&from);
  for (std::size_t i = 0; i < sizeof(wl_counters) / sizeof(wl_u64); i++) t[i] += f[i];
}

void add(wl_aggregate& to, const wl_aggregate& from) {
  to.total_ns += from.total_ns;
  to.max_total_ns = std::max(to.max_total_ns, from.max_total_ns);
  to.max_total_warm_ns = std::max(to.max_total_warm_ns, from.max_total_warm_ns);
  for (int i = 0; i < WL_NR_STAGES; i++) {
    to.stage_ns[i] += from.stage_ns[i];
    to.stage_max_ns[i] = std::max(to.stage_max_ns[i], from.stage_max_ns[i]);
  }
  for (int i = 0; i < WL_NR_THEFT; i++) to.theft_ns[i] += from.theft_ns[i];
  for (int i = 0; i <= WL_NR_STAGES; i++) {
    for (wl_u32 b = 0; b < WL_HIST_BUCKETS; b++) to.hist[i][b] += from.hist[i][b];
  }
}

Error read_error(const char* what) {
  return Error{ExitCode::kRuntimeError,
               fmt::format("cannot read the {}: {}", what, std::strerror(errno))};
}

}  // namespace

Result<Totals> read_totals(const whylate_bpf& skel, double call_ns) {
  Totals totals;
  totals.call_ns = call_ns;
  std::vector<std::byte> entry(bpf_map__value_size(skel.maps.wl_cpus));
  const auto aggregate = std::make_unique<wl_aggregate>();
  const __u32 cpus = bpf_map__max_entries(skel.maps.wl_cpus);
  for (__u32 cpu = 0; cpu < cpus; cpu++) {
    if (bpf_map_lookup_elem(bpf_map__fd(skel.maps.wl_cpus), &cpu, entry.data()) != 0)
      return read_error("counters");
    wl_counters counters;
    std::memcpy(&counters, entry.data(), sizeof counters);
    add(totals.counters, counters);
    if (bpf_map_lookup_elem(bpf_map__fd(skel.maps.wl_aggregates), &cpu, aggregate.get()) != 0)
      return read_error("aggregates");
    add(totals.aggregate, *aggregate);
  }
  // Their datagram was never signalled, or not yet: counted, as those are that were given up for
  // it.
  totals.counters.unmatched[WL_UNM_CANCELLED_DEBT] +=
      *static_cast<const volatile wl_u64*>(&skel.bss->wl_awaited_total);
  // Replies that entered a queue and were never reported to leave it.
  std::vector<std::byte> parked(bpf_map__value_size(skel.maps.wl_parked_requests));
  const __u32 places = bpf_map__max_entries(skel.maps.wl_parked_requests);
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const auto now_ns = static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
                      static_cast<std::uint64_t>(time.tv_nsec);
  for (__u32 place = 0; place < places; place++) {
    if (bpf_map_lookup_elem(bpf_map__fd(skel.maps.wl_parked_requests), &place, parked.data()) != 0)
      return read_error("waiting replies");
    struct {
      std::uint32_t in_use, awaits_datagram;
      std::uint64_t since_ns;
    } head;
    std::memcpy(&head, parked.data(), sizeof head);
    constexpr std::uint64_t kOverdueNs = 2'000'000'000;
    if (head.in_use == 0 || head.awaits_datagram != 0 || head.since_ns + kOverdueNs > now_ns)
      continue;
    totals.counters.lost[WL_LOST_TX_PENDING]++;
    totals.counters.incomplete++;
  }
  const int blames = bpf_map__fd(skel.maps.wl_blames);
  wl_blame_key key;
  for (int rc = bpf_map_get_next_key(blames, nullptr, &key); rc == 0;
       rc = bpf_map_get_next_key(blames, &key, &key)) {
    BlameTotal row{key, {}};
    if (bpf_map_lookup_elem(blames, &key, &row.value) == 0) totals.blame.push_back(row);
  }
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skel.obj) {
    const int fd = bpf_program__fd(program);
    if (fd < 0) continue;
    // Skipped only in an interrupt on top of a reader; there it would only forget packets that
    // nobody here reads (wl_old_consume).
    if (std::strcmp(bpf_program__name(program), "wl_old_consume_skb") == 0) continue;
    bpf_prog_info info{};
    __u32 length = sizeof info;
    if (bpf_obj_get_info_by_fd(fd, &info, &length) == 0)
      totals.recursion_misses += info.recursion_misses;
  }
  return totals;
}

}  // namespace whylate::capture
