// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/xsk.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "request/histogram_view.h"

namespace whylate {
namespace {

struct StageText {
  const char* name;
  const char* meaning;
  XskPer per;
};

constexpr StageText kStages[] = {
    {"hard_irq", "the device's interrupt handler, until it raises the softirq", XskPer::kPacket},
    {"softirq_wait", "raised until the softirq runs", XskPer::kPacket},
    {"redirect", "the softirq runs until XDP redirects the packet", XskPer::kPacket},
    {"wake", "first redirect of the round until a thread is woken", XskPer::kWake},
    {"run_queue", "woken until it runs", XskPer::kWake},
    {"user", "it runs until its next transmit call", XskPer::kWake},
    {"transmit", "the transmit call", XskPer::kCall},
};
static_assert(std::size(kStages) == WL_XSK_NR_STAGES);

std::string why_not(const XskSummary& summary, bool generic, wl_xsk_stage stage) {
  if (summary.redirected == 0 && stage < WL_XSK_TRANSMIT) return "no packet was redirected";
  const bool only_polled = summary.polled == summary.redirected;
  if (stage == WL_XSK_WAKE && generic && summary.wakes > 0) {
    return "in generic mode the packet wakes the thread within its redirect";
  }
  switch (stage) {
    case WL_XSK_HARD_IRQ:
      return only_polled ? "a thread polled the device: no interrupt brought the packets"
                         : "no device's interrupt raised the softirq: a virtual device, or a "
                           "packet of this host";
    case WL_XSK_SOFTIRQ_WAIT:
    case WL_XSK_REDIRECT:
      return "a thread polled the device: no softirq brought the packets";
    case WL_XSK_WAKE:
    case WL_XSK_RUN_QUEUE:
      return "no thread was woken: they were awake, polling the rings";
    case WL_XSK_USER:
      return summary.wakes == 0 ? "no thread was woken: when one looks into a ring is not seen"
                                : "no thread that was woken made a transmit call";
    default:
      return "no transmit call was made: nothing was sent, or the driver takes frames by itself";
  }
}

/// What the rings moved by, over the sockets that were there all along.
void add_frames(const XskReading& reading, XskSummary& summary) {
  std::map<std::uint64_t, const wl_xsk_line*> old;
  for (const wl_xsk_line& line : reading.before) old[line.inode] = &line;
  for (const wl_xsk_line& line : reading.after) {
    const auto before = old.find(line.inode);
    if (before == old.end()) continue;
    const auto growth = [](std::uint64_t from, std::uint64_t to) {
      return std::uint64_t{static_cast<std::uint32_t>(to - from)};  // 32 bits in the kernel
    };
    summary.rx_frames =
        summary.rx_frames.value_or(0) + growth(before->second->rx_frames, line.rx_frames);
    summary.tx_frames =
        summary.tx_frames.value_or(0) + growth(before->second->tx_frames, line.tx_frames);
    if (line.rx_ring_full > before->second->rx_ring_full) {
      summary.ring_full += line.rx_ring_full - before->second->rx_ring_full;
    }
    old.erase(before);  // a second descriptor of the same socket
  }
}

void add_notes(const XskReading& reading, XskSummary& summary) {
  auto& notes = summary.notes;
  notes.push_back(
      "what happens between the redirect and the transmit call is done in user space, by rings in "
      "memory: no event of the kernel tells which reply belongs to which packet");
  if (summary.awake + summary.polled > 0) {
    notes.push_back(fmt::format(
        "{} of {} packets found a thread awake: when it looked into the ring is not seen",
        summary.awake + summary.polled, summary.redirected));
  }
  if (summary.failed > 0) {
    notes.push_back(
        fmt::format("{} packets were lost at the socket: its receive or fill ring had no room",
                    summary.failed));
  }
  if (reading.sockets_lost) {
    notes.push_back(fmt::format("only the first {} sockets are counted", WL_XSK_MAX_SOCKETS));
  }
}

}  // namespace

XskSummary summarise_xsk(const XskReading& reading, XskTarget target) {
  const wl_xsk_totals& totals = *reading.totals;
  XskSummary summary;
  summary.target = std::move(target);
  summary.duration_ns = reading.duration_ns;
  summary.redirected = totals.redirected;
  summary.failed = totals.failed;
  summary.woke = totals.woke;
  summary.awake = totals.awake;
  summary.polled = totals.polled;
  summary.wakes = totals.wakes;
  summary.transmit_calls = totals.send_calls;
  summary.lost = totals.lost;
  summary.recursion_misses = reading.recursion_misses;
  add_frames(reading, summary);
  for (int i = 0; i < WL_XSK_NR_STAGES; ++i) {
    XskStage& stage = summary.stages[static_cast<std::size_t>(i)];
    stage.name = kStages[i].name;
    stage.meaning = kStages[i].meaning;
    stage.per = kStages[i].per;
    stage.count = totals.count[i];
    stage.total_ns = totals.total_ns[i];
    if (stage.count == 0) {
      stage.why_not = why_not(summary, reading.generic, static_cast<wl_xsk_stage>(i));
      continue;
    }
    const HistogramView view(totals.hist[i], stage.count, totals.max_ns[i]);
    stage.p50_ns = view.percentile_ns(1, 2);
    stage.p99_ns = view.percentile_ns(99, 100);
    stage.max_ns = totals.max_ns[i];
  }
  add_notes(reading, summary);
  return summary;
}

const char* name(XskPer per) {
  switch (per) {
    case XskPer::kPacket:
      return "packet";
    case XskPer::kWake:
      return "wake";
    case XskPer::kCall:
      break;
  }
  return "call";
}

}  // namespace whylate
