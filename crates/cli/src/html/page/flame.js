// The flame graph: a click on a box makes it as wide as the figure, and names can be searched.

import { byId, el, svg } from './dom.js';
import { share } from './number.js';

/** Width of a letter in a box, as `chart/flame.rs`. */
const LETTER = 6.6;

/**
 * @typedef {object} Box
 * @property {SVGRectElement} rect
 * @property {SVGTextElement} text
 * @property {string} name
 * @property {number} x
 * @property {number} y
 * @property {number} width
 */

class Flame {
  /** @param {SVGSVGElement} figure */
  constructor(figure) {
    this.whole = figure.viewBox.baseVal.width;
    this.said = el('span', { 'aria-live': 'polite' });
    for (const text of figure.querySelectorAll('text')) text.remove();
    /** @type {Box[]} */
    this.boxes = [...figure.querySelectorAll('rect')].map((rect) => {
      const of = (/** @type {string} */ name) => Number(rect.getAttribute(name));
      const [x, y, width] = [of('x'), of('y'), of('width')];
      const name = (rect.querySelector('title')?.textContent ?? '').replace(/: [^:]*$/, '');
      const box = { rect, text: svg('text', { y: y + 12.5 }), name, x, y, width };
      rect.after(box.text);
      rect.addEventListener('click', () => this.zoom(box));
      return box;
    });
    this.root = this.boxes[0];
    this.zoom(this.root);
  }

  /**
   * Draws a box as wide as the figure, with what it calls; its callers stand above it, apart.
   * @param {Box | undefined} to
   */
  zoom(to) {
    if (!to) return;
    const scale = this.whole / to.width;
    const slack = to.width * 1e-3;
    for (const { rect, text, name, x, y, width } of this.boxes) {
      const isCaller = y < to.y && x <= to.x + slack && x + width >= to.x + to.width - slack;
      const isBelow = y >= to.y && x >= to.x - slack && x + width <= to.x + to.width + slack;
      const shown = isCaller || isBelow;
      rect.classList.toggle('apart', isCaller);
      for (const one of [rect, text]) one.setAttribute('visibility', shown ? 'visible' : 'hidden');
      if (!shown) continue;
      const [left, wide] = isCaller ? [0, this.whole] : [(x - to.x) * scale, width * scale];
      rect.setAttribute('x', left.toFixed(1));
      rect.setAttribute('width', wide.toFixed(1));
      text.setAttribute('x', (left + 3).toFixed(1));
      text.textContent = fitting(name, wide - 6);
    }
  }

  /**
   * Marks the boxes whose names hold a text, and says what share of all samples they are.
   * @param {string} wanted
   */
  search(wanted) {
    let [count, covered] = [0, 0];
    /** @type {[number, number][]} */
    const spans = [];
    for (const { rect, name, x, width } of this.boxes) {
      const holds = wanted !== '' && name.toLowerCase().includes(wanted);
      rect.classList.toggle('found', holds);
      if (!holds) continue;
      count += 1;
      // A function that calls itself counts once.
      if (!spans.some(([from, to]) => x >= from - 0.05 && x + width <= to + 0.05)) {
        spans.push([x, x + width]);
        covered += width;
      }
    }
    this.said.textContent = wanted === '' ? '' : `${count} boxes, ${share(covered / this.whole)} of the samples`;
  }
}

/**
 * As much of a name as has room; nothing if that is not three letters.
 * @param {string} name
 * @param {number} width
 * @returns {string}
 */
function fitting(name, width) {
  const room = Math.floor(width / LETTER);
  if (name.length <= room) return name;
  return room < 3 ? '' : `${name.slice(0, room - 1)}~`;
}

/** The figure on the page. */
export function flame() {
  const figure = /** @type {SVGSVGElement | null} */ (document.querySelector('.flame svg'));
  const place = byId('flame-search');
  if (!figure || !place) return;
  const made = new Flame(figure);
  const input = el('input', { type: 'search', id: 'flame-find', autocomplete: 'off' });
  const whole = el('button', { type: 'button' }, 'whole');
  whole.addEventListener('click', () => made.zoom(made.root));
  input.addEventListener('input', () => made.search(input.value.trim().toLowerCase()));
  input.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter') return;
    made.zoom(made.boxes.find((box) => box.rect.classList.contains('found')) ?? made.root);
  });
  place.append(el('label', { for: 'flame-find' }, 'Search functions '), input, whole, made.said);
  place.hidden = false;
}
