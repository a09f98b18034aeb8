// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/vendor_dpdk.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "host/file.h"
#include "stack/collect/dpdk_telemetry.h"

namespace whylate::stack::collect {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostPorts = 64;

// The object below its only key: {"/ethdev/list": [0]}.
Json content(const std::string& answer) {
  const Json json = Json::parse(answer, nullptr, false);
  if (!json.is_object() || json.size() != 1) return Json();
  return json.begin().value();
}

std::optional<std::uint64_t> number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

// "net_af_xdp0" is made by the driver net_af_xdp; a PCI address does not tell.
std::string driver_of(const std::string& name) {
  if (name.rfind("net_", 0) != 0 && name.rfind("eth_", 0) != 0) return {};
  std::string driver = name;
  while (!driver.empty() && std::isdigit(static_cast<unsigned char>(driver.back())) != 0) {
    driver.pop_back();
  }
  return driver;
}

std::string find_directory(const Evidence& evidence) {
  for (const FdEntry& entry : evidence.fds) {
    if (entry.kind != ObjectKind::kDpdkRuntime) continue;
    if (std::string directory = dpdk_directory(entry.link); !directory.empty()) return directory;
  }
  for (const MapEntry& entry : evidence.maps) {
    if (entry.kind != ObjectKind::kDpdkRuntime) continue;
    if (std::string directory = dpdk_directory(entry.path); !directory.empty()) return directory;
  }
  // With --in-memory there are no files, but the telemetry socket stays.
  for (const DiagRow& row : evidence.diag) {
    if (row.family != DiagFamily::kUnix) continue;
    if (row.local.find("/dpdk_telemetry.v2") == std::string::npos) continue;
    if (std::string directory = dpdk_directory(row.local); !directory.empty()) return directory;
  }
  return {};
}

void find_primary(const Context& context, DpdkEvidence& dpdk) {
  const TargetFile config(context, dpdk.run_directory + "/config");
  struct stat status = {};
  if (!config.ok() || ::stat(config.path().c_str(), &status) != 0) return;
  const auto locks = host::read_file(context.path("/proc/locks"));
  if (!locks) {
    context.cannot_read("/proc/locks", "the file cannot be read",
                        "whether it is DPDK's primary process");
    return;
  }
  dpdk.primary_pid = posix_lock_holder(*locks, status.st_dev, status.st_ino);
  // Without a holder the primary has ended or lives in another pid namespace.
  if (dpdk.primary_pid != 0) dpdk.primary = dpdk.primary_pid == context.pid;
}

void read_ports(DpdkTelemetry& telemetry, DpdkEvidence& dpdk) {
  const auto list = telemetry.ask("/ethdev/list");
  const auto ports = list ? parse_port_list(*list) : std::nullopt;
  if (!ports) return;
  for (const std::uint64_t id : *ports) {
    if (dpdk.ports.size() == kMostPorts) break;
    DpdkPort port;
    const std::string suffix = "," + std::to_string(id);
    if (const auto info = telemetry.ask("/ethdev/info" + suffix)) parse_port_info(*info, port);
    if (const auto statistics = telemetry.ask("/ethdev/stats" + suffix)) {
      parse_port_statistics(*statistics, Reading::kBefore, port);
    }
    dpdk.ports.push_back(std::move(port));
  }
}

}  // namespace

std::string dpdk_directory(std::string_view path) {
  const std::size_t dpdk = path.find("/dpdk/");
  if (path.empty() || path.front() != '/' || dpdk == std::string_view::npos) return {};
  const std::size_t prefix = dpdk + 6;
  const std::size_t end = path.find('/', prefix);
  if (end == std::string_view::npos || end == prefix) return {};
  return std::string(path.substr(0, end));
}

pid_t posix_lock_holder(std::string_view locks, std::uint64_t device, std::uint64_t inode) {
  // "1: POSIX  ADVISORY  WRITE 1234 fe:00:10747907 0 EOF"
  char wanted[64];
  std::snprintf(wanted, sizeof(wanted), "%02x:%02x:%llu", major(device), minor(device),
                static_cast<unsigned long long>(inode));
  for (const std::string_view line : host::split_lines(locks)) {
    const auto words = host::split_words(line);
    if (words.size() < 6 || words[1] != "POSIX" || words[3] != "WRITE" || words[5] != wanted) {
      continue;
    }
    if (const auto pid = host::parse_u64(words[4])) return static_cast<pid_t>(*pid);
  }
  return 0;
}

std::optional<std::vector<std::uint64_t>> parse_port_list(const std::string& answer) {
  const Json list = content(answer);
  if (!list.is_array()) return std::nullopt;
  std::vector<std::uint64_t> ports;
  for (const Json& port : list) {
    if (port.is_number_unsigned()) ports.push_back(port.get<std::uint64_t>());
  }
  return ports;
}

void parse_port_info(const std::string& answer, DpdkPort& port) {
  const Json info = content(answer);
  if (!info.is_object()) return;
  const auto name = info.find("name");
  if (name != info.end() && name->is_string()) port.name = name->get<std::string>();
  port.driver = driver_of(port.name);
}

void parse_port_statistics(const std::string& answer, Reading reading, DpdkPort& port) {
  const Json statistics = content(answer);
  if (!statistics.is_object()) return;
  set_counter(port.rx_packets, reading, number(statistics, "ipackets"));
  set_counter(port.tx_packets, reading, number(statistics, "opackets"));
  set_counter(port.rx_no_buffer, reading, number(statistics, "rx_nombuf"));
}

void collect_dpdk(const Context& context, Evidence& evidence) {
  DpdkEvidence dpdk;
  dpdk.run_directory = find_directory(evidence);
  if (dpdk.run_directory.empty()) return;
  find_primary(context, dpdk);
  if (context.live()) {
    std::string why_not;
    DpdkTelemetry telemetry(context, dpdk.run_directory, &why_not);
    if (telemetry.ok()) {
      dpdk.telemetry_answered = true;
      dpdk.version = telemetry.version();
      const auto parameters = telemetry.ask("/eal/params");
      if (parameters) {
        for (const Json& parameter : content(*parameters)) {
          if (parameter.is_string()) dpdk.eal_parameters.push_back(parameter.get<std::string>());
        }
      }
      read_ports(telemetry, dpdk);
    } else {
      context.cannot_read("DPDK telemetry in " + dpdk.run_directory, why_not,
                          "its ports and their counters");
    }
  }
  evidence.dpdk = std::move(dpdk);
}

void collect_dpdk_after(const Context& context, Evidence& evidence) {
  if (!evidence.dpdk || !evidence.dpdk->telemetry_answered) return;
  std::string why_not;
  DpdkTelemetry telemetry(context, evidence.dpdk->run_directory, &why_not);
  if (!telemetry.ok()) return;
  const auto list = telemetry.ask("/ethdev/list");
  const auto ports = list ? parse_port_list(*list) : std::nullopt;
  if (!ports) return;
  for (const std::uint64_t id : *ports) {
    const std::string suffix = "," + std::to_string(id);
    DpdkPort now;
    if (const auto info = telemetry.ask("/ethdev/info" + suffix)) parse_port_info(*info, now);
    const auto port = std::find_if(evidence.dpdk->ports.begin(), evidence.dpdk->ports.end(),
                                   [&](const DpdkPort& p) { return p.name == now.name; });
    if (port == evidence.dpdk->ports.end()) continue;
    if (const auto statistics = telemetry.ask("/ethdev/stats" + suffix)) {
      parse_port_statistics(*statistics, Reading::kAfter, *port);
    }
  }
}

}  // namespace whylate::stack::collect
