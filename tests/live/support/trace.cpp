// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "support/trace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace whylate::live {
namespace {

constexpr int kClientMs = 90'000;

std::string new_file(const char* kind) {
  static int number = 0;
  return scratch_path(fmt::format("{}-{}", kind, number++));
}

std::string text_of(const Json& json) { return json.is_string() ? json.get<std::string>() : ""; }

Record parse_record(const Json& json) {
  Record record;
  if (!json["id"].is_null()) record.id = json["id"].get<std::uint64_t>();
  record.tid = json["tid"];
  record.start_ns = json["start_ns"];
  record.end_ns = json["end_ns"];
  record.total_ns = json["total_ns"];
  if (!json["recv_ns"].is_null()) record.recv_ns = json["recv_ns"];
  for (const Json& stage : json["stages"]) record.stages[stage["name"]] = stage["ns"];
  for (const Json& one : json["occupants"]) {
    Occupant occupant;
    occupant.stage = one["stage"];
    occupant.kind = one["kind"];
    occupant.comm = text_of(one["comm"]);
    occupant.policy = text_of(one["policy"]);
    occupant.cgroup = text_of(one["cgroup"]);
    if (!one["pid"].is_null()) occupant.pid = one["pid"];
    occupant.ns = one["ns"];
    record.occupants.push_back(std::move(occupant));
  }
  record.origin = text_of(json["origin"]);
  if (!json["softirq"].is_null()) {
    record.softirq_mode = text_of(json["softirq"]["mode"]);
    const Json& from = json["softirq"]["from_cpu"];
    if (!from.is_null()) record.hop_from = from.get<int>();
  }
  if (!json["app_irq"].is_null()) {
    for (const auto& [name, ns] : json["app_irq"].items()) {
      if (ns.is_number_unsigned()) record.app_irq[name] = ns;
    }
  }
  if (!json["idle"].is_null()) record.idle_name = text_of(json["idle"]["name"]);
  if (!json["blocked"].is_null()) record.blocked_waker = text_of(json["blocked"]["waker_comm"]);
  if (!json["verdict"].is_null()) {
    record.stage = json["verdict"]["stage"];
    record.culprit = json["verdict"]["culprit"];
    record.text = json["verdict"]["text"];
  }
  record.quality = json["quality"].get<std::vector<std::string>>();
  if (!json["behind"].is_null()) record.behind = json["behind"]["requests"];
  if (!json["fanout"].is_null()) {
    record.fanout_rank = json["fanout"]["rank"];
    record.fanout_ns = json["fanout"]["earlier_ns"];
  }
  if (!json["woken"].is_null()) record.woken = json["woken"]["tid"];
  return record;
}

void check_summary(const Json& summary, std::uint64_t run_ns) {
  EXPECT_EQ(summary["self_test"]["violations"], 0) << summary["self_test"].dump();
  const Json& requests = summary["requests"];
  EXPECT_EQ(requests["observed"].get<std::uint64_t>(),
            requests["complete"].get<std::uint64_t>() +
                requests["incomplete"].get<std::uint64_t>() +
                requests["no_reply"].get<std::uint64_t>());
  EXPECT_LE(summary["duration_ns"].get<std::uint64_t>(), run_ns);
  for (const auto& [name, stage] : summary["stages"].items()) {
    if (stage["measured"] == true) {
      EXPECT_TRUE(stage["total_ns"].is_number_unsigned()) << name << stage.dump();
    } else {
      EXPECT_TRUE(stage["total_ns"].is_null()) << name << stage.dump();
      EXPECT_TRUE(stage["why_not"].is_string()) << name << stage.dump();
    }
  }
}

}  // namespace

std::uint64_t Record::stage_ns(const std::string& name) const {
  const auto it = stages.find(name);
  return it == stages.end() ? 0 : it->second;
}

bool Record::is(const std::string& flag) const {
  return std::find(quality.begin(), quality.end(), flag) != quality.end();
}

std::uint64_t TraceResult::unmatched(const std::string& reason) const {
  return summary["requests"]["unmatched"][reason];
}

std::uint64_t TraceResult::unmatched_sum() const {
  std::uint64_t sum = 0;
  for (const Json& value : summary["requests"]["unmatched"]) sum += value.get<std::uint64_t>();
  return sum;
}

std::uint64_t TraceResult::lost_sum() const {
  std::uint64_t sum = 0;
  for (const Json& value : summary["lost"]) sum += value.get<std::uint64_t>();
  return sum;
}

std::string fault_of(const Json& json, std::uint64_t run_ns) {
  if (!json["total_ns"].is_number_unsigned()) return "the total is no unsigned number";
  const std::uint64_t total_ns = json["total_ns"];
  if (json["end_ns"].get<std::uint64_t>() - json["start_ns"].get<std::uint64_t>() != total_ns) {
    return "the total is not end - start";
  }
  if (total_ns > run_ns) return fmt::format("longer than the run of {} ns", run_ns);

  std::uint64_t sum_ns = 0;
  std::map<std::string, std::uint64_t> waits = {{"run_queue", 0}, {"app_run_queue", 0}};
  for (const Json& stage : json["stages"]) {
    const std::string name = stage["name"];
    if (!stage["ns"].is_number_unsigned()) return name + " is no unsigned number";
    const std::uint64_t ns = stage["ns"];
    if (ns > run_ns) return fmt::format("{} is longer than the run of {} ns", name, run_ns);
    sum_ns += ns;
    const auto wait = waits.find(name);
    if (wait != waits.end()) wait->second = ns;
  }
  if (sum_ns != total_ns) return fmt::format("the stages sum to {} ns", sum_ns);

  const Json& flags = json["quality"];
  const bool not_named = std::find(flags.begin(), flags.end(), "not_named") != flags.end();
  std::map<std::string, std::uint64_t> held;
  for (const Json& occupant : json["occupants"]) {
    if (!occupant["ns"].is_number_unsigned()) return "an occupant's time is no unsigned number";
    held[occupant["stage"]] += occupant["ns"].get<std::uint64_t>();
    if (occupant["kind"] == "unknown" && !not_named) return "an unknown occupant without the flag";
  }
  // Who had the CPU before a softirq is not always asked; when it is, it is all of it.
  for (const Json& stage : json["stages"]) {
    if (stage["name"] == "softirq_wait" && held["softirq_wait"] > 0) {
      waits["softirq_wait"] = stage["ns"];
    }
  }
  for (const auto& [stage, ns] : waits) {
    if (held[stage] != ns) {
      return fmt::format("the occupants of {} sum to {} ns, it is {} ns", stage, held[stage], ns);
    }
  }
  return {};
}

TraceResult read_trace_file(const std::string& file, std::uint64_t run_ns) {
  constexpr int kShown = 3;
  TraceResult result;
  std::ifstream in(file);
  int wrong = 0;
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded()) {
      ADD_FAILURE() << "not JSON: " << line;
      continue;
    }
    if (json["schema"] == "whylate.summary/1") {
      EXPECT_TRUE(result.summary.is_null()) << "two summaries";
      result.summary = json;
      check_summary(json, run_ns);
      continue;
    }
    EXPECT_EQ(json["schema"], "whylate.request/1");
    EXPECT_TRUE(result.summary.is_null()) << "a record after the summary";
    const std::string fault = fault_of(json, run_ns);
    if (!fault.empty() && wrong++ < kShown) ADD_FAILURE() << fault << ": " << line;
    result.records.push_back(parse_record(json));
  }
  if (wrong > kShown) ADD_FAILURE() << wrong << " such records in all";
  return result;
}

Trace::Trace(const Args& args, const SpawnOptions& options, const Args& wrapper)
    : begin_ns_(monotonic_ns()), file_(new_file("trace")) {
  Args argv = wrapper;
  argv.push_back(wrapper.empty() ? whylate_path() : public_whylate());
  argv = argv + Args{"trace", "--json-lines", "-o", file_} + args;
  // Another user may write it, too.
  std::ofstream(file_).close();
  ::chmod(file_.c_str(), 0666);
  child_ = Child::spawn(argv, options);
  if (!child_.wait_line("attached in")) {
    throw std::runtime_error(fmt::format("whylate trace did not attach: {}", child_.err()));
  }
}

TraceResult Trace::stop() {
  child_.send(SIGINT);
  return finish();
}

TraceResult Trace::finish(int timeout_ms) {
  if (!child_.wait(timeout_ms)) throw std::runtime_error("whylate trace does not end");
  TraceResult result = read_trace_file(file_, monotonic_ns() - begin_ns_);
  result.exit_code = child_.exit_code();
  result.err = child_.err();
  if (!keep_file_) ::remove(file_.c_str());
  return result;
}

Server::Server(const Args& args, const SpawnOptions& options) : log_file_(new_file("reads")) {
  child_ = Child::spawn(Args{echo_path(), "server", "--log", log_file_} + args, options);
  const std::optional<std::string> ready = child_.wait_line("ready pid=");
  if (!ready) throw std::runtime_error("whylate-echo server: " + child_.err());
  port_ = std::stoi(ready->substr(ready->find("port=") + 5));
}

Args Server::trace_args(const Args& more) const { return Args{"-p", std::to_string(pid())} + more; }

ReadLog Server::stop() {
  child_.send(SIGTERM);
  if (!child_.wait()) throw std::runtime_error("whylate-echo server does not end");
  return read_log_file(log_file_);
}

ReadLog read_log_file(const std::string& file) {
  ReadLog log;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    pid_t tid = 0;
    std::uint64_t order = 0;
    Read read = {};
    words >> tid >> order >> read.id >> read.read_ns;
    log[tid].push_back(read);
  }
  return log;
}

Child start_client(const Args& args, const SpawnOptions& options) {
  return Child::spawn(Args{echo_path(), "client", "--json"} + args, options);
}

Json run_client(const Args& args, const SpawnOptions& options) {
  Child client = start_client(args, options);
  client.wait(kClientMs);
  const Json summary = Json::parse(client.out(), nullptr, false);
  if (summary.is_discarded() || !client.exit_code()) {
    throw std::runtime_error(fmt::format("whylate-echo client: exit code {}: {}",
                                         client.exit_code().value_or(-1), client.err()));
  }
  return summary;
}

std::string whylate_path() { return WHYLATE_BINARY; }

std::string public_whylate() {
  const std::string path = scratch_path("whylate");
  if (::access(path.c_str(), X_OK) != 0) {
    std::filesystem::copy_file(whylate_path(), path);
    ::chmod(path.c_str(), 0755);
  }
  return path;
}

std::string onload_shim_path() { return WHYLATE_ONLOAD_SHIM; }

std::string echo_path() { return WHYLATE_ECHO_BINARY; }

Args operator+(Args left, const Args& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

}  // namespace whylate::live
