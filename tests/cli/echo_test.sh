#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# usage: echo_test.sh PATH_TO_WHYLATE_ECHO
# Server and client over loopback in every combination: all requests answered, every read logged once.
# Nothing here asserts an upper bound of a time; lower bounds follow from the work asked for.
set -u
# shellcheck source=tests/cli/echo_lib.sh
. "$(dirname "$0")/echo_lib.sh"

# Multicast runs in a network namespace of its own, so that no packet leaves: see the end. IPv4 takes loopback;
# IPv6 has no multicast over it, so a veth pair stands in and the sender's copy is looped back.
if [ "${WHYLATE_ECHO_IN_NETNS:-}" = 1 ]; then
  ip link set lo up
  ip link add veth-a type veth peer name veth-b
  ip addr add fd77::1/64 dev veth-a nodad
  ip link set veth-a up
  ip link set veth-b up
  for case in '239.7.7.7 0.0.0.0 lo' '[ff05::77] [::] veth-a'; do
    read -r group any interface <<<"$case"
    bare=${group#[}
    start_server --listen "$any:0" --group "${bare%]}" --interface "$interface" --log "$work/log"
    client "multicast $group" 0 --to "$group:$port" --interface "$interface" --count 200 --wait block
    all_answered "multicast $group" 200
    stop_server "multicast $group"
    log_is_whole "multicast $group" 200
  done
  echo "multicast: $checks checks, $failures failed"
  exit $((failures > 0))
fi

for listen in 127.0.0.1 '[::1]'; do
  for wait in spin block; do
    round "udp blocking $listen $wait" udp "$listen" --mode blocking -- --wait $wait --window 8
    round "tcp blocking $listen $wait" tcp "$listen" --mode blocking -- --wait $wait --connections 3 --window 8
  done
  round "udp epoll $listen" udp "$listen" --mode epoll -- --wait block
  round "tcp epoll $listen" tcp "$listen" --mode epoll -- --wait block
  round "udp epoll drain 3 threads $listen" udp "$listen" --mode epoll --drain --threads 3 -- --wait block --window 16
  round "tcp epoll drain 3 threads $listen" tcp "$listen" --mode epoll --drain --threads 3 -- --wait block --connections 5 --window 16
  round "udp spin $listen" udp "$listen" --mode spin -- --wait block
  round "tcp spin $listen" tcp "$listen" --mode spin -- --wait block --connections 2
done
round "udp 4 readers of one socket" udp 127.0.0.1 --threads 4 -- --wait block --window 32
round "udp 3 sockets, 3 senders" udp 127.0.0.1 --threads 3 --reuseport -- --wait block --senders 3 --connections 12
round "tcp 2 senders" tcp 127.0.0.1 --threads 2 --mode epoll -- --wait block --senders 2 --connections 4 --window 4
requests=100 round "tcp large messages" tcp 127.0.0.1 --size 200000 --mode epoll -- --wait block --size 200000 --window 4

# One reader and one sender over loopback keep the order: the numbers rise in the log.
start_server --log "$work/log"
client "order" 0 --to "127.0.0.1:$port" --count 1500 --window 4 --wait block
stop_server "order" INT
check "order: numbers read in order" "$(awk '!/^#/ && $3 != n++ {bad++} END {print bad + 0}' "$work/log")" 0

# Absolute schedule. 200 requests fit the default receive buffer however long the machine holds us up.
for proto in udp tcp; do
  start_server --proto $proto --log "$work/log"
  client "schedule $proto" 0 --proto $proto --to "127.0.0.1:$port" --rate 500 --burst 4 --count 200 --requests "$work/requests"
  all_answered "schedule $proto" 200
  stop_server "schedule $proto"
  log_is_whole "schedule $proto" 200
  check "schedule $proto: lines" "$(wc -l <"$work/requests")" 201
  check "schedule $proto: header" "$(head -1 "$work/requests" | grep -c '"schema":"whylate.client/1".*"clock":"monotonic"')" 1
  # 4 at each point, 2 ms apart, never sent before it and never moved.
  check "schedule $proto: points" "$(sed -n 's/.*"id":\([0-9]*\),"intended_ns":\([0-9]*\),"sent_ns":\([0-9]*\).*/\1 \2 \3/p' "$work/requests" |
    awk 'NR == 1 {start = $2} $2 - start != int($1 / 4) * 2000000 || $3 < $2 {bad++} END {print NR, bad + 0}')" "200 0"
done

# Application work, sleep and lock: lower bounds only.
start_server --work-us 300
client "work" 0 --to "127.0.0.1:$port" --count 50 --wait block
at_least "work: shortest latency" "$(figure latency_ns min)" 300000
stop_server "work"
start_server --sleep-us 300
client "sleep" 0 --to "127.0.0.1:$port" --count 50 --wait block
at_least "sleep: shortest latency" "$(figure latency_ns min)" 300000
stop_server "sleep"
start_server --lock-us 40000 --lock-every 20
client "lock" 0 --to "127.0.0.1:$port" --count 200 --gap-us 1000 --wait block
at_least "lock: longest latency" "$(figure latency_ns max)" 10000000
stop_server "lock"

# A small receive buffer drops; what was read was read once, and lost is told as lost.
start_server --rcvbuf 1 --work-us 200 --log "$work/log"
timeout_ms=3000 client "drops" 0 --to "127.0.0.1:$port" --rate 10 --burst 500 --count 1000 --requests "$work/requests"
at_least "drops: lost" "$(field lost)" 1
check "drops: received + lost" "$(($(field received) + $(field lost)))" 1000
check "drops: null for each lost" "$(grep -c '"received_ns":null,"latency_ns":null,"latency_intended_ns":null' "$work/requests")" "$(field lost)"
stop_server "drops"
check "drops: read as often as answered" "$(grep -vc '^#' "$work/log")" "$(($(field received) + $(field late)))"
check "drops: no number read twice" "$(awk '!/^#/ {print $3}' "$work/log" | sort | uniq -d | wc -l)" 0

# Stamps. The kernel may switch receive stamps on with a delay, so not every request need have one.
for proto in udp tcp; do
  start_server --proto $proto
  client "stamps $proto" 0 --proto $proto --to "127.0.0.1:$port" --count 400 --gap-us 200 --wait block --stamps --requests "$work/requests"
  at_least "stamps $proto: sent" "$(grep -c '"tx_stamp_ns":[1-9]' "$work/requests")" 200
  at_least "stamps $proto: received" "$(grep -c '"rx_stamp_ns":[1-9]' "$work/requests")" 200
  check "stamps $proto: received before sent" "$(sed -n 's/.*"tx_stamp_ns":\([0-9]*\),"rx_stamp_ns":\([0-9]*\).*/\1 \2/p' "$work/requests" | awk '$2 < $1' | wc -l)" 0
  stop_server "stamps $proto"
done

# Ends: by count, by signal (also one that was ignored at start), by the other side.
start_server --count 100
client "count" 0 --to "127.0.0.1:$port" --count 100 --wait block
wait "$server_pid"
check "count: server's exit code" $? 0
check "count: summary" "$(grep -c 'served 100 requests' "$work/server_err")" 1
server_pid=

start_server --proto tcp --count 50
client "server ends" 5 --proto tcp --to "127.0.0.1:$port" --count 100 --wait block
check "server ends: received" "$(field received)" 50
wait "$server_pid"
server_pid=

start_server
(trap '' INT; exec "$echo_bin" client --json --to "127.0.0.1:$port" --rate 100 --count 100000 --requests "$work/requests" >"$work/summary") &
client_pid=$!
sleep 1
kill -INT $client_pid
wait $client_pid
check "interrupted: exit code" $? 0
check "interrupted: told" "$(grep -c '"interrupted":true' "$work/summary")" 1
at_least "interrupted: sent" "$(field sent)" 1
check "interrupted: a line for each" "$(wc -l <"$work/requests")" "$(($(field sent) + 1))"
for mode in blocking epoll spin; do
  for proto in udp tcp; do
    stop_server "stop ${mode_before:-udp blocking}"
    mode_before="$proto $mode"
    start_server --proto $proto --mode $mode
  done
done
stop_server "stop $mode_before"

# Failures: one line, the right code.
timeout_ms=100 client "nobody listens" 1 --to "127.0.0.1:$port" --count 3
client "nobody listens" 5 --proto tcp --to "127.0.0.1:$port" --count 3
client "usage" 2 --to "127.0.0.1:$port" --size 3
client "usage" 2
check "usage: lines" "$(wc -l <"$work/client_err")" 1
"$echo_bin" server --listen 203.0.113.7:0 >/dev/null 2>"$work/server_err"
check "foreign address: exit code" $? 5
check "foreign address: lines" "$(wc -l <"$work/server_err")" 1
"$echo_bin" server --cpu 1023 >/dev/null 2>&1
check "no such CPU: exit code" $? 5
start_server
if [ -e /dev/full ]; then
  client "disk full" 5 --to "127.0.0.1:$port" --count 3 --requests /dev/full
  check "disk full: received" "$(field received)" 3
fi
"$echo_bin" client --to "127.0.0.1:$port" --count 3 2>"$work/client_err" | true
check "closed pipe: quiet" "$(wc -c <"$work/client_err")" 0
stop_server "failures"

if [ "$(id -u)" = 0 ] && command -v ip >/dev/null && unshare -n true 2>/dev/null; then
  checks=$((checks + 1))
  WHYLATE_ECHO_IN_NETNS=1 unshare -n "$0" "$echo_bin" || fail "multicast: see above"
else
  echo "multicast: skipped (needs root, unshare and ip)"
fi

echo "$checks checks, $failures failed"
[ "$failures" -eq 0 ]
