// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/payload.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace whylate::echo {
namespace {

std::vector<std::uint8_t> payload(std::size_t size, std::uint64_t id, std::uint64_t seed) {
  std::vector<std::uint8_t> bytes(size);
  fill_payload(bytes, id, seed);
  return bytes;
}

TEST(Payload, NumberIsLittleEndianAtOffsetZero) {
  const auto bytes = payload(16, 0x0102030405060708ULL, 1);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(bytes[static_cast<std::size_t>(i)], 8 - i);
  EXPECT_EQ(payload_id(bytes), 0x0102030405060708ULL);
}

TEST(Payload, TooShortCarriesNoNumber) {
  const std::vector<std::uint8_t> bytes(7, 1);
  EXPECT_EQ(payload_id(bytes), std::nullopt);
  EXPECT_FALSE(payload_matches(bytes, 0, 1));
}

TEST(Payload, EveryPayloadDiffersAlsoBehindTheNumber) {
  std::set<std::vector<std::uint8_t>> rests;
  for (std::uint64_t seed : {1, 2}) {
    for (std::uint64_t id = 0; id < 2'000; ++id) {
      auto bytes = payload(16, id, seed);
      rests.insert({bytes.begin() + 8, bytes.end()});
    }
  }
  EXPECT_EQ(rests.size(), 4'000U);
}

TEST(Payload, MatchesOnlyItself) {
  for (std::size_t size :
       {std::size_t{8}, std::size_t{16}, std::size_t{17}, std::size_t{23}, std::size_t{1500}}) {
    auto bytes = payload(size, 42, 9);
    EXPECT_TRUE(payload_matches(bytes, 42, 9));
    EXPECT_FALSE(payload_matches(bytes, 43, 9));
    for (std::size_t at = 0; at < size; ++at) {
      bytes[at] ^= 0x10;
      EXPECT_FALSE(payload_matches(bytes, 42, 9)) << size << " byte " << at;
      bytes[at] ^= 0x10;
    }
  }
}

}  // namespace
}  // namespace whylate::echo
