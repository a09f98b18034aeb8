# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Sourced by echo_test.sh and echo_ways_test.sh with the path of whylate-echo as $1: starting servers and
# clients, and checking what they report.
echo_bin=$(realpath "${1:?usage: $0 PATH_TO_WHYLATE_ECHO}")
work=$(mktemp -d)
server_pid=
failures=0
checks=0

cleanup() {
  if [ -n "$server_pid" ]; then kill "$server_pid" 2>/dev/null; wait "$server_pid" 2>/dev/null; fi
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

fail() { echo "FAIL: $*" >&2; failures=$((failures + 1)); }
check() { checks=$((checks + 1)); [ "$2" = "$3" ] || fail "$1: expected '$3', got '$2'"; }
at_least() { checks=$((checks + 1)); [ "${2:-0}" -ge "$3" ] || fail "$1: expected at least $3, got '$2'"; }
field() { sed -n "s/.*\"$1\":\([0-9][0-9]*\).*/\1/p" "$work/summary"; }
figure() { sed -n "s/.*\"$1\":{\([^}]*\)}.*/\1/p" "$work/summary" | sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p"; }

start_server() {  # ARGS...: leaves its port in $port
  rm -f "$work/ready" "$work/log"
  "$echo_bin" server "$@" >"$work/ready" 2>"$work/server_err" &
  server_pid=$!
  for _ in $(seq 500); do
    grep -q '^ready ' "$work/ready" && break
    kill -0 "$server_pid" 2>/dev/null || break
    sleep 0.02
  done
  port=$(sed -n 's/^ready .*port=\([0-9]*\).*/\1/p' "$work/ready")
  [ -n "$port" ] || { fail "server $*: not ready: $(cat "$work/server_err")"; port=1; }
}
stop_server() {  # NAME [SIGNAL]: it must end by itself, with exit code 0
  kill -"${2:-TERM}" "$server_pid"
  wait "$server_pid"
  check "$1: server's exit code" $? 0
  server_pid=
}
client() {  # NAME EXPECTED_EXIT ARGS...
  local name=$1 expected=$2
  shift 2
  timeout 120 "$echo_bin" client --json --timeout-ms "${timeout_ms:-20000}" "$@" >"$work/summary" 2>"$work/client_err"
  local code=$?
  check "$name: client's exit code ($(cat "$work/client_err"))" "$code" "$expected"
}
all_answered() {  # NAME COUNT
  check "$1: sent" "$(field sent)" "$2"
  check "$1: received" "$(field received)" "$2"
  check "$1: odd replies" "$(field mismatched)+$(field duplicates)+$(field unexpected)" 0+0+0
}
log_is_whole() {  # NAME COUNT: every number 0..COUNT-1 was read exactly once
  check "$1: reads logged" "$(grep -vc '^#' "$work/log")" "$2"
  check "$1: numbers read once" \
    "$(grep -v '^#' "$work/log" | awk '{print $3}' | sort -n | uniq | awk '$1 != NR - 1 {bad++} END {print NR - bad}')" "$2"
  check "$1: per-thread order" \
    "$(awk '!/^#/ {if ($2 != next_order[$1]++) bad++; if ($4 < last[$1]) bad++; last[$1] = $4} END {print bad + 0}' "$work/log")" 0
}

round() {  # NAME PROTO LISTEN SERVER_ARGS -- CLIENT_ARGS
  local name=$1 proto=$2 listen=$3 count=${requests:-1500} server_args=()
  shift 3
  while [ "$1" != -- ]; do server_args+=("$1"); shift; done
  shift
  start_server --proto "$proto" --listen "$listen:0" --log "$work/log" "${server_args[@]}"
  client "$name" 0 --proto "$proto" --to "$listen:$port" --count "$count" "$@"
  all_answered "$name" "$count"
  stop_server "$name"
  log_is_whole "$name" "$count"
}

