// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "request/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>

#include "unit/request/builder.h"

namespace whylate {
namespace {

using test::add_occupant;
using test::encode;
using test::make_request;
using ::testing::HasSubstr;

constexpr std::uint64_t kRunNs = 10'000'000'000;

template <typename T>
void patch(std::vector<std::byte>& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

TEST(Decode, ShortAndLongRecordsComeBackWhole) {
  Request request = make_request({{WL_STAGE_STACK, 100}, {WL_STAGE_RUN_QUEUE, 900}});
  Result<Request> read = decode_request(encode(request));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(std::memcmp(&read->record, &request.record, sizeof request.record), 0);
  EXPECT_TRUE(read->occupants.empty());

  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 900, 991, "stress");
  read = decode_request(encode(request));
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->occupants.size(), 1u);
  EXPECT_EQ(read->occupants[0].pid, 991u);
}

TEST(Decode, TakesALongRecordCutAfterItsOccupants) {
  Request request = make_request({{WL_STAGE_RUN_QUEUE, 900}});
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 900, 991, "stress");
  std::vector<std::byte> bytes = encode(request);
  const std::size_t used = offsetof(wl_record_long, occupants) + sizeof(wl_occupant);
  bytes.resize(used);
  patch(bytes, offsetof(wl_record_header, size), static_cast<wl_u32>(used));
  EXPECT_TRUE(decode_request(bytes).ok());
  // One byte less no longer holds the occupant.
  patch(bytes, offsetof(wl_record_header, size), static_cast<wl_u32>(used - 1));
  EXPECT_FALSE(decode_request(bytes).ok());
}

TEST(Decode, RefusesWrongTypeSizeAndCount) {
  const std::vector<std::byte> good = encode(make_request({{WL_STAGE_APP, 5}}));
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(decode_request({good.data(), size}).ok()) << size;
  }
  std::vector<std::byte> bytes = good;
  patch(bytes, offsetof(wl_record_header, type), wl_u32{99});
  EXPECT_THAT(decode_request(bytes).error().message, HasSubstr("type 99"));

  bytes = good;
  patch(bytes, sizeof(wl_record_header) + offsetof(wl_request, nr_occupants),
        static_cast<wl_u8>(WL_MAX_OCCUPANTS + 1));
  EXPECT_THAT(decode_request(bytes).error().message,
              HasSubstr(std::to_string(WL_MAX_OCCUPANTS + 1) + " occupants"));

  bytes = good;
  patch(bytes, sizeof(wl_record_header) + offsetof(wl_request, nr_occupants), wl_u8{1});
  EXPECT_THAT(decode_request(bytes).error().message, HasSubstr("short record"));
}

TEST(Check, PassesWhatAddsUp) {
  Request request = make_request({{WL_STAGE_STACK, 100}, {WL_STAGE_RUN_QUEUE, 900}});
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 500, 1, "a");
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_IRQ, 400);
  EXPECT_EQ(check_request(request, kRunNs), "");
}

TEST(Check, NamesEachViolation) {
  Request request = make_request({{WL_STAGE_APP, 1000}});
  request.record.stage_ns[WL_STAGE_STACK] = 1;
  EXPECT_THAT(check_request(request, kRunNs), HasSubstr("stages sum to 1001"));

  request = make_request({{WL_STAGE_APP, 1000}});
  request.record.stage_ns[WL_STAGE_APP] = 999;
  EXPECT_THAT(check_request(request, kRunNs), HasSubstr("stages sum to 999"));

  request = make_request({{WL_STAGE_APP, 1000}});
  request.record.stage_ns[WL_STAGE_STACK] = static_cast<wl_u64>(-1);  // a negative stage
  EXPECT_THAT(check_request(request, kRunNs), HasSubstr("above the total"));

  request = make_request({{WL_STAGE_APP, 1000}});
  EXPECT_THAT(check_request(request, 999), HasSubstr("longer than the run"));

  request = make_request({{WL_STAGE_APP_BLOCKED, 1000}});
  request.record.stopped_ns[WL_STOP_APP] = 1001;
  EXPECT_THAT(check_request(request, kRunNs),
              HasSubstr("stopped for 1001 ns of 1000 ns in app_blocked"));

  request.record.end_ns = request.record.start_ns - 1;
  EXPECT_THAT(check_request(request, kRunNs), HasSubstr("before it starts"));

  request = make_request({{WL_STAGE_RUN_QUEUE, 1000}});
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 600, 1, "a");
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 401, 2, "b");
  EXPECT_THAT(check_request(request, kRunNs), HasSubstr("occupants of run_queue exceed"));

  request.occupants[1].ns = static_cast<wl_u64>(-1);  // must not wrap around
  EXPECT_THAT(check_request(request, kRunNs), HasSubstr("occupants of run_queue exceed"));
  request.occupants[1].ns = 0;
  request.occupants[1].stage = WL_NR_STAGES;
  EXPECT_THAT(check_request(request, kRunNs), HasSubstr("unknown stage"));
}

TEST(ReadRequest, CountsEveryRefusalAndKeepsTheFirst) {
  SelfTest self_test;
  const std::vector<std::byte> good = encode(make_request({{WL_STAGE_APP, 1000}}));
  EXPECT_TRUE(read_request(good, kRunNs, self_test).ok());
  EXPECT_EQ(self_test.violations, 0u);
  EXPECT_FALSE(read_request(good, 10, self_test).ok());
  EXPECT_FALSE(read_request({good.data(), 3}, kRunNs, self_test).ok());
  EXPECT_EQ(self_test.records, 3u);
  EXPECT_EQ(self_test.violations, 2u);
  EXPECT_THAT(self_test.first, HasSubstr("longer than the run"));
}

// Any record that passes has the properties every report relies on.
TEST(ReadRequest, PropertyOfRandomRecords) {
  std::mt19937_64 random(20240501);  // NOLINT(cert-msc51-cpp): the same records in every run
  SelfTest self_test;
  std::uint64_t passed = 0;
  for (int round = 0; round < 20'000; ++round) {
    Request request;
    wl_request& record = request.record;
    record.start_ns = random() % 1'000'000;
    std::uint64_t total = 0;
    for (std::uint64_t& ns : record.stage_ns) {
      ns = random() % 4 == 0 ? random() % 5'000 : 0;
      total += ns;
    }
    record.end_ns = record.start_ns + total;
    // Half of the records get one field wrong, by a little or by a lot.
    if (random() % 2 == 0) {
      std::uint64_t* const fields[] = {&record.start_ns, &record.end_ns,
                                       &record.stage_ns[random() % WL_NR_STAGES]};
      *fields[random() % 3] += random() % 2 == 0 ? 1 : random();
    }
    const std::size_t occupants = random() % (WL_MAX_OCCUPANTS + 1);
    for (std::size_t i = 0; i < occupants; ++i) {
      const auto stage = static_cast<wl_stage>(random() % WL_NR_STAGES);
      add_occupant(request, stage, static_cast<wl_occupant_kind>(1 + random() % 6),
                   random() % (record.stage_ns[stage] + 2) / (1 + random() % 4), 1, "x");
    }
    Result<Request> read = read_request(encode(request), 1'000'000, self_test);
    if (!read.ok()) continue;
    ++passed;
    const std::uint64_t sum = std::accumulate(std::begin(read->record.stage_ns),
                                              std::end(read->record.stage_ns), std::uint64_t{0});
    ASSERT_EQ(sum, total_ns(*read));
    ASSERT_LE(total_ns(*read), 1'000'000u);
    std::uint64_t blamed[WL_NR_STAGES] = {};
    for (const wl_occupant& occupant : read->occupants) blamed[occupant.stage] += occupant.ns;
    for (int i = 0; i < WL_NR_STAGES; ++i) ASSERT_LE(blamed[i], read->record.stage_ns[i]);
  }
  EXPECT_EQ(self_test.records, 20'000u);
  EXPECT_EQ(self_test.violations, 20'000u - passed);
  EXPECT_GT(passed, 1'000u);
  EXPECT_GT(self_test.violations, 1'000u);
}

// No bytes at all may crash the reader.
TEST(ReadRequest, SurvivesRandomBytes) {
  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp)
  SelfTest self_test;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes(random() % (sizeof(wl_record_long) + 64));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (bytes.size() >= sizeof(wl_record_header) && random() % 4 != 0) {
      patch(bytes, 0, static_cast<wl_u32>(1 + random() % 2));
      patch(bytes, 4, static_cast<wl_u32>(bytes.size()));
    }
    static_cast<void>(read_request(bytes, kRunNs, self_test));
  }
  EXPECT_EQ(self_test.records, 20'000u);
}

}  // namespace
}  // namespace whylate
