// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/requests_file.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "echo/file.h"

namespace whylate::echo {
namespace {

constexpr const char* kSchema = "whylate.client/1";

std::string or_null(std::optional<std::int64_t> value) {
  return value ? fmt::format("{}", *value) : "null";
}

std::string or_null(std::int64_t value) {
  return value == kUnknownNs ? "null" : fmt::format("{}", value);
}

std::int64_t time_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? kUnknownNs : found->get<std::int64_t>();
}

RequestsHeader parse_header(const nlohmann::json& object) {
  RequestsHeader header;
  header.proto = object.at("proto").get<std::string>();
  header.to = object.at("to").get<std::string>();
  if (const auto& rate = object.at("rate_millihertz"); !rate.is_null()) {
    header.rate_millihertz = rate.get<std::int64_t>();
  }
  header.burst = object.at("burst").get<std::uint64_t>();
  header.count = object.at("count").get<std::uint64_t>();
  header.size_bytes = object.at("size_bytes").get<std::uint64_t>();
  header.first_id = object.at("first_id").get<std::uint64_t>();
  header.seed = object.at("seed").get<std::uint64_t>();
  header.start_ns = object.at("start_ns").get<std::int64_t>();
  header.start_realtime_ns = object.at("start_realtime_ns").get<std::int64_t>();
  header.timeout_ns = object.at("timeout_ns").get<std::int64_t>();
  header.stamps = object.at("stamps").get<bool>();
  return header;
}

NumberedRequest parse_request(const nlohmann::json& object) {
  NumberedRequest request;
  request.id = object.at("id").get<std::uint64_t>();
  request.record.intended_ns = time_of(object, "intended_ns");
  request.record.sent_ns = object.at("sent_ns").get<std::int64_t>();
  request.record.received_ns = time_of(object, "received_ns");
  request.record.tx_stamp_ns = time_of(object, "tx_stamp_ns");
  request.record.rx_stamp_ns = time_of(object, "rx_stamp_ns");
  request.record.mismatch = object.value("mismatch", false);
  return request;
}

}  // namespace

std::string header_line(const RequestsHeader& header) {
  // "rate" is for people and may be rounded; "rate_millihertz" is exact.
  const std::string rate =
      header.rate_millihertz
          ? fmt::format("{}", static_cast<double>(*header.rate_millihertz) / 1000.0)
          : "null";
  return fmt::format(
      R"({{"schema":"{}","proto":"{}","to":"{}","rate":{},"rate_millihertz":{},"burst":{},)"
      R"("count":{},"size_bytes":{},"first_id":{},"seed":{},"clock":"monotonic","start_ns":{},)"
      R"("start_realtime_ns":{},"timeout_ns":{},"stamps":{}}})",
      kSchema, header.proto, header.to, rate, or_null(header.rate_millihertz), header.burst,
      header.count, header.size_bytes, header.first_id, header.seed, header.start_ns,
      header.start_realtime_ns, header.timeout_ns, header.stamps);
}

std::string request_line(std::uint64_t id, const RequestRecord& request, bool stamps) {
  std::string line = fmt::format(
      R"({{"id":{},"intended_ns":{},"sent_ns":{},"received_ns":{},)"
      R"("latency_ns":{},"latency_intended_ns":{})",
      id, or_null(request.intended_ns), request.sent_ns, or_null(request.received_ns),
      or_null(latency_ns(request, Origin::kSent)), or_null(latency_ns(request, Origin::kIntended)));
  if (stamps) {
    line += fmt::format(R"(,"tx_stamp_ns":{},"rx_stamp_ns":{})", or_null(request.tx_stamp_ns),
                        or_null(request.rx_stamp_ns));
  }
  if (request.mismatch) line += R"(,"mismatch":true)";
  return line + "}";
}

Status write_requests_file(const std::string& path, const RequestsHeader& header,
                           const std::vector<RequestRecord>& requests) {
  auto file = OutputFile::create(path);
  if (!file) return file.error();
  file->write(header_line(header) + "\n");
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].sent_ns == kUnknownNs) continue;
    file->write(request_line(header.first_id + i, requests[i], header.stamps) + "\n");
  }
  return file->close();
}

Result<RequestsFile> read_requests_file(const std::string& path) {
  const auto bad = [&](std::size_t line, const std::string& why) {
    return Error{ExitCode::kBadInput, fmt::format("{}:{}: {}", path, line, why)};
  };
  std::ifstream in(path);
  if (!in) return Error{ExitCode::kBadInput, fmt::format("{}: cannot be opened", path)};
  RequestsFile file;
  std::string text;
  std::size_t number = 0;
  while (std::getline(in, text)) {
    ++number;
    try {
      const auto object = nlohmann::json::parse(text);
      if (number > 1) {
        file.requests.push_back(parse_request(object));
      } else if (object.value("schema", "") != kSchema) {
        return bad(number, fmt::format("not a {} file", kSchema));
      } else {
        file.header = parse_header(object);
      }
    } catch (const nlohmann::json::exception& error) {
      return bad(number, error.what());
    }
  }
  if (number == 0) return bad(1, "empty");
  return file;
}

}  // namespace whylate::echo
