// What if: the reader sets ceiling, growth, shrinking, policy and the weight of latency; the halts in
// the file are replayed at once, and everything that depends on them is said anew.

import { byId, button, el, say } from './dom.js';
import { front } from './front.js';
import { change, exact, nanos, scaled, share } from './number.js';
import { milli, percentile, play, playBoth, Sums } from './replay.js';
import { VmTable } from './vmtable.js';

/** @typedef {import('./data.js').Play} Play */
/** @typedef {import('./data.js').Knobs} Knobs */
/** @typedef {import('./data.js').Point} Point */
/** @typedef {import('./sample.js').Kept} Kept */
/** @typedef {'kvm' | 'fixed' | 'off' | 'always' | 'clairvoyant'} Kind */

/**
 * @typedef {object} Setting What the reader has set.
 * @property {Kind} kind
 * @property {Knobs} knobs
 * @property {number} weight thousandths
 * @property {boolean} caps VMs with a ceiling of their own follow too
 */

/** Stops of the sliders for times, in nanoseconds. */
export const TIMES = [
  0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 20, 22, 25, 28, 30, 35, 40, 45, 50, 55, 60, 70, 75, 80, 90, 100, 110, 125,
  140, 150, 160, 180, 200, 220, 250, 280, 300, 350, 400, 450, 500, 600, 700, 750, 800, 1000, 1200, 1500, 2000,
].map((us) => us * 1000);

/** Stops of the weight, in thousandths. */
const WEIGHTS = [0, 100, 200, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 50_000, 100_000];

/** How far two starts may be apart, as a share of the cheaper one's cost, as in `core`. */
const BISTABLE = 0.05;

/** A replay of the file's halts. */
export class Replay {
  /**
   * @param {Play} data
   * @param {Kept[]} kept
   */
  constructor(data, kept) {
    this.data = data;
    this.kept = kept.filter((one) => one.play !== null);
  }

  /**
   * How a vCPU is played under a setting.
   * @param {Kept} one
   * @param {Setting} setting
   * @param {boolean} fromCeiling windows begin at the ceiling
   * @param {boolean} recorded it keeps the ceiling that was recorded
   * @returns {import('./replay.js').Policy}
   */
  policy(one, setting, fromCeiling, recorded = false) {
    const { kind, knobs } = setting;
    const own = setting.caps ? null : (one.play?.own ?? null);
    const ceiling = recorded ? (one.play?.ceiling ?? 0) : (own ?? knobs.ceiling);
    const threshold = kind === 'always' ? Infinity : kind === 'off' ? 0 : ceiling;
    const rule = kind === 'kvm' || kind === 'clairvoyant' ? kind : 'fixed';
    return { kind: rule, knobs, ceiling, threshold, fromCeiling };
  }

  /**
   * What comes of a setting, vCPU by vCPU.
   * @param {Setting} setting
   * @param {boolean} fromCeiling windows begin at the ceiling
   * @param {boolean} recorded each vCPU keeps the ceiling that was recorded
   * @returns {Sums[]}
   */
  each(setting, fromCeiling, recorded = false) {
    const cost = { switch: this.data.cost.switch, weight: setting.weight };
    return this.kept.map((one) => {
      const sums = new Sums();
      play(one.seat, this.policy(one, setting, fromCeiling, recorded), this.data.rule, cost, sums);
      return sums;
    });
  }

  /**
   * What comes of a setting from no window, vCPU by vCPU, and of all of them from the ceiling.
   * @param {Setting} setting
   * @returns {{each: Sums[], own: Sums, other: Sums}}
   */
  both(setting) {
    if (setting.kind !== 'kvm') {
      const each = this.each(setting, false);
      const own = total(each);
      return { each, own, other: own };
    }
    const cost = { switch: this.data.cost.switch, weight: setting.weight };
    const pairs = this.kept.map((one) => playBoth(one.seat, this.policy(one, setting, false), this.data.rule, cost));
    const each = pairs.map(([zero]) => zero);
    return { each, own: total(each), other: total(pairs.map(([, ceiling]) => ceiling)) };
  }

  /**
   * @param {Setting} setting
   * @param {boolean} fromCeiling
   * @returns {Sums}
   */
  all(setting, fromCeiling = false) {
    return total(this.each(setting, fromCeiling));
  }

  /**
   * Polling in % of one CPU.
   * @param {{poll: number, halt: number}} sums
   * @returns {number}
   */
  percent(sums) {
    return (100 * sums.poll) / this.wall(sums);
  }

  /**
   * The time that the halts take under another setting: whoever wakes sooner goes on sooner.
   * @param {{halt: number}} sums
   * @returns {number}
   */
  wall(sums) {
    const { span, halt, vcpus } = this.data.wall;
    return Math.max(1, span + (sums.halt - halt) / Math.max(vcpus, 1));
  }

  /**
   * Cost of a halt, in nanoseconds of CPU.
   * @param {{poll: number, blocks: number, latency: number, halts: number}} sums
   * @param {number} weight
   * @returns {number}
   */
  cost(sums, weight) {
    const cost = { switch: this.data.cost.switch, weight };
    return milli(cost, sums.poll, sums.blocks, sums.latency) / 1000 / Math.max(sums.halts, 1);
  }

  /**
   * @param {{poll: number, halt: number, latency: number, halts: number}} sums
   * @returns {[number, number]}
   */
  place(sums) {
    return [this.percent(sums), sums.latency / Math.max(sums.halts, 1)];
  }
}

/**
 * @param {Sums[]} parts
 * @returns {Sums}
 */
function total(parts) {
  const sum = new Sums();
  for (const part of parts) sum.add(part);
  return sum;
}

/**
 * A slider with its name and what it stands at.
 * @param {string} id
 * @param {string} title
 * @param {number[]} stops
 * @param {(value: number) => string} say
 * @param {(value: number) => void} moved
 */
function slider(id, title, stops, say, moved) {
  const said = el('output', { for: id });
  const input = el('input', { type: 'range', id, min: 0, max: stops.length - 1, step: 1 });
  const row = el('div', { class: 'slider' }, el('label', { for: id }, title), input, said);
  const show = (/** @type {number} */ value) => {
    said.textContent = say(value);
    input.setAttribute('aria-valuetext', say(value));
  };
  input.addEventListener('input', () => {
    const value = stops[Number(input.value)] ?? 0;
    show(value);
    moved(value);
  });
  const set = (/** @type {number} */ value) => {
    const nearest = stops.reduce(
      (found, stop, n) => (Math.abs(stop - value) < Math.abs((stops[found] ?? 0) - value) ? n : found),
      0,
    );
    input.value = String(nearest);
    show(value);
  };
  return { row, set, input };
}

/**
 * The part of the page that the reader plays with.
 * @param {Play} data
 * @param {Kept[]} kept
 * @param {(vm: number) => string} nameOf
 */
export function whatif(data, kept, nameOf) {
  const place = byId('controls');
  const figure = front();
  if (!place || !figure) return;
  const replay = new Replay(data, kept);
  const point = (/** @type {Point['which']} */ which) => data.points.find((one) => one.which === which);
  const start = (point('choice') ?? point('in-force'))?.knobs ?? data.inForce;
  /** @type {Setting} */
  const setting = { kind: 'kvm', knobs: { ...start }, weight: data.cost.weight, caps: false };
  const before = replay.each({ ...setting, knobs: data.inForce }, false, true);
  const controls = makeControls(setting, data, kept, () => update());

  const said = new Figures(replay, total(before));
  const live = el('p', { class: 'unseen', 'aria-live': 'polite' });
  const notes = el('div', { class: 'notes' });
  const byVm = new VmTable(replay, before, nameOf);
  const presets = el('div', { class: 'presets', role: 'group', 'aria-label': 'Settings to begin from' });
  for (const [which, title] of /** @type {[Point['which'], string][]} */ ([
    ['in-force', 'in force'],
    ['default', "kernel's default"],
    ['choice', data.choiceName],
  ])) {
    const knobs = point(which)?.knobs;
    if (knobs) presets.append(button(title, () => controls.take('kvm', knobs)));
  }
  const cheapest = button('cheapest on the line', () => {
    const found = bestOf(replay, data, setting.weight);
    if (found?.knobs) controls.take('kvm', found.knobs);
  });
  if (data.points.some((one) => one.which === 'front')) presets.append(cheapest);

  let bound = { weight: -1, sums: new Sums() };
  let speak = 0;
  let noted = '';
  const update = () => {
    const { each, own, other } = replay.both(setting);
    if (bound.weight !== setting.weight) {
      bound = { weight: setting.weight, sums: replay.all({ ...setting, kind: 'clairvoyant' }) };
    }
    const two = isBistable(replay, own, other, setting.weight);
    const best = bestOf(replay, data, setting.weight);
    const placeOf = (/** @type {Point | Sums | undefined} */ of) => (of ? replay.place(of) : null);
    figure.show(replay.place(own), two ? replay.place(other) : null, placeOf(best), replay.place(bound.sums));
    said.show(own, bound.sums, setting.weight);
    const texts = notesOf(replay, setting, own, two ? other : null, kept);
    if (texts.join('\n') !== noted) notes.replaceChildren(...texts.map((text) => el('p', { class: 'note' }, text)));
    noted = texts.join('\n');
    byVm.show(each);
    clearTimeout(speak);
    speak = window.setTimeout(() => {
      const [percent, late] = replay.place(own);
      live.textContent = `Polling ${share(percent / 100)} of a CPU, late by ${nanos(late)} on average.`;
    }, 400);
  };
  place.append(presets, controls.form, said.list, notes, live);
  place.hidden = false;
  if (byVm.shown) place.parentElement?.after(byVm.shown);
  controls.take('kvm', setting.knobs);
}

/**
 * The point of the front that costs least at a weight.
 * @param {Replay} replay
 * @param {Play} data
 * @param {number} weight
 * @returns {Point | undefined}
 */
function bestOf(replay, data, weight) {
  const points = data.points.filter((one) => one.which === 'front');
  const costs = points.map((one) => replay.cost(one, weight));
  return points[costs.indexOf(Math.min(...costs))];
}

/**
 * Whether two starts end apart.
 * @param {Replay} replay
 * @param {Sums} zero
 * @param {Sums} ceiling
 * @param {number} weight
 * @returns {boolean}
 */
function isBistable(replay, zero, ceiling, weight) {
  const [one, other] = [replay.cost(zero, weight), replay.cost(ceiling, weight)];
  return Math.abs(one - other) > BISTABLE * Math.min(one, other);
}

/**
 * The sliders and what stands beside them.
 * @param {Setting} setting is changed as the reader moves them
 * @param {Play} data
 * @param {Kept[]} kept
 * @param {() => void} moved
 */
function makeControls(setting, data, kept, moved) {
  const policy = el('select', { id: 'w-policy' });
  for (const [value, text] of [
    ['kvm', "KVM's rule"],
    ['fixed', 'a fixed threshold: always up to the ceiling'],
    ['off', 'off: never poll'],
    ['always', 'always: poll until woken'],
    ['clairvoyant', 'clairvoyant: knows each gap (a bound)'],
  ]) {
    policy.append(el('option', { value: value ?? '' }, text));
  }
  const factor = (/** @type {number} */ n) => String(n);
  const whole = (/** @type {number} */ last) => Array.from({ length: last + 1 }, (_, n) => n);
  const { knobs } = setting;
  const ceiling = slider('w-ceiling', 'halt_poll_ns, the ceiling', TIMES, exact, (value) => {
    setting.knobs.ceiling = value;
    moved();
  });
  const first = slider('w-grow-start', 'grow_start, the first window', TIMES, exact, (value) => {
    setting.knobs.growStart = value;
    moved();
  });
  const grow = slider('w-grow', 'grow, the factor', whole(8), factor, (value) => {
    setting.knobs.grow = value;
    moved();
  });
  const shrinkSays = (/** @type {number} */ n) =>
    n === 0 ? '0: to nothing at once' : n === 1 ? '1: never' : String(n);
  const shrink = slider('w-shrink', 'shrink, the divisor', whole(8), shrinkSays, (value) => {
    setting.knobs.shrink = value;
    moved();
  });
  const weightSays = (/** @type {number} */ n) => (n === 0 ? '0: CPU alone counts' : `${n / 1000} ns of CPU`);
  const weight = slider('w-weight', 'a ns of latency is worth', WEIGHTS, weightSays, (value) => {
    setting.weight = value;
    moved();
  });
  const caps = el('input', { type: 'checkbox', id: 'w-caps' });
  caps.addEventListener('change', () => {
    setting.caps = caps.checked;
    moved();
  });
  const hasOwn = kept.some((one) => one.play?.own !== null && one.play?.own !== undefined);
  const capsRow = el(
    'div',
    { class: 'check' },
    caps,
    el('label', { for: 'w-caps' }, 'VMs with a ceiling of their own follow too'),
  );
  const adapts = [grow, shrink, ...(data.reach.growStart ? [first] : [])];
  const enable = () => {
    policy.value = setting.kind;
    ceiling.input.disabled = setting.kind !== 'kvm' && setting.kind !== 'fixed';
    for (const one of adapts) one.input.disabled = setting.kind !== 'kvm';
  };
  policy.addEventListener('change', () => {
    setting.kind = /** @type {Kind} */ (policy.value);
    enable();
    moved();
  });
  const policyRow = el('div', { class: 'slider' }, el('label', { for: 'w-policy' }, 'policy'), policy);
  const rows = [policyRow, ceiling.row];
  if (data.reach.adapts) rows.push(...adapts.map((one) => one.row));
  rows.push(weight.row);
  if (hasOwn) rows.push(capsRow);
  const form = el('form', { class: 'sliders', 'aria-label': 'What if' }, ...rows);
  form.addEventListener('submit', (event) => event.preventDefault());
  weight.set(setting.weight);
  /**
   * @param {Kind} kind
   * @param {Knobs} to
   */
  const take = (kind, to) => {
    setting.kind = kind;
    Object.assign(knobs, to);
    ceiling.set(to.ceiling);
    first.set(to.growStart);
    grow.set(to.grow);
    shrink.set(to.shrink);
    enable();
    moved();
  };
  return { form, take };
}

/** The figures of a setting, beside those in force. Elements stay, texts change. */
class Figures {
  /**
   * @param {Replay} replay
   * @param {Sums} inForce
   */
  constructor(replay, inForce) {
    this.replay = replay;
    this.inForce = inForce;
    this.list = el('dl', { class: 'figures' });
    /** @type {[HTMLElement, HTMLElement][]} */
    this.places = [
      ['poll', 'polling, of a CPU'],
      ['late', 'late by, mean'],
      ['p99', 'late by, p99'],
      ['sleeps', 'sleeps/s'],
      ['cost', 'cost of a halt'],
      ['ratio', 'of the least possible'],
    ].map(([id, title]) => {
      const [value, beside] = [el('b'), el('span')];
      this.list.append(el('div', {}, el('dt', {}, title), el('dd', { id: `w-${id}` }, value, beside)));
      return [value, beside];
    });
  }

  /**
   * @param {Sums} own
   * @param {Sums} bound
   * @param {number} weight
   */
  show(own, bound, weight) {
    const { replay, inForce } = this;
    const [percent, late] = replay.place(own);
    const [percentThen, lateThen] = replay.place(inForce);
    const sleeps = (/** @type {Sums} */ of) => of.blocks / (replay.wall(of) / 1e9);
    const [cost, costThen] = [replay.cost(own, weight), replay.cost(inForce, weight)];
    const least = replay.cost(bound, weight);
    const texts = [
      [share(percent / 100), `in force ${share(percentThen / 100)}`],
      [nanos(late), `in force ${nanos(lateThen)}`],
      [nanos(percentile(own, 0.99)), `in force ${nanos(percentile(inForce, 0.99))}`],
      [scaled(sleeps(own)), `in force ${scaled(sleeps(inForce))}`],
      [nanos(cost), `${change(costThen > 0 ? cost / costThen - 1 : 0)} than in force`],
      [least > 0 ? `${(cost / least).toFixed(2)} times` : '-', 'the clairvoyant is 1'],
    ];
    this.places.forEach(([value, beside], n) => {
      say(value, texts[n]?.[0] ?? '');
      say(beside, texts[n]?.[1] ?? '');
    });
  }
}

/**
 * What must be known of a setting.
 * @param {Replay} replay
 * @param {Setting} setting
 * @param {Sums} own
 * @param {Sums | null} other
 * @param {Kept[]} kept
 * @returns {string[]}
 */
function notesOf(replay, setting, own, other, kept) {
  const notes = [];
  if (other) {
    const [percent, late] = replay.place(other);
    notes.push(
      `Two steady states, and chance picks one: once polling, it would poll ${share(percent / 100)} of a CPU and be late by ${nanos(late)}.`,
    );
  }
  const fixed = kept.filter((one) => one.play?.own !== null && one.play !== null).length;
  if (fixed > 0 && !setting.caps) notes.push(`${fixed} of ${kept.length} vCPUs keep a ceiling of their VM's own.`);
  if (own.guessed > 0.01 * own.halts) {
    notes.push(
      `${share(own.guessed / own.halts)} of the halts would sleep for a length of which no wake-up was recorded.`,
    );
  }
  return notes;
}
