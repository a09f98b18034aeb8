// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "request/names.h"

#include <array>
#include <cstddef>

namespace whylate {
namespace {

template <std::size_t kSize>
std::string_view pick(const std::array<std::string_view, kSize>& names, std::size_t index) {
  return index < kSize && !names[index].empty() ? names[index] : std::string_view("unknown");
}

constexpr std::array<std::string_view, 6> kOrigins = {"none", "irq",       "netif_rx",
                                                      "napi", "busy_poll", "socket"};

constexpr std::array<std::string_view, 6> kModes = {"unknown",       "inline",    "ksoftirqd",
                                                    "threaded_napi", "busy_poll", "process"};

constexpr std::array<std::string_view, 10> kKinds = {
    "", "task", "irq", "softirq", "idle", "quota", "unknown", "timer", "ipi", "irq_work"};

constexpr std::array<std::string_view, 8> kPolicies = {"SCHED_OTHER",    "SCHED_FIFO", "SCHED_RR",
                                                       "SCHED_BATCH",    "",           "SCHED_IDLE",
                                                       "SCHED_DEADLINE", "SCHED_EXT"};

constexpr std::array<std::string_view, 9> kHolds = {"none", "tcp",         "nagle", "cork",  "cwnd",
                                                    "rwnd", "zero_window", "tsq",   "pacing"};

constexpr std::array<std::string_view, 5> kStops = {"none", "signal", "tracer", "freezer",
                                                    "freezer_asleep"};

constexpr std::array<std::string_view, WL_NR_LOST> kLost = {
    "ring_full", "blame_full", "thread_slots", "socket_storage",
    "udp_queue", "tcp_queue",  "torn",         "tx_pending"};

constexpr std::array<std::string_view, WL_NR_LOST> kLostText = {
    "details of requests dropped, the ring was full (all figures but the slowest are whole)",
    "blame booked as not named, too many different tasks",
    "requests of threads beyond the thread slots",
    "packets of sockets without memory for their state",
    "packets of UDP queues longer than the tracer keeps",
    "TCP segments beyond what the tracer keeps per socket",
    "packet entries that changed while they were read",
    "replies that waited in a queue, beyond the slots for them or not reported to leave it"};

constexpr std::array<std::string_view, WL_NR_UNMATCHED> kUnmatched = {
    "unsynced",       "no_segment",     "new_socket", "handed_over",
    "cancelled_debt", "outside_reader", "dropped",    "peek"};

constexpr std::array<std::string_view, WL_NR_UNMATCHED> kUnmatchedText = {
    "reads while the socket's queue was older than the attach",
    "reads of TCP data that arrived before the attach or with the SYN",
    "first reads of sockets opened after the attach",
    "packets handed over to another CPU",
    "reads whose packet was never announced",
    "reads by a process outside the target",
    "packets for the target dropped by the stack",
    "peeking reads, ignored"};

constexpr std::array<std::string_view, 32> kQuality = {"no_arrival",
                                                       "debt_unpaid",
                                                       "no_thread",
                                                       "no_reply",
                                                       "cold",
                                                       "shared_socket",
                                                       "clamped",
                                                       "polled",
                                                       "first_byte_unknown",
                                                       "multi_read",
                                                       "other_socket",
                                                       "other_context",
                                                       "not_named",
                                                       "quota_spell",
                                                       "irq_cpu_idle",
                                                       "debt_paid",
                                                       "multicast",
                                                       "no_id",
                                                       "order_unsure",
                                                       "lost_switch",
                                                       "batched",
                                                       "via_thread",
                                                       "",
                                                       "",
                                                       "squeezed",
                                                       "rt_throttled",
                                                       "hop"};

}  // namespace

std::string_view origin_name(std::uint8_t origin) { return pick(kOrigins, origin); }
std::string_view softirq_mode_name(std::uint8_t mode) { return pick(kModes, mode); }
std::string_view occupant_kind_name(std::uint8_t kind) { return pick(kKinds, kind); }
std::string_view policy_name(std::uint8_t policy) { return pick(kPolicies, policy); }
std::string_view hold_name(std::uint8_t hold) { return pick(kHolds, hold); }
std::string_view stop_name(std::uint8_t kind) { return pick(kStops, kind); }
std::string_view lost_name(wl_lost lost) { return pick(kLost, lost); }
std::string_view lost_text(wl_lost lost) { return pick(kLostText, lost); }
std::string_view unmatched_name(wl_unmatched reason) { return pick(kUnmatched, reason); }
std::string_view unmatched_text(wl_unmatched reason) { return pick(kUnmatchedText, reason); }

std::string_view proto_name(std::uint8_t proto) {
  if (proto == WL_PROTO_TCP) return "tcp";
  if (proto == WL_PROTO_UDP) return "udp";
  return "unknown";
}

std::vector<std::string> quality_names(std::uint32_t quality) {
  std::vector<std::string> names;
  for (std::size_t bit = 0; bit < 32; ++bit) {
    if ((quality >> bit & 1u) != 0) names.emplace_back(pick(kQuality, bit));
  }
  return names;
}

}  // namespace whylate
