// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/duration.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace whylate {
namespace {

TEST(ParseDuration, TakesEveryUnit) {
  EXPECT_EQ(*parse_duration("7ns"), 7u);
  EXPECT_EQ(*parse_duration("500us"), 500'000u);
  EXPECT_EQ(*parse_duration("2ms"), 2'000'000u);
  EXPECT_EQ(*parse_duration("10s"), 10'000'000'000u);
  EXPECT_EQ(*parse_duration("3m"), 180'000'000'000u);
  EXPECT_EQ(*parse_duration("1h"), 3'600'000'000'000u);
  EXPECT_EQ(*parse_duration("0s"), 0u);
}

TEST(ParseDuration, DecimalsAreExact) {
  EXPECT_EQ(*parse_duration("1.5ms"), 1'500'000u);
  EXPECT_EQ(*parse_duration("1.1us"), 1'100u);
  EXPECT_EQ(*parse_duration("0.1s"), 100'000'000u);
  EXPECT_EQ(*parse_duration("1.9ns"), 1u);  // below a nanosecond is cut
  EXPECT_EQ(*parse_duration("0.000000001s"), 1u);
  EXPECT_EQ(*parse_duration("1.00000000000000000000000000s"), 1'000'000'000u);
}

TEST(ParseDuration, RefusesNonsenseWithOneLine) {
  for (const char* text :
       {"",   "5",     "us",   "-1s", "+1s", "1.s", ".5s", "1,5s",  "1 s", "s1", "1ss",
        "1S", "0x10s", "1e3s", "nan", "inf", "1s ", " 1s", "1..5s", "--",  "9.s"}) {
    const Result<std::uint64_t> result = parse_duration(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.error().code, ExitCode::kUsage) << text;
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos) << text;
    EXPECT_FALSE(result.error().message.empty());
  }
}

TEST(ParseDuration, RefusesWhatDoesNotFit) {
  EXPECT_EQ(*parse_duration("9223372036854775807ns"),
            static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  EXPECT_FALSE(parse_duration("9223372036854775808ns").ok());
  EXPECT_FALSE(parse_duration("99999999999h").ok());
  EXPECT_FALSE(parse_duration("9223372036855us.5").ok());
  EXPECT_FALSE(parse_duration(std::string(500, '9') + "s").ok());
}

TEST(ParseDuration, ErrorsAreEscaped) {
  EXPECT_NE(parse_duration("1\x1b[31ms").error().message.find("\\x1b"), std::string::npos);
}

TEST(FormatDuration, ScalesWithTwoDecimals) {
  EXPECT_EQ(format_duration(0), "0");
  EXPECT_EQ(format_duration(1), "1ns");
  EXPECT_EQ(format_duration(99), "99ns");
  EXPECT_EQ(format_duration(310), "0.31us");
  EXPECT_EQ(format_duration(4'150), "4.15us");
  EXPECT_EQ(format_duration(912'300), "912.30us");
  EXPECT_EQ(format_duration(1'548'860), "1.55ms");
  EXPECT_EQ(format_duration(12'040'000'000), "12.04s");
}

TEST(FormatDuration, RoundsIntoTheNextUnit) {
  EXPECT_EQ(format_duration(999'994), "999.99us");
  EXPECT_EQ(format_duration(999'995), "1.00ms");
  EXPECT_EQ(format_duration(999'995'000), "1.00s");
  EXPECT_EQ(format_duration(std::numeric_limits<std::uint64_t>::max()), "18446744073.71s");
}

TEST(FormatSeconds, OneDecimal) {
  EXPECT_EQ(format_seconds(10'000'000'000), "10.0 s");
  EXPECT_EQ(format_seconds(9'950'000'000), "10.0 s");
  EXPECT_EQ(format_seconds(9'949'999'999), "9.9 s");
  EXPECT_EQ(format_seconds(0), "0.0 s");
}

}  // namespace
}  // namespace whylate
