# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A CPU quota of cgroup v2: 10 ms in 50 for a server that wants more; the same group without a limit
# is its partner. From 6.6 on the wait is `throttled`, by that group; before, it is in the stages of
# the run queue, and whylate says so.
. /vm/guest/lib.sh
can_trace || not_here "too old: refused"

GROUP=/sys/fs/cgroup/limited
[ -e /sys/fs/cgroup/cgroup.procs ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup || fail "no cgroup v2"
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control || fail "no CPU controller"
mkdir -p $GROUP
throttled_us() { sed -n 's/^throttled_usec //p' $GROUP/cpu.stat; }

echo max 50000 >$GROUP/cpu.max
start_server --cpu 0 --work-us 2000
echo "$SERVER_PID" >$GROUP/cgroup.procs || fail "cannot move the server"
place_interrupts 1
warm_up
start_trace
phase "no limit" 60 "$(by_irq 1 0)" $PACED
FREE=$PHASE_FIRST
echo 10000 50000 >$GROUP/cpu.max
BEFORE=$(throttled_us)
phase "10 ms in 50" 60 "$(by_irq 1 0)" $PACED
LIMITED=$PHASE_FIRST
COUNTED=$(($(throttled_us) - BEFORE))
echo max 50000 >$GROUP/cpu.max
stop_trace
echo "-- the kernel's own count: $COUNTED us"

check "the quota was in the way" [ $COUNTED -gt 200000 ]
if [ "$(jq 'select(.schema == "whylate.summary/1") | .stages.throttled.measured' $OUT/trace)" = true ]; then
	expect "throttled about as long as the kernel counted" "of($LIMITED; 60)
		| ([.[].stages[] | select(.name == \"throttled\") | .ns] | add // 0)
		| . > $COUNTED * 500 and . < $COUNTED * 1100"
	expect "blamed on the group where it is the longest" "of($LIMITED; 60)
		| [.[] | select(.verdict.stage == \"throttled\")]
		| length >= 5 and all(.[]; .verdict.culprit == \"CPU quota of /limited\")"
	expect "nothing is throttled without a limit" \
		"all(of($FREE; 60)[].stages[]; .name != \"throttled\")"
else
	WAITS='([.[].stages[] | select(.name == "run_queue" or .name == "app_run_queue") | .ns] | add // 0)'
	expect "why not: the field came with 6.6" "\$summary.stages.throttled
		| .measured == false and (.why_not | contains(\"throttled_clock_self_time (since 6.6\"))"
	expect "nothing is throttled" \
		"all(\$records[].stages[]; .name != \"throttled\")"
	# What waits behind a request that is throttled waits on the socket.
	expect "the waits are in the run queue's stages" "(of($LIMITED; 60) | $WAITS) as \$limited
		| (of($FREE; 60) | $WAITS) as \$free
		| \$limited > $COUNTED * 200 and \$limited > 5 * \$free"
	expect "and no task is blamed for them" "of($LIMITED; 60) | [.[].occupants[]
		| select(.kind == \"task\" and (.stage | endswith(\"run_queue\"))) | .ns] | add // 0
		| . < $COUNTED * 200"
fi
check_trace
check_pairing
finish
