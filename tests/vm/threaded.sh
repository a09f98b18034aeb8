# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A card that a kernel thread polls (threaded NAPI), on another CPU than the server: its wait for
# that CPU is in softirq_wait, and who had the CPU meanwhile is named.
. /vm/guest/lib.sh
can_trace || not_here "too old: refused"

start_server --cpu 0
place_interrupts 1
echo 1 >$SERVER_SYS/threaded
warm_up
for comm in $(grep -l '^napi/eth1' /proc/[0-9]*/comm); do
	thread=${comm#/proc/}
	taskset -p -c 1 "${thread%/comm}" >/dev/null || fail "cannot move $(cat "$comm")"
done
start_trace
warm_up
phase "thread on CPU 1" 40 "$(by_irq 1 0), \"modes\": [\"threaded_napi\"]" $PACED
APART=$PHASE_FIRST
yes >/dev/null &
HOG=$!
taskset -p -c 1 $HOG >/dev/null
renice -n -10 -p $HOG
# the thread waits so long that a packet can come before it has done with the one before: no interrupt
phase "hog beside the thread" 40 "$(by_irq 1 0), \"modes\": [\"threaded_napi\"], \"quality\": [\"polled\"]" $PACED
BESIDE=$PHASE_FIRST
kill $HOG
stop_trace
expect "no hog in the first" "of($APART; 40)
	| [.[].occupants[] | select(.comm == \"yes\")] | length == 0"
expect "the hog has most of the thread's wait, on CPU 1" "of($BESIDE; 40)
	| [.[].occupants[] | select(.stage == \"softirq_wait\")]
	| length > 0 and all(.[]; .cpu == 1)
		and ([.[] | select(.comm == \"yes\" and .pid == $HOG) | .ns] | add // 0) / ([.[].ns] | add) > 0.5"
expect "and none of the server's" "of($BESIDE; 40)
	| [.[].occupants[] | select(.stage == \"run_queue\" and .comm == \"yes\")] | length == 0"
check_trace
check_pairing
finish
