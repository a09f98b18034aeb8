// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/address.h"

#include <gtest/gtest.h>

namespace whylate::echo {
namespace {

std::string round_trip(const std::string& text) {
  auto endpoint = parse_endpoint(text);
  return endpoint ? to_string(*endpoint) : "error: " + endpoint.error().message;
}

TEST(Address, ParsesBothFamilies) {
  EXPECT_EQ(round_trip("127.0.0.1:9000"), "127.0.0.1:9000");
  EXPECT_EQ(round_trip("[::1]:65535"), "[::1]:65535");
  EXPECT_EQ(round_trip("0.0.0.0:0"), "0.0.0.0:0");
  EXPECT_EQ(parse_endpoint("[::1]:1")->family(), AF_INET6);
  EXPECT_EQ(parse_endpoint("[::1%lo]:1")->port(), 1);
}

TEST(Address, DefaultPort) {
  EXPECT_EQ(to_string(*parse_endpoint("239.1.2.3", 7)), "239.1.2.3:7");
  EXPECT_EQ(to_string(*parse_endpoint("::1", 7)), "[::1]:7");
  EXPECT_EQ(to_string(*parse_endpoint("[ff02::1]", 7)), "[ff02::1]:7");
}

TEST(Address, RefusesWithUsage) {
  for (const char* text :
       {"", "localhost:1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536",
        "127.0.0.1:-1", "127.0.0.1:1x", "::1:9000", "[::1]", "[::1]9000", "[::1:9000", "1.2.3:4",
        "[1.2.3.4%lo]:5", "[::1%nosuchdevice]:5"}) {
    auto endpoint = parse_endpoint(text);
    ASSERT_FALSE(endpoint.ok()) << text;
    EXPECT_EQ(endpoint.error().code, ExitCode::kUsage) << text;
  }
}

TEST(Address, Multicast) {
  EXPECT_TRUE(parse_endpoint("239.0.0.1:1")->is_multicast());
  EXPECT_TRUE(parse_endpoint("[ff05::1]:1")->is_multicast());
  EXPECT_FALSE(parse_endpoint("10.0.0.1:1")->is_multicast());
  EXPECT_FALSE(parse_endpoint("[fe80::1]:1")->is_multicast());
}

TEST(Address, Interfaces) {
  EXPECT_NE(find_interface("lo")->index, 0U);
  EXPECT_EQ(find_interface("10.1.2.3")->index, 0U);
  EXPECT_EQ(find_interface("nosuchdevice").error().code, ExitCode::kUsage);
}

}  // namespace
}  // namespace whylate::echo
