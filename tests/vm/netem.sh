# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A delay of 20 ms: on the client's way out it is none of the server's business, on the server's
# way out it is tx_queue.
. /vm/guest/lib.sh
can_trace || not_here "too old: refused"

start_server --cpu 0
place_interrupts 1
warm_up
start_trace
iproute2-tc qdisc add dev eth0 root netem delay 20ms || fail netem
phase "delay at the client" 40 "$(by_irq 1 0)" $PACED --requests $OUT/client
iproute2-tc qdisc del dev eth0 root
in_server iproute2-tc qdisc add dev eth1 root netem delay 20ms || fail netem
phase "delay at the server" 40 "$(by_irq 1 0)" $PACED
SERVER_FIRST=$PHASE_FIRST
in_server iproute2-tc qdisc del dev eth1 root
stop_trace
expect "the server's delay is tx_queue, all of it" "of($SERVER_FIRST; 40)
	| all(.[]; any(.stages[]; .name == \"tx_queue\" and .ns >= 20000000))"
expect "the verdict says tx_queue" \
	"of($SERVER_FIRST; 40) | [.[] | select(.verdict.stage == \"tx_queue\")] | length > 36"
check_trace
check_pairing
jq -c 'select(.verdict.stage == "tx_queue") | .verdict' $OUT/trace | sed -n 5p
whylate correlate --requests $OUT/trace --client $OUT/client >$OUT/correlated
sed 's/^/    /' $OUT/correlated | head -n 8
check "correlate joins them" grep -q '^40 joined' $OUT/correlated
# Whatever the guest's times are worth: the delay lies between sending and the first mark.
jq -n -r --slurpfile sent $OUT/client '
	($sent | map(select(.sent_ns != null) | {key: (.id | tostring), value: .sent_ns}) | from_entries)
		as $at
	| inputs | select(.id != null) | select($at[.id | tostring] != null)
	| if .start_ns - $at[.id | tostring] >= 19900000 then "after" else "early" end' \
	$OUT/trace >$OUT/starts
check "the client's delay is before the first mark, for all" \
	[ "$(grep -c after $OUT/starts) $(grep -c early $OUT/starts)" = "40 0" ]
finish
