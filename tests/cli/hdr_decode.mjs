// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// usage: node hdr_decode.mjs MODULE_DIR REQUESTS_FILE HDR_LOG
// Decodes a log of `whylate-echo client --hdr` with another implementation (hdr-histogram-js) and compares it with
// the exact latencies of the requests file.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [moduleDir, requestsFile, logFile] = process.argv.slice(2);
const hdr = createRequire(moduleDir + "/")("hdr-histogram-js");
const lines = readFileSync(requestsFile, "utf8").trim().split("\n").slice(1).map((line) => JSON.parse(line));
const reader = new hdr.HistogramLogReader(readFileSync(logFile, "utf8"));
let failures = 0;

function check(what, got, wanted, tolerance) {
  const good = Math.abs(got - wanted) <= tolerance;
  if (!good) failures++;
  console.log(`${good ? "ok  " : "FAIL"} ${what}: decoded ${got}, exact ${wanted}`);
}

let seen = 0;
for (let histogram; (histogram = reader.nextIntervalHistogram()) !== null; seen++) {
  const tag = histogram.tag === "NO TAG" || !histogram.tag ? "sent" : histogram.tag;
  const key = tag === "intended" ? "latency_intended_ns" : "latency_ns";
  const exact = lines.map((line) => line[key]).filter((value) => value !== null).sort((a, b) => a - b);
  check(`${tag} count`, histogram.totalCount, exact.length, 0);
  // Three significant digits: a value lies at most a thousandth below the highest of its bucket.
  const near = (value) => value / 1000 + 1;
  check(`${tag} max`, histogram.maxValue, exact.at(-1), near(exact.at(-1)));
  check(`${tag} min`, histogram.minNonZeroValue, exact[0], near(exact[0]));
  for (const percent of [50, 90, 99, 99.9]) {
    const rank = Math.max(1, Math.ceil((percent / 100) * exact.length - 1e-9));
    check(`${tag} p${percent}`, histogram.getValueAtPercentile(percent), exact[rank - 1], near(exact[rank - 1]));
  }
}
check("histograms", seen, lines.some((line) => line.latency_intended_ns !== null) ? 2 : 1, 0);
process.exit(failures === 0 ? 0 : 1);
