// What a page shows: its sections, the numbers of its sliders against core's, the timeline, the tables.

import { nanos, share } from '../../src/html/page/number.js';

/** @typedef {import('puppeteer-core').Page} Page */
/** @typedef {import('../../src/html/page/data.js').Data} Data */
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
    return { poll: of('poll'), late: of('late'), cost: of('cost') };
  });
}

/**
 * The sliders show core's figures at every stop that is looked at, and the buttons lead to theirs.
 * @param {Page} page
 * @param {Complain} complain
 */
export async function numbers(page, complain) {
  const data = (await dataOf(page)).whatif;
  if (!data) return;
  const shapes = data.shapes.length;
  if (data.cells.length !== data.ceilings.length * shapes) complain('the grid has gaps');
  const named = Object.values(data.places).flatMap((place) => (place === null ? [] : [place]));
  if (named.length < 2) complain('what is in force or the default is not in the grid');
  const last = data.cells.length - 1;
  for (const place of new Set([...named, 0, Math.floor(last / 2), last])) {
    const cell = data.cells[place];
    if (!cell) continue;
    await set(page, Math.floor(place / shapes), place % shapes);
    const got = await said(page);
    const expected = {
      poll: share(cell.poll_cpu_percent / 100),
      late: nanos(cell.latency_mean_ns),
      cost: nanos(cell.cost_ns_per_halt),
    };
    for (const [name, value] of Object.entries(expected)) {
      const told = got[/** @type {keyof typeof expected} */ (name)];
      if (told !== value) complain(`sliders at ${JSON.stringify(cell.setting)}: ${name} ${told}, core says ${value}`);
    }
  }
  await weight(page, complain);
}

/**
 * Moves the sliders.
 * @param {Page} page
 * @param {number} ceiling
 * @param {number} shape
 */
async function set(page, ceiling, shape) {
  await page.evaluate(
    (all) => {
      for (const [id, place, event] of all) {
        const input = /** @type {HTMLInputElement | null} */ (document.getElementById(String(id)));
        if (!input || input.value === String(place)) continue;
        input.value = String(place);
        input.dispatchEvent(new Event(String(event), { bubbles: true }));
      }
    },
    [
      ['w-ceiling', ceiling, 'input'],
      ['w-shape', shape, 'change'],
    ],
  );
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
  if (none.poll !== before.poll || none.late !== before.late) complain('the weight changes what came of a setting');
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
 * Zooming in from the whole recording ends at single halts, whatever was kept of it, with ticks that differ; a
 * pointer is told what is below it.
 * @param {Page} page
 * @param {Complain} complain
 */
export async function timelineValues(page, complain) {
  if (!(await page.$('#zoom .presets')) || !(await dataOf(page)).sample) return;
  const seen = await page.evaluate(() => {
    const buttons = [...document.querySelectorAll('#zoom button')];
    const press = (/** @type {string} */ text) =>
      /** @type {HTMLButtonElement | undefined} */ (buttons.find((one) => one.textContent === text))?.click();
    press('whole');
    for (let n = 0; n < 12; n++) press('+');
    const ticks = [...document.querySelectorAll('.lane-ticks span')].map((one) => one.textContent);
    const lane = document.querySelector('#lanes svg');
    const box = lane?.getBoundingClientRect();
    lane?.dispatchEvent(new PointerEvent('pointermove', { clientX: (box?.left ?? 0) + 5 }));
    const said = lane?.querySelector('title')?.textContent ?? '';
    const kept = document.querySelectorAll('.lane-axis .kept').length;
    press('whole');
    return { ticks, said, kept };
  });
  if (seen.kept === 0) complain('zooming in ends where no halt is in the file');
  if (new Set(seen.ticks).size !== seen.ticks.length) complain(`ticks are ${seen.ticks}`);
  if (!/: \S/.test(seen.said)) complain(`a lane says ${seen.said} under the pointer`);
}

/**
 * A click on a box of the flame graph makes it as wide as the figure; a search marks boxes and says their share.
 * @param {Page} page
 * @param {Complain} complain
 */
export async function flameGraph(page, complain) {
  if (!(await page.$('.flame svg'))) return;
  const seen = await page.evaluate(() => {
    const figure = /** @type {SVGSVGElement} */ (document.querySelector('.flame svg'));
    const boxes = [...figure.querySelectorAll('rect')];
    const width = (/** @type {Element | undefined} */ box) => Number(box?.getAttribute('width'));
    const whole = figure.viewBox.baseVal.width;
    const narrow = boxes.find((box) => width(box) < whole / 3);
    const before = boxes.map(width);
    narrow?.dispatchEvent(new MouseEvent('click'));
    const zoomed = width(narrow);
    const hidden = boxes.filter((box) => box.getAttribute('visibility') === 'hidden').length;
    const input = /** @type {HTMLInputElement} */ (document.getElementById('flame-find'));
    const name = (narrow?.querySelector('title')?.textContent ?? '').replace(/: [^:]*$/, '');
    input.value = name;
    input.dispatchEvent(new Event('input'));
    const marked = figure.querySelectorAll('.found').length;
    const said = document.querySelector('#flame-search span')?.textContent ?? '';
    /** @type {HTMLButtonElement | null} */ (document.querySelector('#flame-search button'))?.click();
    const back = boxes.every((box, n) => Math.abs(width(box) - (before[n] ?? 0)) < 0.2);
    input.value = '';
    input.dispatchEvent(new Event('input'));
    return { narrow: Boolean(narrow), zoomed, whole, hidden, marked, said, back };
  });
  if (!seen.narrow) return;
  if (Math.abs(seen.zoomed - seen.whole) > 0.2 || seen.hidden === 0) complain('the flame graph does not zoom');
  if (seen.marked === 0 || !/^\d+ boxes, .* of the samples$/.test(seen.said)) complain(`a search says ${seen.said}`);
  if (!seen.back) complain('the flame graph does not zoom out');
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
  if (wanted.includes('whatif') && wanted.includes('timeline') && !(await page.$('#front circle'))) complain('without script there is no front');
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
