// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "causes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace whylate::live {

namespace {

/// Those that can be judged, slowest first.
std::vector<Record> judged(const TraceResult& result) {
  std::vector<Record> records;
  for (const Record& record : result.records) {
    if (!record.stage.empty() && !record.is("cold")) records.push_back(record);
  }
  std::stable_sort(records.begin(), records.end(),
                   [](const Record& a, const Record& b) { return a.total_ns > b.total_ns; });
  return records;
}

}  // namespace

std::vector<Record> slowest_of(const TraceResult& result, std::size_t count) {
  std::vector<Record> records = judged(result);
  if (records.size() > count) records.resize(count);
  return records;
}

std::vector<Record> later_than(const TraceResult& result, std::uint64_t total_ns) {
  std::vector<Record> records = judged(result);
  const auto end = std::find_if(records.begin(), records.end(),
                                [&](const Record& one) { return one.total_ns <= total_ns; });
  records.erase(end, records.end());
  return records;
}

std::uint64_t median_total_ns(const TraceResult& result) {
  const std::vector<Record> records = judged(result);
  return records.empty() ? 0 : records[records.size() / 2].total_ns;
}

std::size_t with_stage(const std::vector<Record>& records, const std::string& stage) {
  return static_cast<std::size_t>(std::count_if(
      records.begin(), records.end(), [&](const Record& one) { return one.stage == stage; }));
}

bool is_majority(const std::vector<Record>& records, const std::string& stage) {
  return with_stage(records, stage) * 2 > records.size();
}

std::size_t with_culprit(const std::vector<Record>& records, const std::string& stage,
                         const std::string& culprit) {
  return static_cast<std::size_t>(std::count_if(
      records.begin(), records.end(),
      [&](const Record& one) { return one.stage == stage && one.culprit.rfind(culprit, 0) == 0; }));
}

std::uint64_t held_ns(const TraceResult& result, const std::string& stage,
                      const std::string& comm) {
  std::uint64_t sum = 0;
  for (const Record& record : result.records) {
    for (const Occupant& occupant : record.occupants) {
      if (occupant.stage != stage) continue;
      if (comm.empty() || occupant.comm.rfind(comm, 0) == 0) sum += occupant.ns;
    }
  }
  return sum;
}

std::string describe(const std::vector<Record>& records) {
  std::map<std::string, int> seen;
  for (const Record& record : records) {
    ++seen[record.stage + " (" + record.culprit.substr(0, record.culprit.find('[')) + ")"];
  }
  std::string text = std::to_string(records.size()) + " late: ";
  for (const auto& [what, times] : seen) text += std::to_string(times) + " x " + what + "; ";
  return text;
}

TraceResult run_rig(const Rig& rig) {
  SpawnOptions options;
  options.in_child = rig.in_server;
  Server server(Args{"--cpu", std::to_string(cpus().server)} + rig.server, options);
  Trace trace(server.trace_args({"--id-offset", "0"}));
  run_client(Args{"--cpu", std::to_string(cpus().client), "--to", server.address("127.0.0.1")} +
             rig.client);
  TraceResult result = trace.stop();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GE(slowest_of(result).size(), kSlowest) << "too few requests to judge";
  return result;
}

}  // namespace whylate::live
