// Looks at every page in a real browser: `node browser.mjs DIR`, where DIR holds `pages.json` and the
// pages. Screenshots are left beside them. Says what is wrong, or that all pages are well.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import puppeteer from 'puppeteer-core';
import { accessible, fits, keyboard } from './reach.mjs';
import { exitsTable, noScript, numbers, openLinks, printed, sections, timeline, zone } from './shows.mjs';

/** @typedef {{name: string, sections: string[]}} Wanted */

const dir = process.argv[2] ?? '.';
/** @type {Wanted[]} */
const pages = JSON.parse(readFileSync(join(dir, 'pages.json'), 'utf8'));

const browser = await puppeteer.launch({
  executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
  headless: true,
  // Who tests as root has no sandbox; the pages are ours.
  args: ['--no-sandbox', '--disable-gpu', '--force-color-profile=srgb', '--disable-dev-shm-usage'],
});

/** @type {string[]} */
const wrong = [];

/**
 * Opens a page of its own, which complains of anything that it says or asks for.
 * @param {Wanted} wanted
 * @param {{script?: boolean, width?: number, theme?: string, zone?: string}} how
 */
async function open(wanted, how = {}) {
  const page = await browser.newPage();
  const url = `file://${join(dir, `${wanted.name}.html`)}`;
  page.on('console', (said) => wrong.push(`${wanted.name}: console ${said.type()}: ${said.text()}`));
  page.on('pageerror', (error) => wrong.push(`${wanted.name}: ${error}`));
  page.on('request', (request) => {
    const to = request.url();
    if (to !== url && !to.startsWith('data:')) wrong.push(`${wanted.name}: asks for ${to}`);
  });
  await page.setViewport({ width: how.width ?? 1280, height: 900 });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: how.theme ?? 'light' }]);
  if (how.zone) await page.emulateTimezone(how.zone);
  await page.setJavaScriptEnabled(how.script !== false);
  await page.goto(url);
  if (how.script !== false) {
    await page.waitForFunction(() => document.documentElement.dataset['ready'] === 'yes', { timeout: 60_000 });
  }
  return page;
}

/** The tallest picture of a page: longer ones the browser does not take. */
const TALLEST = 12_000;

/**
 * A picture of all of a page, or of its first screen.
 * @param {import('puppeteer-core').Page} page
 * @param {string} name
 * @param {string} what
 */
async function shot(page, name, what) {
  const size = await page.evaluate(() => [document.documentElement.clientWidth, document.documentElement.scrollHeight]);
  const [width = 0, height = 0] = size;
  const clip = { x: 0, y: 0, width, height: what === 'first' ? 900 : Math.min(height, TALLEST) };
  const path = /** @type {`${string}.png`} */ (join(dir, `${name}-${what}.png`));
  await page.screenshot({ path, clip, captureBeyondViewport: true });
}

for (const wanted of pages) {
  const complain = (/** @type {string} */ text) => wrong.push(`${wanted.name}: ${text}`);
  const page = await open(wanted);
  await sections(page, wanted.sections, complain);
  await shot(page, wanted.name, 'first');
  await numbers(page, complain);
  await timeline(page, complain);
  await exitsTable(page, complain);
  await openLinks(page, complain);
  await accessible(page, 'light', complain);
  await shot(page, wanted.name, 'all');
  await page.close();

  const dark = await open(wanted, { theme: 'dark' });
  await keyboard(dark, complain);
  await accessible(dark, 'dark', complain);
  await shot(dark, wanted.name, 'dark');
  await dark.close();

  const narrow = await open(wanted, { width: 360 });
  await fits(narrow, complain);
  await narrow.setViewport({ width: 360, height: 900 });
  await shot(narrow, wanted.name, '360');
  await narrow.close();

  const still = await open(wanted, { script: false });
  await noScript(still, wanted.sections, complain);
  await shot(still, wanted.name, 'no-script');
  await still.close();
}

const [first] = pages;
if (first) {
  const far = await open(first, { zone: 'Asia/Tokyo' });
  await zone(far, (text) => wrong.push(`${first.name}: ${text}`));
  await printed(far, (text) => wrong.push(`${first.name}: ${text}`));
  await far.close();
}
await browser.close();
for (const text of [...new Set(wrong)]) console.log(text);
if (wrong.length > 0) process.exit(1);
console.log(`${pages.length} pages are well`);
