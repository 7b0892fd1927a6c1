// The shapes of the page's data: what `section/data.rs` writes. Types only; not part of the page.

/**
 * @typedef {object} Rule KVM's rule of an era, see `core::kvm::Rule`.
 * @property {'none' | 'nobody' | 'vcpu'} window
 * @property {'fixed' | 'param'} growStart
 * @property {'none' | 'param' | 'ceiling'} growthCap
 * @property {'never' | 'entry' | 'after'} clamp
 * @property {boolean} shrinkFloor
 * @property {boolean} invalidWakeups
 */

/**
 * @typedef {object} Knobs The module's parameters; times in nanoseconds.
 * @property {number} ceiling
 * @property {number} grow
 * @property {number} growStart
 * @property {number} shrink
 */

/**
 * @typedef {object} Cost What things cost: nanoseconds, and the weight of latency in thousandths.
 * @property {number} switch
 * @property {number} weight
 */

/**
 * @typedef {object} Point A setting and what core made of it.
 * @property {'in-force' | 'default' | 'choice' | 'off' | 'clairvoyant' | 'front'} which
 * @property {Knobs | null} knobs
 * @property {number} halts
 * @property {number} blocks
 * @property {number} poll
 * @property {number} latency
 * @property {number} halt
 * @property {number} p99
 */

/**
 * @typedef {object} Wall The time that the sample covers, see `core::tune::sums::Wall`.
 * @property {number} span
 * @property {number} halt
 * @property {number} vcpus
 */

/**
 * @typedef {object} Play What a replay needs beside the halts.
 * @property {Rule} rule
 * @property {{polls: boolean, adapts: boolean, growStart: boolean}} reach
 * @property {Knobs} inForce
 * @property {string} choiceName what the point `choice` is called
 * @property {Cost} cost
 * @property {Wall} wall
 * @property {Point[]} points
 */

/**
 * @typedef {object} SeatPlay What a replay knows of a vCPU.
 * @property {number[]} classes places in the list of latencies, by class of sleep
 * @property {boolean[]} guessed
 * @property {number[]} follow thousandths, by wake source
 * @property {number} ceiling
 * @property {number | null} own
 */

/**
 * @typedef {object} SeatData
 * @property {string} name
 * @property {number | null} vm
 * @property {string} halts packed, see `sample/packed.rs`
 * @property {number} count
 * @property {SeatPlay | null} play
 */

/**
 * @typedef {object} SampleData
 * @property {number} halts
 * @property {number} of
 * @property {[number, number][]} stretches
 * @property {SeatData[]} seats
 * @property {string[]} latencies packed lists
 */

/**
 * @typedef {object} Data
 * @property {number} schema
 * @property {string | null} started
 * @property {number} span
 * @property {string[]} states
 * @property {{name: string, vm: number | null, shares: string}[]} lanes
 * @property {SampleData | null} sample
 * @property {Play | null} play
 */

export {};
