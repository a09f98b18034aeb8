// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "request/request.h"

namespace whylate {

/// Reads one ring record. Errors (kRuntimeError) say what is wrong with its type or size; nothing
/// is guessed from a record that is not whole.
Result<Request> decode_request(std::span<const std::byte> bytes);

/// Checks what must hold for every request: stages sum to the total exactly, none is above it, none
/// is above `run_ns` (how long the tracer has been attached), the blame of a wait is not above the
/// wait. Returns the first violation as text, or an empty string.
std::string check_request(const Request& request, std::uint64_t run_ns);

/// Counts what decode_request and check_request refuse. A violation is an error of the tracer, so
/// it is shown, never hidden.
struct SelfTest {
  std::uint64_t records = 0;     ///< looked at
  std::uint64_t violations = 0;  ///< refused
  std::string first;             ///< text of the first one

  void note(const std::string& violation) {
    if (violations++ == 0) first = violation;
  }
};

/// decode_request and check_request in one, booked in `self_test`. Errors: the violation.
Result<Request> read_request(std::span<const std::byte> bytes, std::uint64_t run_ns,
                             SelfTest& self_test);

}  // namespace whylate
