// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <optional>
#include <string>

#include "stack/collect/context.h"

namespace whylate::stack::collect {

/// A connection to the telemetry socket of a DPDK process (version 2 of its protocol: one packet a
/// question, one packet of JSON an answer). Questions read only. Waits at most a second for each
/// answer, then gives up for good.
class DpdkTelemetry {
 public:
  /// Connects to the socket in `directory` behind which the target itself is; *why_not says why
  /// there is none.
  DpdkTelemetry(const Context& context, const std::string& directory, std::string* why_not);
  ~DpdkTelemetry();
  DpdkTelemetry(const DpdkTelemetry&) = delete;
  DpdkTelemetry& operator=(const DpdkTelemetry&) = delete;

  bool ok() const { return fd_ >= 0; }
  const std::string& version() const { return version_; }

  /// The answer, or nothing when there was none.
  std::optional<std::string> ask(const std::string& question);

 private:
  bool try_socket(const Context& context, const std::string& path, std::string* why_not);
  std::optional<std::string> receive();

  int fd_ = -1;
  std::size_t most_bytes_ = 0;
  std::string version_;
};

}  // namespace whylate::stack::collect
