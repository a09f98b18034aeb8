// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include "base/duration.h"
#include "base/escape.h"
#include "diagnose/blame.h"
#include "diagnose/culprits.h"
#include "request/names.h"

namespace whylate {
namespace {

/// What TCP says about a reply that it kept.
Finding blame_hold(const wl_request& record) {
  switch (record.tx_hold) {
    case WL_HOLD_NONE:
      return {"below TCP",
              "TCP had passed the reply on, but no device had got it (address resolution, or a "
              "queue below).",
              "Look at the neighbour table and at the outgoing device's queue."};
    case WL_HOLD_NAGLE:
      return {"Nagle",
              "TCP held the small reply until the client acknowledged the one before (Nagle).",
              "Set TCP_NODELAY on the connection."};
    case WL_HOLD_CORK:
      return {"cork", "the reply was sent under TCP_CORK or MSG_MORE and waited for more.",
              "Uncork when the reply is complete."};
    case WL_HOLD_CWND:
      return {"congestion window", "the congestion window was full with unacknowledged data.",
              "Look for losses and a long round trip (ss -ti); raise the initial window."};
    case WL_HOLD_RWND:
      return {"receive window", "the client's receive window had no room for the reply.",
              "The client reads too slowly, or its receive buffer is too small."};
    case WL_HOLD_ZERO_WINDOW:
      return {"zero window", "the client had closed its receive window.",
              "The client reads too slowly, or its receive buffer is too small."};
    case WL_HOLD_TSQ:
      return {"TCP small queues",
              "TCP held the reply because earlier segments were still in the device's queue (TSQ).",
              "Look at the device's rate and backlog (tc -s qdisc) and at late transmit "
              "completions."};
    case WL_HOLD_PACING:
      return {"TCP pacing", "TCP's own pacing had the reply wait for its time to leave.",
              "Look at the pacing rate (ss -ti) and the congestion control (bbr paces)."};
    default:
      return {"TCP", "TCP held the reply; the socket does not say why.",
              "Look at the connection (ss -ti)."};
  }
}

}  // namespace

Finding blame_tx(const Request& request, const RunContext& context) {
  const wl_request& record = request.record;
  if (record.tx_held_ns > record.stage_ns[WL_STAGE_TX_QUEUE] / 2) {
    Finding finding = blame_hold(record);
    if (record.tx_held_ns < record.stage_ns[WL_STAGE_TX_QUEUE]) {
      finding.what += fmt::format(" That is {} of it.",
                                  percent(record.tx_held_ns, record.stage_ns[WL_STAGE_TX_QUEUE]));
    }
    return finding;
  }
  std::string backlog;
  if (record.tx_backlog != WL_NO_BACKLOG && record.tx_backlog > 0) {
    backlog =
        fmt::format(" behind {} packet{}", record.tx_backlog, record.tx_backlog == 1 ? "" : "s");
  }
  const auto it = context.devices.find(record.ifindex);
  std::string qdisc = escape_field(record.tx_qdisc);
  if (qdisc.empty() && it != context.devices.end()) qdisc = escape(it->second.qdisc);
  if (qdisc.empty()) qdisc = "queueing discipline";
  if (it == context.devices.end()) {
    return {qdisc == "queueing discipline" ? "transmit queue" : fmt::format("qdisc {}", qdisc),
            fmt::format("the reply waited in a {}{}.", qdisc, backlog),
            "Look at the qdisc of the outgoing device (tc -s qdisc)."};
  }
  const std::string device = escape(it->second.name);
  return {fmt::format("qdisc {} on {}", qdisc, device),
          fmt::format("the reply waited in {} of {}{}.", qdisc, device, backlog),
          fmt::format("Look at its rate and backlog (tc -s qdisc show dev {}).", device)};
}

}  // namespace whylate
