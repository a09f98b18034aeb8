// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/hdr/hdr.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <random>

namespace whylate::hdr {
namespace {

/// A decoder written from the format's description, apart from the encoder.
struct Decoded {
  std::uint32_t cookie = 0;
  std::uint32_t offset = 0;
  std::uint32_t digits = 0;
  std::uint64_t lowest = 0;
  std::uint64_t highest = 0;
  double ratio = 0;
  std::vector<std::int64_t> counts;
};

std::uint64_t big_endian(const std::string& bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value = value << 8 | static_cast<unsigned char>(bytes.at(at + i));
  }
  return value;
}

Decoded decode(const std::string& bytes) {
  Decoded result;
  result.cookie = static_cast<std::uint32_t>(big_endian(bytes, 0, 4));
  const std::size_t length = big_endian(bytes, 4, 4);
  result.offset = static_cast<std::uint32_t>(big_endian(bytes, 8, 4));
  result.digits = static_cast<std::uint32_t>(big_endian(bytes, 12, 4));
  result.lowest = big_endian(bytes, 16, 8);
  result.highest = big_endian(bytes, 24, 8);
  result.ratio = std::bit_cast<double>(big_endian(bytes, 32, 8));
  EXPECT_EQ(bytes.size(), 40 + length);
  std::size_t at = 40;
  while (at < bytes.size()) {
    std::uint64_t raw = 0;
    for (int i = 0;; ++i) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      if (i == 8) {
        raw |= static_cast<std::uint64_t>(byte) << 56;
        break;
      }
      raw |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
      if ((byte & 0x80) == 0) break;
    }
    const std::int64_t value =
        static_cast<std::int64_t>(raw >> 1) ^ -static_cast<std::int64_t>(raw & 1);
    if (value < 0) {
      result.counts.insert(result.counts.end(), static_cast<std::size_t>(-value), 0);
    } else {
      result.counts.push_back(value);
    }
  }
  return result;
}

/// Lowest value of a counts index, from the format's definition for three digits and unit 1.
std::int64_t lowest_of(std::size_t index) {
  const std::int64_t bucket = static_cast<std::int64_t>(index >> 10) - 1;
  const auto sub = static_cast<std::int64_t>(index & 1023);
  return bucket < 0 ? sub : (sub + 1024) << bucket;
}

std::string from_base64(const std::string& text) {
  static const std::string alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t group = 0;
  int bits = 0;
  for (char c : text) {
    if (c == '=') break;
    group = group << 6 | static_cast<std::uint32_t>(alphabet.find(c));
    bits += 6;
    if (bits >= 8) out.push_back(static_cast<char>(group >> (bits -= 8)));
  }
  return out;
}

TEST(Hdr, Base64KnownAnswers) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64(std::string("\xff\xfe\x00", 3)), "//4A");
}

TEST(Hdr, HeaderFields) {
  Histogram histogram;
  histogram.record(5);
  const auto decoded = decode(histogram.encode_v2());
  EXPECT_EQ(decoded.cookie, 0x1c849313U);
  EXPECT_EQ(decoded.offset, 0U);
  EXPECT_EQ(decoded.digits, 3U);
  EXPECT_EQ(decoded.lowest, 1U);
  EXPECT_GE(decoded.highest, 2047U);
  EXPECT_EQ(decoded.ratio, 1.0);
  ASSERT_EQ(decoded.counts.size(), 6U);
  EXPECT_EQ(decoded.counts[5], 1);
}

TEST(Hdr, EmptyHistogramEncodesNoCounts) {
  const Histogram histogram;
  EXPECT_FALSE(histogram.max());
  EXPECT_FALSE(histogram.percentile(50));
  EXPECT_TRUE(decode(histogram.encode_v2()).counts.empty());
}

TEST(Hdr, RefusesWhatIsNoLatency) {
  Histogram histogram;
  EXPECT_FALSE(histogram.record(-1));
  EXPECT_FALSE(histogram.record(1, 0));
  EXPECT_FALSE(histogram.record((std::int64_t{1} << 62) + 1));
  EXPECT_EQ(histogram.total_count(), 0);
  EXPECT_TRUE(histogram.record(0));
  EXPECT_TRUE(histogram.record(std::int64_t{1} << 62));
  EXPECT_EQ(histogram.total_count(), 2);
}

TEST(Hdr, EveryRecordedValueIsDecodedWithinItsBucket) {
  Histogram histogram;
  std::mt19937_64 random(7);
  std::vector<std::int64_t> values;
  for (int bits = 0; bits <= 45; ++bits) {
    const std::int64_t power = std::int64_t{1} << bits;
    for (std::int64_t value : {power - 1, power, power + 1}) values.push_back(value);
    for (int i = 0; i < 20; ++i) {
      values.push_back(power +
                       static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(power)));
    }
  }
  for (auto value : values) ASSERT_TRUE(histogram.record(value));
  const auto decoded = decode(histogram.encode_v2());

  std::map<std::size_t, std::int64_t> expected;
  std::int64_t total = 0;
  for (auto value : values) {
    // The last index whose lowest value does not exceed it, by search over the definition.
    std::size_t low = 0;
    std::size_t high = decoded.counts.size();
    while (high - low > 1) {
      const std::size_t middle = (low + high) / 2;
      (lowest_of(middle) <= value ? low : high) = middle;
    }
    ++expected[low];
    EXPECT_LE(value - lowest_of(low), std::max<std::int64_t>(0, value / 1000));
  }
  for (std::size_t i = 0; i < decoded.counts.size(); ++i) {
    total += decoded.counts[i];
    const auto found = expected.find(i);
    EXPECT_EQ(decoded.counts[i], found == expected.end() ? 0 : found->second) << "index " << i;
  }
  EXPECT_EQ(total, static_cast<std::int64_t>(values.size()));
}

TEST(Hdr, LargeCountsUseTheNineByteForm) {
  Histogram histogram;
  const std::int64_t many = (std::int64_t{1} << 61) + 12345;
  histogram.record(1, many);
  histogram.record(3, 300);
  const auto decoded = decode(histogram.encode_v2());
  ASSERT_EQ(decoded.counts.size(), 4U);
  EXPECT_EQ(decoded.counts[0], 0);
  EXPECT_EQ(decoded.counts[1], many);
  EXPECT_EQ(decoded.counts[2], 0);
  EXPECT_EQ(decoded.counts[3], 300);
}

TEST(Hdr, PercentilesAreNearestRankWithinThePrecision) {
  Histogram histogram;
  std::vector<std::int64_t> values;
  std::mt19937_64 random(3);
  for (int i = 0; i < 10'000; ++i)
    values.push_back(1'000 + static_cast<std::int64_t>(random() % 5'000'000));
  for (auto value : values) histogram.record(value);
  std::sort(values.begin(), values.end());
  for (double percent : {0.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    const auto rank =
        std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(percent / 100 * 10'000)));
    const std::int64_t exact = values[rank - 1];
    const std::int64_t got = histogram.percentile(percent).value();
    EXPECT_GE(got, exact);
    EXPECT_LE(got - exact, exact / 1000 + 1) << percent;
  }
  EXPECT_EQ(histogram.max(), values.back());
}

TEST(Hdr, CompressedFormHoldsThePlainForm) {
  Histogram histogram;
  for (std::int64_t i = 1; i < 5'000; ++i) histogram.record(i * i);
  const std::string bytes = from_base64(histogram.encode_v2_compressed_base64());
  EXPECT_EQ(big_endian(bytes, 0, 4), 0x1c849314U);
  ASSERT_EQ(big_endian(bytes, 4, 4), bytes.size() - 8);
  const std::string plain = histogram.encode_v2();
  std::string inflated(plain.size() + 100, '\0');
  uLongf size = inflated.size();
  ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(inflated.data()), &size,
                       reinterpret_cast<const Bytef*>(bytes.data() + 8), bytes.size() - 8),
            Z_OK);
  inflated.resize(size);
  EXPECT_EQ(inflated, plain);
}

TEST(Hdr, LogLines) {
  Histogram histogram;
  histogram.record(2'500'000);
  const std::string header = log_header(1234.5, "a\nb");
  EXPECT_EQ(header.rfind("#[Histogram log format version 1.3]\n#a b\n#[StartTime: 1234.500 ", 0),
            0U);
  const std::string line = log_line(histogram, 0.25, 10.0, "a tag,x");
  EXPECT_EQ(line.rfind("Tag=a_tag_x,0.250,10.000,2.500,HISTFAAAA", 0), 0U) << line;
  EXPECT_EQ(line.back(), '\n');
  EXPECT_EQ(log_line(histogram, 0, 1).rfind("0.000,1.000,2.500,HISTFAAAA", 0), 0U);
}

}  // namespace
}  // namespace whylate::hdr
