#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# usage: echo_ways_test.sh PATH_TO_WHYLATE_ECHO
# Every way the server can receive and reply, and every way the client can send, over loopback: all requests
# answered, every read logged once, and what marks the way visible in the log or in a lower bound of a latency.
set -u
# shellcheck source=tests/cli/echo_lib.sh
. "$(dirname "$0")/echo_lib.sh"
requests=300

reads_together() { awk '!/^#/ {print $1, $4}' "$work/log" | sort | uniq -d | wc -l; }  # reads that brought several
threads_served() { sed -n 's/^served [0-9]* requests in \([0-9]*\) thread.*/\1/p' "$work/server_err"; }

# Several listeners of one group: in a network namespace, see the end.
if [ "${WHYLATE_ECHO_IN_NETNS:-}" = 1 ]; then
  ip link set lo up
  start_server --listen 0.0.0.0:0 --group 239.7.7.8 --interface lo --log "$work/log" --reuseport --threads 3 --answer 1
  client "three listeners" 0 --to "239.7.7.8:$port" --interface lo --count 200 --wait block
  all_answered "three listeners" 200
  stop_server "three listeners"
  check "three listeners: each number read by each" \
    "$(awk '!/^#/ {print $3}' "$work/log" | sort | uniq -c | awk '$1 == 3' | wc -l)" 200
  check "three listeners: threads" "$(awk '!/^#/ {print $1}' "$work/log" | sort -u | wc -l)" 3
  echo "multicast: $checks checks, $failures failed"
  exit $((failures > 0))
fi

for mode in blocking epoll poll select spin; do
  round "udp $mode batch" udp 127.0.0.1 --mode "$mode" --batch 8 --pause-us 5000 --pause-every 100 -- --wait block --window 16
  at_least "udp $mode batch: reads of several" "$(reads_together)" 1
  round "udp $mode peek" udp 127.0.0.1 --mode "$mode" --peek -- --wait block --window 4
  round "tcp $mode peek" tcp 127.0.0.1 --mode "$mode" --peek -- --wait block --window 4 --connections 3
done
for mode in poll select; do
  round "udp $mode drain 3 threads" udp 127.0.0.1 --mode "$mode" --drain --threads 3 -- --wait block --window 16
  round "tcp $mode drain 3 threads" tcp 127.0.0.1 --mode "$mode" --drain --threads 3 -- --wait block --connections 5 --window 10
done
round "udp one epoll, 3 threads" udp 127.0.0.1 --mode epoll --share-epoll --threads 3 -- --wait block --window 16
round "tcp one epoll, 3 threads" tcp 127.0.0.1 --mode epoll --share-epoll --threads 3 -- --wait block --connections 5 --window 10

for threads in 1 3; do
  round "udp hand-off, $threads readers" udp 127.0.0.1 --mode epoll --hand-off --threads $threads -- --wait block --window 8
  round "tcp hand-off, $threads readers" tcp 127.0.0.1 --mode epoll --hand-off --threads $threads -- --wait block --window 8 --connections 4
done

# Replies.
for send in sendfile splice; do
  round "tcp $send" tcp 127.0.0.1 --send $send -- --wait block --window 8 --connections 2
  requests=60 round "tcp epoll $send, larger than the windows" tcp 127.0.0.1 --mode epoll --send $send --reply-bytes 1000000 -- \
    --wait block --reply-bytes 1000000 --rcvbuf 8192
done
for send in sendmmsg gso; do
  round "udp $send" udp 127.0.0.1 --send "$send" --batch 16 --pause-us 5000 --pause-every 100 -- --wait block --window 32
  at_least "udp $send: reads of several" "$(reads_together)" 1
done
for proto in udp tcp; do
  round "$proto reply thread" $proto 127.0.0.1 --reply-thread -- --wait block --window 8
  round "$proto later" $proto 127.0.0.1 --reply-after-us 400 -- --wait block --window 8
  at_least "$proto later: shortest latency" "$(figure latency_ns min)" 400000
  round "$proto larger reply" $proto 127.0.0.1 --reply-bytes 1000 -- --wait block --reply-bytes 1000
done
requests=60 round "tcp reply larger than the windows" tcp 127.0.0.1 --reply-bytes 1000000 -- \
  --wait block --reply-bytes 1000000 --rcvbuf 8192 --read-every-us 20
requests=60 round "tcp reply in two writes" tcp 127.0.0.1 --nagle --reply-split 10 -- --wait block
at_least "tcp reply in two writes: a delayed acknowledgement" "$(figure latency_ns max)" 3000000
start_server --answer none --log "$work/log"
timeout_ms=200 client "no answers" 1 --to "127.0.0.1:$port" --rate 2000 --count 100
stop_server "no answers"
log_is_whole "no answers" 100

# io_uring, where the kernel has it and allows it.
if "$echo_bin" server --mode io_uring --uring-multishot --uring-defer --count 1 --listen 203.0.113.7:0 2>&1 | grep -q io_uring; then
  echo "io_uring: skipped (this kernel has not got it, or forbids it)"
else
  for send in plain io_uring; do
    for uring in '' '--uring-multishot --uring-defer' --uring-defer --uring-sqpoll --uring-async; do
      # shellcheck disable=SC2086 # options, not one
      for proto in udp tcp; do
        round "$proto io_uring $uring $send" $proto 127.0.0.1 --mode io_uring $uring --send $send -- \
          --wait block --window 8
      done
    done
  done
  round "udp io_uring, 3 threads, 8 receives" udp 127.0.0.1 --mode io_uring --threads 3 --batch 8 -- --wait block --window 16
  round "tcp io_uring, 3 threads" tcp 127.0.0.1 --mode io_uring --threads 3 --send io_uring -- --wait block --window 8 --connections 6
  round "tcp io_uring, reads of several" tcp 127.0.0.1 --mode io_uring --uring-multishot --send io_uring --reply-bytes 100000 -- \
    --wait block --window 20 --coalesce 10 --reply-bytes 100000
  round "tcp io_uring, fresh sockets" tcp 127.0.0.1 --mode io_uring --uring-multishot --send io_uring -- --wait block --fresh-sockets
  round "udp epoll, io_uring replies" udp 127.0.0.1 --mode epoll --send io_uring -- --wait block --window 8
  round "tcp blocking, io_uring replies" tcp 127.0.0.1 --send io_uring -- --wait block --window 8 --connections 3
fi

# Streams: pieces of a request, several requests at once, a server that does not read.
round "tcp small reads" tcp 127.0.0.1 --read-bytes 10 -- --wait block --window 4
round "tcp reads of several" tcp 127.0.0.1 --read-bytes 4096 -- --wait block --window 30 --coalesce 10
at_least "tcp reads of several: seen" "$(reads_together)" 1
round "tcp reads of several, own thread" tcp 127.0.0.1 --read-bytes 4096 --mode epoll --reply-thread -- --wait block --window 30 --coalesce 10
requests=100 round "tcp in pieces" tcp 127.0.0.1 -- --wait block --segment-bytes 24 --segment-gap-us 200
at_least "tcp in pieces: shortest latency" "$(figure latency_ns min)" 400000
requests=100 round "tcp low-water mark" tcp 127.0.0.1 --rcvlowat 64 --mode epoll -- --wait block --segment-bytes 24 --segment-gap-us 200
requests=80 round "tcp zero window" tcp 127.0.0.1 --size 1000 --rcvbuf 2048 --pause-us 20000 --pause-every 20 -- \
  --wait block --size 1000 --window 40
at_least "tcp zero window: longest latency" "$(figure latency_ns max)" 20000000

# Many short-lived sockets.
round "udp fresh sockets" udp 127.0.0.1 -- --wait block --fresh-sockets
round "tcp fresh sockets" tcp 127.0.0.1 -- --wait block --fresh-sockets
check "tcp fresh sockets: a thread for each" "$(threads_served)" "$requests"
round "tcp fresh sockets, epoll, 2 senders" tcp 127.0.0.1 --mode epoll -- --wait block --fresh-sockets --senders 2

# Two processes of one SO_REUSEPORT group.
start_server --reuseport --log "$work/log"
first_pid=$server_pid
"$echo_bin" server --reuseport --listen "127.0.0.1:$port" --log "$work/log2" >"$work/ready2" 2>/dev/null &
second_pid=$!
for _ in $(seq 500); do grep -q '^ready ' "$work/ready2" && break; sleep 0.02; done
client "two processes" 0 --to "127.0.0.1:$port" --count "$requests" --senders 2 --connections 32 --wait block
all_answered "two processes" "$requests"
server_pid=$second_pid && stop_server "two processes"
server_pid=$first_pid && stop_server "two processes"
at_least "two processes: reads of the second" "$(grep -vc '^#' "$work/log2")" 1
grep -v '^#' "$work/log2" >>"$work/log"
log_is_whole "two processes" "$requests"

if [ "$(id -u)" = 0 ] && command -v ip >/dev/null && unshare -n true 2>/dev/null; then
  checks=$((checks + 1))
  WHYLATE_ECHO_IN_NETNS=1 unshare -n "$0" "$echo_bin" || fail "multicast: see above"
else
  echo "multicast: skipped (needs root, unshare and ip)"
fi

echo "$checks checks, $failures failed"
[ "$failures" -eq 0 ]
