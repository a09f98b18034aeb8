// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/trace.h"

namespace whylate::live {

constexpr std::size_t kSlowest = 20;

/// The slowest requests that have a verdict; the two cold ones are left out.
std::vector<Record> slowest_of(const TraceResult& result, std::size_t count = kSlowest);

/// Every request with a verdict whose total is above that; the cold ones are left out.
std::vector<Record> later_than(const TraceResult& result, std::uint64_t total_ns);

/// The median total of the requests with a verdict; 0 when there is none.
std::uint64_t median_total_ns(const TraceResult& result);

/// How many of them have this stage in their verdict; a majority is more than half of all.
std::size_t with_stage(const std::vector<Record>& records, const std::string& stage);
bool is_majority(const std::vector<Record>& records, const std::string& stage);

/// How many name a culprit that starts so, in a verdict of that stage.
std::size_t with_culprit(const std::vector<Record>& records, const std::string& stage,
                         const std::string& culprit);

/// Time that occupants of this name had in waits of that stage, over all records; every name: "".
std::uint64_t held_ns(const TraceResult& result, const std::string& stage, const std::string& comm);

/// The stages of the verdicts, for a failure's text.
std::string describe(const std::vector<Record>& records);

/// One run: the server on its CPU, the client on the other.
struct Rig {
  Args server;
  Args client;
  std::function<void()> in_server;  ///< runs in the server's process before it starts
};
TraceResult run_rig(const Rig& rig);

}  // namespace whylate::live
