// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "support/host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>
#include <stdexcept>

namespace whylate::live {
namespace {

[[noreturn]] void give_up(const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> list;
  for (std::string word; in >> word;) list.push_back(word);
  return list;
}

bool is_v1() {
  return ::access("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", F_OK) == 0 ||
         ::access("/sys/fs/cgroup/cpu/tasks", F_OK) == 0;
}

std::string cpu_root() { return is_v1() ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup"; }

void set_cpu(int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  ::sched_setaffinity(0, sizeof mask, &mask);
}

void compute_for(std::int64_t us) {
  const std::uint64_t end_ns = monotonic_ns() + static_cast<std::uint64_t>(us) * 1000;
  while (monotonic_ns() < end_ns) {
  }
}

}  // namespace

NetNs::NetNs() {
  const int home = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (home < 0 || ::unshare(CLONE_NEWNET) != 0) give_up("cannot make a network namespace");
  fd_ = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (::setns(home, CLONE_NEWNET) != 0) give_up("cannot leave the new network namespace");
  ::close(home);
  ip("link set lo up");
}

NetNs::~NetNs() {
  if (fd_ >= 0) ::close(fd_);
}

std::string NetNs::path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_); }

void NetNs::run(const std::string& program, const std::string& arguments) const {
  std::vector<std::string> argv = words(arguments);
  argv.insert(argv.begin(), program);
  SpawnOptions options;
  options.netns_fd = fd_;
  const Child child = Child::run(argv, options);
  if (child.exit_code() != 0) {
    throw std::runtime_error(fmt::format("{} {}: {}", program, arguments, child.err()));
  }
}

VethPair::VethPair() {
  constexpr const char* kClientMac = "02:83:00:00:00:01";
  constexpr const char* kServerMac = "02:83:00:00:00:02";
  client_.ip(fmt::format("link add {} address {} type veth peer name {} address {} netns {}",
                         kClientDevice, kClientMac, kServerDevice, kServerMac, server_.path()));
  const auto set_up = [](const NetNs& side, const char* device, const char* address4,
                         const char* address6, const char* peer4, const char* peer6,
                         const char* peer_mac) {
    side.ip(fmt::format("link set {} addrgenmode none", device));
    side.ip(fmt::format("addr add {}/24 dev {}", address4, device));
    side.ip(fmt::format("addr add {}/64 dev {} nodad", address6, device));
    side.ip(fmt::format("link set {} up", device));
    // Asking for it can take a second on a device that just came up.
    side.ip(fmt::format("neigh add {} lladdr {} dev {} nud permanent", peer4, peer_mac, device));
    side.ip(fmt::format("neigh add {} lladdr {} dev {} nud permanent", peer6, peer_mac, device));
  };
  set_up(client_, kClientDevice, kClientAddress4, kClientAddress6, kServerAddress4, kServerAddress6,
         kServerMac);
  set_up(server_, kServerDevice, kServerAddress4, kServerAddress6, kClientAddress4, kClientAddress6,
         kClientMac);
  client_.ip(fmt::format("route add 224.0.0.0/4 dev {}", kClientDevice));
}

Cpus cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ::sched_getaffinity(0, sizeof mask, &mask);
  std::vector<int> list;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) list.push_back(cpu);
  }
  if (list.size() < 2) throw std::runtime_error("the live tests need two CPUs");
  return {list[1], list[0]};
}

QuotaGroup::QuotaGroup(int quota_us, int period_us) {
  static int number = 0;
  name_ = fmt::format("whylate-live-{}-{}", ::getpid(), number++);
  directory_ = cpu_root() + "/" + name_;
  // On v2 the controller must be handed down first; refused when it already is or may not be.
  if (!is_v1()) write_text(cpu_root() + "/cgroup.subtree_control", "+cpu");
  if (::mkdir(directory_.c_str(), 0755) != 0) give_up("cannot make " + directory_);
  const bool set =
      is_v1() ? write_text(directory_ + "/cpu.cfs_period_us", std::to_string(period_us)) &&
                    write_text(directory_ + "/cpu.cfs_quota_us", std::to_string(quota_us))
              : write_text(directory_ + "/cpu.max", fmt::format("{} {}", quota_us, period_us));
  if (!set) {
    ::rmdir(directory_.c_str());
    throw std::runtime_error("cannot set a CPU quota on " + directory_);
  }
}

QuotaGroup::~QuotaGroup() {
  // A process that just ended leaves its group a moment later.
  for (int i = 0; i < 200 && ::rmdir(directory_.c_str()) != 0 && errno == EBUSY; ++i) sleep_ms(10);
}

void QuotaGroup::enter() const { write_text(directory_ + "/cgroup.procs", "0"); }

void enter_root_cpu_group() { write_text(cpu_root() + "/cgroup.procs", "0"); }

Child start_load(const LoadOptions& options) {
  Child child = Child::fork([&options] {
    ::prctl(PR_SET_NAME, options.name.c_str());
    set_cpu(options.cpu);
    if (options.policy != SCHED_OTHER) {
      enter_root_cpu_group();
      sched_param parameter = {};
      parameter.sched_priority = options.priority;
      if (::sched_setscheduler(0, options.policy, &parameter) != 0) ::_exit(1);
    }
    while (true) {
      if (options.busy_us == 0) continue;
      compute_for(options.busy_us);
      const timespec pause = {0, options.idle_us * 1000};
      ::nanosleep(&pause, nullptr);
    }
  });
  sleep_ms(50);
  if (!child.running()) throw std::runtime_error("cannot start the load " + options.name);
  return child;
}

StressNg::StressNg(int cpu)
    : child_(Child::spawn({"stress-ng", "--cpu", "1", "--taskset", std::to_string(cpu), "--timeout",
                           "100s", "--temp-path", scratch_path("")})) {
  sleep_ms(500);
  if (!child_.running()) throw std::runtime_error("stress-ng: " + child_.err());
}

StressNg::~StressNg() {
  // It ends its workers itself when it is asked to end.
  child_.send(SIGTERM);
  child_.wait(5000);
}

}  // namespace whylate::live
