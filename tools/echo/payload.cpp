// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/payload.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

namespace whylate::echo {
namespace {

// A counter-based generator (a Weyl sequence through a 64-bit mixer): the bytes of any request can
// be made again from its id, so nothing sent has to be kept for the comparison.
class Bytes {
 public:
  Bytes(std::uint64_t id, std::uint64_t seed) : state_(mix(seed) ^ mix(id + kStep)) {}
  std::uint64_t next() { return htole64(mix(state_ += kStep)); }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;
  static std::uint64_t mix(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
  }
  std::uint64_t state_;
};

}  // namespace

void fill_payload(std::span<std::uint8_t> payload, std::uint64_t id, std::uint64_t seed) {
  if (payload.size() < kIdBytes) return;
  const std::uint64_t wire_id = htole64(id);
  std::memcpy(payload.data(), &wire_id, kIdBytes);
  Bytes bytes(id, seed);
  for (std::size_t at = kIdBytes; at < payload.size(); at += 8) {
    const std::uint64_t word = bytes.next();
    std::memcpy(payload.data() + at, &word, std::min<std::size_t>(8, payload.size() - at));
  }
}

bool payload_matches(std::span<const std::uint8_t> payload, std::uint64_t id, std::uint64_t seed) {
  if (payload_id(payload) != id) return false;
  Bytes bytes(id, seed);
  for (std::size_t at = kIdBytes; at < payload.size(); at += 8) {
    const std::uint64_t word = bytes.next();
    if (std::memcmp(payload.data() + at, &word, std::min<std::size_t>(8, payload.size() - at)) !=
        0) {
      return false;
    }
  }
  return true;
}

std::optional<std::uint64_t> payload_id(std::span<const std::uint8_t> payload) {
  if (payload.size() < kIdBytes) return std::nullopt;
  std::uint64_t wire_id = 0;
  std::memcpy(&wire_id, payload.data(), kIdBytes);
  return le64toh(wire_id);
}

}  // namespace whylate::echo
