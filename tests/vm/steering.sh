# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Packets that another CPU, or a thread, takes from the card's interrupt to the socket: RPS and
# threaded NAPI. The interrupt is on CPU 1, the server on CPU 0.
. /vm/guest/lib.sh
can_trace || not_here "too old: refused"

start_server --cpu 0
place_interrupts 1
warm_up
start_trace
echo 1 >$SERVER_SYS/queues/rx-0/rps_cpus
warm_up
phase "RPS to CPU 0" 40 ', "rx_cpu": 0, "server_cpu": 0' $PACED
RPS=$PHASE_FIRST
echo 0 >$SERVER_SYS/queues/rx-0/rps_cpus
echo 1 >$SERVER_SYS/threaded
warm_up
phase "threaded NAPI" 40 ', "server_cpu": 0, "modes": ["threaded_napi", "process"]' $PACED
THREADED=$PHASE_FIRST
echo 0 >$SERVER_SYS/threaded
warm_up
phase "neither" 40 "$(by_irq 1 0)" $PACED
stop_trace
IRQ="(.irq == $(irq_number $SERVER_IRQ_NAME) and .name == \"$SERVER_IRQ_NAME\" and .cpu == 1)"
expect "RPS: no interrupt, or the card's" "all(of($RPS; 40)[].hard_irq; . == null or .irq == null or $IRQ)"
expect "threaded: no interrupt, or the card's" "all(of($THREADED; 40)[].hard_irq; . == null or .irq == null or $IRQ)"
expect "threaded: the interrupt's CPU did not poll in a softirq" "all(of($THREADED; 40)[];
	.softirq.mode != \"inline\" and .softirq.mode != \"ksoftirqd\")"
check_trace
check_pairing
finish
