# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A kernel between 5.18 and 6.3, without sk_data_ready and sock_recv_length: what is merged is said,
# by doctor, at the attach and in the report; the wait for a busy reader is in socket_queue.
. /vm/guest/lib.sh
can_trace || not_here "too old: refused"
has_tracepoint sock/sk_data_ready && not_here "has the tracepoint sk_data_ready"

start_server --cpu 0 --work-us 3000
check "doctor succeeds" whylate doctor -p "$SERVER_PID" >$OUT/doctor
grep -E '^  (stack|socket_queue|recv) ' $OUT/doctor
check "doctor: stack is merged" \
	grep -q 'stack  *not measured: merged into socket_queue.*sk_data_ready' $OUT/doctor
check "doctor: recv by consume_skb" grep -q 'recv  *.*consume_skb' $OUT/doctor
place_interrupts 1
warm_up
start_trace
check "said at the attach" grep -q 'lacks sk_data_ready or sock_recv_length' $OUT/trace.err
phase "pairs of datagrams for a slow reader" 60 ', "rx_cpu": 1, "server_cpu": 0' --rate 20 --burst 2
stop_trace
expect "the summary says so" "\$summary.stages.stack
	| .measured == false and (.why_not | contains(\"merged into socket_queue\"))"
expect "no time in stack" "all(\$records[].stages[]; .name != \"stack\")"
expect "the second of a pair waits for the first" "[\$records[] | select(.id < 1000000)
	| select(any(.stages[]; .name == \"socket_queue\" and .ns > 2000000))] | length >= 25"
check_trace
check_pairing
finish
