// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/signals.h"

#include <csignal>

namespace whylate {
namespace {

volatile std::sig_atomic_t stop_flag = 0;

void on_stop(int signal_number) {
  if (stop_flag != 0) {
    // Delivered with the default action as soon as this handler returns.
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
    return;
  }
  stop_flag = 1;
}

}  // namespace

void handle_signals() {
  struct sigaction action = {};
  action.sa_handler = on_stop;
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: a wait must end when the signal comes.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigemptyset(&ignore.sa_mask);
  sigaction(SIGPIPE, &ignore, nullptr);

  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

bool stop_requested() { return stop_flag != 0; }

void reset_signals_for_child() {
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) std::signal(number, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigprocmask(SIG_SETMASK, &set, nullptr);
}

void clear_stop_request_for_test() { stop_flag = 0; }

}  // namespace whylate
