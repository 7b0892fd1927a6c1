// What a setting does to each VM: a table whose rows stay where they are while their texts change.

import { el, say } from './dom.js';
import { nanos, share } from './number.js';

/** @typedef {import('./data.js').WhatIf} WhatIf */
/** @typedef {import('./data.js').Vms} Vms */

/** The table; nothing is shown of a single VM. */
export class VmTable {
  /**
   * @param {WhatIf} data
   * @param {(vm: number) => string} nameOf
   */
  constructor(data, nameOf) {
    this.data = data;
    this.nameOf = nameOf;
    const rows = data.vms.length < 2 ? 0 : data.vms.length;
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
    const caption = 'What it does to the VMs that halt most';
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
   * Shows another setting.
   * @param {Vms} each what comes of it, VM by VM
   */
  show(each) {
    if (!this.shown) return;
    const { vms, inForce } = this.data;
    const rows = vms.map((vm, n) => ({ vm, is: each[n] ?? [0, 0], was: inForce.vms[n] ?? [0, 0] }));
    rows.sort((a, b) => b.was[0] + b.is[0] - a.was[0] - a.is[0]);
    this.cells.forEach((cells, n) => {
      const row = rows[n];
      if (!row) return;
      const { vm, is, was } = row;
      const texts = [this.nameOf(vm), share(was[0] / 100), share(is[0] / 100), nanos(was[1]), nanos(is[1])];
      cells.forEach((cell, column) => {
        say(cell, texts[column] ?? '');
      });
    });
  }
}
