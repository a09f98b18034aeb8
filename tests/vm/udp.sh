# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# UDP over the cards: the device interrupt, the CPU it was steered to, idle CPUs, merged bursts,
# a CPU hog; and in all of it the right packet to each read.
. /vm/guest/lib.sh
can_trace || not_here "too old: refused"

# move IRQ_CPU SERVER_CPU
move() {
	place_interrupts "$1"
	taskset -p -c "$2" "$SERVER_PID" >/dev/null || fail "cannot move the server"
	warm_up
}

start_server --cpu 0
place_interrupts 1
warm_up
start_trace

move 1 0
phase "interrupt 1, server 0" 100 "$(by_irq 1 0)" $PACED
APART=$PHASE_FIRST
move 0 0
phase "interrupt 0, server 0" 100 "$(by_irq 0 0)" $PACED
move 0 1
phase "interrupt 0, server 1" 100 "$(by_irq 0 1)" $PACED
move 1 1
phase "interrupt 1, server 1" 100 "$(by_irq 1 1)" $PACED
# What comes with the sending, the server's and then also the client's, is no packet's interrupt.
steer virtio1-output.0 1
warm_up
phase "completions beside it" 100 "$(by_irq 1 1), \"irq_unknown\": 0.75" $PACED
CLIENT_CPU=1
move 1 0
phase "client beside it" 100 "$(by_irq 1 0), \"irq_unknown\": 1" $PACED
CLIENT_CPU=2

move 1 0
yes >/dev/null &
HOG=$!
taskset -p -c 0 $HOG >/dev/null
renice -n -10 -p $HOG
phase "hog on CPU 0" 100 "$(by_irq 1 0)" $PACED
BUSY=$PHASE_FIRST
kill $HOG

# After a poll the card's interrupt stays off and a timer polls again: lists of several packets
# pass netif_receive_skb before the first of them reaches its socket.
move 1 0
echo 2 >$SERVER_SYS/napi_defer_hard_irqs
echo 20000000 >$SERVER_SYS/gro_flush_timeout
# Packets that follow each other there without a word from the socket; before 6.3, where that word
# is missing, packets of one poll.
echo 0 >/sys/kernel/tracing/trace
LIST_EVENTS="net/netif_receive_skb sock/sk_data_ready"
has_tracepoint sock/sk_data_ready || LIST_EVENTS=napi/napi_poll
for event in $LIST_EVENTS; do echo 1 >$EVENTS/$event/enable; done
phase "bursts" 192 ', "rx_cpu": 1, "server_cpu": 0, "quality": ["no_reply"]' \
	--rate 10 --burst 16
echo 0 >$SERVER_SYS/gro_flush_timeout
echo 0 >$SERVER_SYS/napi_defer_hard_irqs
for event in $LIST_EVENTS; do echo 0 >$EVENTS/$event/enable; done
awk '/netif_receive_skb: dev=eth1/ { run++ }
	/sk_data_ready/ { run = 0 }
	/napi_poll: .* eth1 / { sub(".* work ", ""); run = $1 }
	run > longest { longest = run }
	END { print longest + 0 }' /sys/kernel/tracing/trace >$OUT/longest
echo "-- longest list: $(cat $OUT/longest) packets"
check "packets came in lists" [ "$(cat $OUT/longest)" -ge 4 ]

warm_up
phase "after the bursts" 50 "$(by_irq 1 0)" $PACED
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
expect "and the summary has that, too" "
	([of($BUSY; 100)[] | select(.verdict != null).occupants[]
		| select(.stage == \"run_queue\" and .comm == \"yes\") | .ns] | add) as \$held
	| any(\$summary.blame[]; .stage == \"run_queue\" and .comm == \"yes\" and .ns >= \$held)"
check_trace
check_pairing
finish
