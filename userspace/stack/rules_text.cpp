// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <algorithm>

#include "base/escape.h"
#include "stack/rules.h"

namespace whylate::stack {

bool Subject::is_inet() const {
  if (object != ObjectKind::kSocket) return false;
  static constexpr const char* kInet[] = {"tcp",  "udp",  "udplite", "raw",
                                          "ping", "sctp", "dccp",    "mptcp"};
  return std::any_of(std::begin(kInet), std::end(kInet),
                     [this](const char* known) { return protocol == known; });
}

std::optional<std::uint64_t> SocketVerdict::moved() const {
  if (!rx.packets && !tx.packets) return std::nullopt;
  return rx.packets.value_or(0) + tx.packets.value_or(0);
}

void use_traits(SocketVerdict& verdict, Stack stack) {
  const StackTraits& row = traits(stack);
  verdict.stack = stack;
  verdict.rx.stack = stack;
  verdict.rx.tcpdump = row.tcpdump_rx;
  verdict.rx.why = row.why_rx;
  verdict.tx.stack = stack;
  verdict.tx.tcpdump = row.tcpdump_tx;
  verdict.tx.why = row.why_tx;
  verdict.ss = row.ss;
  verdict.why_ss = row.why_ss;
}

void add_fact(SocketVerdict& verdict, std::string source, std::string text) {
  verdict.evidence.push_back({std::move(source), std::move(text)});
}

void add_finding(std::vector<StackFinding>& findings, StackFinding finding) {
  constexpr std::ptrdiff_t kMostAlike = 3;
  const std::ptrdiff_t alike =
      std::count_if(findings.begin(), findings.end(),
                    [&finding](const StackFinding& other) { return other.id == finding.id; });
  if (alike < kMostAlike) findings.push_back(std::move(finding));
}

std::string fd_source(const View& view, const FdEntry& fd) {
  const pid_t pid = view.evidence().process.pid;
  if (fd.tid == 0 || fd.tid == pid) return fmt::format("/proc/{}/fd/{}", pid, fd.fd);
  return fmt::format("/proc/{}/task/{}/fd/{}", pid, fd.tid, fd.fd);
}

std::string ss_command(const std::string& protocol, bool fd) {
  const char* const process = fd ? "p" : "";
  if (protocol == "xdp") return fmt::format("ss --xdp -an{}", process);
  const char* const family = protocol == "tcp"                            ? "t"
                             : protocol == "udp" || protocol == "udplite" ? "u"
                             : protocol == "packet"                       ? "0"
                             : protocol == "mptcp"                        ? "M"
                             : protocol == "sctp"                         ? "S"
                             : protocol == "dccp"                         ? "d"
                                                                          : "w";
  return fmt::format("ss -{}an{}", family, process);
}

std::string packets_text(std::uint64_t packets) {
  std::string digits = fmt::format("{}", packets);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits + (packets == 1 ? " packet" : " packets");
}

bool is_loopback_address(const std::string& address) {
  return address.rfind("127.", 0) == 0 || address.rfind("[::1]", 0) == 0 ||
         address.rfind("[::ffff:127.", 0) == 0;
}

bool unreadable(const Evidence& evidence, const std::string& word) {
  const auto matches = [&word](const Unreadable& gap) {
    const std::string& source = gap.source;
    if (source.size() < word.size()) return false;
    return source.compare(0, word.size(), word) == 0 ||
           source.compare(source.size() - word.size(), word.size(), word) == 0;
  };
  return std::any_of(evidence.could_not_read.begin(), evidence.could_not_read.end(), matches);
}

std::string interface_name(const View& view, std::uint32_t ifindex) {
  const Interface* interface = view.interface(ifindex);
  return interface != nullptr ? escape(interface->name) : fmt::format("interface {}", ifindex);
}

}  // namespace whylate::stack
