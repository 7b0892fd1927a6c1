// Looks at every page in real browsers, one for each CPU: `node browser.mjs DIR [--times]`, where DIR
// holds `pages.json` and the pages. Screenshots are left beside them. Says what is wrong, or that all
// pages are well; with `--times` also what each part of it took.

import { readFileSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import puppeteer from 'puppeteer-core';
import { accessible, fits, keyboard, openAll } from './reach.mjs';
import {
  exitsTable,
  flameGraph,
  noScript,
  numbers,
  printed,
  sections,
  timeline,
  timelineValues,
  zone,
} from './shows.mjs';

/** @typedef {import('puppeteer-core').Page} Page */
/** @typedef {{name: string, sections: string[]}} Wanted */

const [, , dir = '.', ...flags] = process.argv;
/** @type {Wanted[]} */
const pages = JSON.parse(readFileSync(join(dir, 'pages.json'), 'utf8'));
const fileOf = (/** @type {Wanted} */ wanted) => join(dir, `${wanted.name}.html`);

/** @type {string[]} */
const wrong = [];

/** What each part took, in milliseconds, all pages together. @type {Map<string, number>} */
const times = new Map();

/**
 * @template Result
 * @param {string} part
 * @param {Promise<Result>} work
 * @returns {Promise<Result>}
 */
async function timed(part, work) {
  const began = performance.now();
  const result = await work;
  times.set(part, (times.get(part) ?? 0) + performance.now() - began);
  return result;
}

/** A browser with one tab, which complains of anything that a page in it says or asks for. */
class Tab {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.url = '';
    /** @type {(text: string) => void} */
    this.complain = () => {};
    page.on('console', (said) => this.complain(`console ${said.type()}: ${said.text()}`));
    page.on('pageerror', (error) => this.complain(String(error)));
    page.on('request', (request) => {
      const to = request.url();
      if (to !== this.url && !to.startsWith('data:')) this.complain(`asks for ${to}`);
    });
  }

  /**
   * Opens a page.
   * @param {Wanted} wanted
   * @param {{script?: boolean, width?: number, theme?: string, zone?: string}} how
   * @returns {Promise<Page>}
   */
  async open(wanted, how = {}) {
    const { page } = this;
    const theme = how.theme ?? 'light';
    await page.goto('about:blank');
    this.url = `file://${fileOf(wanted)}`;
    this.complain = (text) => wrong.push(`${wanted.name}: ${text}`);
    await page.setViewport({ width: how.width ?? 1280, height: 900 });
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: theme }]);
    await page.emulateTimezone(how.zone);
    await page.setJavaScriptEnabled(how.script !== false);
    await page.goto(this.url);
    if (how.script !== false) {
      await page.waitForFunction(() => document.documentElement.dataset['ready'] === 'yes', { timeout: 60_000 });
    }
    return page;
  }
}

/** Kinds of elements that were looked at in the dark. @type {Set<string>} */
const seen = new Set();

/**
 * Whether a page has elements of a kind, by name and class with those around it, that no page before it had.
 * @param {Page} page
 * @returns {Promise<boolean>}
 */
async function isNew(page) {
  const kinds = await page.evaluate(() => {
    const one = (/** @type {Element | null} */ of) => (of ? `${of.localName}.${of.getAttribute('class') ?? ''}` : '');
    const all = [...document.querySelectorAll('body, body *')];
    return [
      ...new Set(all.map((it) => `${one(it)} ${one(it.parentElement)} ${one(it.closest('section, header, nav'))}`)),
    ];
  });
  const fresh = kinds.filter((kind) => !seen.has(kind));
  for (const kind of fresh) seen.add(kind);
  return fresh.length > 0;
}

/**
 * A picture of a page, from its top.
 * @param {Page} page
 * @param {string} name
 * @param {string} what
 * @param {number} tallest in pixels; longer than 12 000 the browser does not take
 */
async function shot(page, name, what, tallest) {
  const size = await page.evaluate(() => [document.documentElement.clientWidth, document.documentElement.scrollHeight]);
  const [width = 0, height = 0] = size;
  const clip = { x: 0, y: 0, width, height: Math.min(height, tallest) };
  const path = /** @type {`${string}.png`} */ (join(dir, `${name}-${what}.png`));
  await page.screenshot({ path, clip, captureBeyondViewport: true, optimizeForSpeed: true });
}

/**
 * All that is looked at of a page: as it opens in the light, from a telephone to a wide screen in the
 * dark, and without script. Colours of the dark, and pictures of it, are of pages that show something new.
 * @param {Tab} tab
 * @param {Wanted} wanted
 */
async function look(tab, wanted) {
  const complain = (/** @type {string} */ text) => wrong.push(`${wanted.name}: ${text}`);
  const page = await timed('open', tab.open(wanted));
  await timed('sections', sections(page, wanted.sections, complain));
  await timed('pictures', shot(page, wanted.name, 'first', 900));
  await timed('numbers', numbers(page, complain));
  await timed('timeline', timeline(page, complain));
  await timed('timeline', timelineValues(page, complain));
  await timed('tables', exitsTable(page, complain));
  await timed('flame', flameGraph(page, complain));
  await openAll(page);
  await timed('axe', accessible(page, 'light', complain));
  await timed('pictures', shot(page, wanted.name, 'all', 12_000));

  await timed('open', tab.open(wanted, { theme: 'dark', width: 360 }));
  await timed('keyboard', keyboard(page, complain));
  await openAll(page);
  const shows = await isNew(page);
  if (shows) await timed('pictures', shot(page, wanted.name, '360', 8_000));
  await timed('widths', fits(page, complain));
  if (shows) {
    await timed('axe, dark', accessible(page, 'dark', complain));
    await timed('pictures', shot(page, wanted.name, 'dark', 4_000));
  }

  await timed('open', tab.open(wanted, { script: false }));
  await timed('no script', noScript(page, wanted.sections, complain));
  if (shows) await timed('pictures', shot(page, wanted.name, 'no-script', 2_000));
}

/**
 * Times in the reader's zone, and printing: once, for they are the same on every page.
 * @param {Tab} tab
 * @param {Wanted} wanted
 */
async function once(tab, wanted) {
  const complain = (/** @type {string} */ text) => wrong.push(`${wanted.name}: ${text}`);
  const page = await tab.open(wanted, { zone: 'Asia/Tokyo' });
  await zone(page, complain);
  await timed('print', printed(page, join(dir, `${wanted.name}.pdf`), complain));
}

/**
 * A browser that takes one piece of work after the other.
 * @param {((tab: Tab) => Promise<void>)[]} left
 */
async function work(left) {
  const browser = await puppeteer.launch({
    executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
    headless: true,
    // Who tests as root has no sandbox; the pages are ours.
    args: ['--no-sandbox', '--disable-gpu', '--force-color-profile=srgb', '--disable-dev-shm-usage'],
  });
  const tab = new Tab(await browser.newPage());
  for (let next = left.shift(); next; next = left.shift()) await next(tab);
  await browser.close();
}

// The largest first, so that no browser is left with one of them at the end.
const bySize = [...pages].sort((a, b) => statSync(fileOf(b)).size - statSync(fileOf(a)).size);
const left = bySize.map((wanted) => (/** @type {Tab} */ tab) => look(tab, wanted));
const ordinary = pages.find((one) => one.name === 'fleet') ?? pages[0];
if (ordinary) left.push((tab) => once(tab, ordinary));
await Promise.all(Array.from({ length: Math.min(availableParallelism(), 4) }, () => work(left)));

if (flags.includes('--times')) {
  for (const [part, ms] of times) console.log(`${part}: ${(ms / 1000).toFixed(1)} s`);
}
for (const text of [...new Set(wrong)]) console.log(text);
if (wrong.length > 0) process.exit(1);
console.log(`${pages.length} pages are well`);
