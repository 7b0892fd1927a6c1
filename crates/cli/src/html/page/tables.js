// Tables that sort, and a search over the exits.

import { byId, button, el } from './dom.js';

/**
 * Makes the heads of a table sort its rows.
 * @param {HTMLTableElement} table
 */
export function sortable(table) {
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
  heads.forEach((head, column) => {
    if (!head.textContent) return;
    const title = head.textContent;
    const act = button(title, () => sort(table, heads, column));
    head.replaceChildren(act);
  });
}

/**
 * @param {HTMLTableElement} table
 * @param {HTMLTableCellElement[]} heads
 * @param {number} column
 */
function sort(table, heads, column) {
  const body = table.tBodies[0];
  const head = heads[column];
  if (!body || !head) return;
  const falls = head.getAttribute('aria-sort') !== 'descending';
  for (const other of heads) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', falls ? 'descending' : 'ascending');
  const rows = [...body.rows];
  const value = (/** @type {HTMLTableRowElement} */ row) => row.cells[column]?.dataset.v;
  const text = (/** @type {HTMLTableRowElement} */ row) => row.cells[column]?.textContent ?? '';
  rows.sort((a, b) => {
    const [one, other] = [value(a), value(b)];
    const order =
      one !== undefined || other !== undefined
        ? Number(one ?? -Infinity) - Number(other ?? -Infinity) || 0
        : text(b).localeCompare(text(a), undefined, { numeric: true });
    return falls ? -order : order;
  });
  body.append(...rows);
}

/** A search over the rows of exits. */
export function searchable() {
  const place = byId('exit-search');
  const table = /** @type {HTMLTableElement | null} */ (byId('exit-reasons'));
  if (!place || !table) return;
  const input = el('input', { type: 'search', id: 'exit-find', autocomplete: 'off' });
  const said = el('span', { 'aria-live': 'polite' });
  input.addEventListener('input', () => {
    const wanted = input.value.trim().toLowerCase();
    let shown = 0;
    for (const row of table.tBodies[0]?.rows ?? []) {
      const holds = (row.cells[0]?.textContent ?? '').toLowerCase().includes(wanted);
      row.hidden = !holds;
      if (holds) shown += 1;
    }
    said.textContent = wanted ? `${shown} reasons` : '';
  });
  place.append(el('label', { for: 'exit-find' }, 'Search reasons '), input, said);
  place.hidden = false;
}
