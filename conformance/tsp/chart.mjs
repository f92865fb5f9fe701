// Draws the threads of traces with timeline-chart, the library of Trace Compass' front ends, from `view --tsp`, and looks at the picture:
//
//     node chart.mjs --bin tracemill --modules DIR [--out DIR] [--chromium PATH] TRACE...
//
// DIR/node_modules has the packages of package.json and playwright-core. Each row with states has pixels of their colours. With
// --out pictures are kept.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const text = { type: 'string' };
const { values: options, positionals: traces } = parseArgs({
  allowPositionals: true,
  options: { bin: text, modules: text, out: text, chromium: text },
});
const load = createRequire(resolve(options.modules, 'package.json'));
const here = dirname(new URL(import.meta.url).pathname);
const { outputFiles } = await load('esbuild').build({
  entryPoints: [join(here, 'chart-page.mjs')],
  bundle: true,
  write: false,
  format: 'esm',
  nodePaths: [resolve(options.modules, 'node_modules')],
  define: { global: 'window', 'process.env.NODE_ENV': '"production"' },
});
const html = `<!doctype html><meta charset="utf-8"><title>Threads</title>
<style>body{margin:8px;display:flex;font:12px sans-serif;background:#fff}#names{width:180px}canvas{display:block}</style>
<div id="names"></div><div id="charts"></div><script type="module" src="/page.js"></script>`;
const files = createServer((request, answer) => {
  const isScript = request.url === '/page.js';
  answer.setHeader('Content-Type', isScript ? 'text/javascript' : 'text/html');
  answer.end(isScript ? outputFiles[0].text : html);
});
await new Promise((done) => files.listen(0, '127.0.0.1', done));
const origin = `http://127.0.0.1:${files.address().port}`;

const words = ['view', '--tsp=0', '--no-cache', '--tsp-allow', origin, ...traces];
const server = spawn(resolve(options.bin), words, { stdio: ['ignore', 'pipe', 'ignore'] });
const address = await new Promise((give) => {
  let line = '';
  server.stdout.on('data', (bytes) => {
    line += bytes;
    if (line.includes('\n')) give(line.trim());
  });
});
const executablePath = options.chromium ?? '/usr/bin/chromium';
const browser = await load('playwright-core').chromium.launch({ executablePath, args: ['--no-sandbox'] });
let wrong = 0;
for (const [at, trace] of traces.entries()) {
  const page = await browser.newPage({ viewport: { width: 1220, height: 900 } });
  const faults = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  await page.goto(`${origin}/?server=${encodeURIComponent(address)}&trace=${encodeURIComponent(resolve(trace))}`);
  await page.waitForFunction(() => window.drawn?.states > 0, null, { timeout: 60_000 }).catch(() => {});
  // The chart asks once more, with the resolution of the screen.
  await page.waitForTimeout(1500);
  const drawn = await page.evaluate(() => window.drawn);
  // Rows of the canvas that have a pixel of some colour: grey and white are lines and the background.
  const coloured = await page.evaluate(() => {
    const canvas = document.querySelector('#chart');
    const context = canvas?.getContext('2d');
    if (!context) return -1;
    let rows = 0;
    for (let y = 10; y < canvas.height; y += 20) {
      const { data } = context.getImageData(0, y, canvas.width, 1);
      let found = false;
      for (let x = 0; x < data.length && !found; x += 4) {
        found = Math.max(data[x], data[x + 1], data[x + 2]) - Math.min(data[x], data[x + 1], data[x + 2]) > 20;
      }
      rows += found;
    }
    return rows;
  });
  const isDrawn = faults.length === 0 && drawn?.states > 0 && coloured > 0 && coloured <= drawn.rows;
  wrong += !isDrawn;
  console.log(`${isDrawn ? 'ok' : 'WRONG'}  ${trace}: ${JSON.stringify(drawn)}, rows with colours: ${coloured} ${faults.join('; ')}`);
  if (options.out) await page.screenshot({ path: join(options.out, `chart-${at}.png`), fullPage: true });
  await page.close();
}
await browser.close();
server.kill();
files.close();
process.exit(wrong === 0 ? 0 : 1);
