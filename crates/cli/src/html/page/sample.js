// The halts in the file, unpacked: columns for each vCPU, as `replay.js` takes them.

import { list, Numbers } from './bytes.js';
import { classOf } from './replay.js';

/** @typedef {import('./data.js').Data} Data */
/** @typedef {import('./data.js').SeatData} SeatData */
/** @typedef {import('./data.js').SeatPlay} SeatPlay */
/** @typedef {import('./replay.js').Seat} Seat */

/**
 * @typedef {object} Kept A vCPU of the file.
 * @property {string} name
 * @property {number | null} vm
 * @property {Seat} seat
 * @property {SeatPlay | null} play
 */

/**
 * Unpacks all vCPUs.
 * @param {Data} data
 * @returns {Kept[]}
 */
export function unpackSample(data) {
  const sample = data.sample;
  if (!sample) return [];
  const pool = sample.latencies.map(list);
  return sample.seats.map((seat) => ({
    name: seat.name,
    vm: seat.vm,
    seat: unpackSeat(seat, pool),
    play: seat.play,
  }));
}

/**
 * @param {SeatData} data
 * @param {Float64Array[]} pool
 * @returns {Seat}
 */
function unpackSeat(data, pool) {
  const { count, play } = data;
  const floats = () => new Float64Array(count);
  const bytes = () => new Uint8Array(count);
  /** @type {Seat} */
  const seat = {
    count,
    start: floats(),
    gap: floats(),
    latency: floats(),
    polled: floats(),
    cut: floats(),
    wake: bytes(),
    valid: bytes(),
    waited: bytes(),
    pollKnown: bytes(),
    slept: new Int8Array(count),
    turns: play ? play.classes.map((place) => pool[place] ?? new Float64Array(0)) : [],
    guessed: play ? play.guessed : [],
    follow: play ? play.follow : [],
  };
  const numbers = new Numbers(data.halts);
  let last = 0;
  for (let n = 0; n < count; n++) {
    last += numbers.next();
    const gap = numbers.next();
    const latency = numbers.next();
    const polled = numbers.next();
    const flags = numbers.next();
    const has = (/** @type {number} */ bit) => (flags >> bit) & 1;
    seat.start[n] = last;
    seat.gap[n] = gap;
    seat.latency[n] = latency;
    seat.polled[n] = polled;
    seat.wake[n] = flags & 7;
    seat.valid[n] = has(3);
    seat.waited[n] = has(4);
    seat.cut[n] = has(5) ? polled : Infinity;
    seat.pollKnown[n] = has(7);
    seat.slept[n] = has(4) && !has(6) ? classOf(Math.max(0, gap - polled)) : -1;
  }
  return seat;
}
