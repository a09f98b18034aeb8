// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Statistics files of VMA and XLIO, written here byte by byte at the offsets that their headers
// have when they are compiled.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "stack/collect/vendor_offload.h"
#include "unit/host/temp_tree.h"

namespace whylate::stack::collect {
namespace {

template <typename Value>
void put(std::string& bytes, std::size_t offset, Value value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

constexpr std::size_t kFirst = 12072;
constexpr std::size_t kStride = 344;

std::string vma_file(std::uint64_t slots, const char* stamp) {
  std::string bytes(12416 + slots * kStride, '\0');
  put<std::uint8_t>(bytes, 4, 9);
  put<std::uint8_t>(bytes, 5, 8);
  put<std::uint8_t>(bytes, 6, 81);
  std::memcpy(bytes.data() + 8, stamp, 32);
  put<std::uint64_t>(bytes, 12064, slots);
  return bytes;
}

void put_socket(std::string& bytes, std::size_t slot, int fd, std::uint32_t inode, bool offloaded,
                std::uint32_t rx, std::uint32_t os_rx, std::uint32_t tx, std::uint32_t os_tx) {
  const std::size_t at = kFirst + slot * kStride;
  put<std::uint8_t>(bytes, at, 1);
  put<std::int32_t>(bytes, at + 8, fd);
  put<std::uint32_t>(bytes, at + 12, inode);
  put<std::uint8_t>(bytes, at + 24, offloaded ? 1 : 0);
  put<std::uint32_t>(bytes, at + 80, rx);
  put<std::uint32_t>(bytes, at + 120, os_rx);
  put<std::uint32_t>(bytes, at + 144, tx);
  put<std::uint32_t>(bytes, at + 164, os_tx);
}

constexpr const char* kKnownStamp = "c2436dc784a369ffc352aa78545db031";

TEST(VmaStats, AKnownRelease) {
  std::string bytes = vma_file(3, kKnownStamp);
  put_socket(bytes, 0, 17, 4711, true, 20, 0, 19, 0);
  put_socket(bytes, 2, 18, 4712, false, 0, 5, 0, 6);
  bool unpublished = false;
  const OffloadStats stats = parse_offload_stats(bytes, false, &unpublished);
  EXPECT_FALSE(unpublished);
  ASSERT_TRUE(stats.version_known);
  EXPECT_EQ(stats.version, "9.8.81");
  ASSERT_EQ(stats.sockets.size(), 2u);
  EXPECT_EQ(stats.sockets[0].fd, 17);
  EXPECT_EQ(stats.sockets[0].inode, 4711u);
  EXPECT_TRUE(stats.sockets[0].offloaded);
  EXPECT_EQ(stats.sockets[0].offloaded_rx_packets.before, 20u);
  EXPECT_EQ(stats.sockets[0].offloaded_tx_packets.before, 19u);
  EXPECT_FALSE(stats.sockets[1].offloaded);
  EXPECT_EQ(stats.sockets[1].os_rx_packets.before, 5u);
  EXPECT_EQ(stats.sockets[1].os_tx_packets.before, 6u);
}

TEST(VmaStats, SocketsThatWereNeverPublishedAreNotReadAsZero) {
  std::string bytes = vma_file(2, kKnownStamp);
  put<std::uint8_t>(bytes, kFirst, 1);
  bool unpublished = false;
  const OffloadStats stats = parse_offload_stats(bytes, false, &unpublished);
  EXPECT_TRUE(unpublished);
  EXPECT_TRUE(stats.version_known);
  EXPECT_TRUE(stats.sockets.empty());
}

TEST(VmaStats, AnUnknownStampOrSizeIsNotInterpreted) {
  EXPECT_FALSE(parse_offload_stats(vma_file(2, "00000000000000000000000000000000"), false, nullptr)
                   .version_known);
  const std::string whole = vma_file(2, kKnownStamp);
  EXPECT_FALSE(
      parse_offload_stats(whole.substr(0, whole.size() - 1), false, nullptr).version_known);
  EXPECT_FALSE(parse_offload_stats("", false, nullptr).version_known);
  std::string huge = whole;
  put<std::uint64_t>(huge, 12064, ~std::uint64_t{0});
  EXPECT_FALSE(parse_offload_stats(huge, false, nullptr).version_known);
  EXPECT_FALSE(parse_offload_stats(whole, true, nullptr).version_known) << "XLIO is not VMA";
}

TEST(XlioStats, TheSizeTellsBuildsWithTlsApart) {
  for (const bool tls : {false, true}) {
    const std::size_t head = tls ? 41784 : 41720;
    const std::size_t stride = tls ? 528 : 464;
    std::string bytes(head + stride, '\0');
    put<std::uint8_t>(bytes, 8412, 3);
    put<std::uint8_t>(bytes, 8413, 61);
    put<std::uint64_t>(bytes, 41216, 1);
    std::memcpy(bytes.data() + 41224, "8acf4c5e11413c1da2c7f27b2ec26476", 32);
    put<std::uint8_t>(bytes, 41256, 1);
    put<std::int32_t>(bytes, 41256 + (tls ? 472 : 408), 21);
    put<std::uint32_t>(bytes, 41256 + (tls ? 476 : 412), 99);
    put<std::uint8_t>(bytes, 41256 + (tls ? 511 : 447), 1);
    put<std::uint32_t>(bytes, 41256 + 32, 7);
    const OffloadStats stats = parse_offload_stats(bytes, true, nullptr);
    ASSERT_TRUE(stats.version_known) << tls;
    EXPECT_EQ(stats.version, "3.61.0");
    ASSERT_EQ(stats.sockets.size(), 1u);
    EXPECT_EQ(stats.sockets[0].fd, 21);
    EXPECT_EQ(stats.sockets[0].inode, 99u);
    EXPECT_TRUE(stats.sockets[0].offloaded);
    EXPECT_EQ(stats.sockets[0].offloaded_rx_packets.before, 7u);
  }
}

class OffloadWindow : public ::testing::Test {
 protected:
  void open_file(const std::string& bytes) {
    tree_.write("/tmp/vmastat.12", bytes);
    FdEntry entry;
    entry.kind = ObjectKind::kStatsFile;
    entry.link = "/tmp/vmastat.12";
    evidence_.fds.push_back(entry);
    context_.root.path = tree_.root();
    context_.unreadable = &evidence_.could_not_read;
    collect_offload_stats(context_, evidence_);
    ASSERT_EQ(evidence_.offload_stats.size(), 1u);
  }

  test::TempTree tree_;
  Evidence evidence_;
  Context context_;
};

TEST_F(OffloadWindow, CountersThatMove) {
  std::string bytes = vma_file(2, kKnownStamp);
  put_socket(bytes, 0, 17, 4711, true, 20, 0, 19, 0);
  open_file(bytes);
  put_socket(bytes, 0, 17, 4711, true, 50, 0, 49, 0);
  tree_.write("/tmp/vmastat.12", bytes);
  collect_offload_stats_after(context_, evidence_);
  const OffloadSocket& socket = evidence_.offload_stats[0].sockets.at(0);
  EXPECT_EQ(socket.offloaded_rx_packets.moved(), 30u);
  EXPECT_EQ(socket.os_rx_packets.moved(), 0u);
  EXPECT_TRUE(evidence_.could_not_read.empty());
}

TEST_F(OffloadWindow, AFileThatStandsStillSaysNothing) {
  std::string bytes = vma_file(2, kKnownStamp);
  put_socket(bytes, 0, 17, 4711, true, 20, 0, 19, 0);
  open_file(bytes);
  collect_offload_stats_after(context_, evidence_);
  EXPECT_EQ(evidence_.offload_stats[0].sockets.at(0).offloaded_rx_packets.moved(), std::nullopt);
  ASSERT_EQ(evidence_.could_not_read.size(), 1u);
  EXPECT_NE(evidence_.could_not_read[0].reason.find("vma_stats"), std::string::npos);
}

}  // namespace
}  // namespace whylate::stack::collect
