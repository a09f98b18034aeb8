# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Sourced by rig.sh: processes, CPUs, network namespaces, idle states and the CPU quota. Uses
# tools/bench/machine.sh for what the benchmark does as well (saving and restoring, polling).

# shellcheck disable=SC2154 # name, bench: rig.sh; cpuidle_root: machine.sh
started=
pids=() # of what runs; rig.sh ends each by name, or all of them at its end

# start COMMAND...: runs it in the background; its pid is in $started. A background command of a
# script ignores ^C, so that it is rig.sh that ends it, in order.
start() {
	"$@" </dev/null &
	started=$!
	pids+=("$started")
}

# stop PID SIGNAL: ends a process, by force if it takes longer than five seconds. Returns its status.
stop() {
	local pid=$1 i left=()
	for i in "${pids[@]}"; do
		[[ $i == "$pid" ]] || left+=("$i")
	done
	pids=("${left[@]}")
	kill -"$2" "$pid" 2>/dev/null || true
	for ((i = 0; i < 250; ++i)); do
		# A zombie counts as ended: only its parent, this shell, has still to ask for its status.
		[[ -e /proc/$pid/stat && $(sed 's/.*) //; s/ .*//' "/proc/$pid/stat" 2>/dev/null) != [ZX] ]] || break
		sleep 0.02
	done
	[[ $i -lt 250 ]] || kill -KILL "$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null
}

stop_all() {
	while [[ ${#pids[@]} -gt 0 ]]; do
		stop "${pids[-1]}" TERM
	done
}

# The first and the last CPU this process may use; fails when they are one.
choose_cpus() {
	local list
	list=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
	client_cpu=${list%%[,-]*}
	server_cpu=${list##*[,-]}
	[[ $client_cpu != "$server_cpu" ]]
}

# The neighbours are fixed: a question who has an address would hold up a request in the middle.
make_network() {
	local server_mac=02:00:0a:07:00:02 client_mac=02:00:0a:07:00:01
	ip netns add "$name-s" && ip netns add "$name-c" &&
		ip link add veth0 netns "$name-s" address $server_mac type veth \
			peer name veth0 netns "$name-c" address $client_mac &&
		ip -n "$name-s" address add 10.7.0.2/24 dev veth0 &&
		ip -n "$name-c" address add 10.7.0.1/24 dev veth0 &&
		ip -n "$name-s" link set veth0 up &&
		ip -n "$name-c" link set veth0 up &&
		ip -n "$name-s" neighbour replace 10.7.0.1 lladdr $client_mac dev veth0 nud permanent &&
		ip -n "$name-c" neighbour replace 10.7.0.2 lladdr $server_mac dev veth0 nud permanent
}

# "NAME COUNT" of every idle state of a CPU, a line each; nothing without a cpuidle driver.
idle_usage() {
	local state
	for state in /sys/devices/system/cpu/cpu"$1"/cpuidle/state[0-9]*; do
		[[ -r $state/usage ]] || continue
		echo "$(<"$state/name") $(<"$state/usage")"
	done
}

# idle_growth BEFORE AFTER: "POLL 3, C1 9998".
idle_growth() {
	paste -d ' ' <(echo "$1") <(echo "$2") |
		awk '{ printf "%s%s %d", (NR > 1 ? ", " : ""), $1, $4 - $2 } END { print "" }'
}

# only_polled BEFORE AFTER: did the first state's counter grow, and no other's by more than a hundredth of it?
only_polled() {
	paste -d ' ' <(echo "$1") <(echo "$2") |
		awk 'NR == 1 { poll = $4 - $2 } NR > 1 { deeper += $4 - $2 } END { exit !(poll > 0 && deeper * 100 <= poll) }'
}

# Keeps the CPUs from their idle states until stop_keeping_awake; sets awake_by and awake_title.
# shellcheck disable=SC2034 # rig.sh reads both
keep_awake() {
	local before after
	if idle_driver_polls && poll_by_idle_driver; then
		before=$(idle_usage "$server_cpu")
		sleep 0.5
		after=$(idle_usage "$server_cpu")
		if only_polled "$before" "$after"; then
			awake_by=cpuidle awake_title="idle state not entered (polling)"
			return
		fi
		say "the idle driver still does not poll although every other state is disabled"
		restore_saved
	else
		restore_saved
		say "no idle state can be disabled here (cpuidle driver: $(cat "$cpuidle_root/current_driver" 2>/dev/null || echo none))"
	fi
	say "so an idle-priority process (SCHED_IDLE) spins on each of the two CPUs and keeps it awake:"
	say "every ordinary task preempts it at once, but the wake-up is that of a busy CPU, not of a polling one"
	start_idle_spinner
	awake_by=spinner awake_title="idle state not entered (spinner)"
}

start_idle_spinner() {
	[[ -x $bench/spinner ]] || fail 5 "$bench/spinner is missing; build again"
	start_spinner
}

# make_group QUOTA_US PERIOD_US: a cgroup with a CPU quota; sets $group. It weighs ten times as much as others, so that it is the
# quota that stops it and not whatever else wants that CPU.
make_group() {
	local path root
	if root=$(findmnt -n -o TARGET -t cgroup -O cpu | head -n 1) && [[ -n $root ]]; then
		path=$root/$name
		mkdir "$path" || return 1
		group=$path
		echo "$2" >"$path/cpu.cfs_period_us" && echo "$1" >"$path/cpu.cfs_quota_us" &&
			echo 10240 >"$path/cpu.shares"
		return
	fi
	root=$(findmnt -n -o TARGET -t cgroup2 | head -n 1) || return 1
	if ! grep -qw cpu "$root/cgroup.subtree_control"; then
		grep -qw cpu "$root/cgroup.controllers" && echo +cpu >"$root/cgroup.subtree_control" || return 1
		group_parent=$root
	fi
	path=$root/$name
	mkdir "$path" || return 1
	group=$path
	echo "$1 $2" >"$path/cpu.max" && echo 1000 >"$path/cpu.weight"
}

# A process that has just ended leaves its group a moment later.
remove_group() {
	local i
	[[ -n $group ]] || return 0
	for ((i = 0; i < 100; ++i)); do
		rmdir "$group" 2>/dev/null && break
		sleep 0.02
	done
	[[ ! -d $group ]] || warn "could not remove $group"
	group=
	if [[ -n $group_parent ]]; then
		echo -cpu >"$group_parent/cgroup.subtree_control" || warn "could not restore $group_parent/cgroup.subtree_control"
		group_parent=
	fi
}
