# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Sourced by overhead.sh: what whylate itself needs, and whether it counts everything. Traffic comes from whylate-echo.

echo_pid=
echo_client_pid=

# Starts the echo server; it becomes the target.
start_echo_server() {
  : >"$tmp/echo.out"
  env --default-signal=INT,QUIT,PIPE "$build/whylate-echo" server --proto udp --listen 127.0.0.1:0 --cpu "$server_cpu" \
    >"$tmp/echo.out" 2>"$tmp/echo.err" &
  echo_pid=$!
  wait_for_line "$tmp/echo.out" '^ready ' "$echo_pid" 10 || die "whylate-echo server does not start: $(tail -n 1 "$tmp/echo.err")"
  target_pid=$echo_pid
  target_port=$(sed -n 's/^ready .*port=\([0-9]*\).*/\1/p' "$tmp/echo.out")
}

# Ends the server; how many requests it served into `served`.
stop_echo_server() {
  [[ -n $echo_pid ]] || return 0
  kill -TERM "$echo_pid" 2>/dev/null
  wait "$echo_pid" 2>/dev/null
  echo_pid=
  served=$(sed -n 's/^served \([0-9]*\) requests.*/\1/p' "$tmp/echo.err")
}

# Runs the client to its end; its duration into `client_us`.
run_echo_client() {
  local start_us
  start_us=$(now_us)
  "$build/whylate-echo" client --proto udp --to "127.0.0.1:$target_port" --cpu "$client_cpu" --json "$@" \
    >"$tmp/client.out" 2>"$tmp/client.err" &
  echo_client_pid=$!
  wait "$echo_client_pid"
  local status=$?
  echo_client_pid=
  client_us=$(($(now_us) - start_us))
  ((status == 0)) || warn "whylate-echo client ended with $status: $(tail -n 1 "$tmp/client.err")"
  return $status
}

resources_stop() {
  [[ -n $echo_client_pid ]] && kill -TERM "$echo_client_pid" 2>/dev/null
  stop_echo_server
}

# CPU time in ns that a process's threads have used: user and system.
cpu_time_ns() {
  if [[ -r /proc/$1/schedstat ]]; then
    cat "/proc/$1"/task/*/schedstat 2>/dev/null | awk '{ sum += $1 } END { printf "%.0f", sum }'
  else
    awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); printf "%.0f", ($12 + $13) / hz * 1e9 }' "/proc/$1/stat"
  fi
}

# A number of a JSON text: the first one behind the key.
json_number() { tr -d '\n' <"$1" | grep -oE '"'"$2"'" *: *-?[0-9]+' | head -n 1 | grep -oE -- '-?[0-9]+$'; }

# The reasons of loss that are not 0, as written: "ring_full 3, ...". Empty: none.
json_losses() {
  tr -d '\n' <"$1" | grep -oE '"lost" *: *\{[^}]*\}' | head -n 1 | grep -oE '"[a-z0-9_]+" *: *[1-9][0-9]*' | tr -d '"' |
    sed 's/ *: */ /' | paste -sd, | sed 's/,/, /g'
}

verdict() { awk -v value="$1" -v limit="$2" 'BEGIN { print (value < limit) ? "met" : "NOT MET" }'; }
or_null() { printf '%s' "${1:-null}"; }

attach_time() {
  local i value
  local -a times=()
  for ((i = 0; i < 5; ++i)); do
    start_tracer whylate || { warn "whylate: $tracer_why"; return 1; }
    value=$(sed -nE 's/.*attached in ([0-9.]+) ms.*/\1/p' "$tmp/tracer.err" | head -n 1)
    stop_tracer
    [[ -n $value ]] && times+=("$value")
  done
  if ((${#times[@]} == 0)); then
    echo "attach time           not measured: whylate does not say 'attached in N ms'"
    return 0
  fi
  attach_ms=$(printf '%s\n' "${times[@]}" | sort -n | sed -n "$(((${#times[@]} + 1) / 2))p")
  printf 'attach time           %s ms, median of %d (wanted: under 300): %s\n' "$attach_ms" "${#times[@]}" "$(verdict "$attach_ms" 300)"
}

memory_and_cpu() {
  local before_ns used_ns achieved
  start_tracer whylate || { warn "whylate: $tracer_why"; return 1; }
  before_ns=$(cpu_time_ns "$tracer_pid")
  if ! run_echo_client --rate 10000 --count 100000; then
    stop_tracer
    echo "memory and CPU share  not measured: the client failed"
    return 1
  fi
  used_ns=$(($(cpu_time_ns "$tracer_pid") - before_ns))
  peak_kib=$(awk '/^VmHWM:/ { print $2 }' "/proc/$tracer_pid/status")
  stop_tracer
  cpu_percent=$(awk -v used="$used_ns" -v wall="$client_us" 'BEGIN { printf "%.2f", used / wall / 10 }')
  achieved=$(awk -v wall="$client_us" 'BEGIN { printf "%.0f", 100000 / wall * 1e6 }')
  printf 'peak memory           %d KiB (wanted: under 40 MiB): %s\n' "$peak_kib" "$(verdict "$peak_kib" 40960)"
  printf 'CPU share             %s %% of one CPU at %s requests/s (wanted: under 2): %s\n' "$cpu_percent" "$achieved" \
    "$(verdict "$cpu_percent" 2)"
}

completeness() {
  local command=$whylate_command losses answer=INCOMPLETE
  whylate_command=$whylate_json_command
  start_tracer whylate || { warn "whylate: $tracer_why"; whylate_command=$command; return 1; }
  # A client that failed has still made requests: what the two sides counted is compared all the same.
  run_echo_client --window 32 --count "$requests"
  stop_tracer
  whylate_command=$command
  stop_echo_server
  counted=$(json_number "$tmp/tracer.out" observed)
  losses=$(json_losses "$tmp/tracer.out")
  rate=$(awk -v n="${served:-0}" -v wall="$client_us" 'BEGIN { printf "%.0f", n / wall * 1e6 }')
  if [[ -n $counted && $counted == "$served" ]]; then
    answer=complete
  else
    finding=1
  fi
  printf 'at the highest rate   %s requests/s: %s served, %s counted: %s; lost: %s\n' "$rate" "${served:-?}" "${counted:-?}" "$answer" \
    "${losses:-nothing}"
}

resources() {
  attach_ms='' peak_kib='' cpu_percent='' rate='' served='' counted=''
  printf '\nwhylate itself\n'
  if [[ ! -x $build/whylate-echo ]]; then
    echo "not measured: $build/whylate-echo is not there"
    return 0
  fi
  start_echo_server
  if attach_time; then
    memory_and_cpu
    # A server of its own: its count must hold nothing but this run.
    stop_echo_server
    start_echo_server
    completeness
  else
    echo "not measured: whylate cannot be started: $tracer_why"
  fi
  stop_echo_server
  resources_json=$(printf '{"attach_ms":%s,"peak_memory_kib":%s,"cpu_percent":%s,"requests_per_s":%s,"served":%s,"counted":%s}' \
    "$(or_null "$attach_ms")" "$(or_null "$peak_kib")" "$(or_null "$cpu_percent")" "$(or_null "$rate")" "$(or_null "$served")" \
    "$(or_null "$counted")")
}
