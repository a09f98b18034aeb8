// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/net_files.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <cstring>
#include <optional>

#include "host/file.h"
#include "stack/collect/address_text.h"

namespace whylate::stack::collect {
namespace {

std::optional<std::uint64_t> hex(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

struct Endpoint {
  std::string text;
  std::uint16_t port = 0;
  bool any = true;
};

// "0100007F:2328": each group of four bytes printed as a number of this machine.
std::optional<Endpoint> endpoint(std::string_view text, int family) {
  const std::size_t colon = text.find(':');
  const std::size_t words = family == AF_INET ? 1 : 4;
  if (colon != words * 8) return std::nullopt;
  std::uint32_t address[4] = {};
  Endpoint end;
  for (std::size_t i = 0; i < words; ++i) {
    const auto word = hex(text.substr(i * 8, 8));
    if (!word) return std::nullopt;
    address[i] = static_cast<std::uint32_t>(*word);
    end.any = end.any && address[i] == 0;
  }
  const auto port = hex(text.substr(colon + 1));
  if (!port || *port > 65535) return std::nullopt;
  end.port = static_cast<std::uint16_t>(*port);
  end.text = address_text(family, address, end.port);
  return end;
}

std::optional<DiagRow> inet_row(std::string_view line, int family, int protocol) {
  // sl local remote st tx:rx tr:when retrnsmt uid timeout inode ...
  const auto words = host::split_words(line);
  if (words.size() < 10) return std::nullopt;
  const auto local = endpoint(words[1], family);
  const auto remote = endpoint(words[2], family);
  const auto state = hex(words[3]);
  const auto inode = host::parse_u64(words[9]);
  const std::size_t colon = words[4].find(':');
  if (!local || !remote || !state || !inode || colon == std::string_view::npos) {
    return std::nullopt;
  }
  DiagRow row;
  row.family = DiagFamily::kInet;
  row.inode = *inode;
  row.address_family = family;
  row.protocol = protocol;
  row.state = static_cast<std::uint8_t>(*state);
  row.local = local->text;
  row.local_port = local->port;
  if (!remote->any || remote->port != 0) {
    row.remote = remote->text;
    row.remote_port = remote->port;
  }
  row.tx_queue_bytes = static_cast<std::uint32_t>(hex(words[4].substr(0, colon)).value_or(0));
  row.rx_queue_bytes = static_cast<std::uint32_t>(hex(words[4].substr(colon + 1)).value_or(0));
  if (protocol != IPPROTO_TCP && words.size() >= 13) {
    row.drops.before = host::parse_u64(words[12]);
  }
  return row;
}

std::map<std::string, std::uint64_t> read_snmp(const Context& context) {
  const Result<std::string> text = host::read_file(context.proc() + "/net/snmp");
  if (!text) {
    context.cannot_read("/proc/net/snmp", "the file cannot be read",
                        "packets the kernel's UDP and TCP delivered");
    return {};
  }
  std::map<std::string, std::uint64_t> values = parse_snmp(*text);
  if (const Result<std::string> text6 = host::read_file(context.proc() + "/net/snmp6")) {
    // "Udp6InDatagrams    12" becomes "Udp6.InDatagrams".
    for (const std::string_view line : host::split_lines(*text6)) {
      const auto words = host::split_words(line);
      if (words.size() != 2 || words[0].substr(0, 4) != "Udp6") continue;
      if (const auto value = host::parse_u64(words[1])) {
        values["Udp6." + std::string(words[0].substr(4))] = *value;
      }
    }
  }
  return values;
}

}  // namespace

std::vector<ProtocolUse> parse_protocols(std::string_view text) {
  std::vector<ProtocolUse> rows;
  for (const std::string_view line : host::split_lines(text)) {
    const auto words = host::split_words(line);
    if (words.size() < 3) continue;
    const auto sockets = host::parse_u64(words[2]);
    if (!sockets || *sockets == 0) continue;
    rows.push_back(ProtocolUse{std::string(words[0]), *sockets});
  }
  return rows;
}

std::map<std::string, std::uint64_t> parse_snmp(std::string_view text) {
  std::map<std::string, std::uint64_t> values;
  const auto lines = host::split_lines(text);
  for (std::size_t i = 0; i + 1 < lines.size(); i += 2) {
    const auto names = host::split_words(lines[i]);
    const auto numbers = host::split_words(lines[i + 1]);
    if (names.empty() || numbers.size() != names.size() || names[0] != numbers[0]) continue;
    const std::string group(names[0].substr(0, names[0].find(':')));
    for (std::size_t k = 1; k < names.size(); ++k) {
      if (const auto value = host::parse_u64(numbers[k])) {
        values[group + "." + std::string(names[k])] = *value;
      }
    }
  }
  return values;
}

std::vector<DiagRow> parse_inet_file(std::string_view text, int address_family, int protocol) {
  std::vector<DiagRow> rows;
  for (const std::string_view line : host::split_lines(text)) {
    auto row = inet_row(line, address_family, protocol);
    if (row && row->inode != 0) rows.push_back(std::move(*row));
  }
  return rows;
}

std::vector<DiagRow> parse_packet_file(std::string_view text) {
  // sk RefCnt Type Proto Iface R Rmem User Inode
  std::vector<DiagRow> rows;
  for (const std::string_view line : host::split_lines(text)) {
    const auto words = host::split_words(line);
    if (words.size() != 9) continue;
    const auto protocol = hex(words[3]);
    const auto ifindex = host::parse_u64(words[4]);
    const auto inode = host::parse_u64(words[8]);
    if (!protocol || !ifindex || !inode) continue;
    DiagRow row;
    row.family = DiagFamily::kPacket;
    row.address_family = AF_PACKET;
    row.protocol = static_cast<int>(*protocol);
    row.ifindex = static_cast<std::uint32_t>(*ifindex);
    row.inode = *inode;
    rows.push_back(std::move(row));
  }
  return rows;
}

void collect_net_files(const Context& context, Evidence& evidence) {
  if (const Result<std::string> text = host::read_file(context.proc() + "/net/protocols")) {
    evidence.protocols = parse_protocols(*text);
  } else {
    context.cannot_read("/proc/net/protocols", "the file cannot be read",
                        "which socket families are in use");
  }
  for (const auto& [name, value] : read_snmp(context)) evidence.snmp[name].before = value;
}

void collect_net_files_after(const Context& context, Evidence& evidence) {
  for (const auto& [name, value] : read_snmp(context)) evidence.snmp[name].after = value;
}

std::vector<DiagRow> read_inet_files(const Context& context, bool tcp_udp, bool raw) {
  struct File {
    const char* name;
    int family, protocol;
  };
  constexpr File kFiles[] = {{"tcp", AF_INET, IPPROTO_TCP}, {"tcp6", AF_INET6, IPPROTO_TCP},
                             {"udp", AF_INET, IPPROTO_UDP}, {"udp6", AF_INET6, IPPROTO_UDP},
                             {"raw", AF_INET, IPPROTO_RAW}, {"raw6", AF_INET6, IPPROTO_RAW}};
  std::vector<DiagRow> rows;
  for (const File& file : kFiles) {
    if (file.protocol == IPPROTO_RAW ? !raw : !tcp_udp) continue;
    const Result<std::string> text = host::read_file(context.proc() + "/net/" + file.name);
    if (!text) continue;
    std::vector<DiagRow> more = parse_inet_file(*text, file.family, file.protocol);
    rows.insert(rows.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
  }
  return rows;
}

std::vector<DiagRow> read_packet_file(const Context& context) {
  const Result<std::string> text = host::read_file(context.proc() + "/net/packet");
  return text ? parse_packet_file(*text) : std::vector<DiagRow>();
}

}  // namespace whylate::stack::collect
