# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# kernel arguments: idle=poll
# CPUs that poll when idle: the state is named so, the interrupt is seen all the same.
. /vm/guest/lib.sh
can_trace || not_here "too old: refused"

start_server --cpu 0
whylate doctor -p "$SERVER_PID" >$OUT/doctor
check "doctor names the state" grep -q 'CPU 0-2: poll' $OUT/doctor
place_interrupts 1
warm_up
start_trace
phase "interrupt 1, server 0" 100 "$(by_irq 1 0)" $PACED
stop_trace
expect "idle_exit in most, and the state is poll" \
	"[\$records[] | select(.idle.name == \"poll\" and .idle.state == 0)] | length > 80"
expect "no other state" "all(\$records[] | .idle, .irq_idle; . == null or .name == \"poll\")"
check_trace
check_pairing
finish
