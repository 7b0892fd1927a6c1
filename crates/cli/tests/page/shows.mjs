// What a page shows: its sections, the numbers of its sliders against core's, the timeline, the tables.

import { unpackSample } from '../../src/html/page/sample.js';
import { nanos, share } from '../../src/html/page/number.js';
import { percentile } from '../../src/html/page/replay.js';
import { Replay, TIMES } from '../../src/html/page/whatif.js';

/** @typedef {import('puppeteer-core').Page} Page */
/** @typedef {import('../../src/html/page/data.js').Data} Data */
/** @typedef {import('../../src/html/page/data.js').Point} Point */
/** @typedef {(text: string) => void} Complain */

/**
 * Every section is there, has a heading and something below it; nothing jumps.
 * @param {Page} page
 * @param {string[]} wanted
 * @param {Complain} complain
 */
export async function sections(page, wanted, complain) {
  const found = await page.evaluate(() =>
    [...document.querySelectorAll('main > section')].map((one) => ({
      id: one.id,
      height: one.getBoundingClientRect().height,
      title: one.querySelector('h1, h2')?.textContent ?? '',
    })),
  );
  const ids = found.map((one) => one.id);
  for (const id of wanted) if (!ids.includes(id)) complain(`no section ${id}`);
  for (const id of ids) if (!wanted.includes(id)) complain(`an unexpected section ${id}`);
  for (const one of found) if (one.height < 40 || !one.title) complain(`section ${one.id} is empty`);
  const jumps = await page.evaluate(
    () =>
      new Promise((resolve) => {
        let sum = 0;
        const seen = new PerformanceObserver((list) => {
          for (const entry of list.getEntries()) sum += /** @type {any} */ (entry).value;
        });
        seen.observe({ type: 'layout-shift', buffered: true });
        // What has been seen is handed out before the frame after the next.
        requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => resolve(sum))));
      }),
  );
  if (Number(jumps) > 0.02) complain(`the page jumps by ${jumps}`);
}

/** The page's data. @param {Page} page @returns {Promise<Data>} */
async function dataOf(page) {
  return JSON.parse(await page.evaluate(() => document.getElementById('data')?.textContent ?? 'null'));
}

/** What the figures beside the sliders say. @param {Page} page */
async function said(page) {
  return page.evaluate(() => {
    const of = (/** @type {string} */ id) => document.querySelector(`#w-${id} b`)?.textContent ?? '';
    return { poll: of('poll'), late: of('late'), p99: of('p99'), cost: of('cost') };
  });
}

/**
 * The page's replay gives core's sums for every setting that core played on the same halts, and its
 * sliders and buttons show them.
 * @param {Page} page
 * @param {Complain} complain
 */
export async function numbers(page, complain) {
  const data = await dataOf(page);
  if (!data.play) return;
  const replay = new Replay(data.play, unpackSample(data));
  let shown = 0;
  for (const point of data.play.points) {
    const sums = sumsOf(replay, data, point);
    for (const name of /** @type {const} */ (['halts', 'blocks', 'poll', 'latency', 'halt'])) {
      if (sums[name] !== point[name]) complain(`${point.which}: ${name} is ${sums[name]}, core's ${point[name]}`);
    }
    if (percentile(sums, 0.99) !== point.p99) complain(`${point.which}: p99 is not core's ${point.p99}`);
    if (point.which === 'in-force' || !point.knobs || !(await set(page, point))) continue;
    shown += 1;
    const got = await said(page);
    const late = point.latency / Math.max(point.halts, 1);
    const expected = {
      poll: share(replay.percent(point) / 100),
      late: nanos(late),
      p99: nanos(point.p99),
      cost: nanos(replay.cost(point, data.play.cost.weight)),
    };
    for (const [name, value] of Object.entries(expected)) {
      const told = got[/** @type {keyof typeof got} */ (name)];
      if (told !== value) complain(`sliders at ${JSON.stringify(point.knobs)}: ${name} ${told}, core says ${value}`);
    }
  }
  if (shown === 0) complain('no point of core can be set with the sliders');
  await weight(page, complain);
}

/**
 * @param {Replay} replay
 * @param {Data} data
 * @param {Point} point
 */
function sumsOf(replay, data, point) {
  const play = /** @type {import('../../src/html/page/data.js').Play} */ (data.play);
  const knobs = point.knobs ?? play.inForce;
  const kind = point.which === 'clairvoyant' ? 'clairvoyant' : 'kvm';
  const each = replay.each({ kind, knobs, weight: play.cost.weight, caps: false }, false, point.which === 'in-force');
  const [first, ...rest] = each;
  if (!first) throw new Error('no vCPU can be played');
  for (const one of rest) first.add(one);
  return first;
}

/**
 * Moves the sliders; false where a value lies between two stops.
 * @param {Page} page
 * @param {Point} point
 * @returns {Promise<boolean>}
 */
async function set(page, point) {
  const to = /** @type {import('../../src/html/page/data.js').Knobs} */ (point.knobs);
  const stops = {
    'w-ceiling': TIMES.indexOf(to.ceiling),
    'w-grow-start': TIMES.indexOf(to.growStart),
    'w-grow': to.grow,
    'w-shrink': to.shrink,
  };
  return page.evaluate((all) => {
    const found = Object.entries(all).flatMap(([id, stop]) => {
      const input = /** @type {HTMLInputElement | null} */ (document.getElementById(id));
      return input ? [/** @type {const} */ ([input, stop])] : [];
    });
    if (found.some(([input, stop]) => stop < 0 || stop > Number(input.max))) return false;
    for (const [input, stop] of found) {
      if (input.value === String(stop)) continue;
      input.value = String(stop);
      input.dispatchEvent(new Event('input', { bubbles: true }));
    }
    return true;
  }, stops);
}

/**
 * A weight of 0 leaves CPU alone in the cost, and the keyboard moves the slider.
 * @param {Page} page
 * @param {Complain} complain
 */
async function weight(page, complain) {
  const before = await said(page);
  await page.focus('#w-weight');
  await page.keyboard.press('Home');
  const none = await said(page);
  if (none.poll !== before.poll || none.late !== before.late) complain('the weight changes what is played');
  for (let n = 0; n < 20; n++) await page.keyboard.press('ArrowRight');
  const most = await said(page);
  if (before.late !== '0 ns' && most.cost === none.cost) complain('the weight changes no cost');
  await page.evaluate(() =>
    /** @type {HTMLButtonElement | null} */ (document.querySelector('#controls button'))?.click(),
  );
}

/**
 * The timeline zooms by button and key down to single halts, and lists them.
 * @param {Page} page
 * @param {Complain} complain
 */
export async function timeline(page, complain) {
  if (!(await page.$('#zoom .presets'))) return;
  const seen = () =>
    page.evaluate(
      () =>
        `${document.querySelector('.view')?.textContent} ${document.querySelector('#lanes path')?.getAttribute('d')}`,
    );
  const press = (/** @type {string} */ text) =>
    page.evaluate((wanted) => {
      const all = [...document.querySelectorAll('#zoom button')];
      const found = all.find((one) => one.textContent === wanted);
      /** @type {HTMLButtonElement | undefined} */ (found)?.click();
    }, text);
  const whole = await seen();
  await press('+');
  if ((await seen()) === whole) complain('the timeline does not zoom');
  await page.focus('#lanes');
  await page.keyboard.press('Home');
  if ((await seen()) !== whole) complain('Home does not show the whole timeline');
  await press('single halts');
  const rows = await page.evaluate(async () => {
    const list = document.querySelector('.lane-ends')?.nextElementSibling;
    if (list instanceof HTMLDetailsElement) {
      const opened = new Promise((resolve) => list.addEventListener('toggle', resolve, { once: true }));
      list.open = true;
      await opened;
    }
    return list?.querySelectorAll('tbody tr').length ?? 0;
  });
  if (rows === 0) complain('no single halt is seen');
}

/**
 * The table of exits sorts and is searched.
 * @param {Page} page
 * @param {Complain} complain
 */
export async function exitsTable(page, complain) {
  if (!(await page.$('#exit-reasons'))) return;
  const names = () =>
    page.$$eval('#exit-reasons tbody tr:not([hidden]) th', (all) => all.map((one) => one.textContent));
  const before = await names();
  await page.click('#exit-reasons thead th:nth-child(4) button');
  const counts = await page.$$eval('#exit-reasons tbody td:nth-child(4)', (all) =>
    all.map((one) => Number(/** @type {HTMLElement} */ (one).dataset['v'])),
  );
  if (counts.some((count, n) => n > 0 && count > (counts[n - 1] ?? 0))) complain('exits do not sort by count');
  await page.click('#exit-reasons thead th:nth-child(1) button');
  await page.type('#exit-find', 'msr');
  const found = await names();
  if (found.length === 0 || found.length >= before.length || found.some((name) => !/msr/i.test(name ?? '')))
    complain(`a search for msr finds ${found}`);
  await page.evaluate(() => {
    const input = /** @type {HTMLInputElement} */ (document.getElementById('exit-find'));
    input.value = '';
    input.dispatchEvent(new Event('input'));
  });
}

/**
 * A number in a sentence opens what is behind it.
 * @param {Page} page
 * @param {Complain} complain
 */
export async function openLinks(page, complain) {
  const link = await page.$('#found .lead a.figure');
  if (!link) return;
  await link.click();
  const isSeen = page.waitForFunction(() => location.hash && document.querySelector(location.hash)?.checkVisibility(), {
    timeout: 5_000,
  });
  await isSeen.catch(() => complain('a number in the first sentence leads to nothing that is seen'));
}

/**
 * Without script there are the sections, their tables and their still figures, and nothing that needs it.
 * @param {Page} page
 * @param {string[]} wanted
 * @param {Complain} complain
 */
export async function noScript(page, wanted, complain) {
  for (const id of wanted) {
    const box = await (await page.$(`#${id}`))?.boundingBox();
    if (!box || box.height < 40) complain(`without script there is no ${id}`);
  }
  for (const id of ['controls', 'zoom', 'exit-search']) {
    const box = await (await page.$(`#${id}`))?.boundingBox();
    if (box) complain(`without script there is #${id}`);
  }
  if (wanted.includes('timeline') && !(await page.$('#front circle'))) complain('without script there is no front');
  if (wanted.includes('timeline') && !(await page.$('#lanes path'))) complain('without script there are no lanes');
}

/**
 * Times are those of the reader's zone.
 * @param {Page} page
 * @param {Complain} complain
 */
export async function zone(page, complain) {
  const times = await page.$$eval('header time', (all) => all.map((one) => one.textContent));
  for (const time of times) if (!time?.includes('9:00:00')) complain(`midnight in UTC is ${time} in Tokyo`);
}

/**
 * It prints, with everything open and nothing that one clicks.
 * @param {Page} page
 * @param {string} path where the print is left
 * @param {Complain} complain
 */
export async function printed(page, path, complain) {
  const pdf = await page.pdf({ format: 'A4', path });
  if (pdf.length < 20_000) complain('it prints as nothing');
  await page.emulateMediaType('print');
  const nav = await page.evaluate(() => document.querySelector('nav')?.checkVisibility());
  if (nav) complain('links are printed');
}
