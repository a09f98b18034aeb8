# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# whylate doctor: tracing is possible, and it knows the card, the clock and the idle states.
. /vm/guest/lib.sh
can_trace || not_here "too old: refused"

start_server --cpu 0
check "doctor succeeds" whylate doctor -p "$SERVER_PID" >$OUT/doctor
grep -v '^ok: ' $OUT/doctor | sed 's/^/    /'
check "tracing is possible" grep -q '^tracing is possible' $OUT/doctor
check "names the kernel" grep -q "kernel  *$(uname -r)" $OUT/doctor
check "no cpuidle driver" grep -q 'cpuidle  *driver none' $OUT/doctor
check "the one idle state" grep -q 'default_idle' $OUT/doctor
check "hard_irq through the card" grep -q 'hard_irq  *irq_handler_entry .*(eth1)' $OUT/doctor
check "tx_queue is measured" grep -q 'tx_queue  *net_dev_queue' $OUT/doctor
kill -INT "$SERVER_PID"
finish
