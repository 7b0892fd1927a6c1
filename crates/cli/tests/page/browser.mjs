// Looks at every page in real browsers, one for each CPU: `node browser.mjs DIR [--times]`, where DIR
// holds `pages.json` and the pages. Screenshots are left beside them. Says what is wrong, or that all
// pages are well; with `--times` also what each part of it took.

import { readFileSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import puppeteer from 'puppeteer-core';
import { accessible, fits, keyboard, openAll } from './reach.mjs';
import { exitsTable, noScript, numbers, openLinks, printed, sections, timeline, zone } from './shows.mjs';

/** @typedef {import('puppeteer-core').Page} Page */
/** @typedef {import('puppeteer-core').Browser} Browser */
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

/**
 * Opens a page of its own, which complains of anything that it says or asks for.
 * @param {Browser} browser
 * @param {Wanted} wanted
 * @param {{script?: boolean, width?: number, theme?: string, zone?: string}} how
 */
async function open(browser, wanted, how = {}) {
  const page = await browser.newPage();
  const url = `file://${fileOf(wanted)}`;
  page.on('console', (said) => wrong.push(`${wanted.name}: console ${said.type()}: ${said.text()}`));
  page.on('pageerror', (error) => wrong.push(`${wanted.name}: ${error}`));
  page.on('request', (request) => {
    const to = request.url();
    if (to !== url && !to.startsWith('data:')) wrong.push(`${wanted.name}: asks for ${to}`);
  });
  await page.setViewport({ width: how.width ?? 1280, height: 900 });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: how.theme ?? 'light' }]);
  if (how.zone) await page.emulateTimezone(how.zone);
  if (how.script === false) await page.setJavaScriptEnabled(false);
  await page.goto(url);
  if (how.script !== false) {
    await page.waitForFunction(() => document.documentElement.dataset['ready'] === 'yes', { timeout: 60_000 });
  }
  return page;
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
 * dark, and without script.
 * @param {Browser} browser
 * @param {Wanted} wanted
 */
async function look(browser, wanted) {
  const complain = (/** @type {string} */ text) => wrong.push(`${wanted.name}: ${text}`);
  const page = await timed('open', open(browser, wanted));
  await timed('sections', sections(page, wanted.sections, complain));
  await timed('pictures', shot(page, wanted.name, 'first', 900));
  await timed('numbers', numbers(page, complain));
  await timed('timeline', timeline(page, complain));
  await timed('tables', exitsTable(page, complain));
  await timed('links', openLinks(page, complain));
  await openAll(page);
  await timed('axe', accessible(page, 'light', complain));
  await timed('pictures', shot(page, wanted.name, 'all', 12_000));
  await page.close();

  const dark = await timed('open', open(browser, wanted, { theme: 'dark', width: 360 }));
  await timed('pictures', shot(dark, wanted.name, '360', 4_000));
  await timed('keyboard', keyboard(dark, complain));
  await openAll(dark);
  await timed('widths', fits(dark, complain));
  await timed('axe, dark', accessible(dark, 'dark', complain));
  await timed('pictures', shot(dark, wanted.name, 'dark', 4_000));
  await dark.close();

  const still = await timed('open', open(browser, wanted, { script: false }));
  await timed('no script', noScript(still, wanted.sections, complain));
  await timed('pictures', shot(still, wanted.name, 'no-script', 2_000));
  await still.close();
}

/**
 * Times in the reader's zone, and printing: once, for they are the same on every page.
 * @param {Browser} browser
 * @param {Wanted} wanted
 */
async function once(browser, wanted) {
  const complain = (/** @type {string} */ text) => wrong.push(`${wanted.name}: ${text}`);
  const far = await open(browser, wanted, { zone: 'Asia/Tokyo' });
  await zone(far, complain);
  await timed('print', printed(far, complain));
  await far.close();
}

/**
 * A browser that takes one piece of work after the other.
 * @param {((browser: Browser) => Promise<void>)[]} left
 */
async function work(left) {
  const browser = await puppeteer.launch({
    executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
    headless: true,
    // Who tests as root has no sandbox; the pages are ours.
    args: ['--no-sandbox', '--disable-gpu', '--force-color-profile=srgb', '--disable-dev-shm-usage'],
  });
  for (let next = left.shift(); next; next = left.shift()) await next(browser);
  await browser.close();
}

// The largest first, so that no browser is left with one of them at the end.
const bySize = [...pages].sort((a, b) => statSync(fileOf(b)).size - statSync(fileOf(a)).size);
const left = bySize.map((wanted) => (/** @type {Browser} */ browser) => look(browser, wanted));
const ordinary = pages.find((one) => one.name === 'fleet') ?? pages[0];
if (ordinary) left.push((browser) => once(browser, ordinary));
await Promise.all(Array.from({ length: Math.min(availableParallelism(), 4) }, () => work(left)));

if (flags.includes('--times')) {
  for (const [part, ms] of times) console.log(`${part}: ${(ms / 1000).toFixed(1)} s`);
}
for (const text of [...new Set(wrong)]) console.log(text);
if (wrong.length > 0) process.exit(1);
console.log(`${pages.length} pages are well`);
