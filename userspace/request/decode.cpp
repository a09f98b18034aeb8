// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "request/decode.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>

#include "request/names.h"

namespace whylate {
namespace {

Error refused(std::string text) { return Error{ExitCode::kRuntimeError, std::move(text)}; }

}  // namespace

Result<Request> decode_request(std::span<const std::byte> bytes) {
  wl_record_header header;
  if (bytes.size() < sizeof header) {
    return refused(fmt::format("record of {} bytes is shorter than its header", bytes.size()));
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.type != WL_REC_REQUEST && header.type != WL_REC_REQUEST_LONG) {
    return refused(fmt::format("record of unknown type {}", header.type));
  }
  const bool is_long = header.type == WL_REC_REQUEST_LONG;
  const std::size_t smallest = sizeof(wl_record_short);
  const std::size_t largest = is_long ? sizeof(wl_record_long) : sizeof(wl_record_short);
  // The ring hands out whole reservations: there may be more bytes than the record uses, never
  // less.
  if (header.size < smallest || header.size > largest || header.size > bytes.size()) {
    return refused(fmt::format("record of type {} says {} bytes, {} delivered", header.type,
                               header.size, bytes.size()));
  }

  Request request;
  std::memcpy(&request.record, bytes.data() + sizeof header, sizeof request.record);
  const std::uint32_t count = request.record.nr_occupants;
  if (count > WL_MAX_OCCUPANTS) {
    return refused(
        fmt::format("record with {} occupants, at most {} fit", count, WL_MAX_OCCUPANTS));
  }
  if (is_long) {
    const std::size_t offset = offsetof(wl_record_long, occupants);
    if (header.size < offset + count * sizeof(wl_occupant)) {
      return refused(
          fmt::format("record of {} bytes is too short for {} occupants", header.size, count));
    }
    request.occupants.resize(count);
    if (count > 0) {
      std::memcpy(request.occupants.data(), bytes.data() + offset, count * sizeof(wl_occupant));
    }
  } else if (count != 0) {
    return refused(fmt::format("short record announces {} occupants", count));
  }
  return request;
}

std::string check_request(const Request& request, std::uint64_t run_ns) {
  const wl_request& record = request.record;
  if (record.end_ns < record.start_ns) {
    return fmt::format("request {}: it ends {} ns before it starts", record.seq,
                       record.start_ns - record.end_ns);
  }
  const std::uint64_t total = total_ns(request);
  if (total > run_ns) {
    return fmt::format("request {}: total {} ns is longer than the run of {} ns", record.seq, total,
                       run_ns);
  }
  // Each stage is compared first: after that the sum of all cannot wrap around.
  std::uint64_t sum = 0;
  for (int i = 0; i < WL_NR_STAGES; ++i) {
    if (record.stage_ns[i] > total) {
      return fmt::format("request {}: {} {} ns is above the total of {} ns", record.seq,
                         stage_name(static_cast<wl_stage>(i)), record.stage_ns[i], total);
    }
    sum += record.stage_ns[i];
  }
  if (sum != total) {
    return fmt::format("request {}: stages sum to {} ns, the total is {} ns", record.seq, sum,
                       total);
  }

  if (record.tx_held_ns > record.stage_ns[WL_STAGE_TX_QUEUE]) {
    return fmt::format("request {}: held by TCP for {} ns of {} ns in tx_queue", record.seq,
                       record.tx_held_ns, record.stage_ns[WL_STAGE_TX_QUEUE]);
  }

  for (const auto& [part, stage] : {std::pair{WL_STOP_QUEUE, WL_STAGE_SOCKET_QUEUE},
                                    std::pair{WL_STOP_APP, WL_STAGE_APP_BLOCKED}}) {
    if (record.stopped_ns[part] > record.stage_ns[stage]) {
      return fmt::format("request {}: stopped for {} ns of {} ns in {}", record.seq,
                         record.stopped_ns[part], record.stage_ns[stage], stage_name(stage));
    }
  }

  std::uint64_t theft = 0;
  for (const wl_u64 ns : record.theft_ns) theft += ns;
  if (theft != record.stage_ns[WL_STAGE_APP_IRQ]) {
    return fmt::format("request {}: interrupts sum to {} ns, app_irq is {} ns", record.seq, theft,
                       record.stage_ns[WL_STAGE_APP_IRQ]);
  }

  std::array<std::uint64_t, WL_NR_STAGES> blamed{};
  for (const wl_occupant& occupant : request.occupants) {
    if (occupant.stage >= WL_NR_STAGES) {
      return fmt::format("request {}: occupant of unknown stage {}", record.seq, occupant.stage);
    }
    if (occupant.kind < WL_OCC_TASK || occupant.kind > WL_OCC_IRQ_WORK) {
      return fmt::format("request {}: occupant of unknown kind {}", record.seq, occupant.kind);
    }
    const std::uint64_t wait = record.stage_ns[occupant.stage];
    if (occupant.ns > wait - blamed[occupant.stage]) {
      return fmt::format("request {}: occupants of {} exceed its {} ns", record.seq,
                         stage_name(static_cast<wl_stage>(occupant.stage)), wait);
    }
    blamed[occupant.stage] += occupant.ns;
  }
  return {};
}

Result<Request> read_request(std::span<const std::byte> bytes, std::uint64_t run_ns,
                             SelfTest& self_test) {
  ++self_test.records;
  Result<Request> request = decode_request(bytes);
  if (!request.ok()) {
    self_test.note(request.error().message);
    return request;
  }
  std::string violation = check_request(*request, run_ns);
  if (!violation.empty()) {
    self_test.note(violation);
    return refused(std::move(violation));
  }
  return request;
}

}  // namespace whylate
