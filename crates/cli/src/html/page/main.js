// Begins everything once the page is there.

import { byId, button } from './dom.js';
import { flame } from './flame.js';
import { unpackSample } from './sample.js';
import { searchable, sortable } from './tables.js';
import { timeline } from './timeline.js';
import { whatif } from './whatif.js';

/** @typedef {import('./data.js').Data} Data */

/** Times in the reader's own zone. */
function localTimes() {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });
  for (const time of document.querySelectorAll('time')) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    time.title = time.textContent ?? '';
    time.textContent = format.format(date);
  }
}

/** Buttons that copy a command. */
function copies() {
  for (const place of document.querySelectorAll('[data-copy]')) {
    const text = [...place.querySelectorAll('code')].map((line) => (line.textContent ?? '').trim()).join('\n');
    const act = button('Copy', () => {
      const done = navigator.clipboard?.writeText(text);
      done?.then(
        () => {
          act.textContent = 'Copied';
          window.setTimeout(() => {
            act.textContent = 'Copy';
          }, 1500);
        },
        () => getSelection()?.selectAllChildren(place),
      );
    });
    act.classList.add('copy');
    place.append(act);
  }
}

/** Whatever a link leads to is open. */
function openTarget() {
  const id = decodeURIComponent(location.hash.slice(1));
  if (!id) return;
  for (let at = byId(id); at; at = at.parentElement) if (at instanceof HTMLDetailsElement) at.open = true;
  byId(id)?.scrollIntoView();
}

/** All is open while it is printed. */
function printsOpen() {
  /** @type {HTMLDetailsElement[]} */
  let opened = [];
  window.addEventListener('beforeprint', () => {
    opened = [...document.querySelectorAll('details')].filter((one) => !one.open);
    for (const one of opened) one.open = true;
  });
  window.addEventListener('afterprint', () => {
    for (const one of opened) one.open = false;
  });
}

/**
 * Once the page is on the screen: a frame that was made still has to be drawn, on the same CPUs.
 * @param {() => void} then
 */
function whenPainted(then) {
  if (!PerformanceObserver.supportedEntryTypes?.includes('paint')) {
    requestAnimationFrame(() => window.setTimeout(then));
    return;
  }
  const observer = new PerformanceObserver(() => {
    observer.disconnect();
    window.setTimeout(then);
  });
  observer.observe({ type: 'paint', buffered: true });
}

/** What nobody needs to read the page. */
function rest() {
  copies();
  for (const table of document.querySelectorAll('table[data-sorts]')) sortable(/** @type {HTMLTableElement} */ (table));
  searchable();
  flame();
  const data = /** @type {Data} */ (JSON.parse(byId('data')?.textContent ?? ''));
  const kept = unpackSample(data);
  const names = new Map(data.lanes.map((lane) => [lane.vm, lane.name.replace(/ vCPU \d+$/, '')]));
  const nameOf = (/** @type {number} */ vm) => names.get(vm) ?? `VM ${vm}`;
  if (data.whatif) whatif(data.whatif, nameOf);
  timeline(data, kept, nameOf);
  document.documentElement.dataset.ready = 'yes';
}

function begin() {
  document.documentElement.classList.add('script');
  localTimes();
  window.addEventListener('hashchange', openTarget);
  openTarget();
  printsOpen();
  whenPainted(rest);
}

begin();
