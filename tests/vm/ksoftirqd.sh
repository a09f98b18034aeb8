# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# kernel arguments: threadirqs
# A ksoftirqd that must wait for its CPU. With threaded interrupts the kernel leaves what an interrupt
# raises to ksoftirqd, always: packets go from the client's CPU to CPU 1 (RPS), whose ksoftirqd has
# the CPU to itself in one phase and a real-time task beside it in the other.
. /vm/guest/lib.sh
can_trace || not_here "too old: refused"

HANDED=', "rx_cpu": 1, "server_cpu": 0, "modes": ["ksoftirqd"]'
start_server --cpu 0
place_interrupts $CLIENT_CPU
echo 2 >$SERVER_SYS/queues/rx-0/rps_cpus
warm_up
start_trace
warm_up
phase "CPU 1 free" 40 "$HANDED" $PACED
FREE=$PHASE_FIRST
chrt -f 20 yes >/dev/null &
HOG=$!
taskset -p -c 1 $HOG >/dev/null
# Ordinary tasks get 50 ms a second beside it. Only then has it been switched to under its new name.
usleep 1500000
phase "hog on CPU 1" 40 "$HANDED" --wait block --gap-us 20000
STARVED=$PHASE_FIRST
kill $HOG
stop_trace
expect "no hog in the first" "all(of($FREE; 40)[].occupants[]; .comm != \"yes\")
	and all(of($FREE; 40)[]; .verdict.culprit | tostring | contains(\"yes\") | not)"
expect "the hog has most of ksoftirqd's wait, on CPU 1" "of($STARVED; 40)
	| [.[].occupants[] | select(.stage == \"softirq_wait\")]
	| length > 0 and all(.[]; .cpu == 1)
		and ([.[] | select(.comm == \"yes\" and .pid == $HOG and .policy == \"SCHED_FIFO\") | .ns] | add // 0)
			/ ([.[].ns] | add) > 0.5"
# From 6.12 on ordinary tasks are let in so early that long waits are few.
expect "long waits, if any, are blamed on it" "of($STARVED; 40)
	| [.[] | select(any(.stages[]; .name == \"softirq_wait\" and .ns > 100000000))]
	| length == 0 or ([.[] | select(.verdict.stage == \"softirq_wait\" and .verdict.culprit == \"yes[$HOG]\")]
		| length) / length > 0.6"
expect "and none of the server's" "all(of($STARVED; 40)[].occupants[];
	.stage != \"run_queue\" or .comm != \"yes\")"
check_trace
check_pairing
jq -c 'select(.verdict.stage == "softirq_wait") | .verdict' $OUT/trace | sed -n '$p'
finish
