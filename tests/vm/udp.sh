# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# UDP over the cards: the device interrupt, the CPU it was steered to, idle CPUs, merged bursts,
# a CPU hog; and in all of it the right packet to each read.
. /vm/guest/lib.sh
can_trace || not_here "too old: refused"

# move IRQ_CPU SERVER_CPU: the client goes where the server is not.
move() {
	place_interrupts "$1" $((1 - $1))
	taskset -p -c "$2" "$SERVER_PID" >/dev/null || fail "cannot move the server"
	warm_up --cpu $((1 - $2))
}

start_server --cpu 0
place_interrupts 1 0
warm_up --cpu 1
start_trace

move 1 0
phase "interrupt 1, server 0" 100 "$(by_irq 1 0)" --cpu 1 $PACED
APART=$PHASE_FIRST
move 0 0
phase "interrupt 0, server 0" 100 "$(by_irq 0 0)" --cpu 1 $PACED
move 0 1
phase "interrupt 0, server 1" 100 "$(by_irq 0 1)" --cpu 0 $PACED
move 1 1
phase "interrupt 1, server 1" 100 "$(by_irq 1 1)" --cpu 0 $PACED

move 1 0
yes >/dev/null &
HOG=$!
taskset -p -c 0 $HOG >/dev/null
renice -n -10 -p $HOG
phase "hog on CPU 0" 100 "$(by_irq 1 0)" --cpu 1 $PACED
BUSY=$PHASE_FIRST
kill $HOG

# After a poll the card's interrupt stays off and a timer polls again: lists of several packets
# pass netif_receive_skb before the first of them reaches its socket.
move 1 0
echo 2 >$SERVER_SYS/napi_defer_hard_irqs
echo 20000000 >$SERVER_SYS/gro_flush_timeout
# (Before 6.3 there is no sk_data_ready: nothing tells how long the lists are.)
echo 0 >/sys/kernel/tracing/trace
if has_tracepoint sock/sk_data_ready; then
	echo 1 >$EVENTS/net/netif_receive_skb/enable
	echo 1 >$EVENTS/sock/sk_data_ready/enable
fi
phase "bursts" 192 ', "rx_cpu": 1, "server_cpu": 0, "quality": ["no_reply"]' --cpu 1 \
	--rate 10 --burst 16
echo 0 >$SERVER_SYS/gro_flush_timeout
echo 0 >$SERVER_SYS/napi_defer_hard_irqs
if has_tracepoint sock/sk_data_ready; then
	echo 0 >$EVENTS/net/netif_receive_skb/enable
	echo 0 >$EVENTS/sock/sk_data_ready/enable
	awk '/netif_receive_skb: dev=eth1/ { run++; if (run > longest) longest = run }
		/sk_data_ready/ { run = 0 }
		END { print longest + 0 }' /sys/kernel/tracing/trace >$OUT/longest
	echo "-- longest list: $(cat $OUT/longest) packets"
	check "packets came in lists" [ "$(cat $OUT/longest)" -ge 4 ]
fi

warm_up --cpu 1
phase "after the bursts" 50 "$(by_irq 1 0)" --cpu 1 $PACED
stop_trace

expect "with the server's CPU idle: idle_exit, named" "of($APART; 100)
	| [.[] | select(.idle.name == \"default_idle\" and .idle.cpu == 0)] | length > 80"
expect "with the interrupt's CPU idle: its state, and no bound as there is no driver" \
	"any(\$records[]; .irq_idle.name == \"default_idle\" and .irq_idle.bound_ns == null)"
expect "no idle CPU beside a hog" "of($BUSY; 100) | [.[] | select(.idle != null)] | length < 5"
expect "the hog has most of run_queue" "of($BUSY; 100)
	| [.[].occupants[] | select(.stage == \"run_queue\")]
	| length > 0 and ([.[] | select(.comm == \"yes\" and .pid == $HOG and .nice == -10) | .ns] | add)
		/ ([.[].ns] | add) > 0.5"
expect "blame for run_queue begins with the hog" \
	"([\$summary.blame[] | select(.stage == \"run_queue\")][0].comm == \"yes\")"
check_trace
check_pairing
finish
