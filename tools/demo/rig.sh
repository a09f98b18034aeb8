#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The part of tools/demo.sh that runs as root: two network namespaces joined by a veth pair, a
# responder in one, a client in the other, and five phases that differ in what disturbs the
# responder; then the same requests through other network stacks. Whatever it makes or changes is undone at the end, also after ^C.
# usage: tools/demo/rig.sh BUILD_DIRECTORY COUNT [KEEP_DIRECTORY]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1 count=$2 keep=${3-}
whylate=$build/whylate
echo_bin=$build/whylate-echo

name=wldemo$$
group_parent=
group=
tmp=
title=()

say() { echo "$*" >&2; }
warn() { say "warning: $*"; }
fail() {
	local status=$1
	shift
	say "tools/demo.sh: $*"
	exit "$status"
}

# shellcheck source=tools/bench/machine.sh
. tools/bench/machine.sh
bench=$build/bench
# shellcheck source=tools/demo/host.sh
. tools/demo/host.sh
# shellcheck source=tools/demo/stacks.sh
. tools/demo/stacks.sh

cleanup() {
	local status=$?
	trap '' INT TERM HUP
	trap - EXIT
	set +e
	case $status in
	0 | 2 | 3 | 5) ;;
	130 | 143) say "interrupted" ;;
	*) say "tools/demo.sh: failed in line ${failed_line:-?} of rig.sh"
		status=5
		;;
	esac
	stop_all
	stop_keeping_awake
	remove_group
	ip netns del "$name-s" 2>/dev/null
	ip netns del "$name-c" 2>/dev/null
	if [[ -n $keep && -d $tmp ]]; then
		cp -- "$tmp"/*.json "$tmp"/*.jsonl "$keep"/ 2>/dev/null
		[[ -z ${SUDO_UID-} ]] || chown -R "$SUDO_UID:${SUDO_GID-$SUDO_UID}" "$keep"
	fi
	[[ -z $tmp ]] || rm -rf -- "$tmp"
	exit "$status"
}

# phase KEY TITLE [SERVER_OPTION...]: one phase. Its files are $tmp/KEY.{requests.jsonl,client.jsonl,
# client.json}, and KEY.disturbed when something that is not the demo's used a CPU meanwhile.
phase() {
	local key=$1 server tracer status begin_us
	title+=("$key=$2")
	say "phase: $2"
	shift 2

	# The responder joins its group, if it has one, before it is there to be traced, and before it is in
	# its namespace: "ip netns exec" mounts a /sys without cgroups.
	# shellcheck disable=SC2016 # expanded by the inner shell
	start bash -c '[[ -z $1 ]] || echo $$ >"$1/cgroup.procs" || exit; exec ip netns exec "${@:2}"' demo "$group" \
		"$name-s" "$echo_bin" server --listen 10.7.0.2:9000 --cpu "$server_cpu" "$@" \
		>"$tmp/server.out" 2>"$tmp/server.err"
	server=$started
	wait_for_line "$tmp/server.out" '^ready' "$server" 10 ||
		fail 5 "the responder does not start: $(<"$tmp/server.err")"

	start "$whylate" trace -p "$server" --json-lines --id-offset 0 --id-bytes 8 \
		-o "$tmp/$key.requests.jsonl" 2>"$tmp/trace.err"
	tracer=$started
	wait_for_line "$tmp/trace.err" '^whylate: attached' "$tracer" 30 || {
		status=0
		stop "$tracer" TERM || status=$?
		[[ $status -eq 3 ]] || status=5
		fail "$status" "whylate does not attach: $(<"$tmp/trace.err")"
	}

	process_snapshot >"$tmp/before" || true # a process ended while it was being read
	begin_us=$(now_us)
	idle_before=$(idle_usage "$server_cpu")
	start ip netns exec "$name-c" "$echo_bin" client --to 10.7.0.2:9000 --rate 1000 --count "$count" \
		--cpu "$client_cpu" --json --requests "$tmp/$key.client.jsonl" >"$tmp/$key.client.json" 2>"$tmp/client.err"
	status=0
	wait "$started" || status=$?
	unset 'pids[-1]' # it has ended
	[[ $status -eq 0 ]] || fail 5 "the client failed: $(<"$tmp/client.err")"
	idle_after=$(idle_usage "$server_cpu")
	process_snapshot >"$tmp/after" || true
	foreign_load "$tmp/before" "$tmp/after" $(($(now_us) - begin_us)) >"$tmp/$key.disturbed"

	stop "$tracer" INT || fail 5 "whylate failed: $(<"$tmp/trace.err")"
	stop "$server" TERM || fail 5 "the responder failed: $(<"$tmp/server.err")"
}

say_idle() { python3 tools/demo/table.py idle "$tmp/$1.requests.jsonl" "$server_cpu" >&2; }

[[ $EUID -eq 0 ]] || fail 3 "needs root"
[[ -x $whylate && -x $echo_bin ]] || fail 3 "$build has no whylate or whylate-echo"
choose_cpus || fail 3 "the demo needs two CPUs, one for the client and one for the responder; there is one"
tmp=$(mktemp -d)
trap 'failed_line=$LINENO' ERR
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
make_network || fail 3 "cannot make the network namespaces"
say "responder on CPU $server_cpu, client on CPU $client_cpu, $count requests a phase, one per millisecond"

phase quiet "quiet"

start stress-ng --quiet --cpu 1 --cpu-method fft --taskset "$server_cpu" --timeout 600 >&2
hog=$started
sleep 0.3
kill -0 "$hog" 2>/dev/null || fail 5 "stress-ng does not start"
phase stress "stress-ng on CPU $server_cpu"
stop "$hog" TERM || true

phase asleep "idle state entered"
if [[ -n $idle_before ]]; then
	say "  idle states of CPU $server_cpu, times entered: $(idle_growth "$idle_before" "$idle_after")"
	! only_polled "$idle_before" "$idle_after" ||
		warn "the CPU only polls here (settings, boot parameters, or haltpoll); nothing deeper was entered"
else
	say "  this kernel has no cpuidle driver, so no usage counters; the tracer saw it:"
	say_idle asleep
fi

keep_awake
phase awake "$awake_title"
if [[ $awake_by == cpuidle ]]; then
	say "  idle states of CPU $server_cpu, times entered: $(idle_growth "$idle_before" "$idle_after")"
	only_polled "$idle_before" "$idle_after" ||
		warn "the CPU entered more than its polling state; read that row with care"
else
	say_idle awake
fi
stop_keeping_awake

if make_group 80000 100000; then
	# A responder that polls: at one request per millisecond it is the only kind that uses up a quota
	# for sure, period after period, and yet keeps up between the stops.
	phase quota "polling, quota 80 of 100 ms" --mode spin --work-us 20
	remove_group
else
	warn "no CPU controller of cgroups (v1 or v2) can be used here; the quota phase is left out"
fi

stacks_part

echo
python3 tools/demo/table.py table "$tmp" "${title[@]}"
for entry in "${title[@]}"; do
	key=${entry%%=*}
	[[ $key == stress || $key == quota ]] || continue
	echo
	echo "${entry#*=}: whylate correlate --requests $key.requests.jsonl --client $key.client.jsonl"
	"$whylate" correlate --slowest 5 --requests "$tmp/$key.requests.jsonl" --client "$tmp/$key.client.jsonl"
done
[[ ${#stack_title[@]} -eq 0 ]] || {
	echo
	python3 tools/demo/table.py stacks "$tmp" "${stack_title[@]}"
}
