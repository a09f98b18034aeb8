# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A kernel too old (before 5.18): whylate refuses in one line that says what it lacks, and attaches
# nothing.
. /vm/guest/lib.sh
can_trace && not_here "can be traced"

start_server --cpu 0
whylate trace -p "$SERVER_PID" -d 1s >$OUT/out 2>$OUT/err
check "exit status is 3" [ $? -eq 3 ]
sed 's/^/    /' $OUT/err
check "one line" [ "$(wc -l <$OUT/err)" -eq 1 ]
check "nothing on stdout" [ ! -s $OUT/out ]
check "names sched_switch" grep -q 'sched_switch.*5\.18' $OUT/err
whylate doctor >$OUT/out 2>$OUT/err
check "doctor's exit status is 3" [ $? -eq 3 ]
check "doctor names it, too" grep -q 'sched_switch has 3 arguments here, 4 are needed' $OUT/out
check "the server goes on" client --count 5 $PACED
kill -INT "$SERVER_PID"
finish
