// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/hdr/hdr.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

namespace whylate::hdr {
namespace {

// Format constants of the V2 encoding; the 0x10 says "word size: LEB128".
constexpr std::uint32_t kCookieV2 = 0x1c849303U | 0x10U;
constexpr std::uint32_t kCompressedCookieV2 = 0x1c849304U | 0x10U;
constexpr std::int64_t kLargest = std::int64_t{1} << 62;

int half_magnitude_for(int significant_digits) {
  // Values up to 2 * 10^digits need single-unit resolution; half as many sub-buckets are used in
  // every bucket but the first.
  std::uint64_t single_unit = 2;
  for (int i = 0; i < significant_digits; ++i) single_unit *= 10;
  return static_cast<int>(std::bit_width(single_unit - 1)) - 1;
}

void put_u32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

void put_u64(std::string& out, std::uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

// At most nine bytes: the ninth carries eight bits of value and no continuation bit.
void put_zigzag(std::string& out, std::int64_t value) {
  auto rest = (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
  for (int byte = 0; byte < 8; ++byte) {
    if (rest < 0x80) {
      out.push_back(static_cast<char>(rest));
      return;
    }
    out.push_back(static_cast<char>((rest & 0x7f) | 0x80));
    rest >>= 7;
  }
  out.push_back(static_cast<char>(rest));
}

}  // namespace

Histogram::Histogram(int significant_digits)
    : significant_digits_(std::clamp(significant_digits, 1, 5)),
      half_magnitude_(half_magnitude_for(significant_digits_)),
      counts_(std::size_t{2} << half_magnitude_, 0) {}

std::size_t Histogram::index_of(std::int64_t value) const {
  const std::uint64_t mask = (std::uint64_t{2} << half_magnitude_) - 1;
  const int bucket = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value) | mask)) -
                     (half_magnitude_ + 1);
  const auto sub_bucket = static_cast<std::size_t>(value >> bucket);
  const std::size_t half = std::size_t{1} << half_magnitude_;
  return (static_cast<std::size_t>(bucket + 1) << half_magnitude_) + sub_bucket - half;
}

std::int64_t Histogram::highest_of(std::size_t index) const {
  const std::size_t half = std::size_t{1} << half_magnitude_;
  if (index < 2 * half) return static_cast<std::int64_t>(index);
  const auto bucket = (index >> half_magnitude_) - 1;
  const auto sub_bucket = (index & (half - 1)) + half;
  return static_cast<std::int64_t>(((std::uint64_t{sub_bucket} + 1) << bucket) - 1);
}

std::int64_t Histogram::highest_trackable() const { return highest_of(counts_.size() - 1); }

bool Histogram::record(std::int64_t value, std::int64_t count) {
  if (value < 0 || value > kLargest || count <= 0) return false;
  const std::size_t index = index_of(value);
  if (index >= counts_.size()) {
    // Whole buckets only: decoders derive the length of the counts from the highest value.
    const std::size_t half = std::size_t{1} << half_magnitude_;
    counts_.resize((index / half + 1) * half, 0);
  }
  counts_[index] += count;
  total_count_ += count;
  max_ = std::max(max_, value);
  return true;
}

std::optional<std::int64_t> Histogram::max() const {
  if (total_count_ == 0) return std::nullopt;
  return max_;
}

std::optional<std::int64_t> Histogram::percentile(double percent) const {
  if (total_count_ == 0) return std::nullopt;
  const double wanted =
      std::ceil(std::clamp(percent, 0.0, 100.0) / 100.0 * static_cast<double>(total_count_));
  const auto rank = std::clamp(static_cast<std::int64_t>(wanted), std::int64_t{1}, total_count_);
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank) return highest_of(i);
  }
  return max_;
}

std::string Histogram::encode_v2() const {
  std::string payload;
  const std::size_t used = total_count_ == 0 ? 0 : index_of(max_) + 1;
  for (std::size_t i = 0; i < used;) {
    if (counts_[i] != 0) {
      put_zigzag(payload, counts_[i++]);
      continue;
    }
    const std::size_t begin = i;
    while (i < used && counts_[i] == 0) ++i;
    const auto zeros = static_cast<std::int64_t>(i - begin);
    put_zigzag(payload, zeros == 1 ? 0 : -zeros);
  }

  std::string out;
  put_u32(out, kCookieV2);
  put_u32(out, static_cast<std::uint32_t>(payload.size()));
  put_u32(out, 0);  // normalizing index offset
  put_u32(out, static_cast<std::uint32_t>(significant_digits_));
  put_u64(out, 1);  // lowest discernible value
  put_u64(out, static_cast<std::uint64_t>(highest_trackable()));
  put_u64(out, std::bit_cast<std::uint64_t>(1.0));  // integer to double conversion ratio
  return out + payload;
}

std::string Histogram::encode_v2_compressed_base64() const {
  const std::string plain = encode_v2();
  uLongf size = compressBound(static_cast<uLong>(plain.size()));
  std::string deflated(size, '\0');
  // Cannot fail: the output has compressBound() bytes and the level is valid; only memory could
  // lack.
  if (compress2(reinterpret_cast<Bytef*>(deflated.data()), &size,
                reinterpret_cast<const Bytef*>(plain.data()), static_cast<uLong>(plain.size()),
                Z_DEFAULT_COMPRESSION) != Z_OK) {
    return {};
  }
  std::string out;
  put_u32(out, kCompressedCookieV2);
  put_u32(out, static_cast<std::uint32_t>(size));
  out.append(deflated.data(), size);
  return base64(out);
}

std::string log_header(double start_s, std::string_view comment) {
  std::string out = "#[Histogram log format version 1.3]\n";
  if (!comment.empty()) {
    out += '#';
    for (char c : comment) out += (c == '\n' || c == '\r') ? ' ' : c;
    out += '\n';
  }
  char line[96];
  std::snprintf(line, sizeof line, "#[StartTime: %.3f (seconds since epoch)]\n", start_s);
  out += line;
  out +=
      "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
  return out;
}

std::string log_line(const Histogram& histogram, double start_s, double length_s,
                     std::string_view tag, double max_unit) {
  std::string out;
  if (!tag.empty()) {
    out += "Tag=";
    for (char c : tag) out += (c == ',' || c == ' ' || c == '\n' || c == '\r') ? '_' : c;
    out += ',';
  }
  char numbers[128];
  std::snprintf(numbers, sizeof numbers, "%.3f,%.3f,%.3f,", start_s, length_s,
                static_cast<double>(histogram.max().value_or(0)) / max_unit);
  return out + numbers + histogram.encode_v2_compressed_base64() + '\n';
}

std::string base64(std::string_view bytes) {
  static constexpr char kAlphabet[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t have = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = (group << 8) | (j < have ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += j <= have ? kAlphabet[(group >> (18 - 6 * j)) & 63U] : '=';
    }
  }
  return out;
}

}  // namespace whylate::hdr
