# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# TCP segments out of order: some overtake those that are delayed by 20 ms. What came early waits for
# the missing bytes, below the socket (in stack). The partner: the same in order.
. /vm/guest/lib.sh
can_trace || not_here "too old: refused"
has_tracepoint sock/sk_data_ready || not_here "numbers behind the first of a packet are not read there"

out_of_order() {
	in_server sh -c 'cat /proc/net/netstat' | awk '/^TcpExt:/ {
		for (i = 2; i <= NF; i++) { if (named && name[i] == "TCPOFOQueue") print $i; name[i] = $i }
		named = 1 }'
}

start_server --proto tcp --mode epoll --cpu 0
place_interrupts 1
warm_up --proto tcp
start_trace
ALLOWED=', "rx_cpu": 1, "server_cpu": 0, "quality": ["multi_read", "coalesced", "polled", "not_named"]'
phase "in order" 90 "$ALLOWED" --proto tcp --rate 30 --burst 3
ORDERED=$PHASE_FIRST
check "none out of order" [ "$(out_of_order)" -eq 0 ]
iproute2-tc qdisc add dev eth0 root netem delay 20ms reorder 30% || fail netem
phase "out of order" 90 "$ALLOWED" --proto tcp --rate 30 --burst 3
MIXED=$PHASE_FIRST
iproute2-tc qdisc del dev eth0 root
stop_trace
check "segments came out of order" [ "$(out_of_order)" -ge 5 ]

# Bytes are read in the order in which they were sent: who came before its predecessor has waited for
# that, all of the time below the socket.
EARLY="(sort_by(.id) | [range(1; length) as \$i | {one: .[\$i], missing: .[\$i - 1]}
	| select(.one.start_ns + 10000000 < .missing.start_ns)])"
expect "none has come before the one sent before it, in order" "of($ORDERED; 90) | $EARLY | length == 0"
expect "some have, out of order" "of($MIXED; 90) | $EARLY | length >= 3"
expect "none is at the socket before what was missing" "of($MIXED; 90) | $EARLY | all(.[];
	([.one.stages[] | select(.name | IN(\"hard_irq\", \"softirq_wait\", \"softirq_poll\", \"backlog\", \"stack\"))
		| .ns // 0] | add) >= .missing.start_ns - .one.start_ns)"
expect "and were read after it" "of($MIXED; 90) | $EARLY | all(.[]; .one.recv_ns >= .missing.recv_ns)"
check_trace
check_pairing
finish
