// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/stack_frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace whylate::echo {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr MacAddress kOwnMac = {2, 0, 0, 0, 0, 2};
constexpr MacAddress kPeerMac = {2, 0, 0, 0, 0, 1};

void put16(Bytes& bytes, std::size_t at, unsigned value) {
  bytes[at] = static_cast<std::uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<std::uint8_t>(value);
}

unsigned get16(std::span<const std::uint8_t> bytes, std::size_t at) {
  return static_cast<unsigned>(bytes[at] << 8 | bytes[at + 1]);
}

FrameTarget target_of(const char* listen) {
  FrameTarget target;
  target.mac = kOwnMac;
  target.listen = *parse_endpoint(listen);
  return target;
}

void put_ethernet(Bytes& frame, unsigned type) {
  std::copy(kOwnMac.begin(), kOwnMac.end(), frame.begin());
  std::copy(kPeerMac.begin(), kPeerMac.end(), frame.begin() + 6);
  put16(frame, 12, type);
}

/// 10.0.0.1:1000 to 10.0.0.2:7777, with an unfinished UDP checksum, as between virtual devices.
Bytes ipv4_request(const Bytes& payload, std::size_t option_bytes = 0) {
  const std::size_t ip_bytes = 20 + option_bytes;
  Bytes frame(14 + ip_bytes + 8 + payload.size());
  put_ethernet(frame, 0x0800);
  frame[14] = static_cast<std::uint8_t>(0x40 | ip_bytes / 4);
  put16(frame, 16, static_cast<unsigned>(ip_bytes + 8 + payload.size()));
  frame[22] = 5;  // hops left
  frame[23] = 17;
  const std::uint8_t addresses[] = {10, 0, 0, 1, 10, 0, 0, 2};
  std::copy(std::begin(addresses), std::end(addresses), frame.begin() + 26);
  put16(frame, 14 + ip_bytes, 1000);
  put16(frame, 16 + ip_bytes, 7777);
  put16(frame, 18 + ip_bytes, static_cast<unsigned>(8 + payload.size()));
  put16(frame, 20 + ip_bytes, 0x1234);
  std::copy(payload.begin(), payload.end(),
            frame.begin() + static_cast<std::ptrdiff_t>(22 + ip_bytes));
  return frame;
}

Bytes ipv6_request(const Bytes& payload) {
  Bytes frame(14 + 40 + 8 + payload.size());
  put_ethernet(frame, 0x86dd);
  frame[14] = 0x60;
  put16(frame, 18, static_cast<unsigned>(8 + payload.size()));
  frame[20] = 17;
  frame[22] = 0xfd, frame[37] = 1;  // from fd00::1
  frame[38] = 0xfd, frame[53] = 2;  // to fd00::2
  put16(frame, 54, 1000);
  put16(frame, 56, 7777);
  put16(frame, 58, static_cast<unsigned>(8 + payload.size()));
  std::copy(payload.begin(), payload.end(), frame.begin() + 62);
  return frame;
}

/// One's complement sum of 16-bit words, as RFC 1071 has it: 0xffff when a checksum is right.
unsigned words_sum(std::span<const std::uint8_t> bytes) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? static_cast<unsigned>(bytes[i]) << 8 : bytes[i];
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}

unsigned udp_sum(std::span<const std::uint8_t> frame, std::size_t addresses_at,
                 std::size_t addresses_bytes, std::size_t udp_at) {
  Bytes bytes(frame.begin() + static_cast<std::ptrdiff_t>(addresses_at),
              frame.begin() + static_cast<std::ptrdiff_t>(addresses_at + addresses_bytes));
  bytes.insert(bytes.end(), {0, 17, frame[udp_at + 4], frame[udp_at + 5]});
  bytes.insert(bytes.end(), frame.begin() + static_cast<std::ptrdiff_t>(udp_at), frame.end());
  return words_sum(bytes);
}

TEST(StackFrame, AnswersAnIpv4Request) {
  for (const std::size_t options : {0U, 8U}) {
    Bytes frame = ipv4_request({1, 2, 3, 4, 5}, options);
    frame.resize(frame.size() + 7);  // padding of the link
    const FrameTarget target = target_of("10.0.0.2:7777");
    const ParsedFrame parsed = parse_frame(frame, target);
    ASSERT_EQ(parsed.kind, FrameKind::kRequest);
    EXPECT_EQ(Bytes(parsed.payload.begin(), parsed.payload.end()), Bytes({1, 2, 3, 4, 5}));
    EXPECT_EQ(parsed.whole.size(), frame.size() - 7);

    make_answer(parsed, target);
    const auto answer = parsed.whole;
    EXPECT_TRUE(std::equal(kPeerMac.begin(), kPeerMac.end(), answer.begin()));
    EXPECT_TRUE(std::equal(kOwnMac.begin(), kOwnMac.end(), answer.begin() + 6));
    EXPECT_EQ(answer[29], 2);  // from 10.0.0.2
    EXPECT_EQ(answer[33], 1);  // to 10.0.0.1
    EXPECT_EQ(answer[22], 64);
    EXPECT_EQ(get16(answer, 34 + options), 7777U);
    EXPECT_EQ(get16(answer, 36 + options), 1000U);
    EXPECT_EQ(words_sum(answer.subspan(14, 20 + options)), 0xffffU);
    EXPECT_EQ(udp_sum(answer, 26, 8, 34 + options), 0xffffU);
  }
}

TEST(StackFrame, AnswersAnIpv6Request) {
  Bytes frame = ipv6_request({9, 8, 7});
  const FrameTarget target = target_of("[fd00::2]:7777");
  const ParsedFrame parsed = parse_frame(frame, target);
  ASSERT_EQ(parsed.kind, FrameKind::kRequest);
  make_answer(parsed, target);
  EXPECT_EQ(parsed.whole[37], 2);
  EXPECT_EQ(parsed.whole[53], 1);
  EXPECT_EQ(get16(parsed.whole, 54), 7777U);
  EXPECT_EQ(udp_sum(parsed.whole, 22, 32, 54), 0xffffU);
}

TEST(StackFrame, AChecksumOfZeroIsSentAsAllOnes) {
  // Two bytes that make the sum all ones: found by trying, there is exactly one such pair.
  const FrameTarget target = target_of("10.0.0.2:7777");
  bool found = false;
  for (unsigned value = 0; value <= 0xffff && !found; ++value) {
    Bytes frame =
        ipv4_request({static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)});
    make_answer(parse_frame(frame, target), target);
    EXPECT_NE(get16(frame, 40), 0U) << value;
    found = get16(frame, 40) == 0xffff;
  }
  EXPECT_TRUE(found);
}

TEST(StackFrame, LeavesAloneWhatIsNotForIt) {
  const FrameTarget target = target_of("10.0.0.2:7777");
  const auto kind_after = [&](std::size_t at, std::uint8_t value) {
    Bytes frame = ipv4_request({1, 2, 3, 4});
    frame[at] = value;
    return parse_frame(frame, target).kind;
  };
  EXPECT_EQ(kind_after(14, 0x45), FrameKind::kRequest);  // as it was
  EXPECT_EQ(kind_after(5, 9), FrameKind::kOther);        // to another MAC address
  EXPECT_EQ(kind_after(12, 0x81), FrameKind::kOther);    // another protocol
  EXPECT_EQ(kind_after(14, 0x55), FrameKind::kOther);    // version 5
  EXPECT_EQ(kind_after(14, 0x44), FrameKind::kOther);    // a header of 16 bytes
  EXPECT_EQ(kind_after(14, 0x4f), FrameKind::kOther);    // a header that is longer than the packet
  EXPECT_EQ(kind_after(17, 200), FrameKind::kOther);     // longer than the frame
  EXPECT_EQ(kind_after(20, 0x20), FrameKind::kOther);    // the first of several fragments
  EXPECT_EQ(kind_after(21, 1), FrameKind::kOther);       // a later one
  EXPECT_EQ(kind_after(23, 6), FrameKind::kOther);       // TCP
  EXPECT_EQ(kind_after(33, 3), FrameKind::kOther);       // to another address
  EXPECT_EQ(kind_after(37, 1), FrameKind::kOther);       // to another port
  EXPECT_EQ(kind_after(39, 7), FrameKind::kOther);       // UDP shorter than its header
  EXPECT_EQ(kind_after(39, 13), FrameKind::kOther);      // UDP longer than the packet
  Bytes six = ipv6_request({1});
  EXPECT_EQ(parse_frame(six, target).kind, FrameKind::kOther);
}

TEST(StackFrame, EveryTruncationIsHarmless) {
  for (const char* listen : {"10.0.0.2:7777", "[fd00::2]:7777"}) {
    const FrameTarget target = target_of(listen);
    const Bytes whole =
        target.listen.family() == AF_INET ? ipv4_request({1, 2, 3}) : ipv6_request({1, 2, 3});
    for (std::size_t size = 0; size < whole.size(); ++size) {
      // Of exactly that size, so that a sanitizer sees a read behind it.
      Bytes frame(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      frame.shrink_to_fit();
      EXPECT_EQ(parse_frame(frame, target).kind, FrameKind::kOther) << listen << " " << size;
    }
  }
}

TEST(StackFrame, ListensOnAllAddressesWhenNoneIsGiven) {
  Bytes frame = ipv4_request({1});
  EXPECT_EQ(parse_frame(frame, target_of("0.0.0.0:7777")).kind, FrameKind::kRequest);
  frame[30] = 239;
  EXPECT_EQ(parse_frame(frame, target_of("0.0.0.0:7777")).kind, FrameKind::kOther);
}

TEST(StackFrame, AnswersWhoHasAnAddressTheKernelDoesNotOwn) {
  Bytes frame(60);
  put_ethernet(frame, 0x0806);
  std::fill_n(frame.begin(), 6, std::uint8_t{0xff});
  const std::uint8_t question[] = {0,  1, 8, 0, 6, 4, 0, 1, 2, 0, 0,  0, 0, 1,
                                   10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2};
  std::copy(std::begin(question), std::end(question), frame.begin() + 14);
  FrameTarget target = target_of("10.0.0.2:7777");
  EXPECT_EQ(parse_frame(frame, target).kind, FrameKind::kOther);
  target.answer_arp = true;
  const ParsedFrame parsed = parse_frame(frame, target);
  ASSERT_EQ(parsed.kind, FrameKind::kArp);
  make_answer(parsed, target);
  EXPECT_EQ(parsed.whole.size(), 42U);
  EXPECT_EQ(get16(parsed.whole, 20), 2U);
  EXPECT_TRUE(std::equal(kPeerMac.begin(), kPeerMac.end(), parsed.whole.begin()));
  EXPECT_TRUE(std::equal(kOwnMac.begin(), kOwnMac.end(), parsed.whole.begin() + 22));
  EXPECT_EQ(Bytes(parsed.whole.begin() + 28, parsed.whole.begin() + 32), Bytes({10, 0, 0, 2}));
  EXPECT_EQ(Bytes(parsed.whole.begin() + 38, parsed.whole.begin() + 42), Bytes({10, 0, 0, 1}));

  frame[41] = 3;  // about somebody else
  EXPECT_EQ(parse_frame(frame, target).kind, FrameKind::kOther);
}

}  // namespace
}  // namespace whylate::echo
