#!/usr/bin/env node
// The pictures of docs/view.md, made from the traces of demo/.
//   node pictures.mjs --bin BIN --modules DIR [--chromium PATH] [--out DIR] [NAME...]
// DIR is a folder node_modules with playwright-core. Colours are reduced to 256, which makes files a third as large.
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';

import { id, launch, option, root, serve, settled, words } from './browser.mjs';

const out = option('out') ?? path.join(root, 'docs/view');

const ALL = [
  'demo/traces/mill',
  'demo/traces/orders',
  'demo/traces/losses',
  'demo/traces/overwritten',
  'demo/logs/dock.elog',
];
const at = (ms) => String(1_795_249_870_165_000_000n + BigInt(ms) * 1_000_000n);
const PICTURES = {
  events: { traces: ALL, link: `t=${at(150)}..${at(650)}&q=stage&ev=1383&bm=${at(512)}~losses%20end` },
  selection: {
    traces: ALL,
    dark: true,
    link: `sel=${at(450)}..${at(700)}&tab=selection&ev=1383`,
    run: async (page) => {
      await page.locator(id('name-row')).first().click();
    },
  },
  pairs: {
    traces: ALL,
    dark: true,
    link: 'tab=selection',
    run: async (page) => {
      await page.getByRole('button', { name: 'Between' }).click();
      await page.locator('input[name=from]').fill('orders:taken');
      await page.locator('input[name=to]').fill('orders:sent');
      await page.locator('input[name=by]').fill('payload.id');
      await page.locator('input[name=by]').press('Enter');
    },
  },
  calls: { traces: ['demo/calls/tasting'], link: 'tab=flame' },
  kernel: {
    traces: ['demo/kernel/bakery'],
    link: '',
    run: async (page) => {
      const [row, canvas] = [
        await page.locator('[data-kind=state]', { hasText: 'oven-1' }).boundingBox(),
        await page.locator(id('canvas')).boundingBox(),
      ];
      await page.mouse.click(canvas.x + canvas.width * 0.35, row.y + 10);
    },
  },
  // The late order of the bakery, for the README: a thread that could run, who woke it, and who had its CPU.
  late: {
    traces: ['demo/kernel/bakery'],
    link: `t=${at(353)}..${at(403)}&tab=selection`,
    wide: 1280,
    tall: 610,
    sizes: { bottom: 130, side: 300 },
    run: async (page) => {
      const [row, canvas] = [
        await page.locator('[data-kind=state]', { hasText: 'oven-1' }).boundingBox(),
        await page.locator(id('canvas')).boundingBox(),
      ];
      await page.mouse.click(canvas.x + canvas.width * 0.88, row.y + 10);
      await page.getByRole('button', { name: 'States' }).click();
    },
  },
  counter: {
    traces: ['demo/traces/mill'],
    link: 'q=&tab=events',
    run: async (page) => {
      await page
        .locator(`${id('event-row')} [data-value="mill:grind"]`)
        .first()
        .click();
      await page.locator('[data-path="payload.grams"]').click({ button: 'right' });
      await page.getByRole('menuitem', { name: 'Plot this field' }).click();
    },
  },
};

const browser = await launch();
try {
  for (const [name, picture] of Object.entries(PICTURES))
    if (words.length === 0 || words.includes(name)) await make(name, picture);
} finally {
  await browser.close();
}

async function make(name, { traces, link, dark = false, wide = 1440, tall = 900, sizes = {}, run }) {
  const server = await serve(traces);
  try {
    const page = await browser.newPage({
      viewport: { width: wide, height: tall },
      colorScheme: dark ? 'dark' : 'light',
      reducedMotion: 'reduce',
    });
    await page.addInitScript((s) => localStorage.setItem('tracemill.sizes', s), JSON.stringify(sizes));
    await page.goto(`${server.address}${link ? `&${link}` : ''}`);
    await page.waitForFunction(() => /complete/.test(document.querySelector('.stat')?.textContent ?? ''));
    await settled(page);
    await run?.(page);
    await page.waitForTimeout(600);
    await settled(page);
    await page.mouse.move(2, 2);
    const shot = await page.screenshot();
    const { width, height, pixels } = await page.evaluate(unpacked, shot.toString('base64'));
    const file = path.join(out, `${name}.png`);
    fs.writeFileSync(file, png(width, height, Buffer.from(pixels, 'base64')));
    console.log(`${file}: ${fs.statSync(file).size} bytes`);
    await page.close();
  } finally {
    await server.end();
  }
}

/** In the browser: a picture as the bytes of its pixels. */
async function unpacked(text) {
  const map = await createImageBitmap(
    new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], { type: 'image/png' }),
  );
  const g = new OffscreenCanvas(map.width, map.height).getContext('2d');
  g.drawImage(map, 0, 0);
  const { data } = g.getImageData(0, 0, map.width, map.height);
  let bytes = '';
  for (let i = 0; i < data.length; i += 8192) bytes += String.fromCharCode(...data.subarray(i, i + 8192));
  return { width: map.width, height: map.height, pixels: btoa(bytes) };
}

/** A PNG with 256 colours, the commonest and some that are like none of these; others become the nearest. */
function png(width, height, rgba) {
  const counts = new Map();
  for (let i = 0; i < rgba.length; i += 4) {
    const c = (rgba[i] << 16) | (rgba[i + 1] << 8) | rgba[i + 2];
    counts.set(c, (counts.get(c) ?? 0) + 1);
  }
  const parts = (c) => [c >> 16, (c >> 8) & 255, c & 255];
  const far = (a, b) => {
    const [x, y] = [parts(a), parts(b)];
    return x.reduce((sum, of, i) => sum + (of - y[i]) ** 2, 0);
  };
  const colours = [...counts].sort((a, b) => b[1] - a[1]);
  const palette = colours.slice(0, 192).map(([c]) => c);
  // A colour that is rare and like no other, such as that of a loss, has a place before one that is nearly there.
  const others = colours.slice(192).map(([c, n]) => ({ c, n, least: Math.min(...palette.map((p) => far(c, p))) }));
  while (palette.length < 256 && others.length > 0) {
    const next = others.reduce((best, of) => (of.least * Math.sqrt(of.n) > best.least * Math.sqrt(best.n) ? of : best));
    palette.push(next.c);
    others.forEach((of) => {
      of.least = Math.min(of.least, far(of.c, next.c));
    });
    others.splice(others.indexOf(next), 1);
  }
  const places = new Map(palette.map((c, i) => [c, i]));
  const near = (c) => {
    let best = 0,
      least = Infinity;
    palette.forEach((p, i) => {
      const d = far(c, p);
      if (d < least) [best, least] = [i, d];
    });
    places.set(c, best);
    return best;
  };
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0, i = 0; y < height; y++)
    for (let x = 0; x < width; x++, i += 4) {
      const c = (rgba[i] << 16) | (rgba[i + 1] << 8) | rgba[i + 2];
      rows[y * (width + 1) + 1 + x] = places.get(c) ?? near(c);
    }
  const chunk = (kind, data) => {
    const body = Buffer.concat([Buffer.from(kind, 'latin1'), data]);
    const whole = Buffer.alloc(body.length + 8);
    whole.writeUInt32BE(data.length, 0);
    body.copy(whole, 4);
    whole.writeUInt32BE(zlib.crc32(body), body.length + 4);
    return whole;
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10]),
    chunk('IHDR', head),
    chunk('PLTE', Buffer.from(palette.flatMap(parts))),
    chunk('IDAT', zlib.deflateSync(rows, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}
