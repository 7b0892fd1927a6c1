// The shapes of the page's data: what `section/data.rs` writes. Types only; not part of the page.

/**
 * @typedef {object} Setting The module's parameters; null where the kernel lacks one. Times in nanoseconds.
 * @property {number | null} halt_poll_ns
 * @property {number | null} halt_poll_ns_grow
 * @property {number | null} halt_poll_ns_grow_start
 * @property {number | null} halt_poll_ns_shrink
 */

/**
 * @typedef {object} Figures What came of a setting.
 * @property {number} poll_cpu_percent
 * @property {number} latency_mean_ns
 * @property {number} cost_ns_per_halt by the goal of the page
 * @property {number} sleeps in a second
 * @property {number} poll nanoseconds of a halt
 * @property {number} blocks of a halt
 */

/** @typedef {[number, number][]} Vms Polling in % of a CPU and mean latency, VM by VM. */

/** @typedef {Figures & {setting: Setting, vms: Vms}} InForce */

/** @typedef {InForce & {other: Figures | null}} Cell A setting, and what comes of it from the other start. */

/**
 * @typedef {object} WhatIf Settings that core played: each ceiling with each shape, see `core::tune::whatif`.
 * @property {number} switch CPU time of a sleep, in nanoseconds
 * @property {number} weight of latency by the goal of the page, in thousandths
 * @property {number | null} least what a halt costs at the least, by that goal
 * @property {string} choiceName what the best that was found is called
 * @property {number[]} ceilings
 * @property {string[]} shapes how windows grow and shrink, in words
 * @property {{inForce: number | null, default: number | null, choice: number | null}} places in `cells`
 * @property {number[]} vms those that are told apart
 * @property {number} vcpus
 * @property {number} own vCPUs that keep a ceiling of their VM's own
 * @property {InForce} inForce
 * @property {Cell[]} cells ceiling by ceiling, shape by shape
 */

/**
 * @typedef {object} SeatData
 * @property {string} name
 * @property {number | null} vm
 * @property {string} halts packed, see `sample.rs`
 * @property {number} count
 */

/**
 * @typedef {object} SampleData
 * @property {number} halts
 * @property {number} of
 * @property {[number, number][]} stretches
 * @property {SeatData[]} seats
 */

/**
 * @typedef {object} Data
 * @property {number} schema
 * @property {string | null} started
 * @property {number} span
 * @property {string[]} states
 * @property {{name: string, vm: number | null, shares: string}[]} lanes
 * @property {SampleData | null} sample
 * @property {WhatIf | null} whatif
 */

export {};
