// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stack/collect/context.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// Rows of /proc/net/protocols that have sockets. The counts are of the whole machine for families
/// without per-namespace accounting. Exposed for tests.
std::vector<ProtocolUse> parse_protocols(std::string_view text);

/// "Udp.InDatagrams" and the like from /proc/net/snmp: names in one line, values in the next.
std::map<std::string, std::uint64_t> parse_snmp(std::string_view text);

/// Rows of /proc/net/{tcp,udp,raw}[6].
std::vector<DiagRow> parse_inet_file(std::string_view text, int address_family, int protocol);

/// Rows of /proc/net/packet.
std::vector<DiagRow> parse_packet_file(std::string_view text);

/// Reads protocols and snmp of the target's network namespace.
void collect_net_files(const Context& context, Evidence& evidence);

/// The second reading of snmp.
void collect_net_files_after(const Context& context, Evidence& evidence);

/// The sockets as files of the target's namespace list them, for what sock_diag did not give.
std::vector<DiagRow> read_inet_files(const Context& context, bool tcp_udp, bool raw);
std::vector<DiagRow> read_packet_file(const Context& context);

}  // namespace whylate::stack::collect
