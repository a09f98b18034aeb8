// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "support/child.h"

namespace whylate::live {

/// A network namespace that lives as long as this object: it has no name that could be left over.
/// Its loopback device is up.
class NetNs {
 public:
  NetNs();
  NetNs(const NetNs&) = delete;
  NetNs& operator=(const NetNs&) = delete;
  ~NetNs();

  int fd() const { return fd_; }
  std::string path() const;  ///< for tools, while this process lives

  /// Runs ip(8), or another program, inside; throws when it fails.
  void ip(const std::string& arguments) const { run("ip", arguments); }
  void run(const std::string& program, const std::string& arguments) const;

 private:
  int fd_ = -1;
};

/// Two namespaces joined by a veth pair; it goes when they go.
class VethPair {
 public:
  static constexpr const char* kClientAddress4 = "10.83.0.1";
  static constexpr const char* kServerAddress4 = "10.83.0.2";
  static constexpr const char* kClientAddress6 = "fd83::1";
  static constexpr const char* kServerAddress6 = "fd83::2";
  static constexpr const char* kClientDevice = "wlc";
  static constexpr const char* kServerDevice = "wls";

  VethPair();
  const NetNs& client() const { return client_; }
  const NetNs& server() const { return server_; }

 private:
  NetNs client_;
  NetNs server_;
};

/// The two CPUs that the tests work on: the responder's, and everybody else's.
struct Cpus {
  int server;
  int client;
};
Cpus cpus();

/// A cgroup with a CPU quota (v1 or v2, whatever this host has), gone at the end.
class QuotaGroup {
 public:
  QuotaGroup(int quota_us, int period_us);
  QuotaGroup(const QuotaGroup&) = delete;
  QuotaGroup& operator=(const QuotaGroup&) = delete;
  ~QuotaGroup();

  /// Moves the calling process in; for SpawnOptions::in_child.
  void enter() const;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::string directory_;
};

/// Moves the calling process to the root of the CPU controller: the only place where a real-time
/// policy is allowed when groups have no real-time budget.
void enter_root_cpu_group();

/// A task that computes on one CPU under a name of its own.
struct LoadOptions {
  std::string name;
  int cpu = 0;
  int policy = 0;  ///< SCHED_*
  int priority = 0;
  std::int64_t busy_us = 0;  ///< 0: always busy
  std::int64_t idle_us = 0;  ///< asleep after each busy time
};
Child start_load(const LoadOptions& options);

/// `stress-ng --cpu 1` on one CPU, until the end of this object.
class StressNg {
 public:
  explicit StressNg(int cpu);
  StressNg(const StressNg&) = delete;
  StressNg& operator=(const StressNg&) = delete;
  ~StressNg();

 private:
  Child child_;
};

/// CPU time used by tasks that this test did not start, and time the hypervisor took, since the
/// construction. Descendants of the test and ksoftirqd (which handles the test's packets) are its
/// own.
class ForeignLoad {
 public:
  ForeignLoad();
  double share() const;  ///< of one CPU

 private:
  std::uint64_t begin_ns_;
  std::uint64_t begin_ticks_;
};

}  // namespace whylate::live
