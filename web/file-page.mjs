#!/usr/bin/env node
// A page in one file, in a real browser: opened from file://, without a server.
//   node file-page.mjs --bin BIN --modules DIR [--chromium PATH] TRACE...
// DIR is a folder node_modules with playwright-core and axe-core. Of each TRACE the page shows tracks and rows, details of an
// event, a selection, a search, the flame graph where there are calls, and what it cannot do; axe-core finds nothing, there is
// no message on the console, and nothing is asked for beside the file and its own worker.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { bin, launch, require, words } from './browser.mjs';

const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tracemill-file-'));
const browser = await launch();
try {
  for (const trace of words) {
    const file = path.join(scratch, 'page.html');
    const { status } = spawnSync(bin, ['convert', '--to', 'html', '--force', '--quiet', '-o', file, trace], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    assert.ok(status === 0 || status === 3, `${trace} cannot be converted`);
    await look(trace, file);
    console.log(`${trace}: as it should be, ${fs.statSync(file).size} bytes`);
  }
} finally {
  await browser.close();
  fs.rmSync(scratch, { recursive: true, force: true });
}

/** A wait that others ended has its parts, and `k` draws the path of its thread. */
async function waits(trace, file, page, at, settled) {
  const link = 't=1795249870518000000..1795249870570000000&at=s0.641.0:1795249870528964707:0';
  await page.goto('about:blank');
  await page.goto(`file://${file}#${link}`);
  await settled();
  await page.waitForFunction(() => Boolean(document.querySelector('[data-testid=why]')?.dataset.begin));
  const parts = await at('why-part').evaluateAll((all) => all.map((part) => part.dataset.why));
  assert.ok(parts.length > 2 && parts.includes('waiting for disk sda'), `${trace}: ${parts}`);
  assert.match(await at('why').textContent(), /oven-1 641 took 31\.0 ms: /);
  await at('timeline').press('k');
  await page.waitForFunction(() => Number(document.querySelector('[data-testid=path]')?.dataset.parts) > 5);
  // Of a part of the time there are no sums, and the page says where they are.
  assert.match(await at('details').textContent(), /tracemill view has those of a range/);
  await at('timeline').press('k');
}

async function look(trace, file) {
  // The checker is put into the page; scripts of others are what its policy forbids, which is tested below.
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, bypassCSP: true });
  const page = await context.newPage();
  const asked = [],
    said = [];
  page.on('request', (request) => {
    if (!/^blob:/.test(request.url())) asked.push(request.url());
  });
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(error.message));
  const at = (id) => page.locator(`[data-testid=${id}]`);
  const settled = () =>
    page.waitForFunction(
      () => {
        const app = document.querySelector('[data-testid=app]');
        return app && app.dataset.busy === '0' && ['ready', 'empty'].includes(app.dataset.state);
      },
      null,
      { timeout: 20_000 },
    );
  await page.goto(`file://${file}`);
  await settled();
  const events =
    Number(await page.evaluate(() => document.querySelector('[data-testid=events]')?.getAttribute('aria-rowcount'))) -
    1;
  if (events > 0) {
    await at('event-row').first().click();
    await page.waitForFunction(() => document.querySelector('[data-testid=details]')?.dataset.event === '0');
    const ns = await at('details').getAttribute('data-ns');
    const fields = await at('field').count();
    assert.ok(ns !== '' && fields > 0, `${trace}: the first event has no fields`);
    const name = await at('event-row').first().locator('[data-column=name]').getAttribute('data-value');
    await at('search').fill(name);
    await at('search').press('Enter');
    await page.waitForFunction(() => Number(document.querySelector('[data-testid=search-count]')?.dataset.count) > 0);
    // All of it is chosen, by the link.
    const [begin, end] = await at('timeline').evaluate((element) => [element.dataset.begin, element.dataset.end]);
    await page.goto(`file://${file}#sel=${begin}..${end}&tab=selection`);
    await settled();
    await page.waitForFunction(() => Number(document.querySelector('[data-testid=selection]')?.dataset.events) > 0);
    assert.ok((await at('name-row').count()) > 0, `${trace}: the selection names nothing`);
    await at('filter').fill('cpu == 0');
    await at('filter').press('Enter');
    await at('filter-error').waitFor();
    assert.match(await at('filter-error').textContent(), /tracemill view/);
    await at('filter').press('Escape');
    if ((await at('tab-flame').count()) > 0) {
      await at('tab-flame').click();
      await page
        .locator('[data-testid=flame-frame], [data-testid=flame] canvas')
        .first()
        .waitFor({ state: 'attached' });
    }
  }
  await settled();
  if (/kernel\/bakery$/.test(trace)) await waits(trace, file, page, at, settled);
  assert.equal(await page.getByRole('button', { name: 'End server' }).count(), 0, 'there is no server to end');
  await page.evaluate(axe);
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await settled();
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    assert.deepEqual(
      violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).join(' | ')}`),
      [],
      `${trace}: axe, ${colorScheme}`,
    );
  }
  assert.deepEqual(said, [], `${trace}: on the console`);
  assert.deepEqual([...new Set(asked.map((url) => url.split('#')[0]))], [`file://${file}`], `${trace}: asked for`);
  await context.close();
  // The policy lets nothing else run.
  const strict = await browser.newContext();
  const other = await strict.newPage();
  const noticed = [];
  other.on('request', (request) => {
    if (!/^blob:/.test(request.url())) noticed.push(`request ${request.url()}`);
  });
  other.on('console', (message) => noticed.push(message.text()));
  other.on('pageerror', (error) => noticed.push(error.message));
  await other.goto(`file://${file}`);
  await other.waitForFunction(() => document.querySelector('[data-testid=app]')?.dataset.busy === '0');
  assert.deepEqual(noticed, [`request file://${file}`], `${trace}: under its own policy`);
  const ran = await other.evaluate(() => {
    const script = document.createElement('script');
    script.textContent = 'globalThis.ran = true';
    document.head.append(script);
    return globalThis.ran === true;
  });
  assert.equal(ran, false, `${trace}: another script runs`);
  await strict.close();
}
