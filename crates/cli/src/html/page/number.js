// Numbers as people read them: a unit, and three digits that count. The same words as `number.rs`.

/**
 * Three digits that count of a number below a thousand.
 * @param {number} value
 * @returns {string}
 */
export function threeDigits(value) {
  const size = Math.abs(value);
  if (size < 0.0005) return '0';
  if (size < 0.0995) return value.toFixed(3);
  if (size < 9.995) return value.toFixed(2);
  return value.toFixed(size < 99.95 ? 1 : 0);
}

/**
 * A time in nanoseconds.
 * @param {number} time
 * @returns {string}
 */
export function nanos(time) {
  const ns = Math.max(0, Math.round(time));
  if (ns < 1_000) return `${ns} ns`;
  const [value, unit] = ns < 999_500 ? [ns / 1e3, 'us'] : ns < 999_500_000 ? [ns / 1e6, 'ms'] : [ns / 1e9, 's'];
  const decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return `${value.toFixed(decimals)} ${unit}`;
}

/**
 * A moment since the start, exact enough to find it again in a view of so much time.
 * @param {number} time in nanoseconds
 * @param {number} length
 * @returns {string}
 */
export function moment(time, length) {
  if (time < 1_000) return nanos(time);
  const [power, unit] = time < 999_500 ? [3, 'us'] : time < 999_500_000 ? [6, 'ms'] : [9, 's'];
  const decimals = Math.min(Math.max(power - Math.floor(Math.log10(Math.max(length, 1))) + 3, 2), power);
  return `${(time / 10 ** power).toFixed(decimals)} ${unit}`;
}

/**
 * A share of 1 in percent.
 * @param {number} part
 * @returns {string}
 */
export function share(part) {
  const percent = part * 100;
  if (percent > 0 && percent < 0.005) return '< 0.01 %';
  if (percent > 0 && percent < 0.0995) return `${percent.toFixed(2)} %`;
  return `${threeDigits(percent)} %`;
}

/**
 * A number in steps of a thousand.
 * @param {number} value
 * @returns {string}
 */
export function scaled(value) {
  if (value < 999.5) return threeDigits(value);
  if (value < 999_500) return `${threeDigits(value / 1e3)} k`;
  if (value < 999_500_000) return `${threeDigits(value / 1e6)} M`;
  return `${threeDigits(value / 1e9)} G`;
}

/**
 * A setting's time as a person writes it: exact, without naughts that say nothing.
 * @param {number} ns
 * @returns {string}
 */
export function exact(ns) {
  if (ns < 1_000) return `${ns} ns`;
  return ns < 1_000_000 ? `${ns / 1e3} us` : `${ns / 1e6} ms`;
}

/**
 * By how much more or less, as a share.
 * @param {number} part
 * @returns {string}
 */
export function change(part) {
  if (!Number.isFinite(part) || Math.abs(part) < 5e-5) return 'as much';
  return `${share(Math.abs(part))} ${part < 0 ? 'less' : 'more'}`;
}
