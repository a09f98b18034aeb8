#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# usage: hdr_decode.sh PATH_TO_WHYLATE_ECHO
# HdrHistogram's own reader (Debian's libhdrhistogram-java) must read from `--hdr` what the requests
# file says.
set -u
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/cli/echo_lib.sh
. "$here/echo_lib.sh"

decoded() {  # NAME TAGS CLIENT_ARGS...
  local name=$1 tags=$2
  shift 2
  client "$name" 0 --to "127.0.0.1:$port" --requests "$work/requests" --hdr "$work/log.hlog" "$@"
  # shellcheck disable=SC2086 # several tags
  python3 "$here/hdr_decode.py" "$work/requests" "$work/log.hlog" $tags
  check "$name: decoded" $? 0
}

start_server --work-us 5
decoded "closed loop" - --count 5000 --wait block
decoded "closed loop with a tag" mine --count 3 --wait block --hdr-tag mine
decoded "schedule" "- intended" --count 3000 --rate 2000
stop_server "udp"

echo "$checks checks, $failures failures"
[ "$failures" -eq 0 ]
