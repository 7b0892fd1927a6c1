// How fast a page is: `node bench.mjs FILE [ROUNDS]`. Opens it anew in each round and prints one line of
// JSON for each: first paint, everything ready, and the steps of a slider, in milliseconds.

import puppeteer from 'puppeteer-core';

const [, , file = '', rounds = '15'] = process.argv;

/** Steps of the slider in each round. */
const STEPS = 96;

for (let round = 0; round < Number(rounds); round++) {
  const browser = await puppeteer.launch({
    executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
    headless: true,
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
  });
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(`file://${file}`);
  await page.waitForFunction(() => document.documentElement.dataset['ready'] === 'yes', { timeout: 60_000 });
  const ready = await page.evaluate(() => performance.now());
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN);
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
  console.log(JSON.stringify({ first_paint_ms: paint, ready_ms: ready, step_ms: steps }));
  await browser.close();
}
