// Whether everybody can use a page: axe-core, the keyboard, and every width.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** @typedef {import('puppeteer-core').Page} Page */
/** @typedef {(text: string) => void} Complain */

const AXE = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8');

/**
 * Opens everything that opens, and has all of it laid out: what is far from the screen else is not, and
 * is cut where it is too wide.
 * @param {Page} page
 */
export async function openAll(page) {
  await page.evaluate(() => {
    for (const one of document.querySelectorAll('details')) one.open = true;
    for (const one of document.querySelectorAll('main > section')) {
      /** @type {HTMLElement} */ (one).style.setProperty('content-visibility', 'visible');
    }
  });
}

/**
 * Nothing that axe-core calls serious or critical. In the dark colours alone are new.
 * @param {Page} page
 * @param {'light' | 'dark'} theme
 * @param {Complain} complain
 */
export async function accessible(page, theme, complain) {
  await page.evaluate(AXE);
  const found = await page.evaluate(
    async (only) => {
      const axe = /** @type {any} */ (window)['axe'];
      const asked = { resultTypes: ['violations'], iframes: false, preload: false };
      const { violations } = await axe.run(document, only.length > 0 ? { ...asked, runOnly: only } : asked);
      return violations
        .filter((/** @type {any} */ one) => ['serious', 'critical'].includes(one.impact))
        .map(
          (/** @type {any} */ one) =>
            `${one.id}: ${one.help}: ${one.nodes.length} times, first ${one.nodes[0].html.slice(0, 160)} ${one.nodes[0].failureSummary ?? ''}`,
        );
    },
    /** @type {string[]} */ (theme === 'dark' ? ['color-contrast'] : []),
  );
  for (const one of found) complain(`axe, ${theme}: ${one}`);
}

/** What the keyboard must reach. */
const REACHABLE = 'a[href], button, input, select, summary, [tabindex="0"]';

/** Presses that are on their way at once. */
const PRESSES = 40;

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
    const places = new Map(all.map((one, n) => [one, n]));
    const isMarked = (/** @type {Element} */ one) => {
      const { outlineStyle, outlineWidth } = getComputedStyle(one);
      return outlineStyle !== 'none' && outlineWidth !== '0px';
    };
    const reached = { places: new Set(), unmarked: new Set(), isMarked };
    Object.assign(window, { reached });
    document.addEventListener('focusin', ({ target }) => {
      if (!(target instanceof Element)) return;
      if (places.has(target)) reached.places.add(places.get(target));
      if (!isMarked(target)) reached.unmarked.add(target);
    });
    return all.length;
  }, REACHABLE);
  const keys = await page.createCDPSession();
  const tab = { key: 'Tab', code: 'Tab', windowsVirtualKeyCode: 9 };
  for (let pressed = 0; pressed < count + 5; pressed += PRESSES) {
    const sent = [];
    for (let n = pressed; n < Math.min(pressed + PRESSES, count + 5); n++) {
      sent.push(keys.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', ...tab }));
      sent.push(keys.send('Input.dispatchKeyEvent', { type: 'keyUp', ...tab }));
    }
    await Promise.all(sent);
  }
  // A page that is not yet the active one shows no mark: what had none while keys came is focused once more.
  await page.bringToFront();
  const { seen, unmarked } = await page.evaluate(() => {
    const { reached } = /** @type {any} */ (window);
    const stillUnmarked = (/** @type {HTMLElement} */ one) => {
      one.blur();
      one.focus();
      return !reached.isMarked(one);
    };
    const unmarked = [...reached.unmarked].filter(stillUnmarked);
    return { seen: reached.places.size, unmarked: unmarked.map((one) => one.outerHTML.slice(0, 80)) };
  });
  for (const what of unmarked) complain(`keyboard: no mark on ${what}`);
  if (seen < count) complain(`keyboard: reaches ${seen} of ${count}`);
}

/**
 * Nothing is wider than its screen, from a small telephone to 4K; the last is an ordinary one.
 * @param {Page} page
 * @param {Complain} complain
 */
export async function fits(page, complain) {
  for (const width of [360, 768, 3840, 1280]) {
    await page.setViewport({ width, height: 900 });
    const wide = await page.evaluate(() => {
      const { clientWidth, scrollWidth } = document.documentElement;
      if (scrollWidth <= clientWidth) return '';
      const all = [...document.querySelectorAll('body *')];
      const out = all.filter(
        (one) => one.getBoundingClientRect().right > clientWidth + 1 && !one.closest('.scroll, nav, pre'),
      );
      const first = out.slice(0, 3).map((one) => one.outerHTML.slice(0, 90));
      return `${scrollWidth}: ${first.join(' | ')}`;
    });
    if (wide) complain(`at ${width} it is as wide as ${wide}`);
  }
}
