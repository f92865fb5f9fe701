#!/usr/bin/env node
// The page in a real browser, on the traces of demo/.
//   node page.mjs --bin BIN --modules DIR [--chromium PATH] [WORD...]
// DIR is a folder node_modules with playwright-core and axe-core; with WORDs only tests whose names hold one of them are run.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { bin, id, launch, pause, require, rest, root, serve, settled, words } from './browser.mjs';

const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const hash = async (page, key) => {
  await pause(page, 400);
  const part = new URL(page.url()).hash
    .slice(1)
    .split('&')
    .find((p) => p.startsWith(`${key}=`));
  return part === undefined ? null : decodeURIComponent(part.slice(key.length + 1));
};
const view = (page) => page.$eval(id('timeline'), (t) => [BigInt(t.dataset.begin), BigInt(t.dataset.end)].map(String));
const chosen = (page) => page.locator(id('details')).getAttribute('data-event');

/** Opens a page when all is counted; nothing may be said on its console, but what a test expects. */
async function open(server, link = '', more = {}) {
  const context = await browser.newContext({
    viewport: { width: 1440, height: 900 },
    reducedMotion: 'reduce',
    permissions: ['clipboard-read', 'clipboard-write'],
    bypassCSP: false,
    ...more,
  });
  const page = await context.newPage();
  page.said = [];
  page.on('console', (m) => {
    if (m.type() === 'error' || m.type() === 'warning') page.said.push(m.text());
  });
  page.on('pageerror', (e) => page.said.push(`exception: ${e.message}`));
  await page.goto(`${server.address}${link ? `&${link}` : ''}`);
  await page.waitForFunction(() => /complete/.test(document.querySelector('.stat')?.textContent ?? ''), null, {
    timeout: 30_000,
  });
  await rest(page);
  return page;
}

async function noViolation(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const r = await window.axe.run(document, {
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
    });
    return r.violations.map(
      (v) =>
        `${v.id}: ${v.help}; ${v.nodes
          .slice(0, 3)
          .map((n) => n.target.join(' '))
          .join(' | ')}`,
    );
  });
  assert.deepEqual(found, [], `axe, ${what}`);
}

const tests = [];
const test = (name, traces, link, run, more) => tests.push({ name, traces, link, run, more });
const MILL = ['demo/traces/mill'];

const bars = (page) =>
  page.$$eval('.bars [role=option]', (list) =>
    list.map((o) => Number(/^[\d\u202f]+/.exec(o.textContent)[0].replace(/\D/g, ''))),
  );
const filteredEvents = async (page) => Number(await page.locator(id('events')).getAttribute('aria-rowcount')) - 1;

test('bars and boxes of points are filters', MILL, 'tab=selection', async (page) => {
  await page.locator(`${id('name-row')}[data-name="mill:stage"]`).click();
  await page.locator('.bars[role=listbox]').waitFor();
  await rest(page);
  const counts = await bars(page);
  const names = Number(
    await page.locator(`${id('name-row')}[data-name="mill:stage"] [data-column=events]`).getAttribute('data-value'),
  );
  assert.equal(
    counts.reduce((a, b) => a + b, 0),
    names - 1,
    'a gap between each event and the next',
  );
  const widest = counts.indexOf(Math.max(...counts));
  const box = await page.locator('.bars[role=listbox]').boundingBox();
  const bar = Math.min(28, box.width / counts.length);
  await page.mouse.click(box.x + (widest + 0.5) * bar, box.y + 60);
  await rest(page);
  assert.match(await page.locator(id('filter')).inputValue(), /^name == "mill:stage" and ns in \(/);
  await page.locator(id('tab-events')).click();
  await rest(page);
  assert.equal(await filteredEvents(page), counts[widest], 'as many events as the bar says');
  await page.goBack();
  await page.locator(id('tab-selection')).click();
  await page.locator(`${id('name-row')}[data-name="mill:curve"]`).click();
  await pause(page, 300);
  await rest(page);
  const points = await page.locator('.points').boundingBox();
  const curves = (await bars(page)).reduce((a, b) => a + b, 0);
  await page.mouse.move(points.x + 1, points.y + 1);
  await page.mouse.down();
  await page.mouse.move(points.x + points.width - 1, points.y + points.height - 1, { steps: 4 });
  await page.mouse.up();
  await rest(page);
  await page.locator(id('tab-events')).click();
  await rest(page);
  assert.equal(await filteredEvents(page), curves, 'a box around all points');
});

test(
  'durations of calls: bars hold all of them, and one is a filter',
  ['demo/calls/tasting'],
  'tab=calls',
  async (page) => {
    await page.locator(`${id('call-row')}[data-name="usleep"]`).click();
    await page.locator(id('tab-selection')).click();
    await page.locator('.bars[role=listbox]').waitFor();
    await rest(page);
    const counts = await bars(page);
    const whole = Number(
      await page
        .locator(`${id('call-row')}[data-name="usleep"] [data-column=calls]`)
        .first()
        .getAttribute('data-value'),
    );
    assert.equal(
      counts.reduce((a, b) => a + b, 0),
      whole,
      'each call is in a bar',
    );
    await page.locator('.bars[role=listbox]').focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('Enter');
    await rest(page);
    assert.match(await page.locator(id('filter')).inputValue(), /^ns (in|==)/);
  },
);

/** A copy of a trace in which a part of a file cannot be read. */
const broken = fs.mkdtempSync(path.join(os.tmpdir(), 'tracemill-broken-'));
fs.cpSync(path.join(root, MILL[0]), broken, { recursive: true });
{
  const file = path.join(broken, 'work_0');
  const bytes = fs.readFileSync(file);
  bytes.fill(0xff, Math.floor(bytes.length * 0.4), Math.floor(bytes.length * 0.4) + 400);
  fs.writeFileSync(file, bytes);
}
process.on('exit', () => fs.rmSync(broken, { recursive: true, force: true }));

test('damage stands on its track, and in its words', [broken], '', async (page) => {
  const words = await page.$$eval(`${id('track')}[data-kind=events] [role=gridcell]`, (cells) =>
    cells.map((c) => c.textContent),
  );
  assert.equal(words.filter((w) => /\d places? damaged/.test(w)).length, 1, words.join(' | '));
  assert.match(await page.locator('.stat').innerText(), /damaged/);
  await page.locator(id('tab-problems')).click();
  await page
    .getByRole('button', { name: /^Show the damage/ })
    .first()
    .click();
  await rest(page);
});

test('the table as CSV has every row', MILL, '', async (page) => {
  const download = page.waitForEvent('download');
  await page.locator('button', { hasText: 'Export' }).click();
  await page.getByRole('menuitem', { name: 'Table of events, CSV' }).click();
  const lines = fs
    .readFileSync(await (await download).path(), 'utf8')
    .trimEnd()
    .split('\n');
  assert.equal(lines[0], 'event,ns,since,name,cpu,trace,track,text');
  const printed = execFileSync(bin, ['print', '--format', 'jsonl', ...MILL], {
    cwd: root,
    maxBuffer: 1 << 28,
    encoding: 'utf8',
  })
    .trimEnd()
    .split('\n');
  assert.equal(lines.length - 1, printed.length);
  for (const [i, line] of printed.entries()) {
    const { ns, name } = /"ns":"?(?<ns>\d+)"?.*?"name":"(?<name>[^"]*)"/.exec(line).groups;
    const cells = lines[i + 1].split(',');
    assert.deepEqual([cells[0], cells[1], cells[3]], [String(i), ns, name]);
  }
});

test('tables by keys: names, and the way from them to the timeline', MILL, 'tab=selection', async (page) => {
  await page.locator('[role=grid][aria-label=Names]').focus();
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowUp');
  const name = await page.locator(`${id('name-row')}[aria-selected=true]`).getAttribute('data-name');
  await page.keyboard.press('Enter');
  await rest(page);
  assert.notEqual(await chosen(page), '');
  assert.equal(await page.locator(`${id('details')} h2`).innerText(), name);
  await page.keyboard.press('Tab');
  await page.locator('.bars[role=listbox]').focus();
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  await rest(page);
  assert.match(await page.locator(id('filter')).inputValue(), /ns (in|==)/);
});

test('go to: two times are shown, or selected', MILL, '', async (page) => {
  const [begin] = await view(page);
  const at = (ms) => String(BigInt(begin) + BigInt(ms) * 1_000_000n);
  await page.locator(id('timeline')).focus();
  await page.keyboard.press('g');
  await page.locator(id('goto')).fill('+10ms..+20ms');
  await page.keyboard.press('Enter');
  await rest(page);
  assert.deepEqual(await view(page), [at(10), at(20)]);
  await page.keyboard.press('g');
  await page.locator(id('goto')).fill('+12ms..+15ms');
  await page.keyboard.press('Shift+Enter');
  await rest(page);
  assert.equal(await hash(page, 'sel'), `${at(12)}..${at(15)}`);
  assert.deepEqual(await view(page), [at(10), at(20)]);
});

test('labels are dragged, and the link keeps their order', MILL, '', async (page) => {
  const order = () => page.$$eval(`${id('track')}[data-kind=events]`, (list) => list.map((r) => r.dataset.track));
  const before = await order();
  const from = await page.locator(`[data-track=${before[0]}] .nm`).boundingBox();
  const to = await page.locator(`[data-track=${before[2]}]`).boundingBox();
  await page.mouse.move(from.x + 4, from.y + 6);
  await page.mouse.down();
  await page.mouse.move(from.x + 4, to.y + to.height - 4, { steps: 8 });
  await page.mouse.up();
  await rest(page);
  const wanted = [before[1], before[2], before[0], ...before.slice(3)];
  assert.deepEqual(await order(), wanted);
  assert.equal(await hash(page, 'up'), wanted.join(','));
  await page.reload();
  await rest(page);
  assert.deepEqual(await order(), wanted);
  await page.locator(`[data-track=${wanted[0]}]`).focus();
  await page.keyboard.press('Alt+ArrowDown');
  await rest(page);
  assert.deepEqual((await order()).slice(0, 2), [wanted[1], wanted[0]]);
});

test('a command that is copied prints what is selected', MILL, 'tab=selection', async (page) => {
  const tracks = await page.$$eval(`${id('track')}[data-kind=events]`, (list) => list.map((r) => r.dataset.track));
  const [begin] = await view(page);
  const at = (ms) => String(BigInt(begin) + BigInt(ms) * 1_000_000n);
  await page.evaluate(
    (h) => {
      location.hash = h;
    },
    `sel=${at(50)}..${at(250)}&tr=${tracks[2]}&f=${encodeURIComponent('name == "mill:*" and cpu == 0')}&tab=selection`,
  );
  await rest(page);
  await pause(page, 200);
  await rest(page);
  const events = Number(await page.locator(id('selection')).getAttribute('data-events'));
  assert.ok(events > 10);
  await page.getByRole('button', { name: 'Export' }).click();
  await page.getByRole('menuitem', { name: 'Copy as command' }).click();
  let command = '';
  for (let tries = 0; tries < 100 && !/^tracemill/.test(command); tries++) {
    await pause(page, 100);
    command = await page.evaluate(() => navigator.clipboard.readText());
  }
  assert.match(command, /^tracemill print --begin \d+ns --end \d+ns --filter /);
  const lines = execFileSync('sh', ['-c', command.replace(/^tracemill/, '"$BIN"')], {
    cwd: root,
    encoding: 'utf8',
    env: { ...process.env, BIN: bin },
  })
    .trim()
    .split('\n');
  assert.equal(lines.length, events, command);
});

test('chasing a value orders the tracks of a trace', MILL, 'ev=700', async (page) => {
  await page.locator(id('timeline')).focus();
  await page.keyboard.press('Home');
  const field = page.locator(`${id('details')} ${id('field')}`).first();
  await field.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('menuitem', { name: 'Chase' }).click();
  await rest(page);
  await page.waitForFunction(
    () => /order of their first|No track has/.test(document.querySelector('[data-testid=announce]')?.textContent ?? ''),
    null,
    { timeout: 20_000 },
  );
});

test('states of threads are chosen as calls are', ['demo/kernel/bakery'], '', async (page) => {
  const track = page.locator(`${id('track')}[data-kind=state]`, { hasText: 'grind 700' });
  const row = await track.boundingBox();
  const canvas = await page.locator(id('canvas')).boundingBox();
  let found = false;
  for (let share = 0.2; share < 0.9 && !found; share += 0.1) {
    await page.mouse.click(canvas.x + canvas.width * share, row.y + 10);
    await rest(page);
    found = (await page.locator(`${id('details')} .sub`).allInnerTexts()).some((t) => t.startsWith('State of'));
  }
  assert.ok(found, 'a click on a state chooses it');
  const at = await hash(page, 'at');
  assert.match(at, /:\d+:\d+$/);
  await page.locator(id('timeline')).focus();
  await page.keyboard.press('.');
  await rest(page);
  assert.notEqual(await hash(page, 'at'), at, 'the next state');
  assert.equal(await page.locator('.tip').count(), 1, 'what the pointer would show stands beside what a key chose');
  await page.keyboard.press('r');
  await rest(page);
  assert.notEqual(await hash(page, 'sel'), null);
  await page.reload();
  await rest(page);
  assert.match(await page.locator(`${id('details')} .sub`).innerText(), /^State of/);
});

test('the flame graph of samples', ['demo/samples/bakery.data'], 'tab=flame', async (page) => {
  const choice = page.locator(id('flame-event'));
  assert.deepEqual(await choice.locator('option').allInnerTexts(), ['sched_switch', 'cpu-clock/period=4000000/']);
  const total = () =>
    page
      .locator(`${id('flame-frame')}[data-name=day] td`)
      .nth(2)
      .textContent();
  assert.equal(await total(), '53 events');
  await choice.selectOption('cpu-clock/period=4000000/');
  await rest(page);
  assert.match(await total(), /^120.000/);
  assert.equal(await page.locator(id('tab-calls')).count(), 0);
});

test('the flame graph by keys', ['demo/calls/tasting'], 'tab=flame', async (page) => {
  await page.locator('.flamebox').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  const name = await page.locator('.flamebox .tip b').innerText();
  await page.keyboard.press('Enter');
  await rest(page);
  await page.keyboard.press('ArrowUp');
  assert.notEqual(await page.locator('.flamebox .tip b').innerText(), name);
  await page.keyboard.press('Backspace');
});

test('signs are keys only as long as they shall be', MILL, '', async (page) => {
  await page.locator(id('timeline')).focus();
  await page.keyboard.press('?');
  await page.getByRole('checkbox', { name: 'Single letters are keys' }).uncheck();
  await page.keyboard.press('Escape');
  const before = await view(page);
  for (const key of ['w', '?', '/', 'F']) await page.keyboard.press(key);
  await rest(page);
  assert.deepEqual(await view(page), before);
  assert.equal(await page.locator('dialog').count(), 0);
});

test('group by: tracks by value hold the events of the streams', MILL, '', async (page) => {
  const numbers = (selector) =>
    page.$$eval(selector, (list) => list.map((e) => Number(e.textContent.replace(/\D/g, ''))));
  const all = (await numbers(`${id('track')}[data-kind=events] .n`)).reduce((a, b) => a + b, 0);
  for (const path of ['CPU', 'Name']) {
    await page
      .locator(`${id('track')}[data-kind=group]`)
      .first()
      .click({ button: 'right' });
    await page.getByRole('menuitem', { name: 'Group by' }).click();
    await page.getByRole('menuitem', { name: path, exact: true }).click();
    await page.waitForFunction(
      () => [...document.querySelectorAll('[data-kind=events]')].every((t) => t.dataset.track.startsWith('v.')),
      null,
      { timeout: 20_000 },
    );
    await rest(page);
    assert.equal(
      (await numbers(`${id('track')}[data-kind=events] .n`)).reduce((a, b) => a + b, 0),
      all,
      `by ${path}`,
    );
  }
  const first = page.locator(`${id('track')}[data-kind=events]`).first();
  const events = Number((await first.locator('.n').innerText()).replace(/\D/g, ''));
  await first.getByRole('checkbox').click();
  await page.locator(id('tab-selection')).click();
  await rest(page);
  assert.equal(
    await page
      .locator(`${id('name-row')} [data-column=events]`)
      .first()
      .getAttribute('data-value'),
    String(events),
  );
  await page.reload();
  await page.waitForFunction(() => document.querySelector('[data-track^="v."]'), null, { timeout: 20_000 });
});

for (const more of [
  { colorScheme: 'light' },
  { colorScheme: 'dark' },
  { forcedColors: 'active' },
  { viewport: { width: 720, height: 450 }, deviceScaleFactor: 2 },
]) {
  test(
    `axe finds nothing in any state, ${JSON.stringify(more)}`,
    MILL,
    'ev=700',
    async (page, server) => {
      assert.ok(
        await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1),
        'nothing scrolls sideways',
      );
      const menu = async (open, what) => {
        await open();
        await page.locator('[role=menu]').waitFor();
        await noViolation(page, what);
        await page.keyboard.press('Escape');
      };
      await noViolation(page, 'events');
      await menu(() => page.locator(id('track')).nth(1).click({ button: 'right' }), 'menu of a track');
      await menu(
        () =>
          page
            .locator(`${id('event-row')}`)
            .first()
            .click({ button: 'right' }),
        'menu of a row',
      );
      await menu(() => page.locator(id('field')).first().click({ button: 'right' }), 'menu of a field');
      for (const [key, dialog] of [
        ['g', 'goto-dialog'],
        ['Control+p', 'palette'],
        ['Control+Shift+P', 'palette'],
        ['m', 'bookmark-dialog'],
      ]) {
        await page.locator(id('timeline')).focus();
        await page.keyboard.press(key);
        await page.locator(id(dialog)).waitFor();
        await noViolation(page, dialog);
        await page.keyboard.press('Escape');
      }
      await page.locator(id('tab-events')).click();
      await page.getByRole('button', { name: 'Columns' }).click();
      await noViolation(page, 'columns');
      await page.keyboard.press('Escape');
      await page.locator(id('tab-selection')).click();
      await rest(page);
      for (const mode of ['Names', 'Between', 'Outliers']) {
        await page.getByRole('button', { name: mode, exact: true }).click();
        await rest(page);
        await noViolation(page, mode);
      }
      await page.locator(id('filter')).fill('nmae == 1');
      await page.keyboard.press('Enter');
      await page.locator(id('filter-error')).waitFor();
      await noViolation(page, 'a refused filter');
      await page.keyboard.press('Escape');
      await page.evaluate(() => {
        location.hash = `f=${encodeURIComponent('name == "mill:none"')}`;
      });
      await rest(page, { state: 'empty' });
      await noViolation(page, 'empty');
      await page.evaluate(() => {
        location.hash = '';
      });
      await rest(page);
      const lost = await page.context().newPage();
      await lost.goto(`${new URL(server.address).origin}/#token=${'x'.repeat(43)}`);
      await settled(lost, 'token');
      await noViolation(lost, 'token');
      await lost.close();
      page.said.length = 0;
    },
    more,
  );
}

test(
  'of the tracks that a link chose one is in sight, until somebody scrolls',
  ['demo/traces', 'demo/calls/tasting'],
  'tr=b13',
  async (page) => {
    const inSight = (track) => page.locator(`${id('track')}[data-track="${track}"]`).count();
    const chosenRows = () =>
      page.$$eval(`${id('track')}[aria-selected="true"]`, (list) => list.map((l) => l.dataset.track));
    assert.deepEqual(
      [await chosenRows(), await inSight('b0')],
      [['b13'], 0],
      'the last row of more than there is room for',
    );
    await page.evaluate(() => {
      location.hash = 'tr=b0';
    });
    await rest(page);
    assert.deepEqual([await chosenRows(), await inSight('b13')], [['b0'], 0], 'the address is changed by hand');
    await page.mouse.move(800, 300);
    await page.mouse.wheel(0, 100_000);
    await pause(page, 200);
    await page.setViewportSize({ width: 1440, height: 720 });
    await rest(page);
    assert.deepEqual([await chosenRows(), await inSight('b13')], [[], 1], 'who scrolls away is not taken back');
  },
  { viewport: { width: 1440, height: 700 } },
);

const DEMO = ['demo'];
const names = (page, selector, attribute) =>
  page.$$eval(selector, (list, a) => list.map((e) => e.getAttribute(a)), attribute);

test('traces whose clocks cannot be compared begin together, with words that say so', DEMO, '', async (page) => {
  const [begin, end] = (await view(page)).map(BigInt);
  assert.ok(end - begin < 10_000_000_000n, `${end - begin} ns and not years`);
  const label = page.locator(`${id('track')}[data-kind="group"]`, { hasText: 'tasting' });
  assert.match(await label.textContent(), /clocks cannot be compared: aligned at its begin with that of dock.elog/);
  await page.locator(id('tab-problems')).click();
  assert.match(await page.locator(id('problems')).textContent(), /cannot be compared .* aligned at their begins/);
  // The selection of what is in view of it counts all of it.
  await page.locator(id('tab-selection')).click();
  await page.evaluate(() => {
    location.hash = 'tr=g0&tab=selection';
  });
  await rest(page);
  const session = await page.evaluate(async () =>
    (
      await fetch('/api/session', { headers: { Authorization: `Bearer ${localStorage.getItem('tracemill.token')}` } })
    ).json(),
  );
  const aligned = session.traces[0];
  await page.evaluate(({ begin: from, end: to }) => {
    location.hash = `tr=g0&tab=selection&sel=${from}..${to}`;
  }, aligned);
  await rest(page);
  assert.equal(Number(await page.locator(id('selection')).getAttribute('data-events')), aligned.events);
  // A time that is typed is one of the axis.
  await page.keyboard.press('Escape');
  await page.locator(id('timeline')).focus();
  await page.keyboard.press('g');
  await page.locator(id('goto')).fill(`${aligned.begin}ns`);
  await page.keyboard.press('Enter');
  await rest(page);
  assert.equal(await hash(page, 'cur'), aligned.begin);
  await noViolation(page, 'aligned');
});

test('a legend has the states that occur, and goes to them', ['demo/kernel/bakery'], '', async (page) => {
  const shown = await names(page, `${id('legend')} [data-state]`, 'data-state');
  assert.deepEqual(shown, [
    'user',
    'system call',
    'interrupt',
    'softirq',
    'runnable',
    'blocked',
    'new',
    'zombie',
    'kernel',
    'exiting',
    'unknown',
    'idle',
  ]);
  await page.locator(`${id('legend')} [data-state="zombie"]`).click();
  await rest(page);
  assert.match(await page.locator(id('details')).textContent(), /^zombie/);
  await noViolation(page, 'a legend');
});

test('traces without states have no legend', MILL, '', async (page) => {
  assert.equal(await page.locator(id('legend')).count(), 0);
});

test(
  'the threads that ran in view come first, the busiest above',
  ['demo/kernel/bakery'],
  '',
  async (page) => {
    await pause(page, 600);
    await rest(page);
    const rows = () => names(page, `${id('tracks')} [data-track]`, 'data-track');
    const whole = await rows();
    const heading = whole.indexOf('active.g0');
    assert.deepEqual(whole.slice(heading, heading + 4), ['active.g0', 's0.700.0', 's0.641.0', 's0.642.0']);
    assert.match(await page.locator(`${id('track-heading')}[data-track="active.g0"]`).textContent(), /Active in view/);
    // Where nothing but CPU 0 works the order is another one.
    await page.evaluate(() => {
      location.hash = 't=1795249870510500000..1795249870512500000';
    });
    await pause(page, 600);
    await rest(page);
    const near = await rows();
    assert.notDeepEqual(near.slice(near.indexOf('active.g0')), whole.slice(heading));
    await noViolation(page, 'headings');
  },
  { viewport: { width: 1440, height: 1000 } },
);

test('search finds threads, CPUs and states', ['demo/kernel/bakery'], '', async (page) => {
  const options = () => page.$$eval(`${id('search-options')} [role=option]`, (list) => list.map((o) => o.textContent));
  await page.locator(id('search')).fill('oven');
  await page
    .locator(`${id('search-options')} [role=option]`)
    .first()
    .waitFor();
  assert.deepEqual(await options(), ['oven-1 641thread', 'oven-2 642thread', 'oven-log 643thread']);
  await noViolation(page, 'what the search finds');
  await page.locator(id('search')).fill('643');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await rest(page);
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('data-track')), 's0.643.0');
  await page.locator(id('search')).fill('CPU 1');
  await pause(page, 250);
  assert.deepEqual(await options(), ['CPU 1CPU']);
  // Enter goes to states where no event is called so.
  await page.locator(id('search')).fill('runnable');
  await page.keyboard.press('Enter');
  await rest(page);
  assert.match(await page.locator(id('details')).textContent(), /^runnable/);
  const first = await hash(page, 'cur');
  await page.locator(id('search')).focus();
  await page.keyboard.press('Enter');
  await rest(page);
  const second = await hash(page, 'cur');
  assert.ok(BigInt(second) > BigInt(first), `${first} and then ${second}`);
  await page.locator(id('search')).focus();
  await page.keyboard.press('Shift+Enter');
  await rest(page);
  assert.equal(await hash(page, 'cur'), first);
});

test('the selection has statistics of states', ['demo/kernel/bakery'], 'tr=s0.641.0&tab=selection', async (page) => {
  await page.locator(id('state-row')).first().waitFor();
  await rest(page);
  const cell = (of, name, column) =>
    page
      .locator(`${id('state-row')}[data-of="${of}"][data-name="${name}"] [data-column=${column}]`)
      .getAttribute('data-value');
  assert.deepEqual(await Promise.all(['count', 'total', 'p50', 'max'].map((c) => cell('thread', 'blocked', c))), [
    '27',
    '506517543',
    '22447098',
    '31041897',
  ]);
  // Of all tracks they stand beside the names.
  await page.evaluate(() => {
    location.hash = 'tab=selection';
  });
  await rest(page);
  assert.equal(await page.locator(id('state-row')).count(), 0);
  await page.getByRole('button', { name: 'States', exact: true }).click();
  assert.ok((await page.locator(id('state-row')).count()) > 20);
  await page.evaluate(() => {
    location.hash = 'tr=s0.cpu0,s0.cpu1&tab=selection';
  });
  await rest(page);
  const totals = await names(page, `${id('state-row')}[data-of="cpu"] [data-column=total]`, 'data-value');
  assert.equal(
    totals.reduce((sum, t) => sum + BigInt(t), 0n),
    2n * 571_483_448n,
    'CPUs are in some state all the time',
  );
  await noViolation(page, 'statistics of states');
});

test('the ruler says what its labels count from', ['demo/kernel/bakery'], '', async (page) => {
  const base = page.locator(id('ruler-base'));
  assert.deepEqual(
    [await base.textContent(), await base.getAttribute('data-ns')],
    ['0 is on 2026-11-21 at08:31:10.250020000 UTC', '1795249870250020000'],
  );
  await page.evaluate(() => {
    location.hash = 't=1795249870400000123..1795249870400000923';
  });
  await rest(page);
  const near = BigInt(await base.getAttribute('data-ns'));
  assert.ok(near > 1795249870250020000n && near <= 1795249870400000123n, String(near));
});

test('a clock without an epoch has a base too', ['demo/calls/tasting'], '', async (page) => {
  assert.match(
    await page.locator(id('ruler-base')).textContent(),
    /^0 is at the time7\u202f896\.529012739 s of the clock$/,
  );
});

const longNames = fs.mkdtempSync(path.join(os.tmpdir(), 'tracemill-names-'));
fs.cpSync(path.join(root, MILL[0]), longNames, { recursive: true });
fs.renameSync(path.join(longNames, 'work_0'), path.join(longNames, 'a_stream_that_has_a_long_name_of_its_own_0'));
fs.rmSync(path.join(longNames, 'index'), { recursive: true, force: true });

test(
  'the column of names is as wide as they need',
  [longNames],
  '',
  async (page) => {
    const cut = () =>
      page.$$eval(`${id('track')}[data-kind=events] .nm`, (list) =>
        list.filter((n) => n.scrollWidth > n.clientWidth).map((n) => n.textContent),
      );
    assert.deepEqual(await cut(), []);
    const divider = page.getByRole('separator', { name: 'Width of the labels' });
    const width = () => divider.getAttribute('aria-valuenow').then(Number);
    const wide = await width();
    await divider.focus();
    for (let i = 0; i < 8; i++) await page.keyboard.press('ArrowLeft');
    assert.equal(await width(), wide - 128);
    assert.equal((await cut()).length, 1);
    await divider.dblclick();
    assert.equal(await width(), wide, 'a double click gives it its own width');
  },
  { viewport: { width: 1440, height: 900 } },
);

const BAKERY = ['demo/kernel/bakery'];
/** The answer of the command to the same question; numbers that are too long for a number are texts. */
const analyzed = (...args) => {
  const options = { cwd: root, encoding: 'utf8', stdio: 'pipe' };
  const text = execFileSync(bin, ['analyze', ...args, '--format', 'json', ...BAKERY], options);
  return JSON.parse(text.replace(/:(\d{16,})(?=[,}])/g, ':"$1"'));
};
/** The exact values of the rows of the table of an analysis. */
const analysisRows = (page) =>
  page.$$eval('[data-testid=analysis-row]', (rows) =>
    rows.map((r) => Object.fromEntries([...r.children].map((c) => [c.dataset.column, c.dataset.value]))),
  );
/** Waits for the table of an analysis. */
const tableOf = async (page, name) => {
  await pause(page, 350);
  await page.waitForSelector(`${id('analyses')}[data-analysis="${name}"]`);
  await rest(page);
};
const LATE = 't=1795249870518000000..1795249870570000000&at=s0.641.0:1795249870528964707:0';

test('a wait says why, in the words of analyze, and its path is drawn', BAKERY, LATE, async (page) => {
  const part = page.locator(id('why-part'));
  await part.first().waitFor();
  const why = page.locator(id('why'));
  const [begin, end] = [await why.getAttribute('data-begin'), await why.getAttribute('data-end')];
  const wanted = analyzed('why', '--tid', '641', '--begin', `${begin}ns`, '--end', `${end}ns`);
  assert.deepEqual(
    await part.evaluateAll((list) => list.map((p) => [p.dataset.from, p.dataset.to, p.dataset.why])),
    wanted.rows.map((r) => [String(r.from), String(r.to), r.why]),
  );
  assert.match(await why.innerText(), /waiting for disk sda/);
  assert.ok((await why.innerText()).includes(wanted.sentences[0]));
  await noViolation(page, 'why');
  // A part goes to the thread that it is about.
  await part.first().click();
  await rest(page);
  assert.equal(await hash(page, 'cur'), begin);
  await page.locator(id('timeline')).focus();
  await page.keyboard.press('k');
  await page.waitForSelector(`${id('path')}[data-parts]:not([data-parts=""])`);
  const [from, to] = await view(page);
  const path = analyzed('why', '--tid', '641', '--begin', `${from}ns`, '--end', `${to}ns`);
  assert.equal(await page.locator(id('path')).getAttribute('data-parts'), String(path.rows.length));
  assert.deepEqual(
    await page.$$eval(id('path-total'), (list) => list.map((t) => [t.dataset.why, t.dataset.total])),
    path.totals.map((t) => [t.why, String(t.total_ns)]),
  );
  assert.equal(await hash(page, 'path'), `s0.641.0:${from}..${to}`);
  await noViolation(page, 'critical path');
  // A bar below the thread that the wait was for: its row has another colour there than without the path.
  const shot = async () => {
    await pause(page, 150);
    const row = await page.locator(`${id('track')}[data-track="s0.212.0"]`).boundingBox();
    const canvas = await page.locator(id('canvas')).boundingBox();
    const clip = { x: canvas.x + canvas.width * 0.6, y: row.y + row.height - 7, width: 40, height: 6 };
    return (await page.screenshot({ clip })).toString('base64');
  };
  const drawn = await shot();
  await page.getByRole('button', { name: 'Pin its threads' }).click();
  assert.equal((await hash(page, 'pin')).split(',').length, new Set(path.rows.map((r) => r.tid)).size);
  await page.goBack();
  await page.evaluate(() => {
    location.hash = location.hash.replace(/&?(pin|path|at)=[^&]*/g, '');
  });
  await rest(page);
  assert.equal(await page.locator(id('path')).count(), 0);
  assert.notEqual(await shot(), drawn);
});

test('tables of analyze follow the view and the selection', BAKERY, 'tab=analyses&an=syscalls', async (page) => {
  await tableOf(page, 'syscalls');
  const names = await page.locator(`${id('analysis-name')} option`).allInnerTexts();
  for (const name of ['cpu', 'sched', 'irq', 'syscalls', 'io', 'locks', 'why']) assert.ok(names.includes(name), name);
  const same = (rows, wanted) => {
    assert.equal(rows.length, wanted.length);
    rows.forEach((row, i) => {
      for (const [key, value] of Object.entries(row)) {
        const own = wanted[i][key];
        if (typeof own !== 'object')
          assert.equal(typeof own === 'number' ? Number(value) : value, own, `${key} of row ${i}`);
      }
    });
  };
  same(await analysisRows(page), analyzed('syscalls').rows);
  await noViolation(page, 'analyses');
  // A part of the time, and the threads that are selected.
  await page.evaluate(() => {
    location.hash += '&sel=1795249870300020000..1795249870600020000&tr=s0.641.0';
  });
  await tableOf(page, 'syscalls');
  const range = ['--begin', '1795249870300020000ns', '--end', '1795249870600020000ns'];
  same(await analysisRows(page), analyzed('syscalls', '--tid', '641', ...range).rows);
  // The head of a column sorts.
  await page.locator(`${id('analyses')} th button`, { hasText: /^count$/ }).click();
  await tableOf(page, 'syscalls');
  same(await analysisRows(page), analyzed('syscalls', '--tid', '641', '--sort', 'count', ...range).rows);
  await page.locator(id('analysis-rows')).selectOption({ label: 'by errno' });
  await tableOf(page, 'syscalls');
  same(await analysisRows(page), analyzed('syscalls', '--by', 'errno', '--tid', '641', ...range).rows);
  // A row of a list leads to its place.
  await page.locator(id('analysis-log')).click();
  await tableOf(page, 'syscalls');
  const rows = await analysisRows(page);
  same(rows, analyzed('syscalls', '--log', '--tid', '641', ...range).rows);
  await page.locator(id('analysis-row')).nth(3).click();
  await rest(page);
  assert.match(await hash(page, 'at'), /^s0\.641\.0:/);
  // One that is about one thread takes the selected one.
  await page.locator(id('analysis-name')).selectOption('why');
  await tableOf(page, 'why');
  const why = analyzed('why', '--tid', '641', ...range);
  assert.deepEqual(
    (await analysisRows(page)).map((r) => [r.from, r.why]),
    why.rows.map((r) => [String(r.from), r.why]),
  );
  assert.ok((await page.locator(id('analyses')).innerText()).includes(why.sentences[0]));
  assert.equal(await page.locator(`${id('analyses')} th`, { hasText: /^through$/ }).count(), 0, 'words say it');
  await noViolation(page, 'why of a thread');
});

test('durations over time lead to their places', BAKERY, 'tab=analyses&an=sched///points', async (page) => {
  await tableOf(page, 'sched');
  const spans = analyzed('sched', '--log').rows;
  const over = page.locator(id('over-time'));
  assert.equal(await over.getAttribute('data-points'), String(spans.length));
  const heat = page.locator(id('heat'));
  assert.equal(await heat.getAttribute('data-count'), String(spans.length));
  assert.equal(
    (await bars(page)).reduce((a, b) => a + b, 0),
    spans.length,
  );
  await noViolation(page, 'over time');
  // The longest wait is alone at the top: a click goes to its thread and its time.
  const longest = spans.reduce((a, b) => (a.latency_ns > b.latency_ns ? a : b));
  const box = await page.locator('canvas.points').boundingBox();
  const [first, last] = await view(page);
  const share = Number(BigInt(longest.wake_ns) - BigInt(first)) / Number(BigInt(last) - BigInt(first));
  await page.mouse.click(box.x + 4 + share * (box.width - 8), box.y + 14);
  await rest(page);
  const [track, at] = (await hash(page, 'at')).split(':');
  assert.equal(track, `s0.${longest.tid}.0`);
  assert.equal(at, longest.wake_ns);
  assert.match(
    await page
      .locator(`${id('details')} h2`)
      .first()
      .innerText(),
    /runnable/,
  );
  // A cell of the map selects the time of its column.
  await heat.focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  await rest(page);
  const [begin, end] = (await hash(page, 'sel')).split('..').map(BigInt);
  const column = (BigInt(last) - BigInt(first)) / 128n;
  assert.ok(end > begin && end - begin <= column + 1n, `${end - begin} of ${column}`);
  await tableOf(page, 'sched');
  const inside = analyzed('sched', '--log', '--begin', `${begin}ns`, '--end', `${end}ns`).rows.length;
  assert.equal(await page.locator(id('analyses')).getAttribute('data-total'), String(inside));
});

test('periods are tracks that show which were late', BAKERY, 'tab=analyses&an=periods', async (page) => {
  await rest(page, { ms: 400 });
  await noViolation(page, 'a form for periods');
  const [begin, end] = ['name == "net_if_receive_skb"', 'name == "net_dev_xmit"'];
  const periods = analyzed('periods', '--log', '--period', 'order', '--period-begin', begin, '--period-end', end).rows;
  const all = periods.map((p) => p.duration_ns).sort((a, b) => a - b);
  const deadline = all[Math.floor(all.length * 0.7)];
  const field = (name) => page.locator(`${id('analyses')} input[name=${name}]`);
  await field('name').fill('order');
  await field('begin').fill(begin);
  await field('end').fill(end);
  await field('deadline').fill('soon');
  await page.getByRole('button', { name: 'Measure' }).click();
  await page.locator(`${id('analyses')} [role=alert]`, { hasText: 'A deadline is a duration' }).waitFor();
  await field('deadline').fill(`${deadline}ns`);
  await page.getByRole('button', { name: 'Show as a track' }).click();
  await tableOf(page, 'periods');
  const late = all.filter((d) => d > deadline).length;
  const missed = page.locator(id('missed'));
  assert.deepEqual(
    [await missed.getAttribute('data-missed'), await missed.getAttribute('data-periods')],
    [String(late), String(all.length)],
  );
  const track = page.locator(`${id('track')}[data-track^="q.order."]`);
  assert.match(await track.innerText(), new RegExp(`${late} missed`));
  // The longest one is filled; a click says so.
  const worst = periods.find((p) => p.duration_ns === all.at(-1));
  const [row, canvas, shown] = [
    await track.boundingBox(),
    await page.locator(id('canvas')).boundingBox(),
    (await view(page)).map(BigInt),
  ];
  const middle = BigInt(worst.from) + BigInt(worst.duration_ns) / 2n;
  const x = Number(middle - shown[0]) / Number(shown[1] - shown[0]);
  await page.mouse.click(canvas.x + x * canvas.width, row.y + 10);
  await rest(page);
  assert.match(
    await page
      .locator(`${id('details')} h2`)
      .first()
      .innerText(),
    /missed/,
  );
  await noViolation(page, 'a track of periods');
  // The link has all of it.
  await page.reload();
  await rest(page, { ms: 500 });
  assert.match(await track.innerText(), new RegExp(`${late} missed`));
  await track.click({ button: 'right' });
  await page.getByRole('menuitem', { name: 'Remove' }).click();
  await rest(page);
  assert.equal(await track.count(), 0);
});

const removed = fs.mkdtempSync(path.join(os.tmpdir(), 'tracemill-removed-'));
fs.cpSync(path.join(root, MILL[0]), removed, { recursive: true });

test('a trace that is gone is told, and one that takes its place', [removed], '', async (page) => {
  assert.equal(await page.locator(id('gone')).count(), 0);
  fs.rmSync(removed, { recursive: true });
  await page.locator(id('gone')).waitFor({ timeout: 10_000 });
  assert.match(await page.locator(id('gone')).textContent(), /^the trace is gone: .* what is shown was read before$/);
  await noViolation(page, 'gone');
  fs.cpSync(path.join(root, 'demo/traces/orders'), removed, { recursive: true });
  await page.waitForFunction(
    () => /was replaced/.test(document.querySelector('[data-testid=gone]')?.textContent ?? ''),
    null,
    { timeout: 20_000 },
  );
  await rest(page);
  assert.match(await page.locator('.stat').textContent(), /^500 events/);
  // Tracks that are not there any more may have been asked for on the way.
  page.said = page.said.filter((line) => !/404/.test(line));
});

test('axe finds nothing when the server has ended', MILL, '', async (page, server) => {
  await page.getByRole('button', { name: 'End server' }).click();
  await settled(page, 'ended');
  await noViolation(page, 'ended');
  await new Promise((resolve) => {
    if (server.child.exitCode === null) server.child.on('exit', resolve);
    else resolve();
  });
  assert.equal(server.child.exitCode, 0);
  page.said.length = 0;
});

const browser = await launch();
let bad = 0;
for (const { name, traces, link, run, more } of tests) {
  if (words.length && !words.some((w) => name.includes(w))) continue;
  const server = await serve(traces);
  try {
    const page = await open(server, link, more);
    await run(page, server);
    assert.deepEqual(page.said, [], 'what the console says');
    await page.context().close();
    console.log(`ok      ${name}`);
  } catch (e) {
    bad++;
    console.log(`not ok  ${name}\n        ${e.message.split('\n').slice(0, 12).join('\n        ')}`);
  } finally {
    if (server.child.exitCode === null) await server.end();
  }
}
await browser.close();
process.exit(bad ? 1 : 0);
