// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Time taken by interrupts, softirqs and groups: named as what it is.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "causes.h"
#include "support/host.h"

namespace whylate::live {
namespace {

void stay_on(int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  ::sched_setaffinity(0, sizeof mask, &mask);
}

std::uint64_t part_of_app_irq(const TraceResult& result, const std::string& part) {
  std::uint64_t sum = 0;
  for (const Record& record : result.records) {
    const auto it = record.app_irq.find(part);
    if (it != record.app_irq.end()) sum += it->second;
  }
  return sum;
}

std::uint64_t longest_part_of_app_irq(const TraceResult& result, const std::string& part) {
  std::uint64_t longest_ns = 0;
  for (const Record& record : result.records) {
    const auto it = record.app_irq.find(part);
    if (it != record.app_irq.end()) longest_ns = std::max(longest_ns, it->second);
  }
  return longest_ns;
}

/// The requests that lost at least so much to that part.
std::vector<Record> hit_for(const TraceResult& result, const std::string& part,
                            std::uint64_t least_ns) {
  std::vector<Record> hit;
  for (const Record& record : result.records) {
    const auto it = record.app_irq.find(part);
    if (it != record.app_irq.end() && it->second >= least_ns) hit.push_back(record);
  }
  return hit;
}

/// Thousands of timers that expire together, over and over, on the responder's CPU; the task that
/// set them sleeps meanwhile, and their signal is blocked.
Child start_timers(int cpu) {
  constexpr int kBursts = 20;
  constexpr int kTimers = 3'000;
  constexpr std::uint64_t kApartNs = 100'000'000;
  Child child = Child::fork([cpu] {
    stay_on(cpu);
    // A timer counts as a signal that may be pending; the limit goes by the machine's memory.
    rlimit limit = {};
    ::getrlimit(RLIMIT_SIGPENDING, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_SIGPENDING, &limit);
    sigset_t blocked;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGUSR1);
    ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR1;
    const std::uint64_t begin_ns = monotonic_ns() + 2'500'000'000;
    for (int i = 0; i < kBursts * kTimers; ++i) {
      timer_t timer = {};
      const std::uint64_t at_ns = begin_ns + static_cast<std::uint64_t>(i / kTimers) * kApartNs;
      itimerspec when = {};
      when.it_value = {static_cast<time_t>(at_ns / 1'000'000'000),
                       static_cast<long>(at_ns % 1'000'000'000)};
      if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
          ::timer_settime(timer, TIMER_ABSTIME, &when, nullptr) != 0) {
        ::_exit(1);
      }
    }
    while (true) ::pause();
  });
  sleep_ms(1'200);
  if (!child.running()) throw std::runtime_error("cannot set the timers");
  return child;
}

TEST(Theft, ManyTimersAreTheLocalTimerAndNotTheTaskTheyHit) {
  // One request after the other, at work nearly all the time: most bursts hit one.
  const Rig rig = {{"--work-us", "400"}, {"--count", "9000", "--wait", "block"}, {}};
  TraceResult with;
  {
    const Child timers = start_timers(cpus().server);
    with = run_rig(rig);
  }
  const TraceResult without = run_rig(rig);
  // The burst itself, not what a hypervisor adds to an ordinary tick now and then.
  const std::uint64_t burst_ns = longest_part_of_app_irq(with, "timer_ns") / 4;
  const std::vector<Record> hit = hit_for(with, "timer_ns", burst_ns);
  ASSERT_GE(hit.size(), 4u) << "hardly a burst of timers hit a request: the test proves nothing";
  EXPECT_GT(with_culprit(hit, "app_irq", "the local timer") * 2, hit.size()) << describe(hit);
  EXPECT_LT(hit_for(without, "timer_ns", burst_ns).size() * 4, hit.size());
}

/// A task elsewhere that has this CPU do things for it, again and again: function-call interrupts.
Child start_ipis(int from, int to) {
  return Child::fork([from, to] {
    stay_on(from);
    perf_event_attr attr = {};
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = PERF_COUNT_SW_DUMMY;
    attr.disabled = 1;
    const int fd = static_cast<int>(::syscall(SYS_perf_event_open, &attr, -1, to, -1, 0));
    if (fd < 0) ::_exit(1);
    while (true) {
      ::ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
      ::ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
    }
  });
}

TEST(Theft, SignalsOfAnotherCpuAreInterProcessorInterrupts) {
  const Rig rig = {{"--work-us", "1000"}, {"--rate", "200", "--count", "400"}, {}};
  TraceResult with;
  {
    Child ipis = start_ipis(cpus().client, cpus().server);
    with = run_rig(rig);
    ASSERT_TRUE(ipis.running()) << "cannot open a software event";
  }
  const TraceResult without = run_rig(rig);
  const std::uint64_t ipi_ns = part_of_app_irq(with, "ipi_ns");
  EXPECT_GT(ipi_ns, 5 * part_of_app_irq(without, "ipi_ns"));
  EXPECT_GT(ipi_ns, part_of_app_irq(with, "irq_ns"));
}

/// Judged by what the hog itself had: other tasks of the host may wait on that CPU, too.
TEST(Theft, TheGroupOfAHogIsNamed) {
  std::string name;
  TraceResult result;
  pid_t hog_pid = 0;
  {
    const QuotaGroup group(100'000, 100'000);  // a group like any other: a whole CPU is no limit
    name = group.name();
    Child hog = Child::fork([&group] {
      stay_on(cpus().server);
      group.enter();
      while (true) {
      }
    });
    hog_pid = hog.pid();
    result = run_rig({{}, {"--rate", "250", "--count", "600"}, {}});
    hog.send(SIGKILL);
    hog.wait();
  }
  std::size_t behind_hog = 0;
  std::size_t named = 0;
  for (const Record& record : result.records) {
    for (const Occupant& occupant : record.occupants) {
      if (occupant.stage != "run_queue" || occupant.pid != hog_pid) continue;
      ++behind_hog;
      named += occupant.cgroup == "/" + name ? 1 : 0;
    }
  }
  ASSERT_GE(behind_hog, 20u) << "the hog was hardly in the way: the test proves nothing";
  EXPECT_EQ(named, behind_hog) << "the hog's group is not named";
}

/// A group whose real-time tasks may use a tenth of the time.
class RealTimeGroup {
 public:
  RealTimeGroup() {
    directory_ = fmt::format("/sys/fs/cgroup/cpu/whylate-live-rt-{}", ::getpid());
    made_ = ::mkdir(directory_.c_str(), 0755) == 0 &&
            write_text(directory_ + "/cpu.rt_period_us", "50000") &&
            write_text(directory_ + "/cpu.rt_runtime_us", "5000");
  }
  RealTimeGroup(const RealTimeGroup&) = delete;
  RealTimeGroup& operator=(const RealTimeGroup&) = delete;
  ~RealTimeGroup() {
    for (int i = 0; i < 200 && ::rmdir(directory_.c_str()) != 0 && errno == EBUSY; ++i)
      sleep_ms(10);
  }
  bool made() const { return made_; }
  void enter() const {
    sched_param parameter = {};
    parameter.sched_priority = 10;
    if (!write_text(directory_ + "/cgroup.procs", "0") ||
        ::sched_setscheduler(0, SCHED_FIFO, &parameter) != 0) {
      ::_exit(1);
    }
  }

 private:
  std::string directory_;
  bool made_ = false;
};

TEST(Theft, AUsedUpRealTimeBudgetIsSaid) {
  const RealTimeGroup group;
  if (!group.made()) GTEST_SKIP() << "no real-time groups (cgroup v1, CONFIG_RT_GROUP_SCHED)";
  const TraceResult result = run_rig(
      {{"--work-us", "2000"}, {"--count", "200", "--wait", "block"}, [&group] { group.enter(); }});
  // Two or three requests use a period's budget up; the next one waits for the period after, in
  // its work or, woken for nothing, before its read.
  std::vector<Record> late;
  std::size_t flagged = 0;
  for (const Record& record : result.records) {
    if (record.total_ns < 15'000'000) continue;
    late.push_back(record);
    flagged += record.is("rt_throttled") ? 1 : 0;
  }
  ASSERT_GE(late.size(), 10u) << "the budget hardly ever ran out: the test proves nothing";
  EXPECT_GT(flagged * 10, late.size() * 8) << describe(late);
  const std::size_t said = with_culprit(late, "run_queue", "real-time budget") +
                           with_culprit(late, "app_run_queue", "real-time budget");
  EXPECT_GT(said * 10, late.size() * 8) << describe(late);
}

/// The server's veth end in its own network namespace; `path` is below /sys/class/net/DEVICE.
bool set_device(const VethPair& veth, const std::string& path, const std::string& value) {
  const std::string script =
      fmt::format("mount -t sysfs none /sys && echo {} > /sys/class/net/{}/{}", value,
                  VethPair::kServerDevice, path);
  SpawnOptions options;
  options.netns_fd = veth.server().fd();
  return Child::run({"unshare", "-m", "sh", "-c", script}, options).exit_code() == 0;
}

TraceResult run_on(const VethPair& veth, const Args& server_args, const Args& client_args) {
  SpawnOptions at_server;
  SpawnOptions at_client;
  at_server.netns_fd = veth.server().fd();
  at_client.netns_fd = veth.client().fd();
  Server server(Args{"--listen", std::string(VethPair::kServerAddress4) + ":0"} + server_args,
                at_server);
  Trace trace(server.trace_args({"--id-offset", "0"}));
  const Json client =
      run_client(Args{"--to", server.address(VethPair::kServerAddress4)} + client_args, at_client);
  EXPECT_EQ(client["received"], client["count"]) << client.dump();
  TraceResult result = trace.stop();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result;
}

TEST(Theft, APacketHandedOverByAnotherCpuNamesBoth) {
  const VethPair veth;
  const int to = cpus().server;
  ASSERT_TRUE(set_device(veth, "queues/rx-0/rps_cpus", fmt::format("{:x}", 1u << to)));
  const TraceResult result = run_on(veth, {"--cpu", std::to_string(to)},
                                    {"--cpu", std::to_string(cpus().client), "--gap-us", "500",
                                     "--wait", "block", "--count", "1000"});
  std::size_t hops = 0;
  for (const Record& record : result.records) {
    if (!record.is("hop")) continue;
    ++hops;
    EXPECT_EQ(record.hop_from, cpus().client);
  }
  EXPECT_GT(hops * 10, result.records.size() * 9);
}

TEST(Theft, ANapiThreadThatWaitsForTheCpuIsToldFromTheServer) {
  const VethPair veth;
  SpawnOptions inside;
  inside.netns_fd = veth.server().fd();
  SpawnOptions outside;
  outside.netns_fd = veth.client().fd();
  // veth takes its NAPI for packets that can be merged only, or if the sender does not segment
  // in "hardware" (veth_skb_is_eligible_for_gro()).
  if (Child::run({"ethtool", "-K", VethPair::kClientDevice, "tso", "off"}, outside).exit_code() !=
          0 ||
      Child::run({"ethtool", "-K", VethPair::kServerDevice, "gro", "on"}, inside).exit_code() !=
          0 ||
      !set_device(veth, "threaded", "1")) {
    GTEST_SKIP() << "no NAPI, or no threads for it, on veth here";
  }
  const Child pin =
      Child::run({"sh", "-c",
                  fmt::format("for p in $(pgrep ^napi/{}-); do taskset -pc {} $p; done",
                              VethPair::kServerDevice, cpus().server)});
  TraceResult result;
  {
    // Nothing that the scheduler may weigh: a real-time task has the thread's CPU a third of the
    // time. The server waits for it, too, but after the thread, and not as long.
    const Child load = start_load({"rt-task", cpus().server, SCHED_FIFO, 50, 5'000, 10'000});
    result = run_on(veth, {"--cpu", std::to_string(cpus().server)},
                    {"--cpu", std::to_string(cpus().client), "--gap-us", "2000", "--wait", "block",
                     "--count", "600"});
  }
  std::size_t threaded = 0;
  std::size_t blamed = 0;
  std::size_t waited = 0;
  for (const Record& record : result.records) {
    threaded += record.softirq_mode == "threaded_napi" ? 1 : 0;
    if (record.stage != "softirq_wait") continue;
    ++waited;
    blamed += record.culprit.rfind("rt-task", 0) == 0 ? 1 : 0;
  }
  EXPECT_GT(threaded * 10, result.records.size() * 9);
  EXPECT_GE(blamed, 20u) << "of " << waited << " that waited for the thread";
}

}  // namespace
}  // namespace whylate::live
