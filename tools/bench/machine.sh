# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Sourced by overhead.sh: the state of the machine. What is changed here is put back by machine_restore.

cpuidle_root=/sys/devices/system/cpu/cpuidle
restore_paths=()
restore_values=()
mounted_tracefs=no
spinner_pid=

# Writes a value to a sysfs file and remembers what it was.
write_saved() {
  local path=$1 value=$2 before
  before=$(<"$path") || return 1
  [[ $before == "$value" ]] && return 0
  restore_paths+=("$path")
  restore_values+=("$before")
  printf '%s' "$value" >"$path"
}

restore_saved() {
  local i
  for ((i = ${#restore_paths[@]} - 1; i >= 0; --i)); do
    printf '%s' "${restore_values[i]}" >"${restore_paths[i]}" || warn "could not restore ${restore_paths[i]}"
  done
  restore_paths=()
  restore_values=()
}

# tcpdump needs no tracefs; bpftrace and perf do.
mount_tracefs() {
  [[ -e /sys/kernel/tracing/events || ! -d /sys/kernel/tracing ]] && return 0
  mount -t tracefs tracefs /sys/kernel/tracing && mounted_tracefs=yes
}

machine_restore() {
  stop_keeping_awake
  if [[ $mounted_tracefs == yes ]]; then
    umount /sys/kernel/tracing 2>/dev/null || umount -l /sys/kernel/tracing
    mounted_tracefs=no
  fi
}

idle_driver_polls() {
  local cpu dir=/sys/devices/system/cpu
  [[ -r $cpuidle_root/current_driver && $(<$cpuidle_root/current_driver) != none ]] || return 1
  for cpu in "$client_cpu" "$server_cpu"; do
    [[ -w $dir/cpu$cpu/cpuidle/state1/disable && $(<"$dir/cpu$cpu/cpuidle/state0/name") == POLL ]] || return 1
  done
}

# Makes the idle driver poll. Disabling the states is not enough: some governors (haltpoll) ignore it.
poll_by_idle_driver() {
  local cpu state
  if [[ -w $cpuidle_root/current_governor ]]; then
    write_saved $cpuidle_root/current_governor menu || return 1
  fi
  for cpu in "$client_cpu" "$server_cpu"; do
    for state in /sys/devices/system/cpu/cpu"$cpu"/cpuidle/state[1-9]*; do
      write_saved "$state/disable" 1 || return 1
    done
  done
}

poll_usage() { cat "/sys/devices/system/cpu/cpu$server_cpu/cpuidle/state0/usage"; }

start_spinner() {
  env --default-signal=INT,PIPE "$bench/spinner" --cpus "$client_cpu,$server_cpu" 2>"$tmp/spinner.err" &
  spinner_pid=$!
  wait_for_line "$tmp/spinner.err" spinning "$spinner_pid" 5 || die "the spinner does not start: $(<"$tmp/spinner.err")"
}

stop_spinner() {
  [[ -n $spinner_pid ]] || return 0
  kill -TERM "$spinner_pid" 2>/dev/null
  wait "$spinner_pid" 2>/dev/null
  spinner_pid=
}

stop_keeping_awake() {
  stop_spinner
  restore_saved
}

# One line per process: pid, parent, CPU ticks (its own and those of children it has reaped), name. A compiler that lives
# shorter than a sample is thus found in its parent.
process_snapshot() {
  cat /proc/[0-9]*/stat 2>/dev/null | awk '{
    open = index($0, "("); close_at = 0
    for (i = length($0); i > 0; --i) if (substr($0, i, 1) == ")") { close_at = i; break }
    split(substr($0, close_at + 2), f, " ")
    name = substr($0, open + 1, close_at - open - 1); gsub(/[ \t]/, "_", name)
    print substr($0, 1, open - 2), f[2], f[12] + f[13] + f[14] + f[15], name
  }'
  # The time the hypervisor took from each of the two CPUs.
  awk -v a="cpu$client_cpu" -v b="cpu$server_cpu" '$1 == a || $1 == b { print $1, "steal", $9, "hypervisor" }' /proc/stat
}

# Names the process outside this script's family that used the most of a CPU between two snapshots, if above 5 %.
foreign_load() {
  local before=$1 after=$2 elapsed_us=$3
  awk -v self=$$ -v elapsed_s="$(bc_div "$elapsed_us" 1000000)" -v hz="$(getconf CLK_TCK)" '
    NR == FNR { ticks[$1] = $3; next }
    { parent[$1] = $2; name[$1] = $4; used[$1] = ($1 in ticks) ? $3 - ticks[$1] : ($2 == "steal" ? 0 : $3) }
    function ours(pid,   depth) {
      for (depth = 0; depth < 64 && (pid in parent); ++depth) { if (pid == self) return 1; pid = parent[pid] }
      return 0
    }
    END {
      worst = 0
      for (pid in used) {
        share = used[pid] / hz / elapsed_s
        # One tick is the resolution: it must not decide alone.
        if (share > 0.05 && used[pid] > 1 && share > worst && !ours(pid)) { worst = share; who = name[pid] "[" pid "]" }
      }
      if (worst > 0) printf "%s %.0f %%\n", who, 100 * worst
    }' "$before" "$after"
}

bc_div() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.6f", a / b }'; }

# The clock in us, for durations of a second and more.
now_us() { printf '%s' "${EPOCHREALTIME/[.,]/}"; }

# Waits until a file has a line that matches; fails when the process ends first or the time is over.
wait_for_line() {
  local file=$1 pattern=$2 pid=$3 seconds=$4 i
  for ((i = 0; i < seconds * 50; ++i)); do
    grep -qE -- "$pattern" "$file" 2>/dev/null && return 0
    kill -0 "$pid" 2>/dev/null || return 1
    sleep 0.02
  done
  return 1
}
