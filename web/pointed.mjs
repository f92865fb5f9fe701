#!/usr/bin/env node
// The texts that the page shows under the pointer, at random places, against what the commands of the program print.
//   node pointed.mjs --bin BIN --modules DIR [--chromium PATH] [--seed N] [--places N] [WORD...]
// DIR is a folder node_modules with playwright-core. Of each kind of track 30 places are hovered and clicked at each of four
// zooms: states of threads and CPUs (`analyze states`), calls (`dump`), events and counters (`print`).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { bin, id, launch, option, rest, root, serve, words } from './browser.mjs';

const [seed, placesOfZoom] = [Number(option('seed') ?? 37), Number(option('places') ?? 30)];
const BROWSER = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-background-timer-throttling',
  '--disable-renderer-backgrounding',
];

/** Parts of the whole that a view shows. */
const ZOOMS = [1, 12, 150, 3000];
const PLACES_OF_VIEW = 10;
/** As in the page: the edges, lanes, and how far from a thing a place still means it. */
const [EDGE_PX, LANE_TOP_PX, LANE_PX, NEAR_EVENT_PX, NEAR_SLICE_PX] = [2, 3, 17, 5, 2];

// The truth.

const printed = (...words) =>
  execFileSync(bin, words, { cwd: root, maxBuffer: 1 << 28, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
    .trimEnd()
    .split('\n');

const STATES = {
  syscall: 'system call',
  'RUN/syscall': 'system call',
  irq: 'interrupt',
  INTERRUPTED: 'interrupt',
  WAIT_CPU: 'runnable',
  WAIT: 'blocked',
  WAIT_FORK: 'new',
  EXIT: 'exiting',
  ZOMBIE: 'zombie',
  SUSPENDED: 'suspended',
};

/** The states of each CPU, or of each thread, by track: ns, `to` behind the last one. */
function statesOf(trace, ofCpus) {
  const tracks = new Map();
  for (const line of printed('analyze', 'states', '--format', 'csv', '--quiet', trace).slice(1)) {
    const [cpu, from, to, tid, status, state] = line.split(',');
    const word = status || state;
    if ((cpu !== '') !== ofCpus || word === 'idle' || word === 'DEAD') continue;
    const id = ofCpus ? `s0.cpu${cpu}` : `s0.${tid}.0`;
    if (!tracks.has(id)) tracks.set(id, []);
    tracks.get(id).push({
      from: BigInt(from),
      to: BigInt(to),
      lane: ofCpus ? 1 : 0,
      name: STATES[word] ?? word.replace(/^RUN\//, ''),
    });
  }
  return tracks;
}

/** The calls of each thread, from its entries and exits. */
function callsOf(trace) {
  const tracks = new Map();
  const open = new Map();
  let id = null;
  for (const line of printed('dump', trace)) {
    if (/^reading \d+\.dat/.test(line)) id = `c${tracks.size}`;
    if (/^reading/.test(line) && !/^reading \d+\.dat/.test(line)) id = null;
    const found = id && /^(\d+)\.(\d{9}) +\d+: \[(entry|exit )\] (.*)\([0-9a-f]+\) depth: (\d+)$/.exec(line);
    if (!found) continue;
    const [, seconds, rest, kind, name, depth] = found;
    const [ns, lane] = [BigInt(seconds) * 1_000_000_000n + BigInt(rest), Number(depth)];
    if (!tracks.has(id)) {
      tracks.set(id, []);
      open.set(id, []);
    }
    if (kind === 'entry') {
      const call = { from: ns, to: null, lane, name };
      tracks.get(id).push(call);
      open.get(id)[lane] = call;
    } else if (open.get(id)[lane]) open.get(id)[lane].to = ns;
  }
  return tracks;
}

/** The events of a part of a trace that match, or their values. */
function eventsOf(trace, { stream = null, name: wanted = null, member = null } = {}) {
  const rows = printed('print', '--format', 'jsonl', ...(stream ? ['--stream', stream] : []), trace).map((line) =>
    JSON.parse(line.replace(/^\{"ns":(\d+)/, '{"ns":"$1"')),
  );
  return rows
    .filter(({ name }) => wanted === null || name === wanted)
    .map(({ ns, name, payload }) => ({ from: BigInt(ns), name: member === null ? name : String(payload[member]) }));
}

/** The things that may be under a time: the one there, else the nearest ones that look as if they were there. */
function pointed(kind, things, { at, from, to, lane }) {
  if (kind === 'counter') {
    const before = things.filter((t) => t.from <= at);
    return before.length ? [before[before.length - 1]] : [];
  }
  const own = things.filter((t) => kind === 'events' || t.lane === lane);
  if (kind !== 'events') {
    const here = own.filter((t) => t.from <= at && (t.to === null || at < t.to || (kind === 'calls' && t.from === at)));
    if (here.length) return [here[here.length - 1]];
  }
  const last = (t) => (kind === 'events' ? t.from : kind === 'state' ? t.to - 1n : t.to);
  const distance = (t) => (t.from > at ? t.from - at : last(t) < at ? at - last(t) : 0n);
  const near = own.filter((t) => t.from <= to && last(t) >= from);
  const least = near.reduce((best, t) => (best === null || distance(t) < best ? distance(t) : best), null);
  return near.filter((t) => distance(t) === least);
}

/** A length of time as the page writes it. */
function duration(ns) {
  for (const [unit, name] of [
    [1_000_000_000n, 's'],
    [1_000_000n, 'ms'],
    [1_000n, 'µs'],
  ])
    if (ns >= unit) return `${ns / unit}.${String(((ns * 1000n) / unit) % 1000n).padStart(3, '0')} ${name}`;
  return `${ns} ns`;
}

// The page.

/** The same trace as a page that holds its data. */
function filed(trace) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tracemill-pointed-'));
  printed('convert', '--to', 'html', '-o', path.join(folder, 'page.html'), '--quiet', trace);
  return { address: `file://${folder}/page.html#`, end: () => fs.rmSync(folder, { recursive: true, force: true }) };
}

async function open({ address }, link) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 1300 }, reducedMotion: 'reduce' });
  const page = await context.newPage();
  page.said = [];
  page.on('console', (m) => {
    if (['error', 'warning'].includes(m.type())) page.said.push(m.text());
  });
  page.on('pageerror', (e) => page.said.push(`exception: ${e.message}`));
  await page.goto(`${address}&fmt=ns&${link}`);
  await page.waitForFunction(() => /complete/.test(document.querySelector('.stat')?.textContent ?? ''), null, {
    timeout: 30_000,
  });
  await rest(page);
  return page;
}

const show = async (page, link, begin, end) => {
  await page.evaluate((hash) => {
    location.hash = hash;
  }, `fmt=ns&${link}&t=${begin}..${end}`);
  await rest(page);
};

const viewOf = (page) => page.$eval(id('timeline'), (t) => [t.dataset.begin, t.dataset.end].map(BigInt));
const boxOf = (page, selector) => page.locator(selector).boundingBox();

/** The time of a pixel, by the arithmetic of the page. */
function timeOf([begin, end], width, x) {
  const parts = 2 ** 52;
  const product = (end - begin) * BigInt(Math.round(((x - EDGE_PX) / (width - 2 * EDGE_PX)) * parts));
  const whole = product / BigInt(parts);
  return begin + (product < 0n && product % BigInt(parts) !== 0n ? whole - 1n : whole);
}

const pointerOf = (page) =>
  page.$eval('.stat', (s) => /Pointer (-?[\d\u202f]+)/.exec(s.textContent)?.[1].replace(/\u202f/g, '') ?? '');
const EXACT_TIP = '.cv .tip[data-exact="true"]';
const tipOf = (page) =>
  page.evaluate(() => {
    const tip = document.querySelector('.cv .tip');
    return tip && { exact: tip.dataset.exact === 'true', lines: [...tip.children].map((c) => c.textContent) };
  });

/** Of the same arithmetic each time. */
function random(start) {
  let state = start >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Compares what a tip says with the things that may be there; gives what is wrong. Where nothing is, something that is drawn with others as one block may be told. */
function wrongTip(kind, tip, expected) {
  if (expected.length === 0)
    return tip?.exact && kind === 'counter' ? `a tip of ${tip.lines.join(' / ')} where nothing is` : null;
  if (!tip) return 'no tip';
  if (!tip.exact) return `a tip that knows only about: ${tip.lines.join(' / ')}`;
  const second = (t) =>
    kind === 'events'
      ? String(t.from).replace(/\B(?=(\d{3})+$)/g, '\u202f')
      : t.to === null
        ? 'its end is not recorded'
        : duration(t.to - t.from);
  const fits = (t) =>
    kind === 'counter'
      ? Number(tip.lines[0].split(' ')[0]) === Number(t.name)
      : tip.lines[0] === t.name && tip.lines[1].replace(/ ns$/, '') === second(t).replace(/ ns$/, '');
  return expected.some(fits) ? null : `a tip of ${tip.lines.join(' / ')}`;
}

/** Compares what a click chose. */
async function wrongChoice(page, kind, expected, at) {
  if (kind === 'counter') {
    const found = await page
      .waitForFunction((cursor) => new URL(location.href).hash.includes(`cur=${cursor}`), String(at), { timeout: 3000 })
      .catch(() => null);
    return found ? null : `the cursor is not at ${at}: ${new URL(page.url()).hash}`;
  }
  if (expected.length === 0) return null;
  const chosen = await page.$eval(id('details'), (d) => {
    const line = (label) =>
      d.querySelector(`dt[title="${label}"] + dd`)?.textContent.replace(/[\u202f ]|ns/g, '') ?? '';
    return { name: d.querySelector('h2')?.textContent ?? '', ns: d.dataset.ns, begin: line('begin'), end: line('end') };
  });
  const ends = (t) => chosen.begin === String(t.from) && chosen.end === (t.to === null ? 'notrecorded' : String(t.to));
  return expected.some((t) => chosen.name === t.name && (kind === 'events' ? chosen.ns === String(t.from) : ends(t)))
    ? null
    : `chosen ${JSON.stringify(chosen)}`;
}

/** Hovers and clicks places of the tracks of a kind. */
async function places({ name, kind, source, link = '', truth, places: count = placesOfZoom }) {
  const page = await open(source, link);
  const rnd = random(seed + name.length * 7919);
  const whole = await viewOf(page);
  const ids = [...truth.keys()];
  const wrong = [];
  let [tried, known] = [0, 0];
  for (const zoom of ZOOMS) {
    for (let left = count; left > 0; left -= PLACES_OF_VIEW) {
      // Around something, so that narrow views are not empty.
      const of = truth.get(ids[rnd(ids.length)]);
      const thing = of[rnd(of.length)];
      const span = (whole[1] - whole[0]) / BigInt(zoom);
      const begin = zoom === 1 ? whole[0] : thing.from - (span * BigInt(1 + rnd(98))) / 100n;
      await show(page, link, begin, begin + span);
      const view = await viewOf(page);
      const canvas = await boxOf(page, id('canvas'));
      for (let i = 0; i < Math.min(left, PLACES_OF_VIEW); i++) {
        const track = ids[rnd(ids.length)];
        const things = truth.get(track);
        const row = await boxOf(page, `${id('track')}[data-track="${track}"]`);
        const lane = kind === 'calls' ? rnd(1 + Math.max(...things.map((t) => t.lane))) : (things[0].lane ?? 0);
        const [x, y] = [
          4 + rnd(canvas.width - 8),
          row.y + (kind === 'state' || kind === 'calls' ? LANE_TOP_PX + lane * LANE_PX + 8 : row.height / 2),
        ];
        const near = kind === 'events' || kind === 'counter' ? NEAR_EVENT_PX : NEAR_SLICE_PX;
        const place = {
          lane,
          at: timeOf(view, canvas.width, x),
          from: timeOf(view, canvas.width, x - near),
          to: timeOf(view, canvas.width, x + near),
        };
        const expected = pointed(kind, things, place);
        await page.mouse.move(canvas.x + x, y);
        // Shown after 150 ms; an exact tip may take as long as its question.
        await rest(page, { ms: 160 });
        if (expected.length) await page.waitForSelector(EXACT_TIP, { timeout: 3000 }).catch(() => null);
        const says = `${track} at ${place.at}, zoom ${zoom}, expected ${expected.map((t) => `${t.name} ${t.from}..${t.to ?? ''}`).join(' or ') || 'nothing'}`;
        const [tip, time] = [await tipOf(page), await pointerOf(page)];
        // Rows of scheduling stand among the calls of a task, and are none of its functions.
        const isOfScheduler = kind === 'calls' && tip?.lines[0].startsWith('linux:');
        if (time !== String(place.at)) wrong.push(`${says}: the status line says ${time}`);
        const fault = isOfScheduler ? null : wrongTip(kind, tip, expected);
        if (fault) wrong.push(`${says}: ${fault}`);
        await page.mouse.click(canvas.x + x, y);
        await rest(page, { ms: 20 });
        const choice = isOfScheduler ? null : await wrongChoice(page, kind, expected, place.at);
        if (choice) wrong.push(`${says}: ${choice}`);
        if (String(await viewOf(page)) !== String(view)) {
          wrong.push(`${says}: a click moves the view`);
          await show(page, link, view[0], view[1]);
        }
        [tried, known] = [tried + 1, known + Number(expected.length > 0)];
      }
    }
  }
  assert.deepEqual(page.said, [], 'what the console says');
  await page.context().close();
  assert.deepEqual(wrong.slice(0, 6), [], `${wrong.length} of ${2 * tried} are wrong`);
  assert.ok(known > tried / 6, `only ${known} of ${tried} places have something`);
  return `${tried} places, something at ${known}`;
}

/** The thing under a pointer that does not move, while the view does. */
async function still({ source, truth }) {
  const page = await open(source, '');
  const canvas = await boxOf(page, id('canvas'));
  const track = 's0.520.0';
  const row = await boxOf(page, `${id('track')}[data-track="${track}"]`);
  const [x, y] = [301, row.y + LANE_TOP_PX + 8];
  await page.mouse.move(canvas.x + x, y);
  await rest(page, { ms: 200 });
  const wheel = (dx, dy, key) => async () => {
    if (key) await page.keyboard.down(key);
    await page.mouse.wheel(dx, dy);
    if (key) await page.keyboard.up(key);
  };
  const steps = [
    ['w', () => page.keyboard.press('w')],
    ['w again', () => page.keyboard.press('w')],
    ['d', () => page.keyboard.press('d')],
    ['a', () => page.keyboard.press('a')],
    ['D', () => page.keyboard.press('Shift+D')],
    ['s', () => page.keyboard.press('s')],
    ['Ctrl and the wheel', wheel(0, -120, 'Control')],
    ['the wheel sideways', wheel(90, 0)],
    ['0', () => page.keyboard.press('0')],
    ['back', () => page.goBack()],
    ['forward', () => page.goForward()],
    [
      'the address',
      () =>
        page.evaluate(() => {
          location.hash = 'fmt=ns&t=1795249870300000000..1795249870500000000';
        }),
    ],
    ['a narrower window', () => page.setViewportSize({ width: 1210, height: 1300 })],
  ];
  let before = '';
  for (const [what, run] of steps) {
    await run();
    await rest(page, { ms: 250 });
    const { width } = await boxOf(page, id('canvas'));
    const view = await viewOf(page);
    const [at, from, to] = [x, x - NEAR_SLICE_PX, x + NEAR_SLICE_PX].map((px) => timeOf(view, width, px));
    assert.equal(await pointerOf(page), String(at), `${what}: the time of the pointer`);
    // Another view can have another order: the busiest threads come first.
    const under = await page.$$eval(
      id('track'),
      (rows, py) =>
        rows.find((r) => {
          const box = r.getBoundingClientRect();
          return box.top <= py && py < box.bottom;
        })?.dataset.track,
      y,
    );
    assert.ok(truth.has(under), `${what}: a thread is under the pointer, not ${under}`);
    const expected = pointed('state', truth.get(under), { at, from, to, lane: 0 });
    if (expected.length) await page.waitForSelector(EXACT_TIP, { timeout: 3000 }).catch(() => null);
    assert.equal(wrongTip('state', await tipOf(page), expected), null, what);
    if (['w', 'd', 'a', 's', '0'].includes(what)) assert.notEqual(String(view), before, `${what} changes the view`);
    before = String(view);
  }
  assert.deepEqual(page.said, [], 'what the console says');
  await page.context().close();
  return `${steps.length} ways`;
}

/** Events that a filter leaves out are not under the pointer; without it they are. */
async function filtered({ source, truth }) {
  const page = await open(source, '');
  const name = 'mill:grind';
  const [track, things] = [...truth].find(([, own]) => own.some((t) => t.name === name));
  const row = await boxOf(page, `${id('track')}[data-track="${track}"]`);
  const canvas = await boxOf(page, id('canvas'));
  const view = await viewOf(page);
  const own = things.filter((t) => t.name === name);
  assert.ok(own.length > 0 && own.length < things.length);
  for (let x = 200; x < 800; x += 61) {
    await page.mouse.move(canvas.x + x, row.y + row.height / 2);
    for (const filter of ['', `name == "${name}"`]) {
      await page.evaluate(
        (hash) => {
          location.hash = hash;
        },
        `fmt=ns&f=${encodeURIComponent(filter)}`,
      );
      await rest(page, { ms: 220 });
      const [at, from, to] = [x, x - NEAR_EVENT_PX, x + NEAR_EVENT_PX].map((px) => timeOf(view, canvas.width, px));
      const expected = pointed('events', filter ? own : things, { at, from, to });
      if (expected.length) await page.waitForSelector(EXACT_TIP, { timeout: 3000 }).catch(() => null);
      assert.equal(wrongTip('events', await tipOf(page), expected), null, `${filter} at ${at}`);
    }
  }
  await page.context().close();
  return 'with and without';
}

const browser = await launch(BROWSER);
const [BAKERY, TASTING, MILL] = ['demo/kernel/bakery', 'demo/calls/tasting', 'demo/traces/mill'];
const GRAMS = 'p.g0.mill-3Agrind.payload-2Egrams';
const sources = {
  kernel: await serve([BAKERY], 'ignore'),
  calls: await serve([TASTING], 'ignore'),
  events: await serve([MILL], 'ignore'),
  file: filed(BAKERY),
  callsFile: filed(TASTING),
};
const [threads, cpus, calls] = [statesOf(BAKERY, false), statesOf(BAKERY, true), callsOf(TASTING)];
const events = new Map(
  ['paper_0', 'paper_1', 'work_0', 'work_1'].map((stream, i) => [`b${i}`, eventsOf(MILL, { stream })]),
);
const grams = new Map([[GRAMS, eventsOf(MILL, { name: 'mill:grind', member: 'grams' })]]);
const checks = [
  ['states of threads', () => places({ name: 'threads', kind: 'state', source: sources.kernel, truth: threads })],
  ['states of CPUs', () => places({ name: 'cpus', kind: 'state', source: sources.kernel, truth: cpus })],
  ['calls', () => places({ name: 'calls', kind: 'calls', source: sources.calls, truth: calls })],
  ['events', () => places({ name: 'events', kind: 'events', source: sources.events, truth: events })],
  [
    'counters',
    () => places({ name: 'counters', kind: 'counter', source: sources.events, link: `plot=${GRAMS}`, truth: grams }),
  ],
  [
    'states of a page in a file',
    () => places({ name: 'file', kind: 'state', source: sources.file, truth: threads, places: 10 }),
  ],
  [
    'calls of a page in a file',
    () => places({ name: 'calls file', kind: 'calls', source: sources.callsFile, truth: calls, places: 10 }),
  ],
  ['a pointer that does not move', () => still({ source: sources.kernel, truth: threads })],
  ['a filter', () => filtered({ source: sources.events, truth: events })],
].filter(([name]) => words.length === 0 || words.some((w) => name.includes(w)));
let bad = 0;
// Most of the time is waited; a few at once take less of it.
const queue = [...checks];
const work = async () => {
  for (let next = queue.shift(); next; next = queue.shift()) {
    const [name, run] = next;
    try {
      console.log(`ok      ${name}: ${await run()}`);
    } catch (e) {
      bad++;
      console.log(`not ok  ${name}\n        ${e.message.split('\n').slice(0, 24).join('\n        ')}`);
    }
  }
};
await Promise.all([work(), work(), work()]);
await browser.close();
await Promise.all(Object.values(sources).map((source) => source.end()));
process.exit(bad ? 1 : 0);
