#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# usage: hdr_decode.sh PATH_TO_WHYLATE_ECHO WORK_DIR
# Another implementation's decoder must read from `--hdr` what the requests file says. Needs node and npm (it installs
# hdr-histogram-js into WORK_DIR); with WHYLATE_NO_NPM=1 it is skipped (77).
set -eu
echo_bin=$(realpath "${1:?usage: $0 PATH_TO_WHYLATE_ECHO WORK_DIR}")
work=${2:?usage: $0 PATH_TO_WHYLATE_ECHO WORK_DIR}
here=$(cd "$(dirname "$0")" && pwd)
if [ "${WHYLATE_NO_NPM:-}" = 1 ]; then
  echo "skipped: WHYLATE_NO_NPM=1"
  exit 77
fi
for tool in node npm; do
  command -v $tool >/dev/null || { echo "FAIL: $tool is missing (WHYLATE_NO_NPM=1 skips this test)" >&2; exit 1; }
done

mkdir -p "$work"
work=$(realpath "$work")
if [ ! -d "$work/node_modules/hdr-histogram-js" ]; then
  echo '{"private":true}' >"$work/package.json"
  timeout 300 npm install --prefix "$work" --no-audit --no-fund --no-save --silent hdr-histogram-js@3 ||
    { echo "FAIL: npm could not install hdr-histogram-js" >&2; exit 1; }
fi

server_pid=
trap '[ -z "$server_pid" ] || { kill "$server_pid" 2>/dev/null; wait "$server_pid" 2>/dev/null; }' EXIT
"$echo_bin" server --work-us 5 >"$work/ready" 2>/dev/null &
server_pid=$!
for _ in $(seq 500); do grep -q '^ready ' "$work/ready" && break; sleep 0.02; done
port=$(sed -n 's/^ready .*port=\([0-9]*\).*/\1/p' "$work/ready")

failures=0
run() {  # NAME CLIENT_ARGS...
  echo "$1"
  shift
  timeout 120 "$echo_bin" client --to "127.0.0.1:$port" --requests "$work/requests.jsonl" --hdr "$work/latency.hlog" "$@" >/dev/null
  node "$here/hdr_decode.mjs" "$work" "$work/requests.jsonl" "$work/latency.hlog" || failures=$((failures + 1))
}
run "closed loop" --count 5000 --wait block
run "closed loop with a tag" --count 3 --wait block --hdr-tag mine
run "schedule" --count 3000 --rate 2000
exit $((failures > 0))
