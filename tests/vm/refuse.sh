# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A kernel without sk_data_ready: whylate refuses in one line that names it, and attaches nothing.
. /vm/guest/lib.sh
has_tracepoint sock/sk_data_ready && not_here "has the tracepoint sk_data_ready"

start_server --cpu 0
whylate trace -p "$SERVER_PID" -d 1s >$OUT/out 2>$OUT/err
check "exit status is 3" [ $? -eq 3 ]
sed 's/^/    /' $OUT/err
check "one line" [ "$(wc -l <$OUT/err)" -eq 1 ]
check "nothing on stdout" [ ! -s $OUT/out ]
check "names sk_data_ready" grep -q sk_data_ready $OUT/err
check "names sock_recv_length" grep -q sock_recv_length $OUT/err
whylate doctor >$OUT/out 2>$OUT/err
check "doctor's exit status is 3" [ $? -eq 3 ]
check "doctor names it, too" grep -q 'sk_data_ready .*6\.3' $OUT/out
check "the server goes on" client --count 5 $PACED
kill -INT "$SERVER_PID"
finish
