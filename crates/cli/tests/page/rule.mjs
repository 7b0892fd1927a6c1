// Holds the page's replay against core's: `node rule.mjs CASES`. The cases come from
// `src/html/section/data/test.rs`; every sum and every window must be the same.

import { readFileSync } from 'node:fs';
import { percentile, play, playBoth, Sums } from '../../src/html/page/replay.js';
import { unpackSample } from '../../src/html/page/sample.js';

/**
 * What is not as core has it.
 * @param {Sums} sums
 * @param {Record<string, number>} expected
 */
function differences(sums, expected) {
  const { halts, blocks, poll, latency, halt, guessed } = sums;
  const [p99, p50] = [percentile(sums, 0.99), percentile(sums, 0.5)];
  const got = { halts, blocks, poll, latency, halt, guessed, p99, p50 };
  return Object.entries(expected).filter(([name, value]) => got[/** @type {keyof typeof got} */ (name)] !== value);
}

/** @type {any[]} */
const cases = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8'));
let agree = 0;
const wrong = [];
for (const one of cases) {
  const [kept] = unpackSample(one);
  if (!kept) throw new Error(`${one.name}: no halts`);
  for (const run of one.runs) {
    const policy = {
      kind: run.kind,
      knobs: one.knobs,
      ceiling: one.ceiling,
      threshold: run.threshold ?? Infinity,
      fromCeiling: run.fromCeiling,
    };
    const sums = new Sums();
    /** @type {(number | null)[]} */
    const windows = [];
    play(kept.seat, policy, one.rule, one.cost, sums, (window) => windows.push(window === Infinity ? null : window));
    const differs = differences(sums, run.expected);
    // The pair that the sliders play, of which this start is one.
    const pair = playBoth(kept.seat, policy, one.rule, one.cost);
    if (run.kind === 'kvm') differs.push(...differences(pair[run.fromCeiling ? 1 : 0], run.expected));
    const first = windows.findIndex((window, n) => window !== run.windows[n]);
    if (differs.length === 0 && first < 0) agree += 1;
    else
      wrong.push(
        `${one.name}, ${run.spec}: core ${JSON.stringify(differs)}; first window that differs: ${first}, ${windows[first]} for ${run.windows[first]}`,
      );
  }
}
for (const text of wrong.slice(0, 20)) console.log(text);
if (wrong.length > 0) {
  console.log(`${wrong.length} runs differ, ${agree} agree`);
  process.exit(1);
}
console.log(`${agree} runs agree`);
