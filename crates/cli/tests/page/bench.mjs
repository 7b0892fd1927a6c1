// How fast a page is: `node bench.mjs FILE [ROUNDS]`. Opens it anew in each round and prints one line of
// JSON for each, in milliseconds: first paint in a browser just started, of a page of one word in another
// such browser, in a third one once its own start is over, and in a new tab of the first; everything
// ready; the steps of a slider.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import puppeteer from 'puppeteer-core';

const [, , file = '', rounds = '15'] = process.argv;

const folder = mkdtempSync(join(tmpdir(), 'haltwise-page-'));
const word = join(folder, 'word.html');
writeFileSync(word, '<!doctype html><html lang="en"><title>word</title><p>word</p></html>');

const launch = () =>
  puppeteer.launch({
    executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
    headless: true,
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
  });

/**
 * A tab that shows a file.
 * @param {import('puppeteer-core').Browser} browser
 * @param {string} path
 */
async function open(browser, path) {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(`file://${path}`);
  return page;
}

/**
 * When a page was first painted.
 * @param {import('puppeteer-core').Page} page
 */
async function painted(page) {
  const entry = () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime;
  await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0);
  return page.evaluate(entry);
}

/** A browser's own start goes on for about a second after it takes orders: pages of its own, databases. */
const OWN_START_MS = 3000;

/** First paint in a browser that has shown nothing yet, but has come to rest. */
async function paintedAtRest() {
  const browser = await launch();
  await new Promise((resolve) => setTimeout(resolve, OWN_START_MS));
  const paint = await painted(await open(browser, file));
  await browser.close();
  return paint;
}

/** Steps of the slider in each round. */
const STEPS = 96;

for (let round = 0; round < Number(rounds); round++) {
  const other = await launch();
  const wordPaint = await painted(await open(other, word));
  await other.close();
  const browser = await launch();
  const page = await open(browser, file);
  await page.waitForFunction(() => document.documentElement.dataset['ready'] === 'yes', { timeout: 60_000 });
  const ready = await page.evaluate(() => performance.now());
  const paint = await painted(page);
  const steps = await page.evaluate(async (count) => {
    const input = /** @type {HTMLInputElement} */ (document.getElementById('w-ceiling'));
    const last = Number(input.max);
    const times = [];
    for (let n = 0; n < count; n++) {
      // From the lowest ceiling to the highest and back.
      const place = n % (2 * last);
      input.value = String(place <= last ? place : 2 * last - place);
      const began = performance.now();
      input.dispatchEvent(new Event('input', { bubbles: true }));
      // What changed is laid out too.
      document.body.getBoundingClientRect();
      times.push(performance.now() - began);
      await new Promise((resolve) => requestAnimationFrame(resolve));
    }
    return times;
  }, STEPS);
  const again = await painted(await open(browser, file));
  await browser.close();
  const rested = await paintedAtRest();
  const paints = {
    first_paint_ms: paint,
    word_paint_ms: wordPaint,
    rested_paint_ms: rested,
    again_paint_ms: again,
  };
  console.log(JSON.stringify({ ...paints, ready_ms: ready, step_ms: steps }));
}
rmSync(folder, { recursive: true });
