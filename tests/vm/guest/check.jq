# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Prints a line for everything in a trace (JSON lines) that is not as the phases of the test say.
# $phases: objects of
#   phase, first, count   records of this phase are those with numbers from first on
#   irq, irq_name, irq_cpu   each came by this device interrupt (no irq: whatever way), or by one
#               that is not known
#   irq_unknown   which part of them that may be; default: a quarter
#   rx_cpu      softirq on this CPU
#   server_cpu  where it was read
#   modes       who may have run the softirq; default: inline, ksoftirqd
#   quality     flags that are allowed besides the harmless ones
# $total: requests in all, warm-up included.

def request_errors($phase):
  . as $r
  | ([.stages[].ns] | add // 0) as $sum
  | (if $sum != .total_ns then "stages sum to \($sum), total is \(.total_ns)" else empty end),
    (if .total_ns != .end_ns - .start_ns then "total is not end - start" else empty end),
    (if any(.stages[]; .ns < 0) then "negative stage" else empty end),
    (if any(.stages[]; .name == "unattributed") then "unattributed time" else empty end),
    (if .softirq.mode | IN(($phase.modes // ["inline", "ksoftirqd"])[]) then empty
     else "softirq \(.softirq)" end),
    (([.occupants[] | select(.stage == "run_queue") | .ns] | add // 0) as $named
    | ([.stages[] | select(.name == "run_queue") | .ns] | add // 0) as $waited
    | if $named != $waited then "occupants of run_queue sum to \($named) of \($waited)"
      else empty end),
    (if $phase.irq == null then empty
     elif .hard_irq.irq == null then empty # counted below
     else
       (if .origin != "irq" then "origin \(.origin)" else empty end),
       (if .hard_irq.irq != $phase.irq then "irq \(.hard_irq.irq)" else empty end),
       (if .hard_irq.name != $phase.irq_name then "irq name \(.hard_irq.name)" else empty end),
       (if .hard_irq.cpu != $phase.irq_cpu then "irq on CPU \(.hard_irq.cpu)" else empty end),
       (if any(.stages[]; .name == "hard_irq") then empty else "no time in hard_irq" end)
     end),
    (if $phase.rx_cpu == null or .softirq.cpu == $phase.rx_cpu then empty
     else "softirq on CPU \(.softirq.cpu)" end),
    (if $phase.server_cpu == null then empty
     else (.stages[] | select(.name == "recv" or .name == "app" or .name == "run_queue")
           | select(.cpu != null and .cpu != $phase.server_cpu) | "\(.name) on CPU \(.cpu)") end),
    # In a guest that gets little time a softirq uses up its own (net.core.netdev_budget_usecs), and
    # the next one begins without an interrupt.
    (if any(.quality[]; . == "squeezed") and (.origin != "napi" or .hard_irq != null)
     then "squeezed, origin \(.origin)" else empty end),
    ((.quality - ["cold", "irq_cpu_idle", "debt_paid", "other_context"] - ($phase.quality // [])
      - (if any(.quality[]; . == "squeezed") then ["squeezed", "polled"] else [] end))
     | if . != [] then "quality \(.)" else empty end)
  | "\($phase.phase), record \($r.seq), id \($r.id): \(.)\n    \($r | tojson)";

def summary_errors:
  (if .requests.observed != $total then "observed \(.requests.observed) of \($total)"
   else empty end),
  (if .requests.incomplete != 0 then "incomplete \(.requests.incomplete)" else empty end),
  # A reply that waits in a queue behind too many others is lost, and said to be.
  (if .requests.no_reply != .lost.tx_pending
   then "no reply \(.requests.no_reply), lost tx_pending \(.lost.tx_pending)" else empty end),
  (if .requests.no_reply * 20 > $total then "no reply \(.requests.no_reply)" else empty end),
  (if .requests.clamped != 0 then "clamped \(.requests.clamped)" else empty end),
  (.requests.unmatched | to_entries[] | select(.value != 0) | "unmatched \(.key) \(.value)"),
  (.lost | to_entries[] | select(.value != 0 and .key != "tx_pending") | "lost \(.key) \(.value)"),
  (if .complete != (.lost.tx_pending == 0) then "complete is \(.complete)" else empty end),
  (if .self_test.violations != 0 then "self test: \(.self_test)" else empty end),
  (if .cost.recursion_misses != 0 then "recursion misses \(.cost.recursion_misses)" else empty end)
  | "summary: \(.)";

def of($records; $first; $count):
  [$records[] | select(.id != null and .id >= $first and .id < $first + $count)];

[inputs] as $all
| [$all[] | select(.schema == "whylate.request/1")] as $records
| ($all | last) as $summary
| def of($first; $count): of($records; $first; $count);
[ (if ($records | length) != $total
   then "\($records | length) records, \($total) expected" else empty end),
  (if $summary.schema != "whylate.summary/1" then "no summary at the end"
   else ($summary | summary_errors) end),
  ($records[] | select(.id == null) | "record \(.seq) has no id\n    \(tojson)"),
  ($phases[] as $phase
   | of($phase.first; $phase.count)
   | (if length != $phase.count
      then "\($phase.phase): \(length) records of \($phase.count)" else empty end),
     (.[] | request_errors($phase)),
     # Now and then a driver finds a packet whose interrupt it had not switched on again yet, or
     # two interrupts come before the softirq and it cannot be told whose packet it is; often so
     # when the host gives the guest little time and its interrupts gather.
     ([.[] | select(.hard_irq.irq == null)]
      | if $phase.irq == null then empty
        else "-- \($phase.phase): \(length) of \($phase.count) without an interrupt" end,
        if $phase.irq != null and length > $phase.count * ($phase.irq_unknown // 0.25)
        then "\($phase.phase): \(length) without an interrupt\n    \(.[0] | tojson)" else empty end))
]
