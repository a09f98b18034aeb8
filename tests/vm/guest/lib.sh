# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Sourced by every test in the guest: the rig, and checks that count their failures.
# A test ends with `finish`. Files of the test: /tmp/out.

OUT=/tmp/out
EVENTS=/sys/kernel/tracing/events
# shellcheck disable=SC2034 # for the tests
SERVER_SYS=/tmp/server_sys/class/net/eth1
SERVER_IRQ_NAME=virtio1-input.0
FAILED=0
SERVER_PID=
SERVER_JOB=
TRACE_JOB=

# As the card is at first, whatever the test before has left.
for setting in threaded queues/rx-0/rps_cpus napi_defer_hard_irqs gro_flush_timeout; do
	[ ! -e $SERVER_SYS/$setting ] || echo 0 >$SERVER_SYS/$setting
done

fail() {
	echo "not ok: $*"
	FAILED=$((FAILED + 1))
}

# check TEXT COMMAND...: the command must succeed.
check() {
	text=$1
	shift
	if "$@"; then echo "ok: $text"; else fail "$text ($*)"; fi
}

# not_here REASON: the test has no meaning on this kernel.
not_here() {
	echo "$*" >$OUT/not_here
	exit 77
}

has_tracepoint() { [ -d "$EVENTS/$1" ]; }

# can_trace: the kernel has sched_switch with the previous task's state (5.18). From 6.3 on it has
# sk_data_ready and sock_recv_length, too.
can_trace() {
	uname -r | awk -F. '{ exit !($1 > 5 || $1 == 5 && $2 + 0 >= 18) }'
}

in_server() { nsenter -t "$SERVER_NS" -n "$@"; }

irq_number() { awk -v name="$1" '$NF == name { sub(":", "", $1); print $1 }' /proc/interrupts; }

# steer ACTION CPU: takes effect with the device's next interrupt, so send something afterwards.
steer() {
	echo $((1 << $2)) >"/proc/irq/$(irq_number "$1")/smp_affinity" || fail "cannot steer $1"
}

# The client has a CPU to itself, and what it sends or is sent is that CPU's: two interrupts (or an
# interrupt and a driver that polls of its own accord) before one softirq, and it cannot be told
# whose a packet is.
CLIENT_CPU=2

# place_interrupts CPU: where packets arrive at the server.
place_interrupts() {
	steer virtio1-input.0 "$1"
	for action in virtio1-output.0 virtio0-input.0 virtio0-output.0; do
		steer $action $CLIENT_CPU
	done
}

# wait_for FILE PATTERN: up to a minute. Loading the tracer takes seconds here, and more when the
# host has other things to do.
wait_for() {
	i=0
	until grep -q "$2" "$1" 2>/dev/null; do
		i=$((i + 1))
		if [ $i -ge 1200 ]; then
			fail "waited for \"$2\" in $1"
			cat "$1"
			return 1
		fi
		usleep 50000
	done
}

# start_server ARGUMENT...: the responder behind eth1; sets SERVER_PID. Logs its reads.
start_server() {
	rm -f $OUT/ready
	in_server whylate-echo server --listen 10.9.0.2:7000 --log $OUT/reads "$@" \
		>$OUT/ready 2>$OUT/server.err &
	SERVER_JOB=$!
	wait_for $OUT/ready '^ready ' || finish
	SERVER_PID=$(sed -n 's/^ready pid=\([0-9]*\) .*/\1/p' $OUT/ready)
}

# client ARGUMENT...: from the other side, on $CLIENT_CPU. PACED: one request at a time, with a pause.
client() {
	whylate-echo client --to 10.9.0.2:7000 --timeout-ms 20000 --cpu $CLIENT_CPU "$@"
}
PACED="--wait block --gap-us 2000"

# warm_up ARGUMENT...: moves the interrupts; its numbers are from 1000000 on, and in no phase.
WARM_UP=20
warm_up() {
	# shellcheck disable=SC2086 # several words
	client --first-id 1000000 --count $WARM_UP $PACED "$@" >/dev/null || fail "warm-up"
	TOTAL=$((TOTAL + WARM_UP))
}

# phase NAME COUNT JSON_MEMBERS CLIENT_ARGUMENT...: COUNT requests, and what their records must be
# like (check.jq). Numbers tell the phases apart: loading the tracer is slow in the guest, so one
# trace serves many of them.
PHASES=0
TOTAL=0
phase() {
	phase_name=$1 phase_count=$2 phase_json=$3
	shift 3
	PHASES=$((PHASES + 1))
	PHASE_FIRST=$((PHASES * 10000))
	echo "{\"phase\": \"$phase_name\", \"first\": $PHASE_FIRST, \"count\": $phase_count $phase_json}" \
		>>$OUT/phases
	TOTAL=$((TOTAL + phase_count))
	phase_begin=$(cut -d. -f1 /proc/uptime)
	client --first-id $PHASE_FIRST --count "$phase_count" "$@" >$OUT/client.out || {
		fail "$phase_name: the client ended with status $?"
		cat $OUT/client.out
	}
	grep -q " $phase_count received, 0 lost" $OUT/client.out || {
		fail "$phase_name: not all answered"
		cat $OUT/client.out
	}
	echo "-- $phase_name: $(($(cut -d. -f1 /proc/uptime) - phase_begin)) s"
}

# by_irq IRQ_CPU SERVER_CPU: the members for records that came by the server's interrupt.
by_irq() {
	echo ", \"irq\": $(irq_number $SERVER_IRQ_NAME), \"irq_name\": \"$SERVER_IRQ_NAME\",
		\"irq_cpu\": $1, \"rx_cpu\": $1, \"server_cpu\": $2"
}

# start_trace ARGUMENT...: whylate on the server, records in $OUT/trace. What was sent before is
# not counted.
start_trace() {
	whylate trace -p "$SERVER_PID" --json-lines --id-offset 0 --id-bytes 8 -o $OUT/trace "$@" \
		2>$OUT/trace.err &
	TRACE_JOB=$!
	TOTAL=0
	wait_for $OUT/trace.err 'attached in' || finish
	usleep 200000 # the sockets are adopted right after that line
	sed 's/^/-- /' $OUT/trace.err
}

# stop_trace: ends it, and the server.
stop_trace() {
	usleep 200000
	kill -INT $TRACE_JOB
	wait $TRACE_JOB || fail "whylate ended with status $?: $(cat $OUT/trace.err)"
	kill -INT "$SERVER_PID"
	wait $SERVER_JOB || fail "the server ended with status $?"
}

# report_wrong TEXT: by what stands in $OUT/wrong; lines with -- are only for information.
report_wrong() {
	grep '^-- ' $OUT/wrong
	sed -i '/^-- /d' $OUT/wrong
	if [ -s $OUT/wrong ]; then
		fail "$1: $(grep -c -v '^    ' $OUT/wrong) deviations:"
		grep -v '^    ' $OUT/wrong | head -n 30
		echo "records of the first of them:"
		grep '^    ' $OUT/wrong | head -n 3 | cut -c1-1800
	else
		echo "ok: $1"
	fi
}

# expect TEXT JQ_CONDITION: for check_trace; $records is the array of all records, $summary the
# last line, of(FIRST; COUNT) the records of a phase.
expect() {
	echo "| . + (if ($2) then [] else [\"not so: $1\"] end)" >>$OUT/expect.jq
	echo "-- expected: $1"
}

# check_trace: every record and the summary against the phases, and what `expect` said.
check_trace() {
	touch $OUT/expect.jq
	cat /vm/guest/check.jq $OUT/expect.jq >$OUT/check.jq
	echo '| .[]' >>$OUT/check.jq
	jq -n -r --slurpfile phases $OUT/phases --argjson total $TOTAL -f $OUT/check.jq \
		$OUT/trace >$OUT/wrong 2>&1 || echo "jq failed" >>$OUT/wrong
	report_wrong "$TOTAL records in $PHASES phases"
}

# check_pairing: the numbers that whylate read in the packets against those that the server found
# in its reads, in order; and the time of each read, which lies between the server's own stamps of
# the read before and of this one.
check_pairing() {
	# records come in the order in which requests ended, the log is in the order of the reads
	jq -r 'select(.schema == "whylate.request/1") | "\(.id) \(.recv_ns)"' $OUT/trace |
		sort -n -k 2 >$OUT/paired
	awk -v total=$TOTAL '
		NR == FNR { if (!/^#/) { n++; id[n] = $3; read[n] = $4 } next }
		FNR == 1 { k = n - total }
		{ from = k
		  do k++; while (k <= n && id[k] != $1)
		  if (k > n) { print "record of id " $1 ": not read in this order"; k = from; next }
		  for (i = from + 1; i < k; i++) print "id " id[i] " was read, and has no record"
		  if ($2 > read[k] || $2 < read[k - 1])
			print "record of id " $1 ": read at " $2 ", not in " read[k - 1] " to " read[k] }
		END { for (i = k + 1; i <= n; i++) print "id " id[i] " was read, and has no record" }
	' $OUT/reads $OUT/paired >$OUT/wrong
	report_wrong "pairing with the server's log, in order"
}

finish() {
	for job in $TRACE_JOB $SERVER_JOB; do kill -KILL "$job" 2>/dev/null; done
	if [ $FAILED -ne 0 ]; then
		cat $OUT/trace.err 2>/dev/null
		exit 1
	fi
	exit 0
}
