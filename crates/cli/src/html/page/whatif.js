// What if: the reader goes through a grid of settings that core played on all halts, and sets the weight of
// latency; everything that depends on them is said anew. Nothing is replayed here.

import { byId, button, el, say } from './dom.js';
import { front } from './front.js';
import { change, exact, nanos, scaled, share } from './number.js';
import { VmTable } from './vmtable.js';

/** @typedef {import('./data.js').WhatIf} WhatIf */
/** @typedef {import('./data.js').Cell} Cell */
/** @typedef {import('./data.js').Figures} Figures */

/** Stops of the weight, in thousandths. */
const WEIGHTS = [0, 100, 200, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 50_000, 100_000];

/** How far two starts may be apart, as a share of the cheaper one's cost, as in `core`. */
const BISTABLE = 0.05;

/**
 * @typedef {object} State What the reader has set.
 * @property {number} ceiling its place
 * @property {number} shape its place
 * @property {number} weight thousandths
 */

/**
 * Cost of a halt, in nanoseconds of CPU.
 * @param {WhatIf} data
 * @param {Figures} of
 * @param {number} weight
 * @returns {number}
 */
function costOf(data, of, weight) {
  if (weight === data.weight) return of.cost_ns_per_halt;
  return of.poll + of.blocks * data.switch + (of.latency_mean_ns * weight) / 1000;
}

/**
 * Where a setting stands in the figure.
 * @param {Figures} of
 * @returns {[number, number]}
 */
function placeOf(of) {
  return [of.poll_cpu_percent, of.latency_mean_ns];
}

/**
 * What comes of the other start, if that is another state.
 * @param {WhatIf} data
 * @param {Cell} cell
 * @param {number} weight
 * @returns {Figures | null}
 */
function otherState(data, cell, weight) {
  if (!cell.other) return null;
  const [one, other] = [costOf(data, cell, weight), costOf(data, cell.other, weight)];
  return Math.abs(one - other) > BISTABLE * Math.min(one, other) ? cell.other : null;
}

/**
 * The place of the setting that costs least at a weight, of those with one state.
 * @param {WhatIf} data
 * @param {number} weight
 * @returns {number}
 */
function cheapest(data, weight) {
  let [best, least] = [-1, Infinity];
  data.cells.forEach((cell, n) => {
    const cost = costOf(data, cell, weight);
    if (cost < least && !otherState(data, cell, weight)) [best, least] = [n, cost];
  });
  return best;
}

/**
 * A slider with its name and what it stands at.
 * @param {string} id
 * @param {string} title
 * @param {number[]} stops
 * @param {(value: number) => string} words
 * @param {(place: number) => void} moved
 */
function slider(id, title, stops, words, moved) {
  const said = el('output', { for: id });
  const input = el('input', { type: 'range', id, min: 0, max: Math.max(stops.length - 1, 0), step: 1 });
  const row = el('div', { class: 'slider' }, el('label', { for: id }, title), input, said);
  const show = () => {
    const text = words(stops[Number(input.value)] ?? 0);
    said.textContent = text;
    input.setAttribute('aria-valuetext', text);
  };
  input.addEventListener('input', () => {
    show();
    moved(Number(input.value));
  });
  const set = (/** @type {number} */ place) => {
    input.value = String(place);
    show();
  };
  return { row, set };
}

/**
 * The part of the page that the reader plays with.
 * @param {WhatIf} data
 * @param {(vm: number) => string} nameOf
 */
export function whatif(data, nameOf) {
  const place = byId('controls');
  const figure = front();
  if (!place || !figure || data.cells.length === 0) return;
  const begin = data.places.choice ?? data.places.inForce ?? 0;
  const shapes = data.shapes.length;
  /** @type {State} */
  const state = { ceiling: Math.floor(begin / shapes), shape: begin % shapes, weight: data.weight };
  const controls = makeControls(state, data, () => update());
  const presets = el('div', { class: 'presets', role: 'group', 'aria-label': 'Settings to begin from' });
  for (const [to, title] of /** @type {[number | null, string][]} */ ([
    [data.places.inForce, 'in force'],
    [data.places.default, "kernel's default"],
    [data.places.choice, data.choiceName],
  ])) {
    if (to !== null) presets.append(button(title, () => controls.take(to)));
  }
  presets.append(
    button('cheapest of these', () => {
      const best = cheapest(data, state.weight);
      if (best >= 0) controls.take(best);
    }),
  );

  const said = new Told(data);
  const live = el('p', { class: 'unseen', 'aria-live': 'polite' });
  const notes = el('div', { class: 'notes' });
  const byVm = new VmTable(data, nameOf);
  let speak = 0;
  let noted = '';
  const update = () => {
    const { weight } = state;
    const own = data.cells[state.ceiling * shapes + state.shape];
    if (!own) return;
    const other = otherState(data, own, weight);
    const best = data.cells[cheapest(data, weight)];
    figure.show(placeOf(own), other ? placeOf(other) : null, best ? placeOf(best) : null);
    figure.showBound(weight === data.weight);
    said.show(own, weight);
    const texts = notesOf(data, other);
    if (texts.join('\n') !== noted) notes.replaceChildren(...texts.map((text) => el('p', { class: 'note' }, text)));
    noted = texts.join('\n');
    byVm.show(own.vms);
    clearTimeout(speak);
    speak = window.setTimeout(() => {
      const [percent, late] = placeOf(own);
      live.textContent = `Polling ${share(percent / 100)} of a CPU, late by ${nanos(late)} on average.`;
    }, 400);
  };
  place.append(presets, controls.form, said.list, notes, live);
  place.hidden = false;
  if (byVm.shown) place.parentElement?.after(byVm.shown);
  controls.take(begin);
}

/**
 * The sliders and what stands beside them.
 * @param {State} state is changed as the reader moves them
 * @param {WhatIf} data
 * @param {() => void} moved
 */
function makeControls(state, data, moved) {
  const ceiling = slider('w-ceiling', 'halt_poll_ns, the ceiling', data.ceilings, exact, (place) => {
    state.ceiling = place;
    moved();
  });
  const shape = el('select', { id: 'w-shape' });
  data.shapes.forEach((text, n) => {
    shape.append(el('option', { value: n }, text));
  });
  shape.addEventListener('change', () => {
    state.shape = Number(shape.value);
    moved();
  });
  const shapeRow = el(
    'div',
    { class: 'slider' },
    el('label', { for: 'w-shape' }, 'how windows grow and shrink'),
    shape,
  );
  const weights = [...new Set([...WEIGHTS, data.weight])].sort((a, b) => a - b);
  const weightSays = (/** @type {number} */ n) => (n === 0 ? '0: CPU alone counts' : `${n / 1000} ns of CPU`);
  const weight = slider('w-weight', 'a ns of latency is worth', weights, weightSays, (place) => {
    state.weight = weights[place] ?? data.weight;
    moved();
  });
  const rows = data.shapes.length > 1 ? [ceiling.row, shapeRow, weight.row] : [ceiling.row, weight.row];
  const form = el('form', { class: 'sliders', 'aria-label': 'What if' }, ...rows);
  form.addEventListener('submit', (event) => event.preventDefault());
  weight.set(weights.indexOf(state.weight));
  /** @param {number} to a place in the grid */
  const take = (to) => {
    state.ceiling = Math.floor(to / data.shapes.length);
    state.shape = to % data.shapes.length;
    ceiling.set(state.ceiling);
    shape.value = String(state.shape);
    moved();
  };
  return { form, take };
}

/** The figures of a setting, beside those in force. Elements stay, texts change. */
class Told {
  /** @param {WhatIf} data */
  constructor(data) {
    this.data = data;
    this.list = el('dl', { class: 'figures' });
    /** @type {[HTMLElement, HTMLElement][]} */
    this.places = [
      ['poll', 'polling, of a CPU'],
      ['late', 'late by, mean'],
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
   * @param {Cell} own
   * @param {number} weight
   */
  show(own, weight) {
    const { inForce, least } = this.data;
    const [cost, costThen] = [costOf(this.data, own, weight), costOf(this.data, inForce, weight)];
    const knowsLeast = least !== null && least > 0 && weight === this.data.weight;
    const texts = [
      [share(own.poll_cpu_percent / 100), `in force ${share(inForce.poll_cpu_percent / 100)}`],
      [nanos(own.latency_mean_ns), `in force ${nanos(inForce.latency_mean_ns)}`],
      [scaled(own.sleeps), `in force ${scaled(inForce.sleeps)}`],
      [nanos(cost), `${change(costThen > 0 ? cost / costThen - 1 : 0)} than in force`],
      [knowsLeast ? `${(cost / least).toFixed(2)} times` : '-', "by the page's goal; the oracle is 1"],
    ];
    this.places.forEach(([value, beside], n) => {
      say(value, texts[n]?.[0] ?? '');
      say(beside, texts[n]?.[1] ?? '');
    });
  }
}

/**
 * What must be known of a setting.
 * @param {WhatIf} data
 * @param {Figures | null} other
 * @returns {string[]}
 */
function notesOf(data, other) {
  const notes = [];
  if (other) {
    const [percent, late] = placeOf(other);
    notes.push(
      `Two steady states, and chance picks one: in the other it would poll ${share(percent / 100)} of a CPU and be late by ${nanos(late)}.`,
    );
  }
  if (data.own > 0) notes.push(`${data.own} of ${data.vcpus} vCPUs keep a ceiling of their VM's own.`);
  return notes;
}
