// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whylate::hdr {

/// A log-linear histogram of non-negative integers in HdrHistogram's layout: buckets that double in
/// width, each cut into the same number of linear sub-buckets, so that every value keeps
/// `significant_digits` decimal digits. It grows with the largest value recorded.
class Histogram {
 public:
  /// `significant_digits` is 1 to 5; anything outside is clamped.
  explicit Histogram(int significant_digits = 3);

  /// Adds `count` occurrences of `value`. Negative values are not latencies: they are refused and
  /// the call returns false, as it does for values above 2^62.
  bool record(std::int64_t value, std::int64_t count = 1);

  std::int64_t total_count() const { return total_count_; }
  /// The largest value as recorded, or nothing when the histogram is empty.
  std::optional<std::int64_t> max() const;
  /// Nearest-rank percentile (0 to 100), as the highest value of the bucket that holds that rank.
  std::optional<std::int64_t> percentile(double percent) const;

  /// HdrHistogram's V2 encoding: header, then the counts as ZigZag LEB128 with runs of zeros
  /// folded.
  std::string encode_v2() const;
  /// The V2 encoding deflated, with its own header, in base64: the last field of a log line.
  std::string encode_v2_compressed_base64() const;

 private:
  std::size_t index_of(std::int64_t value) const;
  std::int64_t highest_of(std::size_t index) const;
  std::int64_t highest_trackable() const;

  int significant_digits_;
  int half_magnitude_;  // log2 of half the number of sub-buckets
  std::vector<std::int64_t> counts_;
  std::int64_t total_count_ = 0;
  std::int64_t max_ = -1;
};

/// The three header lines of an interval log (version, start time, column legend), each ended by a
/// newline. `start_s` is in seconds since the epoch; `comment` becomes one more '#' line when not
/// empty.
std::string log_header(double start_s, std::string_view comment = {});

/// One interval line, ended by a newline. `start_s` is relative to the log's start; the interval's
/// maximum is printed divided by `max_unit` (10^6 turns nanoseconds into milliseconds). `tag` may
/// be empty; commas, spaces and line ends, which the format has no escape for, become '_'.
std::string log_line(const Histogram& histogram, double start_s, double length_s,
                     std::string_view tag = {}, double max_unit = 1e6);

/// Standard base64 with padding.
std::string base64(std::string_view bytes);

}  // namespace whylate::hdr
