// The halts in the file, unpacked: columns for each vCPU.

import { Numbers } from './bytes.js';

/** @typedef {import('./data.js').Data} Data */
/** @typedef {import('./data.js').SeatData} SeatData */

/**
 * @typedef {object} Seat The halts of a vCPU, column by column; times in nanoseconds.
 * @property {number} count
 * @property {Float64Array} start
 * @property {Float64Array} gap
 * @property {Float64Array} latency
 * @property {Float64Array} polled
 * @property {Uint8Array} wake
 * @property {Uint8Array} waited
 * @property {Uint8Array} pollKnown
 */

/**
 * @typedef {object} Kept A vCPU of the file.
 * @property {string} name
 * @property {number | null} vm
 * @property {Seat} seat
 */

/**
 * Unpacks all vCPUs.
 * @param {Data} data
 * @returns {Kept[]}
 */
export function unpackSample(data) {
  const sample = data.sample;
  if (!sample) return [];
  return sample.seats.map((seat) => ({ name: seat.name, vm: seat.vm, seat: unpackSeat(seat) }));
}

/**
 * @param {SeatData} data
 * @returns {Seat}
 */
function unpackSeat(data) {
  const { count } = data;
  const floats = () => new Float64Array(count);
  const bytes = () => new Uint8Array(count);
  /** @type {Seat} */
  const seat = {
    count,
    start: floats(),
    gap: floats(),
    latency: floats(),
    polled: floats(),
    wake: bytes(),
    waited: bytes(),
    pollKnown: bytes(),
  };
  const numbers = new Numbers(data.halts);
  let last = 0;
  for (let n = 0; n < count; n++) {
    last += numbers.next();
    seat.start[n] = last;
    seat.gap[n] = numbers.next();
    seat.latency[n] = numbers.next();
    seat.polled[n] = numbers.next();
    const flags = numbers.next();
    seat.wake[n] = flags & 7;
    seat.waited[n] = (flags >> 3) & 1;
    seat.pollKnown[n] = (flags >> 4) & 1;
  }
  return seat;
}
