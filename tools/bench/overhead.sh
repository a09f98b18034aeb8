#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What tracing costs. Part "latency": one ping-pong pair over loopback, tracers attached in turn, a sample without any
# before and after each. Part "resources": attach time, memory, CPU share and completeness of whylate itself.
set -u -o pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$here/../../build
rounds=9
count=60000
warmup=2000
client_cpu=0
server_cpu=1
tracers="whylate floor tcpdump bpftrace perf"
method=auto
part=all
also_halt=no
json_file=
whylate_command=
whylate_json_command=
other_command=
max_repeats=5
keep_disturbed=no
settle_s=0.1
requests=1000000

usage() {
  cat <<'TEXT'
usage: tools/bench/overhead.sh [options]        (as root)
  --build DIR         build directory (default: build/ beside tools/)
  --part PART         latency, resources or all (default all)
  --rounds N          rounds of the latency part (default 9)
  --count N           round trips per sample (default 60000)
  --warmup N          unmeasured round trips before each sample (default 2000)
  --tracers "A B"     of: whylate other floor tcpdump bpftrace perf (default all but other)
  --client-cpu N, --server-cpu N       (default 0 and 1)
  --method M          how the CPUs are kept from halting: cpuidle (the idle driver polls), spinner (a SCHED_IDLE spinner
                      on each), spin-read (both processes read without blocking, in a loop), one-cpu (both on the server's
                      CPU), halt (not at all), auto (cpuidle; without a driver that can poll, spinner
                      unless its round trip is over twice that of one-cpu, else one-cpu)
  --halt              a second table with CPUs that halt
  --whylate CMD       whylate's command line; {pid} and {port} are filled in
                      (default: BUILD/whylate trace -p {pid} -d 1h -o /dev/null)
  --other CMD         the command line of another build, a row of its own named other: two versions in one run
  --whylate-json CMD  the same, for the completeness check, with the summary as JSON on standard output
                      (default: BUILD/whylate trace -p {pid} -d 1h --json)
  --requests N        requests of the completeness check (default 1000000)
  --keep-disturbed    keep samples under foreign load (to try the script, not to measure)
  --json FILE         results as JSON
exit codes: 0 done, 1 whylate did not count every request, 2 usage, 3 not permitted or something needed
is missing, 5 other failure
TEXT
}

warn() { printf 'overhead: %s\n' "$*" >&2; }
die() { warn "$1"; exit "${2:-5}"; }

while (($#)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --halt) also_halt=yes; shift; continue ;;
    --keep-disturbed) keep_disturbed=yes; shift; continue ;;
  esac
  (($# >= 2)) || { usage >&2; exit 2; }
  case $1 in
    --build) build=$2 ;;
    --part) part=$2 ;;
    --rounds) rounds=$2 ;;
    --count) count=$2 ;;
    --warmup) warmup=$2 ;;
    --tracers) tracers=$2 ;;
    --client-cpu) client_cpu=$2 ;;
    --server-cpu) server_cpu=$2 ;;
    --method) method=$2 ;;
    --whylate) whylate_command=$2 ;;
    --other) other_command=$2 ;;
    --whylate-json) whylate_json_command=$2 ;;
    --requests) requests=$2 ;;
    --json) json_file=$2 ;;
    *) warn "unknown option $1"; usage >&2; exit 2 ;;
  esac
  shift 2
done
[[ $part =~ ^(latency|resources|all)$ ]] || die "--part must be latency, resources or all" 2
[[ $method =~ ^(auto|cpuidle|spinner|spin-read|one-cpu|halt)$ ]] ||
  die "--method must be auto, cpuidle, spinner, spin-read, one-cpu or halt" 2
for name in $tracers; do
  [[ $name =~ ^(whylate|other|floor|tcpdump|bpftrace|perf)$ ]] || die "--tracers: no tracer is called '$name'" 2
done
[[ -z $other_command || " $tracers " == *" other "* ]] || tracers+=" other"
[[ " $tracers " != *" other "* || -n $other_command ]] || die "--tracers: other needs --other" 2
for name in rounds count requests; do [[ ${!name} =~ ^[1-9][0-9]{0,8}$ ]] || die "--$name must be a number above 0" 2; done
for name in warmup client_cpu server_cpu; do
  [[ ${!name} =~ ^[0-9]{1,8}$ ]] || die "--${name/_/-} must be a number" 2
done

((EUID == 0)) || die "must run as root: it attaches tracers and sets idle states" 3
build=$(cd "$build" 2>/dev/null && pwd) || die "no build directory; build first, or give --build" 3
bench=$build/bench
[[ -n $whylate_command ]] || whylate_command="$build/whylate trace -p {pid} -d 1h -o /dev/null"
[[ -n $whylate_json_command ]] || whylate_json_command="$build/whylate trace -p {pid} -d 1h --json"
for name in pingpong spinner floor; do [[ -x $bench/$name ]] || die "$bench/$name is missing: build with WHYLATE_BPF=ON" 3; done
for cpu in "$client_cpu" "$server_cpu"; do [[ -d /sys/devices/system/cpu/cpu$cpu ]] || die "there is no CPU $cpu" 2; done

# shellcheck source=tools/bench/machine.sh
source "$here/machine.sh"
# shellcheck source=tools/bench/tracers.sh
source "$here/tracers.sh"
# shellcheck source=tools/bench/resources.sh
source "$here/resources.sh"

tmp=$(mktemp -d) || exit 5
pingpong_pid=
target_pid=
target_port=
base_warned=no
ending=no  # the script is: nothing is waited for any more

# shellcheck disable=SC2317  # called by the trap
cleanup() {
  ending=yes
  trap '' INT TERM HUP
  stop_tracer
  stop_pingpong
  resources_stop
  machine_restore
  rm -rf "$tmp"
}
trap cleanup EXIT
# A peer that has died must end in a message and the cleanup, not in the shell's own silent death.
trap '' PIPE
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Starts the pair on the CPUs given, with more options if any, and reads who and where the server is.
start_pingpong() {
  local line
  coproc PINGPONG { exec "$bench/pingpong" --control --client-cpu "$1" --server-cpu "$2" "${@:3}"; }
  # shellcheck disable=SC2153  # set by coproc
  pingpong_pid=$PINGPONG_PID
  exec {to_pingpong}>&"${PINGPONG[1]}" {from_pingpong}<&"${PINGPONG[0]}"
  read -r -t 10 -u "$from_pingpong" line || die "the ping-pong does not start"
  target_pid=$(field server_pid "$line")
  target_port=$(field port "$line")
}

stop_pingpong() {
  [[ -n $pingpong_pid ]] || return 0
  # "quit" lets the client end and reap its server; the end of its input means the same.
  echo quit 2>/dev/null 1>&"$to_pingpong"
  exec {to_pingpong}>&- {from_pingpong}<&-
  [[ $ending == yes ]] && kill -TERM "$pingpong_pid" 2>/dev/null
  wait "$pingpong_pid" 2>/dev/null
  pingpong_pid=
}

# The number behind a key in one line of JSON.
field() { sed -n 's/.*"'"$1"'" *: *\(-\{0,1\}[0-9.]*\).*/\1/p' <<<"$2"; }

# One sample; p50 of the round trip in ns into `result`.
sample() {
  local line
  echo "sample $1 $2" >&"$to_pingpong" || die "the ping-pong ended"
  read -r -t 300 -u "$from_pingpong" line || die "the ping-pong gives no sample"
  result=$(field rtt_p50_ns "$line")
}

# A sample that counts: repeated while something foreign takes more than 5 % of a CPU. Sets result and disturbed.
take() {
  local attempt start_us who
  for ((attempt = 0; attempt <= max_repeats; ++attempt)); do
    process_snapshot >"$tmp/before"
    start_us=$(now_us)
    sample "$count" "$warmup"
    local elapsed_us=$(($(now_us) - start_us))
    process_snapshot >"$tmp/after"
    who=$(foreign_load "$tmp/before" "$tmp/after" "$elapsed_us")
    disturbed=0
    [[ -z $who || $keep_disturbed == yes ]] && return 0
    disturbed=1
    ((repeated++))
    [[ $base_warned == yes ]] || warn "foreign load: $who; such samples are repeated"
    base_warned=yes
    sleep 0.3
  done
}

# Chooses and sets up the way the CPUs are kept awake; sets used_method and method_text, starts the pair.
prepare() {
  local wanted=$1 before moved with_spinner with_one_cpu
  stop_pingpong
  stop_keeping_awake
  if [[ $wanted == auto ]] && idle_driver_polls; then wanted=cpuidle; fi
  if [[ $wanted == auto ]]; then
    # On some virtual machines an interrupt to a running CPU costs tens of us. Spinners then bury what is to be measured
    # under the price of the interrupts; one CPU for both sides has neither interrupts nor idling.
    start_pingpong "$server_cpu" "$server_cpu"
    sample 3000 1000; with_one_cpu=$result
    stop_pingpong
    start_pingpong "$client_cpu" "$server_cpu"
    start_spinner
    sample 3000 1000; with_spinner=$result
    stop_spinner
    stop_pingpong
    wanted=spinner
    ((with_spinner > 2 * with_one_cpu)) && wanted=one-cpu
    method_choice=" (no idle driver that can poll; round trip on two CPUs with spinners $with_spinner ns, on one CPU $with_one_cpu ns)"
  fi
  if [[ $wanted == one-cpu ]]; then
    start_pingpong "$server_cpu" "$server_cpu"
  elif [[ $wanted == spin-read ]]; then
    start_pingpong "$client_cpu" "$server_cpu" --spin
  else
    start_pingpong "$client_cpu" "$server_cpu"
  fi
  used_method=$wanted
  case $wanted in
    cpuidle)
      idle_driver_polls || die "--method cpuidle: the idle driver of CPUs $client_cpu and $server_cpu has no POLL state" 3
      poll_by_idle_driver || die "cannot write the idle states" 3
      before=$(poll_usage)
      sample 5000 0
      moved=$(($(poll_usage) - before))
      ((moved >= 1000)) || die "the CPUs do not poll: state0 was entered $moved times in 5000 round trips" 3
      method_text="cpuidle: the CPUs poll (governor menu, deeper states disabled; state0 entered $moved times in 5000 round trips)"
      ;;
    spinner)
      start_spinner
      method_text="spinner: a SCHED_IDLE spinner on CPUs $client_cpu and $server_cpu keeps them from halting; cpu_idle does not fire${method_choice:-}"
      ;;
    one-cpu)
      method_text="one-cpu: client and server on CPU $server_cpu, which neither idles nor gets wake-up interrupts; cpu_idle hardly fires${method_choice:-}"
      ;;
    spin-read)
      method_text="spin-read: client and server read without blocking, in a loop: nobody sleeps, is woken or waits for a CPU"
      ;;
    halt) method_text="halt: idle CPUs halt; their wake-up is part of the round trip${method_choice:-}" ;;
  esac
}

# Rounds in turn, then the table; JSON into $2.
latency_table() {
  local round position=0 name
  local -A left_out=()
  method_choice=
  repeated=0
  prepare "$1"
  : >"$tmp/samples"
  record() { printf '%d %s %d %d\n' $((++position)) "$1" "$result" "$disturbed" >>"$tmp/samples"; }
  take; record none
  for ((round = 1; round <= rounds; ++round)); do
    for name in $tracers; do
      [[ -z ${left_out[$name]-} ]] || continue
      if ! start_tracer "$name"; then
        left_out[$name]=$tracer_why
        warn "$name left out: $tracer_why"
        continue
      fi
      take; record "$name"
      stop_tracer
      take; record none
    done
    [[ -t 2 ]] && printf '\rround %d of %d ' "$round" "$rounds" >&2
  done
  [[ -t 2 ]] && printf '\n' >&2
  awk -v method="$used_method" -v method_text="$method_text" -v order="$tracers" -v json="$2" -f "$here/overhead.awk" "$tmp/samples"
  for name in "${!left_out[@]}"; do printf '%s not measured: %s\n' "$name" "${left_out[$name]}"; done
  ((repeated)) && printf '%d samples were repeated because of foreign load.\n' "$repeated"
  [[ $keep_disturbed == yes ]] && echo "Samples under foreign load were kept: these figures only show that the script works."
  stop_pingpong
  stop_keeping_awake
}

[[ $(cat /proc/sys/kernel/bpf_stats_enabled 2>/dev/null) == 1 ]] &&
  die "kernel.bpf_stats_enabled is 1: it adds clock reads to every program; set it to 0 first" 3
mount_tracefs || warn "tracefs cannot be mounted: bpftrace and perf will not attach"
printf 'kernel %s, %s, %d CPUs; client on CPU %d, server on CPU %d\n' "$(uname -r)" "$(uname -m)" "$(getconf _NPROCESSORS_ONLN)" \
  "$client_cpu" "$server_cpu"

tables=()
if [[ $part != resources ]]; then
  latency_table "$method" "$tmp/table1.json"
  tables+=("$tmp/table1.json")
  if [[ $also_halt == yes && $used_method != halt ]]; then
    latency_table halt "$tmp/table2.json"
    tables+=("$tmp/table2.json")
  fi
fi
resources_json=null
finding=0
if [[ $part != latency ]]; then
  resources
fi
if [[ -n $json_file ]]; then
  {
    printf '{"schema":"whylate.overhead/1","kernel":"%s","machine":"%s","rounds":%d,"count":%d,"tables":[' "$(uname -r)" "$(uname -m)" \
      "$rounds" "$count"
    for ((i = 0; i < ${#tables[@]}; ++i)); do
      ((i)) && printf ','
      cat "${tables[i]}"
    done
    printf '],"resources":%s}\n' "$resources_json"
  } >"$json_file" || die "cannot write $json_file"
fi
exit "$finding"
