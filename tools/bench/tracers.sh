# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Sourced by overhead.sh: how each tracer is started, known to be attached, and ended.

tracer_pid=
perf_ctl=     # the control pipe of perf, while it runs
tracer_why=   # why the last start failed

# The 15 tracepoints of the floor object, by their names in tracefs.
tracepoints=(power:cpu_idle irq:irq_handler_entry irq:irq_handler_exit irq:softirq_raise irq:softirq_entry irq:softirq_exit
  net:netif_receive_skb sock:sk_data_ready sched:sched_waking sched:sched_switch skb:skb_copy_datagram_iovec
  raw_syscalls:sys_enter raw_syscalls:sys_exit net:net_dev_queue net:net_dev_start_xmit)

# Starts a tracer in the background. SIGINT is made deadly again: the shell starts background commands with it ignored.
spawn_tracer() {
  : >"$tmp/tracer.out"
  : >"$tmp/tracer.err"
  env --default-signal=INT,QUIT,PIPE "$@" >"$tmp/tracer.out" 2>"$tmp/tracer.err" &
  tracer_pid=$!
}

# Fills in a command line from a template with {pid} and {port}.
spawn_whylate() {
  local template=${1//\{pid\}/$target_pid} words
  template=${template//\{port\}/$target_port}
  read -ra words <<<"$template"
  command -v "${words[0]}" >/dev/null || { tracer_why="${words[0]} is not there"; return 1; }
  spawn_tracer "${words[@]}"
}

start_whylate() {
  spawn_whylate "$whylate_command" || return 1
  wait_for_line "$tmp/tracer.err" attached "$tracer_pid" 20
}

start_other() {
  spawn_whylate "$other_command" || return 1
  wait_for_line "$tmp/tracer.err" attached "$tracer_pid" 20
}

start_floor() {
  spawn_tracer "$bench/floor"
  wait_for_line "$tmp/tracer.err" attached "$tracer_pid" 20
}

start_tcpdump() {
  command -v tcpdump >/dev/null || { tracer_why="tcpdump is not installed"; return 1; }
  spawn_tracer tcpdump -i lo -w /dev/null udp port "$target_port"
  wait_for_line "$tmp/tracer.err" "listening on" "$tracer_pid" 20
}

# bpftrace says "Attaching" before it does: count its perf events instead.
start_bpftrace() {
  local script=$here/reference.bt wanted have i
  command -v bpftrace >/dev/null || { tracer_why="bpftrace is not installed"; return 1; }
  wanted=$(grep -c '^tracepoint:' "$script")
  spawn_tracer bpftrace "$script" "$target_pid"
  for ((i = 0; i < 1000; ++i)); do
    have=$(find "/proc/$tracer_pid/fd" -lname '*perf_event*' 2>/dev/null | wc -l)
    ((have >= wanted)) && return 0
    kill -0 "$tracer_pid" 2>/dev/null || return 1
    sleep 0.02
  done
  return 1
}

# perf starts disabled, is told to begin, and acknowledges: no guess about when it is ready.
start_perf() {
  local acknowledged events
  command -v perf >/dev/null || { tracer_why="perf is not installed"; return 1; }
  events=$(IFS=,; printf '%s' "${tracepoints[*]}")
  rm -f "$tmp/perf.ctl" "$tmp/perf.ack"
  mkfifo "$tmp/perf.ctl" "$tmp/perf.ack" || return 1
  spawn_tracer perf record -q -a -N -B -D -1 --control "fifo:$tmp/perf.ctl,$tmp/perf.ack" -e "$events" -o /dev/null
  # Opened for reading and writing, so that neither open waits for perf; kept open until perf has ended, because it spins
  # on a control pipe whose writer has gone.
  exec {perf_ctl}<>"$tmp/perf.ctl" {perf_ack}<>"$tmp/perf.ack"
  echo enable >&"$perf_ctl"
  read -r -t 20 -u "$perf_ack" acknowledged
  local status=$?
  ((status == 0)) && [[ $acknowledged == ack* ]]
}

# Starts tracer $1; on failure leaves nothing running and says why in tracer_why.
start_tracer() {
  local name=$1
  tracer_pid=
  tracer_why=
  [[ $name == none ]] && return 0
  if ! "start_$name"; then
    [[ -n $tracer_why ]] || tracer_why="does not attach: $(grep -vE '^\s*$' "$tmp/tracer.err" | tail -n 1)"
    stop_tracer
    return 1
  fi
  sleep "$settle_s"
  kill -0 "$tracer_pid" 2>/dev/null && return 0
  tracer_why="ended by itself: $(grep -vE '^\s*$' "$tmp/tracer.err" | tail -n 1)"
  stop_tracer
  return 1
}

# Ends the tracer with SIGINT and waits for its exit, so that the next sample is taken without it.
stop_tracer() {
  local i
  [[ -n $tracer_pid ]] || return 0
  kill -INT "$tracer_pid" 2>/dev/null
  for ((i = 0; i < 750; ++i)); do
    kill -0 "$tracer_pid" 2>/dev/null || break
    sleep 0.02
  done
  if kill -0 "$tracer_pid" 2>/dev/null; then
    warn "tracer $tracer_pid did not end within 15 s of SIGINT, killed"
    kill -KILL "$tracer_pid" 2>/dev/null
  fi
  wait "$tracer_pid" 2>/dev/null
  tracer_pid=
  if [[ -n $perf_ctl ]]; then
    exec {perf_ctl}>&- {perf_ack}>&-
    perf_ctl=
  fi
}
