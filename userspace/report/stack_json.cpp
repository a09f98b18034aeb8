// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/stack_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/escape.h"

namespace whylate {
namespace {

using Json = nlohmann::ordered_json;
using stack::StackReport;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json direction_json(const stack::Direction& direction) {
  return {{"stack", traits(direction.stack).name},
          {"tcpdump", name(direction.tcpdump)},
          {"why", direction.why},
          {"packets", or_null(direction.packets)},
          {"bytes", or_null(direction.bytes)}};
}

Json socket_json(const stack::SocketVerdict& socket) {
  Json evidence = Json::array();
  for (const stack::Fact& fact : socket.evidence) {
    evidence.push_back({{"source", fact.source}, {"fact", fact.text}});
  }
  return {{"fd", or_null(socket.fd)},
          {"count", socket.count},
          {"inode", socket.inode == 0 ? Json(nullptr) : Json(socket.inode)},
          {"kind", socket.kind},
          {"stack", traits(socket.stack).name},
          {"confidence", name(socket.confidence)},
          {"fell_back", socket.fell_back},
          {"local", text_or_null(socket.local)},
          {"remote", text_or_null(socket.remote)},
          {"interface", text_or_null(socket.interface)},
          {"detail", text_or_null(socket.detail)},
          {"rx", direction_json(socket.rx)},
          {"tx", direction_json(socket.tx)},
          {"ss", name(socket.ss)},
          {"ss_command", text_or_null(socket.ss_command)},
          {"why_ss", socket.why_ss},
          {"evidence", evidence}};
}

Json traffic_json(const stack::TrafficSummary& traffic) {
  return {{"window_ns", traffic.window_ns},
          {"kernel_rx_packets", or_null(traffic.kernel_rx_packets)},
          {"kernel_tx_packets", or_null(traffic.kernel_tx_packets)},
          {"tap_rx_packets", or_null(traffic.tap_rx_packets)},
          {"tap_tx_packets", or_null(traffic.tap_tx_packets)},
          {"xdp_redirects", or_null(traffic.xdp_redirects)},
          {"xdp_redirects_failed", or_null(traffic.xdp_redirects_failed)},
          {"direct_tx_packets", or_null(traffic.direct_tx_packets)},
          {"nic_rx_packets", or_null(traffic.nic_rx_packets)},
          {"nic_tx_packets", or_null(traffic.nic_tx_packets)}};
}

}  // namespace

Json stack_to_json(const StackReport& report) {
  Json sockets = Json::array();
  for (const stack::SocketVerdict& socket : report.sockets) sockets.push_back(socket_json(socket));
  Json shares = Json::array();
  for (const stack::Share& share : report.shares) {
    shares.push_back({{"stack", traits(share.stack).name},
                      {"sockets", share.sockets},
                      {"packets", share.packets},
                      {"share", or_null(share.share)},
                      {"countable", share.countable}});
  }
  Json findings = Json::array();
  for (const stack::StackFinding& finding : report.findings) {
    findings.push_back(
        {{"id", finding.id}, {"text", finding.text}, {"remedy", text_or_null(finding.remedy)}});
  }
  Json gaps = Json::array();
  for (const stack::Unreadable& gap : report.could_not_read) {
    gaps.push_back({{"source", escape(gap.source)},
                    {"reason", escape(gap.reason)},
                    {"unknown", escape(gap.unknown)}});
  }
  return {{"schema", "whylate.stack/1"},
          {"pid", report.process.pid},
          {"comm", escape(report.process.comm)},
          {"verdict", traits(report.verdict).name},
          {"confidence", name(report.confidence)},
          {"headline", report.headline},
          {"derived_from_source", report.derived_from_source},
          {"fell_back", or_null(report.fell_back)},
          {"fell_back_why", text_or_null(report.fell_back_why)},
          {"shares", shares},
          {"sockets", sockets},
          {"unix_sockets", report.unix_sockets},
          {"other_sockets", report.other_sockets},
          {"traffic", traffic_json(report.traffic)},
          {"tcpdump",
           {{"rx", name(report.tcpdump_rx)},
            {"tx", name(report.tcpdump_tx)},
            {"why", report.tcpdump_why}}},
          {"ss",
           {{"lists", report.ss_listed}, {"commands", report.ss_commands}, {"why", report.ss_why}}},
          {"use_instead", report.use_instead},
          {"findings", findings},
          {"could_not_read", gaps},
          {"collect_ns", report.collect_ns}};
}

}  // namespace whylate
