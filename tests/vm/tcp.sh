# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# TCP over the cards, one connection and several at once.
. /vm/guest/lib.sh
can_trace || not_here "too old: refused"

start_server --proto tcp --mode epoll --cpu 0
place_interrupts 1
warm_up --proto tcp
start_trace
phase "one connection" 150 "$(by_irq 1 0)" --proto tcp $PACED
place_interrupts 0
warm_up --proto tcp
phase "interrupt beside the server" 100 "$(by_irq 0 0)" --proto tcp $PACED
place_interrupts 1
warm_up --proto tcp
echo 2 >$SERVER_SYS/napi_defer_hard_irqs
echo 20000000 >$SERVER_SYS/gro_flush_timeout
# A reply may leave long after the server has gone on: its waits meanwhile can be too many to name.
# Never two requests on a connection: one packet would carry both, and only the first has a number.
phase "eight connections at once" 160 \
	', "rx_cpu": 1, "server_cpu": 0, "quality": ["not_named"]' --proto tcp \
	--connections 8 --senders 8 --wait block
echo 0 >$SERVER_SYS/gro_flush_timeout
echo 0 >$SERVER_SYS/napi_defer_hard_irqs
stop_trace
check_trace
check_pairing
finish
