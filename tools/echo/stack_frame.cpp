// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/stack_frame.h"

#include <net/ethernet.h>
#include <netinet/if_ether.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cstring>

namespace whylate::echo {
namespace {

constexpr std::size_t kEthernetBytes = sizeof(ether_header);
constexpr std::size_t kArpBytes = sizeof(ether_arp);
constexpr std::size_t kUdpBytes = sizeof(udphdr);
constexpr std::uint8_t kHopLimit = 64;
constexpr std::uint16_t kFragment = IP_OFFMASK | IP_MF;

/// Headers lie anywhere in a frame: they are copied, never pointed at.
template <typename Header>
Header load(std::span<const std::uint8_t> bytes, std::size_t at) {
  Header header;
  std::memcpy(&header, bytes.data() + at, sizeof header);
  return header;
}

template <typename Header>
void store(std::span<std::uint8_t> bytes, std::size_t at, const Header& header) {
  std::memcpy(bytes.data() + at, &header, sizeof header);
}

/// One's complement sum of 16-bit words in network order (RFC 1071), not yet folded.
std::uint64_t sum_words(std::span<const std::uint8_t> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) sum += bytes[i] << 8 | bytes[i + 1];
  if (bytes.size() % 2 != 0) sum += static_cast<std::uint64_t>(bytes.back()) << 8;
  return sum;
}

std::uint16_t fold(std::uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return htons(static_cast<std::uint16_t>(~sum));
}

bool is_listening(const Endpoint& listen, const in_addr& to) {
  if (listen.family() != AF_INET) return false;
  const auto own = reinterpret_cast<const sockaddr_in*>(&listen.storage)->sin_addr;
  return own.s_addr == to.s_addr || (own.s_addr == INADDR_ANY && !IN_MULTICAST(ntohl(to.s_addr)));
}

bool is_listening(const Endpoint& listen, const in6_addr& to) {
  if (listen.family() != AF_INET6) return false;
  const auto& own = reinterpret_cast<const sockaddr_in6*>(&listen.storage)->sin6_addr;
  return IN6_ARE_ADDR_EQUAL(&own, &to) ||
         (IN6_IS_ADDR_UNSPECIFIED(&own) && !IN6_IS_ADDR_MULTICAST(&to));
}

ParsedFrame parse_arp(std::span<std::uint8_t> frame, const FrameTarget& target) {
  if (!target.answer_arp || frame.size() < kEthernetBytes + kArpBytes) return {};
  const auto arp = load<ether_arp>(frame, kEthernetBytes);
  in_addr asked{};
  std::memcpy(&asked, arp.arp_tpa, sizeof asked);
  if (ntohs(arp.ea_hdr.ar_op) != ARPOP_REQUEST || ntohs(arp.ea_hdr.ar_pro) != ETHERTYPE_IP ||
      !is_listening(target.listen, asked)) {
    return {};
  }
  return {FrameKind::kArp, frame.first(kEthernetBytes + kArpBytes), {}};
}

/// `at`: where UDP begins; `end`: where the IP packet ends.
ParsedFrame parse_udp(std::span<std::uint8_t> frame, std::size_t at, std::size_t end,
                      const FrameTarget& target) {
  if (end > frame.size() || at + kUdpBytes > end) return {};
  const auto udp = load<udphdr>(frame, at);
  const std::size_t length = ntohs(udp.uh_ulen);
  if (ntohs(udp.uh_dport) != target.listen.port() || length < kUdpBytes || at + length > end) {
    return {};
  }
  return {FrameKind::kRequest, frame.first(at + length),
          frame.subspan(at + kUdpBytes, length - kUdpBytes)};
}

ParsedFrame parse_ipv4(std::span<std::uint8_t> frame, const FrameTarget& target) {
  if (frame.size() < kEthernetBytes + sizeof(ip)) return {};
  const auto header = load<ip>(frame, kEthernetBytes);
  const std::size_t header_bytes = header.ip_hl * 4U;
  const std::size_t packet_bytes = ntohs(header.ip_len);
  if (header.ip_v != 4 || header_bytes < sizeof(ip) || packet_bytes < header_bytes ||
      header.ip_p != IPPROTO_UDP || (ntohs(header.ip_off) & kFragment) != 0 ||
      !is_listening(target.listen, header.ip_dst)) {
    return {};
  }
  return parse_udp(frame, kEthernetBytes + header_bytes, kEthernetBytes + packet_bytes, target);
}

ParsedFrame parse_ipv6(std::span<std::uint8_t> frame, const FrameTarget& target) {
  if (frame.size() < kEthernetBytes + sizeof(ip6_hdr)) return {};
  const auto header = load<ip6_hdr>(frame, kEthernetBytes);
  if (header.ip6_vfc >> 4 != 6 || header.ip6_nxt != IPPROTO_UDP ||
      !is_listening(target.listen, header.ip6_dst)) {
    return {};
  }
  const std::size_t at = kEthernetBytes + sizeof(ip6_hdr);
  return parse_udp(frame, at, at + ntohs(header.ip6_plen), target);
}

void answer_arp(std::span<std::uint8_t> frame, const FrameTarget& target) {
  auto arp = load<ether_arp>(frame, kEthernetBytes);
  arp.ea_hdr.ar_op = htons(ARPOP_REPLY);
  std::uint8_t asked[4];
  std::memcpy(asked, arp.arp_tpa, sizeof asked);
  std::memcpy(arp.arp_tha, arp.arp_sha, sizeof arp.arp_tha);
  std::memcpy(arp.arp_tpa, arp.arp_spa, sizeof arp.arp_tpa);
  std::memcpy(arp.arp_sha, target.mac.data(), sizeof arp.arp_sha);
  std::memcpy(arp.arp_spa, asked, sizeof arp.arp_spa);
  store(frame, kEthernetBytes, arp);
}

/// Swaps the ports and sets the checksum; `addresses`: both of the IP header's, next to each other.
void answer_udp(std::span<std::uint8_t> frame, std::size_t at,
                std::span<const std::uint8_t> addresses) {
  auto udp = load<udphdr>(frame, at);
  std::swap(udp.uh_sport, udp.uh_dport);
  udp.uh_sum = 0;
  store(frame, at, udp);
  const std::uint64_t pseudo_header = sum_words(addresses) + IPPROTO_UDP + ntohs(udp.uh_ulen);
  const std::uint16_t sum = fold(pseudo_header + sum_words(frame.subspan(at)));
  udp.uh_sum = sum == 0 ? 0xffff : sum;  // 0 would mean that there is none
  store(frame, at, udp);
}

void answer_ipv4(std::span<std::uint8_t> frame) {
  auto header = load<ip>(frame, kEthernetBytes);
  const std::size_t header_bytes = header.ip_hl * 4U;
  std::swap(header.ip_src, header.ip_dst);
  header.ip_ttl = kHopLimit;
  header.ip_sum = 0;
  store(frame, kEthernetBytes, header);
  header.ip_sum = fold(sum_words(frame.subspan(kEthernetBytes, header_bytes)));
  store(frame, kEthernetBytes, header);
  answer_udp(frame, kEthernetBytes + header_bytes,
             frame.subspan(kEthernetBytes + offsetof(ip, ip_src), 2 * sizeof(in_addr)));
}

void answer_ipv6(std::span<std::uint8_t> frame) {
  auto header = load<ip6_hdr>(frame, kEthernetBytes);
  std::swap(header.ip6_src, header.ip6_dst);
  header.ip6_hlim = kHopLimit;
  store(frame, kEthernetBytes, header);
  answer_udp(frame, kEthernetBytes + sizeof(ip6_hdr),
             frame.subspan(kEthernetBytes + offsetof(ip6_hdr, ip6_src), 2 * sizeof(in6_addr)));
}

}  // namespace

ParsedFrame parse_frame(std::span<std::uint8_t> frame, const FrameTarget& target) {
  if (frame.size() < kEthernetBytes) return {};
  const auto ethernet = load<ether_header>(frame, 0);
  const int type = ntohs(ethernet.ether_type);
  if (type == ETHERTYPE_ARP) return parse_arp(frame, target);
  // A device in promiscuous mode also shows what is meant for others.
  if (!std::equal(target.mac.begin(), target.mac.end(), ethernet.ether_dhost)) return {};
  if (type == ETHERTYPE_IP) return parse_ipv4(frame, target);
  if (type == ETHERTYPE_IPV6) return parse_ipv6(frame, target);
  return {};
}

void make_answer(const ParsedFrame& frame, const FrameTarget& target) {
  auto ethernet = load<ether_header>(frame.whole, 0);
  std::memcpy(ethernet.ether_dhost, ethernet.ether_shost, sizeof ethernet.ether_dhost);
  std::memcpy(ethernet.ether_shost, target.mac.data(), sizeof ethernet.ether_shost);
  store(frame.whole, 0, ethernet);
  if (frame.kind == FrameKind::kArp) {
    answer_arp(frame.whole, target);
  } else if (target.listen.family() == AF_INET) {
    answer_ipv4(frame.whole);
  } else {
    answer_ipv6(frame.whole);
  }
}

}  // namespace whylate::echo
