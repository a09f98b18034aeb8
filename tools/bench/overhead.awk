# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Samples of overhead.sh (one line each: position tracer p50_ns disturbed) -> table on stdout, JSON into the file `json`.
# Variables: method, method_text, order (tracers in printing order), json, base_cpus.

function sort_values(values, n,   i, j, v) {
  for (i = 2; i <= n; ++i) {
    v = values[i]
    for (j = i - 1; j >= 1 && values[j] > v; --j) values[j + 1] = values[j]
    values[j + 1] = v
  }
}
# Sorted array, share of 0 to 1, linear between neighbours.
function quantile(values, n, share,   at, low) {
  at = 1 + share * (n - 1); low = int(at)
  return low >= n ? values[n] : values[low] + (at - low) * (values[low + 1] - values[low])
}
function round(x) { return x < 0 ? -int(-x + 0.5) : int(x + 0.5) }
function grouped(x,   text, sign, out) {
  x = round(x); sign = x < 0 ? "-" : ""; text = (x < 0 ? -x : x) ""
  while (length(text) > 3) { out = "," substr(text, length(text) - 2) out; text = substr(text, 1, length(text) - 3) }
  return sign text out
}
function plus(x) { return (round(x) >= 0 ? "+" : "") grouped(x) }
function ratio_to(name, reference) {
  return (name in added) && (reference in added) && added[name] > 0 && added[reference] > 0 ? sprintf("%.2f", added[name] / added[reference]) : ""
}
function json_ratio(name, reference,   r) { r = ratio_to(name, reference); return r == "" ? "null" : r }

{ tracer[$1] = $2; p50[$1] = $3; bad[$1] = $4; if ($1 > last) last = $1 }

END {
  base_n = 0
  for (i = 1; i <= last; ++i) {
    if (!(i in tracer)) continue
    taken[tracer[i]]++
    if (bad[i]) { dropped++; continue }
    if (tracer[i] == "none") { base[++base_n] = p50[i]; continue }
    # Paired with the samples without a tracer just before and just after: a drift of the machine cancels.
    if (!((i - 1) in tracer) || !((i + 1) in tracer) || bad[i - 1] || bad[i + 1]) { unpaired++; continue }
    name = tracer[i]
    n[name]++
    difference[name, n[name]] = p50[i] - (p50[i - 1] + p50[i + 1]) / 2
    rtt[name, n[name]] = p50[i]
  }
  sort_values(base, base_n)
  names = split(order, wanted, " ")
  for (k = 1; k <= names; ++k) {
    name = wanted[k]
    if (!n[name]) continue
    for (i = 1; i <= n[name]; ++i) { d[i] = difference[name, i]; r[i] = rtt[name, i] }
    sort_values(d, n[name]); sort_values(r, n[name])
    added[name] = quantile(d, n[name], 0.5); low[name] = quantile(d, n[name], 0.25); high[name] = quantile(d, n[name], 0.75)
    with[name] = quantile(r, n[name], 0.5)
  }

  printf "\nmethod: %s\n", method_text
  if (base_n == 0) { print "no undisturbed sample" }
  else {
    printf "without a tracer: p50 of the round trip %s ns, half of it %s ns (median of %d samples, %s to %s)\n\n", \
      grouped(quantile(base, base_n, 0.5)), grouped(quantile(base, base_n, 0.5) / 2), base_n, grouped(base[1]), grouped(base[base_n])
    printf "%-10s %7s %12s %12s %22s %14s %9s %10s\n", "tracer", "rounds", "RTT p50 ns", "added ns", "(quartiles)", "per half RTT", "x floor", "x bpftrace"
    for (k = 1; k <= names; ++k) {
      name = wanted[k]
      if (!(name in added)) { printf "%-10s %7s\n", name, taken[name] ? "no undisturbed pair" : "not measured"; continue }
      printf "%-10s %7d %12s %12s %22s %14s %9s %10s\n", name, n[name], grouped(with[name]), plus(added[name]), \
        "(" plus(low[name]) " to " plus(high[name]) ")", plus(added[name] / 2), ratio_to(name, "floor"), ratio_to(name, "bpftrace")
    }
    print "\nAdded: median of the differences to the mean of the two neighbouring samples without a tracer. Client and server"
    print "share this host, so that a round trip pays the hooks of two senders and two receivers; half of it is one request's."
  }
  if (dropped) printf "%d samples stayed disturbed by foreign load and were left out.\n", dropped
  if (unpaired) printf "%d samples had a disturbed neighbour and were left out.\n", unpaired

  if (json == "") exit
  printf "{\"method\":\"%s\",\"base_rtt_p50_ns\":%s,\"base_samples\":%d,\"left_out\":%d,\"tracers\":[", method, \
    (base_n ? round(quantile(base, base_n, 0.5)) : "null"), base_n, (dropped + unpaired) > json
  for (k = 1; k <= names; ++k) {
    name = wanted[k]
    printf "%s{\"name\":\"%s\",\"rounds\":%d", (k > 1 ? "," : ""), name, n[name] > json
    if (name in added)
      printf ",\"rtt_p50_ns\":%d,\"added_rtt_ns\":%d,\"added_quartiles_ns\":[%d,%d],\"added_half_rtt_ns\":%d", \
        round(with[name]), round(added[name]), round(low[name]), round(high[name]), round(added[name] / 2) > json
    else
      printf ",\"rtt_p50_ns\":null,\"added_rtt_ns\":null,\"added_quartiles_ns\":null,\"added_half_rtt_ns\":null" > json
    printf ",\"ratio_to_floor\":%s,\"ratio_to_bpftrace\":%s}", json_ratio(name, "floor"), json_ratio(name, "bpftrace") > json
  }
  printf "]}" > json
}
