// One policy on the halts of one vCPU: the same replay as `core::replay::run`, held against it by a test.

import { after, entry } from './rule.js';

/** @typedef {import('./data.js').Rule} Rule */
/** @typedef {import('./data.js').Knobs} Knobs */
/** @typedef {import('./data.js').Cost} Cost */

/** Classes of sleep, as in `core::replay::latency`. */
export const CLASSES = 26;

/**
 * @typedef {object} Seat The halts of a vCPU, column by column; times in nanoseconds.
 * @property {number} count
 * @property {Float64Array} start
 * @property {Float64Array} gap
 * @property {Float64Array} latency
 * @property {Float64Array} polled
 * @property {Float64Array} cut where a cut poll stopped, else infinite
 * @property {Uint8Array} wake
 * @property {Uint8Array} valid
 * @property {Uint8Array} waited
 * @property {Uint8Array} pollKnown
 * @property {Int8Array} slept class of the recorded sleep; -1 where it is not known
 * @property {Float64Array[]} turns latencies by class of sleep
 * @property {boolean[]} guessed
 * @property {number[]} follow
 */

/**
 * @typedef {object} Policy
 * @property {'kvm' | 'fixed' | 'clairvoyant'} kind
 * @property {Knobs} knobs
 * @property {number} ceiling of this vCPU
 * @property {number} threshold of `fixed`
 * @property {boolean} fromCeiling the window begins at the ceiling, else at 0
 */

/** What came of halts; times in nanoseconds. */
export class Sums {
  constructor() {
    this.halts = 0;
    this.blocks = 0;
    this.poll = 0;
    this.latency = 0;
    this.halt = 0;
    /** Sleeps of a length of which no wake-up was recorded. */
    this.guessed = 0;
    /** Wake-up latencies of all halts, by `bucketOf`. */
    this.buckets = new Uint32Array(BUCKETS);
    this.largest = 0;
  }

  /** @param {Sums} other */
  add(other) {
    this.halts += other.halts;
    this.blocks += other.blocks;
    this.poll += other.poll;
    this.latency += other.latency;
    this.halt += other.halt;
    this.guessed += other.guessed;
    for (let n = 0; n < BUCKETS; n++) this.buckets[n] = (this.buckets[n] ?? 0) + (other.buckets[n] ?? 0);
    this.largest = Math.max(this.largest, other.largest);
  }
}

/**
 * The class of a sleep.
 * @param {number} ns
 * @returns {number}
 */
export function classOf(ns) {
  const units = Math.floor(ns / 1024);
  return units >= 1 << (CLASSES - 1) ? CLASSES - 1 : 32 - Math.clz32(units);
}

/**
 * The longest sleep of a class.
 * @param {number} group
 * @returns {number}
 */
export function classEnd(group) {
  return group + 1 >= CLASSES ? Infinity : 1024 * 2 ** group - 1;
}

/**
 * A cost in thousandths of a nanosecond of CPU.
 * @param {Cost} cost
 * @param {number} poll
 * @param {number} blocks
 * @param {number} latency
 * @returns {number}
 */
export function milli(cost, poll, blocks, latency) {
  return (poll + blocks * cost.switch) * 1000 + latency * cost.weight;
}

/**
 * The gap of a halt whose vCPU woke so much sooner than recorded last time.
 * @param {number} gap
 * @param {number} follow
 * @param {number} ahead
 * @returns {number}
 */
function moved(gap, follow, ahead) {
  if (follow === 0) return gap;
  if (follow === 1000) return Math.max(0, gap + ahead);
  const scaled = ahead * follow;
  return Math.max(0, gap + (scaled - (scaled % 1000)) / 1000);
}

/**
 * The latency of a sleep: its own where it slept about as long, else the one whose turn it is.
 * @param {Seat} seat
 * @param {number} n the halt, and its turn
 * @param {number} group
 * @returns {number}
 */
function latencyOf(seat, n, group) {
  if (seat.slept[n] === group) return seat.latency[n] ?? 0;
  const turns = seat.turns[group];
  return turns === undefined || turns.length === 0 ? 0 : (turns[n % turns.length] ?? 0);
}

/**
 * The window that costs least for this very halt.
 * @param {Seat} seat
 * @param {number} n
 * @param {number} gap
 * @param {Cost} cost
 * @returns {number}
 */
export function best(seat, n, gap, cost) {
  let least = milli(cost, gap, 0, 0);
  let window = gap;
  if (gap === 0) return window;
  const cut = seat.cut[n] ?? Infinity;
  for (let group = classOf(gap); group >= 0; group--) {
    const tried = Math.max(0, gap - classEnd(group));
    if (milli(cost, tried, 1, 0) >= least) break;
    const polled = Math.min(tried, cut);
    const costs = milli(cost, polled, 1, latencyOf(seat, n, classOf(gap - polled)));
    if (costs < least) {
      least = costs;
      window = tried;
    }
  }
  return window;
}

/** A policy on its way through the halts of a vCPU. */
class Run {
  /**
   * @param {Seat} seat
   * @param {Policy} policy
   * @param {Rule} rule
   * @param {Cost} cost
   */
  constructor(seat, policy, rule, cost) {
    this.seat = seat;
    this.policy = policy;
    this.rule = rule;
    this.cost = cost;
    /** The next halt. */
    this.next = 0;
    this.window = policy.fromCeiling ? policy.ceiling : 0;
    /** How much sooner than recorded the vCPU woke last time. */
    this.ahead = 0;
  }

  /**
   * Whether all that is still to come is the same.
   * @param {Run} other of the same halts under the same policy
   * @returns {boolean}
   */
  goesOnAs(other) {
    return this.next === other.next && this.window === other.window && this.ahead === other.ahead;
  }

  /**
   * Plays on, up to a halt.
   * @param {number} end the first that is not played
   * @param {Sums} sums what comes of it is added here
   * @param {(window: number) => void} [told] is told each window
   */
  on(end, sums, told) {
    const { seat, rule, cost } = this;
    const { knobs, ceiling, kind, threshold } = this.policy;
    let { window, ahead } = this;
    const last = Math.min(end, seat.count);
    for (let n = this.next; n < last; n++) {
      const own = seat.latency[n] ?? 0;
      const gap = moved(seat.gap[n] ?? 0, seat.follow[seat.wake[n] ?? 4] ?? 0, ahead);
      let reach = threshold;
      if (kind === 'kvm') reach = window = entry(rule, window, ceiling);
      else if (kind === 'clairvoyant') reach = best(seat, n, gap, cost);
      reach = Math.min(reach, seat.cut[n] ?? Infinity);
      let latency = 0;
      if (gap <= reach) {
        if (reach > 0) sums.poll += gap;
      } else {
        const group = classOf(gap - reach);
        latency = latencyOf(seat, n, group);
        if (seat.slept[n] !== group && seat.guessed[group]) sums.guessed += 1;
        sums.poll += reach;
        sums.blocks += 1;
      }
      if (kind === 'kvm') window = after(rule, knobs, ceiling, window, gap + latency, seat.valid[n] === 1);
      ahead = own - latency;
      sums.halts += 1;
      sums.latency += latency;
      sums.halt += gap + latency;
      const bucket = bucketOf(latency);
      sums.buckets[bucket] = (sums.buckets[bucket] ?? 0) + 1;
      if (latency > sums.largest) sums.largest = latency;
      if (told) told(reach);
    }
    this.next = Math.max(this.next, last);
    this.window = window;
    this.ahead = ahead;
  }
}

/**
 * Plays all halts of a vCPU.
 * @param {Seat} seat
 * @param {Policy} policy
 * @param {Rule} rule
 * @param {Cost} cost
 * @param {Sums} sums what came of it is added here
 * @param {(window: number) => void} [told] is told each window
 */
export function play(seat, policy, rule, cost, sums, told) {
  new Run(seat, policy, rule, cost).on(seat.count, sums, told);
}

/** Halts after which two starts are first held against each other. */
const FIRST_LOOK = 32;

/**
 * Plays all halts of a vCPU from no window, and from the ceiling. As soon as both have come to the same
 * window and the same moment, what is left is the same for both and is played once.
 * @param {Seat} seat
 * @param {Policy} policy
 * @param {Rule} rule
 * @param {Cost} cost
 * @returns {[Sums, Sums]}
 */
export function playBoth(seat, policy, rule, cost) {
  const zero = new Run(seat, { ...policy, fromCeiling: false }, rule, cost);
  const ceiling = new Run(seat, { ...policy, fromCeiling: true }, rule, cost);
  const [own, other] = [new Sums(), new Sums()];
  for (let end = FIRST_LOOK; zero.next < seat.count && !zero.goesOnAs(ceiling); end *= 2) {
    zero.on(end, own);
    ceiling.on(end, other);
  }
  const rest = new Sums();
  zero.on(seat.count, rest);
  own.add(rest);
  other.add(rest);
  return [own, other];
}

/** Buckets of a histogram with eight for each power of two, as `core::hist`. */
const BUCKETS = 496;

/**
 * @param {number} value
 * @returns {number}
 */
export function bucketOf(value) {
  if (value < 8) return value;
  if (value < 2 ** 32) {
    const octave = 31 - Math.clz32(value);
    return (octave - 2) * 8 + ((value >>> (octave - 3)) & 7);
  }
  const octave = 63 - Math.clz32(Math.floor(value / 2 ** 32));
  return (octave - 2) * 8 + (Math.floor(value / 2 ** (octave - 3)) % 8);
}

/**
 * @param {number} bucket
 * @returns {number}
 */
function bucketLow(bucket) {
  if (bucket < 8) return bucket;
  return (8 + (bucket % 8)) * 2 ** (Math.floor(bucket / 8) - 1);
}

/**
 * The latency at or below which the share `p` of all halts lies, as `LogHist::percentile`.
 * @param {Sums} sums
 * @param {number} p
 * @returns {number}
 */
export function percentile(sums, p) {
  if (sums.halts === 0) return 0;
  const rank = Math.min(Math.max(Math.ceil(sums.halts * p), 1), sums.halts);
  let below = 0;
  for (let bucket = 0; bucket < BUCKETS; bucket++) {
    const count = sums.buckets[bucket] ?? 0;
    if (count > 0 && below + count >= rank) {
      const low = bucketLow(bucket);
      const width = Math.min(bucketLow(bucket + 1) - 1, Math.max(sums.largest, low)) - low;
      return Math.min(low + Math.floor((width * (rank - below)) / count), sums.largest);
    }
    below += count;
  }
  return sums.largest;
}
