# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Sourced by rig.sh: the same requests through several network stacks, while the real tcpdump and the
# real ss watch, and what whylate stack says of each.

# shellcheck disable=SC2154 # name, tmp, echo_bin, whylate, server_cpu, client_cpu, started: rig.sh and host.sh
stack_title=()
# Three seconds: the window of one second lies within, whatever attaching takes.
stack_count=3000

in_server() { ip netns exec "$name-s" "$@"; }

# run_ns PID: for how long the process (its main thread) has run so far.
run_ns() { cut -d ' ' -f 1 "/proc/$1/schedstat"; }

# ss_lines PID OPTION...: how many lines of ss name the process.
ss_lines() {
	local pid=$1
	shift
	in_server ss -H -anp "$@" | grep -c "pid=$pid," || true
}

# stack_way KEY TITLE ADDRESS [SERVER_OPTION...]: one way. Its files are $tmp/KEY.{client,stack,seen}.json.
stack_way() {
	local key=$1 address=$3 server sniffer client status begin_ns begin_us
	stack_title+=("$key=$2")
	say "way: $2"
	shift 3

	# Not through in_server: the pid would be that of a shell.
	start ip netns exec "$name-s" "$echo_bin" server --listen "$address:9000" --cpu "$server_cpu" "$@" \
		>"$tmp/server.out" 2>"$tmp/server.err"
	server=$started
	wait_for_line "$tmp/server.out" '^ready' "$server" 10 || {
		warn "this way is not possible here: $(<"$tmp/server.err")"
		unset 'stack_title[-1]'
		stop "$server" TERM || true
		return 0
	}
	start ip netns exec "$name-s" tcpdump --immediate-mode -l -n -p -s 96 -B 16384 -i veth0 udp port 9000 \
		>"$tmp/tcpdump.out" 2>"$tmp/tcpdump.err"
	sniffer=$started
	wait_for_line "$tmp/tcpdump.err" 'listening on' "$sniffer" 10 ||
		fail 5 "tcpdump does not start: $(<"$tmp/tcpdump.err")"

	begin_ns=$(run_ns "$server") begin_us=$(now_us)
	start ip netns exec "$name-c" "$echo_bin" client --to "$address:9000" --rate 1000 \
		--count "$stack_count" --cpu "$client_cpu" --json >"$tmp/$key.client.json" 2>"$tmp/client.err"
	client=$started
	start "$whylate" stack -p "$server" -w 1s --json >"$tmp/$key.stack.json" 2>"$tmp/stack.err"
	status=0
	wait "$started" || status=$?
	unset 'pids[-1]'
	[[ $status -le 1 ]] || fail 5 "whylate stack failed: $(<"$tmp/stack.err")"
	ss_udp=$(ss_lines "$server" -u) ss_packet=$(ss_lines "$server" -0)
	status=0
	wait "$client" || status=$?
	unset 'pids[-1]'
	[[ $status -eq 0 ]] || fail 5 "the client failed: $(<"$tmp/client.err")"
	printf '{"run_ns":%d,"wall_us":%d,"ss_udp":%d,"ss_packet":%d' \
		$(($(run_ns "$server") - begin_ns)) $(($(now_us) - begin_us)) "$ss_udp" "$ss_packet" >"$tmp/$key.seen.json"
	stop "$sniffer" INT || true
	stop "$server" TERM || fail 5 "the responder failed: $(<"$tmp/server.err")"
	printf ',"in":%d,"out":%d,"dropped":%d}\n' \
		"$(grep -c "> $address.9000:" "$tmp/tcpdump.out")" "$(grep -c " $address.9000 >" "$tmp/tcpdump.out")" \
		"$(sed -n 's/ packets dropped by kernel//p' "$tmp/tcpdump.err")" >>"$tmp/$key.seen.json"
}

stacks_part() {
	local own=10.7.0.2 free=10.7.0.9
	command -v tcpdump >/dev/null || {
		warn "no tcpdump here: the comparison of network stacks is left out"
		return 0
	}
	say "the same requests through several stacks, $stack_count each, tcpdump running all along"
	stack_way s-kernel "kernel" $own
	if in_server ethtool -K veth0 gro on rx-udp-gro-forwarding on 2>"$tmp/ethtool.err"; then
		stack_way s-busy "kernel busy poll" $own --stack busy-poll
		in_server ethtool -K veth0 gro off rx-udp-gro-forwarding off 2>/dev/null || true
	else
		warn "no busy polling: $(<"$tmp/ethtool.err")"
	fi
	# An address that the kernel does not have, or it would refuse what the packet socket answers.
	stack_way s-packet "packet socket" $free --stack packet --device veth0
	stack_way s-bypass "packet, no queue" $free --stack packet --device veth0 --qdisc-bypass
	stack_way s-generic "AF_XDP generic" $own --stack af-xdp
	stack_way s-native "AF_XDP native" $own --stack af-xdp --xdp-mode native
	stack_way s-spin "AF_XDP, polling" $own --stack af-xdp --xdp-mode native --mode spin
}
