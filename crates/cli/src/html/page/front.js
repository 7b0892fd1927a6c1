// Polling against latency: puts what the reader sets into the figure that is there already.

import { byId, svg } from './dom.js';

/** The figure's field, as `chart/front.rs` draws it. */
const LEFT = 62;
const RIGHT = 530;
const TOP = 14;
const BOTTOM = 296;

/** The figure, with the reader's own setting in it. */
export class Front {
  /** @param {SVGSVGElement} figure */
  constructor(figure) {
    this.poll = Number(figure.dataset.poll);
    this.late = Number(figure.dataset.late);
    this.bound = figure.querySelector('.p-bound');
    this.rest = svg('path', { class: 'guide' });
    this.other = svg('circle', { class: 'p-other', r: 5, visibility: 'hidden' });
    this.best = svg('circle', { class: 'p-best', r: 9, visibility: 'hidden' });
    this.own = svg('circle', { class: 'p-yours', r: 7 });
    figure.append(this.rest, this.best, this.other, this.own);
  }

  /**
   * Where polling (in % of one CPU) and latency stand; what is beyond the field stands at its edge.
   * @param {number} percent
   * @param {number} ns
   * @returns {[number, number]}
   */
  place(percent, ns) {
    const within = (/** @type {number} */ part) => Math.min(Math.max(part, 0), 1);
    const x = LEFT + within(percent / this.poll) * (RIGHT - LEFT);
    const y = BOTTOM - within(ns / this.late) * (BOTTOM - TOP);
    return [Math.round(x * 10) / 10, Math.round(y * 10) / 10];
  }

  /**
   * @param {Element | null} dot
   * @param {[number, number] | null} place in % and nanoseconds
   */
  put(dot, place) {
    if (!dot) return;
    if (!place) {
      dot.setAttribute('visibility', 'hidden');
      return;
    }
    const [x, y] = this.place(...place);
    dot.setAttribute('cx', String(x));
    dot.setAttribute('cy', String(y));
    dot.removeAttribute('visibility');
  }

  /**
   * @param {[number, number]} own
   * @param {[number, number] | null} other the other steady state, if there is one
   * @param {[number, number] | null} best the cheapest of the grid
   */
  show(own, other, best) {
    this.put(this.own, own);
    this.put(this.other, other);
    this.put(this.best, best);
    const [x, y] = this.place(...own);
    this.rest.setAttribute('d', `M${LEFT} ${y}H${x}V${BOTTOM}`);
  }

  /**
   * The bound is of the page's own goal.
   * @param {boolean} shown
   */
  showBound(shown) {
    if (shown) this.bound?.removeAttribute('visibility');
    else this.bound?.setAttribute('visibility', 'hidden');
  }
}

/**
 * The figure on the page.
 * @returns {Front | null}
 */
export function front() {
  const figure = /** @type {SVGSVGElement | null} */ (/** @type {unknown} */ (byId('front')));
  return figure ? new Front(figure) : null;
}
