// What a setting does to each VM: a table whose rows stay where they are while their texts change.

import { el, say } from './dom.js';
import { nanos, share } from './number.js';

/** @typedef {import('./replay.js').Sums} Sums */
/** @typedef {import('./whatif.js').Replay} Replay */

/** VMs in the table. */
const VMS = 12;

/** What a VM comes to. */
class Part {
  constructor() {
    this.poll = 0;
    this.latency = 0;
    this.halts = 0;
  }

  /** @param {Sums | undefined} sums of one of its vCPUs */
  add(sums) {
    this.poll += sums?.poll ?? 0;
    this.latency += sums?.latency ?? 0;
    this.halts += sums?.halts ?? 0;
  }
}

/** The table; nothing is shown of a single VM. */
export class VmTable {
  /**
   * @param {Replay} replay
   * @param {Sums[]} before what is in force, vCPU by vCPU
   * @param {(vm: number) => string} nameOf
   */
  constructor(replay, before, nameOf) {
    this.replay = replay;
    this.nameOf = nameOf;
    this.before = this.byVm(before);
    const rows = this.before.size < 2 ? 0 : Math.min(this.before.size, VMS);
    /** @type {HTMLElement[][]} */
    this.cells = Array.from({ length: rows }, () => [
      el('bdi'),
      ...Array.from({ length: 4 }, () => el('td', { class: 'n' })),
    ]);
    this.shown = rows > 0 ? this.table() : null;
  }

  /** @returns {HTMLElement} */
  table() {
    const heads = ['VM', 'polling in force', 'with this', 'late by in force', 'with this'];
    const head = heads.map((text, n) => el('th', { scope: 'col', class: n === 0 ? 't' : 'n' }, text));
    const isCut = this.before.size > VMS;
    const caption = isCut ? `What it does to the ${VMS} VMs that poll most` : 'What it does to each VM';
    const body = this.cells.map(([name, ...numbers]) =>
      el('tr', {}, el('th', { scope: 'row', class: 't' }, name), ...numbers),
    );
    const table = el(
      'table',
      {},
      el('caption', {}, caption),
      el('thead', {}, el('tr', {}, ...head)),
      el('tbody', {}, ...body),
    );
    return el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, table);
  }

  /**
   * @param {Sums[]} each
   * @returns {Map<number, Part>}
   */
  byVm(each) {
    /** @type {Map<number, Part>} */
    const vms = new Map();
    this.replay.kept.forEach((one, n) => {
      if (one.vm === null) return;
      const part = vms.get(one.vm) ?? new Part();
      vms.set(one.vm, part);
      part.add(each[n]);
    });
    return vms;
  }

  /**
   * Shows another setting.
   * @param {Sums[]} each what comes of it, vCPU by vCPU
   */
  show(each) {
    if (!this.shown) return;
    const none = new Part();
    const rows = [...this.byVm(each)].map(([vm, is]) => ({ vm, is, was: this.before.get(vm) ?? none }));
    rows.sort((a, b) => b.was.poll + b.is.poll - a.was.poll - a.is.poll);
    const span = this.replay.data.wall.span;
    const percent = (/** @type {Part} */ of) => share(of.poll / span);
    const late = (/** @type {Part} */ of) => nanos(of.latency / Math.max(of.halts, 1));
    this.cells.forEach((cells, n) => {
      const row = rows[n];
      if (!row) return;
      const texts = [this.nameOf(row.vm), percent(row.was), percent(row.is), late(row.was), late(row.is)];
      cells.forEach((cell, column) => {
        say(cell, texts[column] ?? '');
      });
    });
  }
}
