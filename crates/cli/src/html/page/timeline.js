// The timeline: lanes of what each vCPU did, from the whole recording down to single halts.

import { unpack } from './bytes.js';
import { byId, button, el, say, svg } from './dom.js';
import { moment, nanos, share } from './number.js';

/** @typedef {import('./data.js').Data} Data */
/** @typedef {import('./sample.js').Kept} Kept */
/** @typedef {import('./sample.js').Seat} Seat */

/** Colours of the states, in their order, as `section/timeline.rs`. */
const COLOURS = ['s-guest', 's-poll-woken', 's-poll-vain', 's-sleep', 's-wake', 's-turned', 's-unknown'];
const STATES = COLOURS.length;

/** What wakes, by code. */
const WAKES = ['timer', 'IPI', 'device', 'other', 'not known'];

/** Columns of a lane. */
const COLUMNS = 600;

/** Lanes at once: more are no longer told apart. */
const LANES = 32;

/** Halts in the table of those in view. */
const LISTED = 60;

/** Halts of a lane that are drawn where they are. */
const EXACT = 120;

/** The shortest view, in nanoseconds. */
const SHORTEST = 2_000;

/**
 * @typedef {object} Lane
 * @property {string} name
 * @property {number | null} vm
 * @property {Uint8Array} shares of each step of the overview, state by state
 * @property {Seat | null} seat its single halts
 * @property {SVGSVGElement} drawn
 */

/**
 * What a halt was spent on, in its order: state and length.
 * @param {Seat} seat
 * @param {number} n
 * @returns {[number, number][]}
 */
export function partsOf(seat, n) {
  const gap = seat.gap[n] ?? 0;
  const latency = seat.latency[n] ?? 0;
  const known = seat.pollKnown[n] === 1;
  const all = gap + latency;
  const polled = known ? Math.min(seat.polled[n] ?? 0, all) : 0;
  if (seat.waited[n] !== 1) {
    return known
      ? [
          [1, polled],
          [5, all - polled],
        ]
      : [[6, all]];
  }
  const late = Math.min(latency, all - polled);
  return [
    [2, polled],
    [known ? 3 : 6, all - polled - late],
    [4, late],
  ];
}

/** The lanes and what is in view. */
class Timeline {
  /**
   * @param {Data} data
   * @param {Kept[]} kept
   * @param {HTMLElement} list
   */
  constructor(data, kept, list) {
    this.span = Math.max(data.span, 1);
    this.from = 0;
    this.to = this.span;
    this.stretches = data.sample?.stretches ?? [];
    this.states = data.states;
    this.started = data.started ? Date.parse(data.started) : null;
    /** @type {number | null} */
    this.vm = null;
    const seats = new Map(kept.map((one) => [one.name, one.seat]));
    /** @type {Lane[]} */
    this.lanes = data.lanes.map((lane) => ({
      name: lane.name,
      vm: lane.vm,
      shares: unpack(lane.shares),
      seat: seats.get(lane.name) ?? null,
      drawn: svg('svg', {
        class: 'lane',
        viewBox: `0 0 ${COLUMNS} 100`,
        preserveAspectRatio: 'none',
        role: 'img',
        'aria-label': lane.name,
      }),
    }));
    this.list = list;
  }

  /** @returns {Lane[]} */
  shown() {
    return this.lanes.filter((lane) => this.vm === null || lane.vm === this.vm).slice(0, LANES);
  }

  /**
   * Shows another part of the recording.
   * @param {number} from
   * @param {number} to
   */
  look(from, to) {
    const length = Math.min(Math.max(to - from, SHORTEST), this.span);
    const start = Math.min(Math.max(from, 0), this.span - length);
    this.from = Math.round(start);
    this.to = Math.round(start + length);
    this.draw();
  }

  /**
   * Zooms by a factor around a place in view (0 to 1).
   * @param {number} factor
   * @param {number} around
   */
  zoom(factor, around = 0.5) {
    const length = this.to - this.from;
    const at = this.from + length * around;
    const [from, to] = [at - length * factor * around, at + length * factor * (1 - around)];
    if (factor < 1) this.lookAtHalts(from, to, 0);
    else this.look(from, to);
  }

  /** @param {number} part of what is in view */
  move(part) {
    const by = (this.to - this.from) * part;
    this.lookAtHalts(this.from + by, this.to + by, Math.sign(by));
  }

  /**
   * Shows a part in which are single halts, where it is shorter than the pauses between the stretches that
   * are in the file: the nearest stretch, or the next one into a direction.
   * @param {number} from
   * @param {number} to
   * @param {number} direction -1, 0 or 1
   */
  lookAtHalts(from, to, direction) {
    const [first, second] = this.stretches;
    const isEmpty = !this.stretches.some(([start, end]) => start < to && end > from);
    if (!first || !second || !isEmpty || to - from > second[0] - first[0]) {
      this.look(from, to);
      return;
    }
    const middle = (from + to) / 2;
    const ahead = this.stretches.filter(([start]) => (start - middle) * direction >= 0);
    const [start, end] = (ahead.length > 0 ? ahead : this.stretches).reduce((best, one) =>
      distance(one, middle) < distance(best, middle) ? one : best,
    );
    const length = to - from;
    const at =
      length > end - start || direction === 0 ? (start + end - length) / 2 : direction > 0 ? start : end - length;
    this.look(at, at + length);
  }

  draw() {
    for (const lane of this.shown()) {
      const paths = this.exact(lane) ?? stacked(this.columns(lane));
      const made = paths.flatMap((d, state) => (d ? [svg('path', { class: COLOURS[state] ?? '', d })] : []));
      lane.drawn.replaceChildren(...made);
    }
    this.told();
  }

  /**
   * Single halts drawn where they are, if all in view are in the file and few enough to be told apart.
   * @param {Lane} lane
   * @returns {string[] | null} a path for each state
   */
  exact(lane) {
    const { seat } = lane;
    if (!seat || !this.isTogether(this.from, this.to)) return null;
    const halts = firstAfter(seat, this.to) - firstAfter(seat, this.from);
    if (halts > EXACT || halts === 0) return null;
    const paths = COLOURS.map(() => '');
    const x = (/** @type {number} */ time) =>
      (Math.min(Math.max(time, this.from), this.to) - this.from) / ((this.to - this.from) / COLUMNS);
    this.halts(seat, (state, from, to) => {
      const [left, right] = [x(from), x(to)];
      if (right > left) paths[state] += `M${left.toFixed(2)} 0H${right.toFixed(2)}V100H${left.toFixed(2)}z`;
    });
    return paths;
  }

  /** Says what is in view; replaced by whoever shows it. */
  told() {}

  /**
   * Time in each state, column by column.
   * @param {Lane} lane
   * @returns {Float64Array}
   */
  columns(lane) {
    const columns = new Float64Array(COLUMNS * STATES);
    const width = (this.to - this.from) / COLUMNS;
    const steps = lane.shares.length / STATES;
    const step = this.span / steps;
    const single = new Uint8Array(COLUMNS);
    if (lane.seat && width < step) {
      for (const [from, to] of this.stretches) {
        const first = Math.max(0, Math.ceil((from - this.from) / width - 1e-9));
        const last = Math.min(COLUMNS, Math.floor((to - this.from) / width + 1e-9));
        if (first < last) single.fill(1, first, last);
      }
      this.halts(lane.seat, (state, from, to) =>
        spread(columns, single, state, (from - this.from) / width, (to - this.from) / width),
      );
    }
    for (let column = 0; column < COLUMNS; column++) {
      if (single[column] === 1) continue;
      const at = Math.min(Math.floor((this.from + (column + 0.5) * width) / step), steps - 1);
      for (let state = 0; state < STATES; state++) {
        columns[column * STATES + state] = (lane.shares[at * STATES + state] ?? 0) / 255;
      }
    }
    return columns;
  }

  /**
   * Hands out the states of single halts in view, and of the guest between them.
   * @param {Seat} seat
   * @param {(state: number, from: number, to: number) => void} take
   */
  halts(seat, take) {
    let n = firstAfter(seat, this.from);
    let last = n > 0 ? endOf(seat, n - 1) : -1;
    if (n > 0) this.halt(seat, n - 1, take);
    for (; n < seat.count && (seat.start[n - 1] ?? 0) < this.to; n++) {
      const start = seat.start[n] ?? 0;
      if (last >= 0 && this.isTogether(last, start)) take(0, last, start);
      if (start < this.to) this.halt(seat, n, take);
      last = endOf(seat, n);
    }
  }

  /**
   * @param {Seat} seat
   * @param {number} n
   * @param {(state: number, from: number, to: number) => void} take
   */
  halt(seat, n, take) {
    let at = seat.start[n] ?? 0;
    for (const [state, length] of partsOf(seat, n)) {
      if (length > 0) take(state, at, at + length);
      at += length;
    }
  }

  /**
   * Whether nothing between two times is missing from the file.
   * @param {number} from
   * @param {number} to
   * @returns {boolean}
   */
  isTogether(from, to) {
    return this.stretches.some(([start, end]) => from >= start && to <= end);
  }

  /**
   * Single halts that begin in view.
   * @returns {{lane: Lane, n: number}[]}
   */
  inView() {
    const found = [];
    for (const lane of this.shown()) {
      if (!lane.seat) continue;
      for (let n = firstAfter(lane.seat, this.from); n < lane.seat.count && (lane.seat.start[n] ?? 0) < this.to; n++) {
        found.push({ lane, n });
      }
    }
    return found;
  }
}

/**
 * @param {[number, number]} stretch
 * @param {number} time
 * @returns {number}
 */
function distance([from, to], time) {
  return Math.max(from - time, time - to, 0);
}

/**
 * @param {Seat} seat
 * @param {number} n
 * @returns {number}
 */
function endOf(seat, n) {
  return (seat.start[n] ?? 0) + (seat.gap[n] ?? 0) + (seat.latency[n] ?? 0);
}

/**
 * The first halt that begins at or after a time.
 * @param {Seat} seat
 * @param {number} time
 * @returns {number}
 */
function firstAfter(seat, time) {
  let low = 0;
  let high = seat.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((seat.start[middle] ?? 0) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Adds a stretch of one state to the columns that it touches, of those that take single halts.
 * @param {Float64Array} columns
 * @param {Uint8Array} single
 * @param {number} state
 * @param {number} from in columns
 * @param {number} to
 */
function spread(columns, single, state, from, to) {
  const last = Math.min(COLUMNS, Math.ceil(to));
  for (let column = Math.max(0, Math.floor(from)); column < last; column++) {
    if (single[column] !== 1) continue;
    const part = Math.min(to, column + 1) - Math.max(from, column);
    const at = column * STATES + state;
    if (part > 0) columns[at] = (columns[at] ?? 0) + part;
  }
}

/**
 * Columns as stacked shares; those that look alike are one piece.
 * @param {Float64Array} columns
 * @returns {string[]} a path for each state
 */
function stacked(columns) {
  const paths = COLOURS.map(() => '');
  let from = 0;
  const same = (/** @type {number} */ a, /** @type {number} */ b) => {
    for (let state = 0; state < STATES; state++) {
      if (Math.abs((columns[a * STATES + state] ?? 0) - (columns[b * STATES + state] ?? 0)) > 0.002) return false;
    }
    return true;
  };
  for (let column = 1; column <= COLUMNS; column++) {
    if (column < COLUMNS && same(from, column)) continue;
    let top = 100;
    for (let state = 0; state < STATES; state++) {
      const height = Math.min((columns[from * STATES + state] ?? 0) * 100, top);
      if (height < 0.2) continue;
      top -= height;
      paths[state] += `M${from} ${top.toFixed(1)}h${column - from}v${height.toFixed(1)}h${from - column}z`;
    }
    from = column;
  }
  return paths;
}

/**
 * Makes the timeline one that zooms.
 * @param {Data} data
 * @param {Kept[]} kept
 * @param {(vm: number) => string} nameOf
 */
export function timeline(data, kept, nameOf) {
  const [place, list] = [byId('zoom'), byId('lanes')];
  if (!place || !list || data.lanes.length === 0) return;
  const view = new Timeline(data, kept, list);
  const said = el('p', { class: 'view', 'aria-live': 'polite' });
  const axis = svg('svg', {
    class: 'lane-axis',
    viewBox: `0 0 ${COLUMNS} 10`,
    preserveAspectRatio: 'none',
    'aria-hidden': true,
  });
  const halts = el('div', {});
  const listed = el('details', {}, el('summary', {}, 'Halts in view'), halts);
  const fill = () => {
    if (listed.open) halts.replaceChildren(...haltTable(view));
  };
  listed.addEventListener('toggle', fill);
  view.told = () => {
    said.textContent = saidOf(view);
    axis.replaceChildren(...marks(view));
    ticks.replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((part) => el('span', {}, tick(view, part))));
    fill();
  };
  place.append(...tools(view, data, nameOf), said);
  place.hidden = false;
  const ticks = el('div', { class: 'lane-ticks' });
  const ends = el('div', { class: 'lane-ends' }, el('span', {}), el('div', {}, axis, ticks));
  list.after(ends, listed);
  const relist = () => {
    const items = view
      .shown()
      .map((lane) => el('li', {}, el('span', { class: 'lane-name' }, el('bdi', {}, lane.name)), lane.drawn));
    list.replaceChildren(...items);
    view.draw();
  };
  view.list.dataset.script = 'on';
  for (const lane of view.lanes) pointer(view, lane);
  keys(view, list);
  place.addEventListener('relist', relist);
  relist();
}

/**
 * Buttons, and the choice of a VM.
 * @param {Timeline} view
 * @param {Data} data
 * @param {(vm: number) => string} nameOf
 * @returns {Element[]}
 */
function tools(view, data, nameOf) {
  const group = el(
    'div',
    { class: 'presets', role: 'group', 'aria-label': 'Zoom' },
    button('whole', () => view.look(0, view.span)),
    button('+', () => view.zoom(0.4), { 'aria-label': 'zoom in', title: 'zoom in (+)' }),
    button('\u2212', () => view.zoom(2.5), { 'aria-label': 'zoom out', title: 'zoom out (-)' }),
    button('\u25c2', () => view.move(-0.4), { 'aria-label': 'earlier', title: 'earlier (left)' }),
    button('\u25b8', () => view.move(0.4), { 'aria-label': 'later', title: 'later (right)' }),
    button('single halts', () => singles(view)),
  );
  const vms = [...new Set(data.lanes.map((lane) => lane.vm))].filter((vm) => vm !== null);
  if (vms.length < 2) return [group];
  const select = el(
    'select',
    { id: 'lane-vm' },
    el('option', { value: '' }, data.lanes.length > LANES ? `all (the first ${LANES} vCPUs)` : 'all'),
  );
  for (const vm of vms) select.append(el('option', { value: vm }, nameOf(vm)));
  select.addEventListener('change', () => {
    view.vm = select.value === '' ? null : Number(select.value);
    byId('zoom')?.dispatchEvent(new Event('relist'));
  });
  return [el('div', { class: 'slider' }, el('label', { for: 'lane-vm' }, 'VM'), select), group];
}

/**
 * Zooms to where single halts can be seen: some dozens of the busiest lane, of one stretch of the file.
 * @param {Timeline} view
 */
function singles(view) {
  /** @type {Seat | null} */
  let busiest = null;
  for (const lane of view.shown()) if (lane.seat && lane.seat.count > (busiest?.count ?? 0)) busiest = lane.seat;
  if (!busiest) return;
  const seat = busiest;
  const middle = Math.min(firstAfter(seat, (view.from + view.to) / 2), seat.count - 1);
  const at = seat.start[middle] ?? 0;
  const [from, to] = view.stretches.find(([start, end]) => start <= at && at < end) ?? [0, view.span];
  const first = Math.max(firstAfter(seat, from), middle - 10);
  const last = Math.min(firstAfter(seat, to) - 1, first + 24);
  view.look(seat.start[first] ?? 0, endOf(seat, last));
}

/**
 * @param {Timeline} view
 * @returns {string}
 */
function saidOf(view) {
  const length = view.to - view.from;
  const when = view.started === null ? '' : `, from ${clock(view.started + view.from / 1e6)}`;
  const halts = view.inView().length;
  const single = halts > 0 ? `; ${halts} single halts of these lanes are in this file` : '';
  return `In view: ${nanos(length)} from ${moment(view.from, length)} after the start${when}${single}.`;
}

/**
 * A tick's name: the first says when the view begins, the others how far from there, unless it is the start.
 * @param {Timeline} view
 * @param {number} part of the view
 * @returns {string}
 */
function tick(view, part) {
  const length = view.to - view.from;
  if (view.from === 0) return nanos(length * part);
  return part === 0 ? moment(view.from, length) : `+${nanos(length * part)}`;
}

/**
 * A time of day in the reader's zone.
 * @param {number} unixMs
 * @returns {string}
 */
function clock(unixMs) {
  return new Date(unixMs).toLocaleTimeString(undefined, {
    hour: 'numeric',
    minute: '2-digit',
    second: '2-digit',
    fractionalSecondDigits: 3,
  });
}

/**
 * Ticks of the view, and where single halts are.
 * @param {Timeline} view
 * @returns {Element[]}
 */
function marks(view) {
  const x = (/** @type {number} */ time) => ((time - view.from) / (view.to - view.from)) * COLUMNS;
  const made = [];
  for (const [from, to] of view.stretches) {
    const [left, right] = [Math.max(x(from), 0), Math.min(x(to), COLUMNS)];
    if (right > left)
      made.push(
        svg('rect', {
          class: 'kept',
          x: left.toFixed(1),
          width: Math.max(right - left, 1).toFixed(1),
          y: 0,
          height: 4,
        }),
      );
  }
  return made;
}

/**
 * The halts in view as a table.
 * @param {Timeline} view
 * @returns {Element[]}
 */
function haltTable(view) {
  const found = view.inView().sort((a, b) => (a.lane.seat?.start[a.n] ?? 0) - (b.lane.seat?.start[b.n] ?? 0));
  if (found.length === 0) return [el('p', { class: 'note' }, 'No single halt that begins here is in this file.')];
  const heads = ['after the start', 'vCPU', 'polled', 'slept', 'wake-up', 'whole halt', 'woken by'];
  const head = heads.map((text, n) => el('th', { scope: 'col', class: n === 1 || n === 6 ? 't' : 'n' }, text));
  const rows = found.slice(0, LISTED).map(({ lane, n }) => {
    const seat = lane.seat;
    if (!seat) return el('tr', {});
    const of = (/** @type {number[]} */ ...states) =>
      nanos(partsOf(seat, n).reduce((sum, [state, length]) => (states.includes(state) ? sum + length : sum), 0));
    const cells = [
      moment(seat.start[n] ?? 0, 1e4),
      lane.name,
      of(1, 2),
      of(3, 6),
      of(4),
      nanos(endOf(seat, n) - (seat.start[n] ?? 0)),
      WAKES[seat.wake[n] ?? 4] ?? '',
    ];
    return el('tr', {}, ...cells.map((text, cell) => el('td', { class: cell === 1 || cell === 6 ? 't' : 'n' }, text)));
  });
  const caption =
    found.length > LISTED ? `The first ${LISTED} of ${found.length} halts in view` : `${found.length} halts in view`;
  const table = el(
    'table',
    {},
    el('caption', {}, caption),
    el('thead', {}, el('tr', {}, ...head)),
    el('tbody', {}, ...rows),
  );
  return [el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, table)];
}

/**
 * What a lane shows at a place: the halt there, or the shares of the column.
 * @param {Timeline} view
 * @param {Lane} lane
 * @param {number} part of the view
 * @returns {string}
 */
function valuesAt(view, lane, part) {
  const length = view.to - view.from;
  const time = view.from + part * length;
  const { seat } = lane;
  if (seat && view.exact(lane)) {
    const n = firstAfter(seat, time + 1) - 1;
    if (n < 0 || endOf(seat, n) < time) return `${moment(time, length)}: ${view.states[0]}`;
    const parts = partsOf(seat, n).filter(([, spent]) => spent > 0);
    const said = parts.map(([state, spent]) => `${view.states[state]} ${nanos(spent)}`);
    return `halt at ${moment(seat.start[n] ?? 0, length)}: ${said.join(', ')}; woken by ${WAKES[seat.wake[n] ?? 4]}`;
  }
  const column = Math.min(Math.floor(part * COLUMNS), COLUMNS - 1) * STATES;
  const shares = [...view.columns(lane).subarray(column, column + STATES)];
  const said = shares.flatMap((one, state) => (one > 0.002 ? [`${view.states[state]} ${share(one)}`] : []));
  return `${moment(time, length)}: ${said.join(', ') || 'nothing recorded'}`;
}

/**
 * Dragging over a lane zooms into what was dragged over; the wheel with Ctrl zooms. A pointer at rest is
 * told the values below it.
 * @param {Timeline} view
 * @param {Lane} lane
 */
function pointer(view, lane) {
  const { drawn } = lane;
  const title = svg('title');
  let from = -1;
  const part = (/** @type {MouseEvent} */ event) => {
    const box = drawn.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left) / Math.max(box.width, 1), 0), 1);
  };
  drawn.addEventListener('pointermove', (event) => {
    say(title, valuesAt(view, lane, part(event)));
    if (!title.isConnected) drawn.prepend(title);
  });
  drawn.addEventListener('pointerdown', (event) => {
    from = part(event);
    drawn.setPointerCapture(event.pointerId);
  });
  drawn.addEventListener('pointerup', (event) => {
    const to = part(event);
    const length = view.to - view.from;
    const [left, right] = [Math.min(from, to), Math.max(from, to)];
    if (from >= 0 && right - left > 0.01) view.look(view.from + left * length, view.from + right * length);
    from = -1;
  });
  drawn.addEventListener('dblclick', (event) => view.zoom(0.2, part(event)));
  drawn.addEventListener(
    'wheel',
    (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      view.zoom(event.deltaY > 0 ? 1.4 : 0.7, part(event));
    },
    { passive: false },
  );
}

/**
 * The keyboard does what the mouse does.
 * @param {Timeline} view
 * @param {HTMLElement} list
 */
function keys(view, list) {
  list.tabIndex = 0;
  list.setAttribute('aria-label', 'Lanes: plus and minus zoom, left and right move, Home shows the whole recording');
  /** @type {Record<string, () => void>} */
  const acts = {
    '+': () => view.zoom(0.4),
    '=': () => view.zoom(0.4),
    '-': () => view.zoom(2.5),
    ArrowLeft: () => view.move(-0.25),
    ArrowRight: () => view.move(0.25),
    Home: () => view.look(0, view.span),
  };
  list.addEventListener('keydown', (event) => {
    const act = acts[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
}
