// Whether everybody can use a page: axe-core, the keyboard, and every width.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** @typedef {import('puppeteer-core').Page} Page */
/** @typedef {(text: string) => void} Complain */

const AXE = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8');

/** Opens everything that opens. @param {Page} page */
export async function openAll(page) {
  await page.evaluate(() => {
    for (const one of document.querySelectorAll('details')) one.open = true;
  });
}

/**
 * Nothing that axe-core calls serious or critical, with everything open.
 * @param {Page} page
 * @param {string} theme
 * @param {Complain} complain
 */
export async function accessible(page, theme, complain) {
  await openAll(page);
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const axe = /** @type {any} */ (window)['axe'];
    const { violations } = await axe.run(document, { resultTypes: ['violations'] });
    return violations
      .filter((/** @type {any} */ one) => ['serious', 'critical'].includes(one.impact))
      .map(
        (/** @type {any} */ one) =>
          `${one.id}: ${one.help}: ${one.nodes.length} times, first ${one.nodes[0].html.slice(0, 160)} ${one.nodes[0].failureSummary ?? ''}`,
      );
  });
  for (const one of found) complain(`axe, ${theme}: ${one}`);
}

/** What the keyboard must reach. */
const REACHABLE = 'a[href], button, input, select, summary, [tabindex="0"]';

/**
 * Tab reaches everything that can be used, in order, and shows where it is.
 * @param {Page} page
 * @param {Complain} complain
 */
export async function keyboard(page, complain) {
  const count = await page.evaluate((wanted) => {
    const all = [...document.querySelectorAll(wanted)].filter((one) => {
      const disabled = /** @type {HTMLInputElement} */ (one).disabled === true;
      return !disabled && one.checkVisibility({ visibilityProperty: true });
    });
    for (const [n, one] of all.entries()) one.setAttribute('data-place', String(n));
    return all.length;
  }, REACHABLE);
  /** @type {Set<string>} */
  const seen = new Set();
  for (let n = 0; n < count + 5 && seen.size < count; n++) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(() => {
      const on = document.activeElement;
      if (!on || on === document.body) return null;
      const { outlineStyle, outlineWidth } = getComputedStyle(on);
      return {
        place: on.getAttribute('data-place') ?? '',
        what: on.outerHTML.slice(0, 80),
        marked: outlineStyle !== 'none' && outlineWidth !== '0px',
      };
    });
    if (!at) continue;
    seen.add(at.place);
    if (!at.marked) complain(`keyboard: no mark on ${at.what}`);
  }
  seen.delete('');
  if (seen.size < count) complain(`keyboard: reaches ${seen.size} of ${count}`);
}

/**
 * Nothing is wider than its screen, from a small telephone to 4K.
 * @param {Page} page
 * @param {Complain} complain
 */
export async function fits(page, complain) {
  await openAll(page);
  for (const width of [360, 768, 1280, 3840]) {
    await page.setViewport({ width, height: 900 });
    const wide = await page.evaluate(() => {
      const room = document.documentElement.clientWidth;
      const all = [...document.querySelectorAll('body *')];
      const out = all.filter(
        (one) => one.getBoundingClientRect().right > room + 1 && !one.closest('.scroll, nav, pre'),
      );
      return document.documentElement.scrollWidth > room
        ? `${document.documentElement.scrollWidth}: ${out
            .slice(0, 3)
            .map((one) => one.outerHTML.slice(0, 90))
            .join(' | ')}`
        : '';
    });
    if (wide) complain(`at ${width} it is as wide as ${wide}`);
  }
  await page.evaluate(() => {
    /** @type {NodeListOf<HTMLDetailsElement>} */
    const opened = document.querySelectorAll('details:not(.vm)');
    for (const one of opened) one.open = false;
  });
}
