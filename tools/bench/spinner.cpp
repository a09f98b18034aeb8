// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Keeps CPUs from halting where no idle driver can be told to poll: one SCHED_IDLE process per
// named CPU that spins. Every ordinary task preempts it at once; the CPU merely never enters its
// idle state. Ends on SIGINT or SIGTERM.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr int kExitUsage = 2;
constexpr int kExitRuntime = 5;

[[noreturn]] void spin_on(int cpu, pid_t parent) {
  // The parent may be killed in a way it cannot handle: the spinner must not outlive it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitRuntime);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  const sched_param parameters{};
  if (sched_setaffinity(0, sizeof cpus, &cpus) != 0 ||
      sched_setscheduler(0, SCHED_IDLE, &parameters) != 0) {
    std::fprintf(stderr, "spinner: CPU %d: %s\n", cpu, std::strerror(errno));
    _exit(kExitRuntime);
  }
  for (;;) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    asm volatile("" ::: "memory");
#endif
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Keep CPUs from halting with one SCHED_IDLE spinner each, until SIGINT or SIGTERM."};
  std::vector<int> cpus;
  app.add_option("--cpus", cpus, "CPUs to keep busy, e.g. 0,1")
      ->required()
      ->delimiter(',')
      ->check(CLI::Range(0, CPU_SETSIZE - 1));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }

  // An ignored signal (the state a script's background command starts in) would never end the
  // sigwait below.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  sigset_t waited;
  sigset_t before;
  sigemptyset(&waited);
  sigaddset(&waited, SIGINT);
  sigaddset(&waited, SIGTERM);
  sigaddset(&waited, SIGCHLD);
  sigprocmask(SIG_BLOCK, &waited, &before);

  const pid_t self = getpid();
  std::vector<pid_t> children;
  for (const int cpu : cpus) {
    const pid_t child = fork();
    if (child == 0) {
      sigprocmask(SIG_SETMASK, &before, nullptr);
      spin_on(cpu, self);
    }
    if (child > 0) children.push_back(child);
  }
  std::fprintf(stderr, "spinner: spinning on %zu CPUs\n", children.size());

  int signal_number = 0;
  sigwait(&waited, &signal_number);
  for (const pid_t child : children) kill(child, SIGKILL);
  while (wait(nullptr) > 0) {
  }
  // A child never ends by itself: one that did had failed.
  return signal_number == SIGCHLD || children.size() != cpus.size() ? kExitRuntime : 0;
}
