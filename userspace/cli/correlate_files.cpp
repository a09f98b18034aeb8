// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/escape.h"
#include "cli/correlate.h"

namespace whylate::cli {
namespace {

using Json = nlohmann::json;

/// Why a line is not what it should be; thrown and caught inside this file only, because the JSON
/// library reports its own errors so.
struct BadLine : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const Json& field(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) throw BadLine(fmt::format("no \"{}\"", key));
  return *it;
}

std::uint64_t number(const Json& object, const char* key) {
  const Json& value = field(object, key);
  if (!value.is_number_unsigned()) throw BadLine(fmt::format("\"{}\" is not a whole number", key));
  return value.get<std::uint64_t>();
}

std::optional<std::uint64_t> number_or_null(const Json& object, const char* key) {
  if (field(object, key).is_null()) return std::nullopt;
  return number(object, key);
}

std::string text(const Json& object, const char* key) {
  const Json& value = field(object, key);
  if (!value.is_string()) throw BadLine(fmt::format("\"{}\" is not a text", key));
  return value.get<std::string>();
}

/// Calls `take` with every line's JSON object; empty lines are passed over.
Status for_each_object(std::istream& in, const std::string& name,
                       const std::function<void(const Json&, std::size_t)>& take) {
  std::string line;
  std::size_t line_number = 0;
  const auto bad = [&](std::string_view why) {
    return Error{ExitCode::kBadInput, fmt::format("{}:{}: {}", escape(name), line_number, why)};
  };
  while (std::getline(in, line)) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json object = Json::parse(line, nullptr, false);
    if (object.is_discarded() || !object.is_object()) return bad("not a JSON object");
    try {
      take(object, line_number);
    } catch (const BadLine& why) {
      return bad(escape(why.what()));
    }
  }
  if (in.bad()) return Error{ExitCode::kBadInput, fmt::format("cannot read {}", escape(name))};
  return Done{};
}

void take_request(const Json& object, HostFile& file) {
  const std::optional<std::uint64_t> id = number_or_null(object, "id");
  if (!id) {
    ++file.without_id;
    return;
  }
  HostRequest request;
  request.id = *id;
  request.start_ns = number(object, "start_ns");
  request.end_ns = number(object, "end_ns");
  request.total_ns = number(object, "total_ns");
  if (request.end_ns < request.start_ns || request.end_ns - request.start_ns != request.total_ns) {
    throw BadLine("\"total_ns\" is not \"end_ns\" - \"start_ns\"");
  }
  const Json& verdict = field(object, "verdict");
  const Json& reply = field(object, "reply");
  request.complete = verdict.is_object() && reply.is_boolean() && reply.get<bool>();
  if (verdict.is_object()) {
    request.stage = text(verdict, "stage");
    request.culprit = text(verdict, "culprit");
    request.text = text(verdict, "text");
  }
  file.requests.push_back(std::move(request));
}

}  // namespace

Result<HostFile> read_host_file(std::istream& in, const std::string& name) {
  HostFile file;
  Status status = for_each_object(in, name, [&file](const Json& object, std::size_t) {
    const std::string schema = text(object, "schema");
    if (schema == "whylate.request/1") {
      take_request(object, file);
    } else if (schema == "whylate.summary/1") {
      file.has_summary = true;
      const Json& complete = field(object, "complete");
      file.lost_something = complete.is_boolean() && !complete.get<bool>();
    } else {
      throw BadLine(fmt::format("schema \"{}\" is not whylate.request/1", schema));
    }
  });
  if (!status.ok()) return status.error();
  return file;
}

Result<ClientFile> read_client_file(std::istream& in, const std::string& name) {
  ClientFile file;
  bool header_seen = false;
  Status status = for_each_object(in, name, [&](const Json& object, std::size_t) {
    if (!header_seen) {
      const std::string schema = text(object, "schema");
      if (schema != "whylate.client/1") {
        throw BadLine(fmt::format("schema \"{}\" is not whylate.client/1", schema));
      }
      const std::string clock = text(object, "clock");
      if (clock != "monotonic") throw BadLine(fmt::format("clock \"{}\" is not monotonic", clock));
      header_seen = true;
      return;
    }
    ClientRequest request;
    request.id = number(object, "id");
    request.intended_ns = number_or_null(object, "intended_ns");
    request.sent_ns = number(object, "sent_ns");
    request.received_ns = number_or_null(object, "received_ns");
    if (request.intended_ns && request.sent_ns < *request.intended_ns) {
      throw BadLine("it was sent before it was intended");
    }
    if (request.received_ns && *request.received_ns < request.sent_ns) {
      throw BadLine("the reply came before the request was sent");
    }
    file.requests.push_back(request);
  });
  if (!status.ok()) return status.error();
  if (!header_seen) {
    return Error{ExitCode::kBadInput,
                 fmt::format("{}:1: no whylate.client/1 header", escape(name))};
  }
  return file;
}

}  // namespace whylate::cli
