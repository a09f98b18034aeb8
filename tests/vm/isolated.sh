# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# kernel arguments: isolcpus=1
# A server on an isolated CPU: a busy task that may run anywhere is not in its way; one that is put
# on that CPU is, and is named.
. /vm/guest/lib.sh
can_trace || not_here "too old: refused"

check "CPU 1 is isolated" [ "$(cat /sys/devices/system/cpu/isolated)" = 1 ]
start_server --cpu 1
place_interrupts 0
warm_up
start_trace
warm_up
yes >/dev/null &
HOG=$!
phase "hog anywhere else" 40 "$(by_irq 0 1)" $PACED
APART=$PHASE_FIRST
taskset -p -c 1 $HOG >/dev/null
phase "hog on the isolated CPU" 40 "$(by_irq 0 1)" $PACED
BESIDE=$PHASE_FIRST
kill $HOG
stop_trace
expect "the first is not to blame" "of($APART; 40)
	| [.[].occupants[] | select(.comm == \"yes\" and (.stage | endswith(\"run_queue\")))] | length == 0"
expect "the second is, for most of run_queue" "of($BESIDE; 40)
	| [.[].occupants[] | select(.stage == \"run_queue\")]
	| length > 0 and ([.[] | select(.pid == $HOG) | .ns] | add // 0) / ([.[].ns] | add) > 0.5"
expect "no interrupt, or the card's" "all(\$records[].hard_irq; . == null or .irq == null
	or .name == \"$SERVER_IRQ_NAME\" and .cpu == 0)"
check_trace
check_pairing
finish
