// KVM's rule: what a window is when a halt begins, and what becomes of it when the halt is over.
// The same transcript as `core::kvm::step`; a test holds the two against each other. All numbers are
// whole, and arithmetic on windows is modulo 2^32, as the kernel's `unsigned int`.

/** @typedef {import('./data.js').Rule} Rule */
/** @typedef {import('./data.js').Knobs} Knobs */

/** The first window of kernels that have no parameter for it. */
const GROW_START = 10_000;

/**
 * The window in force: for how long this halt polls.
 * @param {Rule} rule
 * @param {number} window what the last halt left
 * @param {number} ceiling
 * @returns {number}
 */
export function entry(rule, window, ceiling) {
  if (rule.window === 'none') return 0;
  if (rule.window === 'nobody') return ceiling;
  return rule.clamp === 'entry' ? Math.min(window, ceiling) : window;
}

/**
 * The window that a halt leaves behind.
 * @param {Rule} rule
 * @param {Knobs} knobs
 * @param {number} ceiling
 * @param {number} window the one in force, as `entry` gave it
 * @param {number} haltNs the whole halt
 * @param {boolean} valid
 * @returns {number}
 */
export function after(rule, knobs, ceiling, window, haltNs, valid) {
  if (rule.window === 'none') return 0;
  if (rule.window === 'nobody') return ceiling;
  const next = adapt(rule, knobs, ceiling, window, haltNs, valid);
  return rule.clamp === 'after' ? Math.min(next, ceiling) : next;
}

/**
 * @param {Rule} rule
 * @param {Knobs} knobs
 * @param {number} ceiling
 * @param {number} window
 * @param {number} haltNs
 * @param {boolean} valid
 * @returns {number}
 */
function adapt(rule, knobs, ceiling, window, haltNs, valid) {
  if (rule.invalidWakeups && !valid) return shrink(rule, knobs, window);
  if (ceiling === 0) return 0;
  if (haltNs <= window) return window;
  if (window > 0 && haltNs > ceiling) return shrink(rule, knobs, window);
  if (window < ceiling && haltNs < ceiling) return grow(rule, knobs, ceiling, window);
  return window;
}

/**
 * `grow_halt_poll_ns`.
 * @param {Rule} rule
 * @param {Knobs} knobs
 * @param {number} ceiling
 * @param {number} old
 * @returns {number}
 */
function grow(rule, knobs, ceiling, old) {
  const product = Math.imul(old, knobs.grow) >>> 0;
  let grown = product;
  if (rule.growStart === 'param') {
    if (knobs.grow === 0) return old;
    grown = Math.max(product, knobs.growStart);
  } else if (old === 0 && knobs.grow > 0) {
    grown = GROW_START;
  }
  if (rule.growthCap === 'param') return Math.min(grown, knobs.ceiling);
  return rule.growthCap === 'ceiling' ? Math.min(grown, ceiling) : grown;
}

/**
 * `shrink_halt_poll_ns`.
 * @param {Rule} rule
 * @param {Knobs} knobs
 * @param {number} old
 * @returns {number}
 */
function shrink(rule, knobs, old) {
  const shrunk = knobs.shrink === 0 ? 0 : Math.floor(old / knobs.shrink);
  return rule.shrinkFloor && shrunk < knobs.growStart ? 0 : shrunk;
}
