#!/usr/bin/env node
// Builds the page into dist/, whose files are in the repository so that cargo needs no node.
//   node build.mjs              writes dist/
//   node build.mjs --compare    builds, and compares with dist/: status 1 when they differ
//   node build.mjs --test       builds the tests and runs them
//   node build.mjs --plain DIR  writes the files uncompressed, for looking at them
import { spawnSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import zlib from 'node:zlib';
import { build } from 'esbuild';

const here = path.dirname(new URL(import.meta.url).pathname);
const dist = path.join(here, 'dist');
/** All of the page, compressed. */
const MOST_BYTES = 250_000;

const [what, to] = process.argv.slice(2);
if (what === '--test') process.exit(await test());
else if (what === '--compare') process.exit(await compare());
else if (what === '--plain') {
  fs.mkdirSync(to, { recursive: true });
  for (const [name, bytes] of await files()) fs.writeFileSync(path.join(to, name), bytes);
} else await write();

/** The files of the page: the same bytes each time. */
async function files() {
  // The licences of what is bundled go with it.
  const licence = (name) =>
    `${name}\n${fs.readFileSync(path.join(here, 'node_modules', name, 'LICENSE'), 'utf8').trim()}`.replaceAll(
      '*/',
      '* /',
    );
  const made = await build({
    banner: { js: `/*\n${['preact', '@preact/signals', '@preact/signals-core'].map(licence).join('\n\n')}\n*/` },
    entryPoints: { app: path.join(here, 'src/main.tsx') },
    bundle: true,
    minify: true,
    write: false,
    outdir: dist,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    charset: 'utf8',
    legalComments: 'none',
    logLevel: 'warning',
    absWorkingDir: here,
  });
  const css = await build({
    entryPoints: [path.join(here, 'src/app.css')],
    minify: true,
    write: false,
    outdir: dist,
    charset: 'utf8',
    logLevel: 'warning',
    absWorkingDir: here,
  });
  const out = new Map();
  out.set('index.html', Buffer.from(fs.readFileSync(path.join(here, 'src/index.html'))));
  out.set('app.js', Buffer.from(made.outputFiles[0].contents));
  out.set('app.css', Buffer.from(css.outputFiles[0].contents));
  const worker = await build({
    entryPoints: [path.join(here, 'src/worker.ts')],
    bundle: true,
    minify: true,
    write: false,
    outdir: dist,
    format: 'iife',
    target: 'es2022',
    charset: 'utf8',
    legalComments: 'none',
    logLevel: 'warning',
    absWorkingDir: here,
  });
  out.set('file.html', Buffer.from(oneFile(out, worker.outputFiles[0].text)));
  return out;
}

/** The page in one file, which holds its data where @DATA@ stands. */
function oneFile(files, worker) {
  const text = (name) => files.get(name).toString('utf8');
  const [css, js] = [text('app.css'), text('app.js')];
  for (const [name, code] of Object.entries({ css, js, worker }))
    if (/<\/(script|style)|<!--|@DATA@/i.test(code)) throw new Error(`${name} cannot stand in a page`);
  const hash = (code) => `'sha256-${crypto.createHash('sha256').update(code).digest('base64')}'`;
  const policy = `default-src 'none'; script-src ${hash(js)}; style-src ${hash(css)}; img-src data: blob:; worker-src blob:; base-uri 'none'; form-action 'none'`;
  const put = (page, from, to) => {
    if (!page.includes(from)) throw new Error(`${from} is not in the page`);
    return page.replace(from, () => to);
  };
  let page = text('index.html');
  page = put(page, '<link rel="stylesheet" href="app.css">', `<style>${css}</style>`);
  page = put(page, '<script type="module" src="app.js"></script>\n', '');
  page = put(
    page,
    '<meta charset="utf-8">',
    `<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="${policy}">`,
  );
  return put(
    page,
    '</body>',
    `<script type="text/plain" id="worker">${worker}</script>
<script type="text/plain" id="data">@DATA@</script>
<script type="module">${js}</script>
</body>`,
  );
}

function brotli(bytes) {
  return zlib.brotliCompressSync(bytes, {
    params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 11, [zlib.constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
  });
}
/** How a file is kept: the server sends what the browser takes, the program unpacks the page in one file itself. */
function encodings(name) {
  const all = [
    ['br', brotli, zlib.brotliDecompressSync],
    ['gz', gzip, zlib.gunzipSync],
  ];
  return name === 'file.html' ? all.slice(1) : all;
}
function gzip(bytes) {
  return zlib.gzipSync(bytes, { level: 9 });
}

async function write() {
  fs.rmSync(dist, { recursive: true, force: true });
  fs.mkdirSync(dist);
  let total = 0;
  for (const [name, bytes] of await files()) {
    const sizes = encodings(name).map(([ending, pack]) => {
      const packed = pack(bytes);
      fs.writeFileSync(path.join(dist, `${name}.${ending}`), packed);
      return packed.length;
    });
    // A page loads one of them.
    if (name !== 'file.html') total += sizes[0];
    console.log(
      `${name.padEnd(12)} ${String(bytes.length).padStart(7)} bytes, ${String(sizes[0]).padStart(6)} compressed`,
    );
  }
  console.log(`together ${total} bytes`);
  if (total > MOST_BYTES) {
    console.error(`that is more than ${MOST_BYTES}`);
    process.exit(1);
  }
}

/** The files of dist/, unpacked: compressors of other versions may give other bytes for the same content. */
async function compare() {
  const made = await files();
  const wrong = [];
  for (const [name, bytes] of made) {
    for (const [ending, , unpack] of encodings(name)) {
      const file = path.join(dist, `${name}.${ending}`);
      if (!fs.existsSync(file) || !unpack(fs.readFileSync(file)).equals(bytes)) wrong.push(`${name}.${ending}`);
    }
  }
  const known = new Set([...made.keys()].flatMap((n) => encodings(n).map(([ending]) => `${n}.${ending}`)));
  for (const name of fs.existsSync(dist) ? fs.readdirSync(dist) : []) if (!known.has(name)) wrong.push(name);
  if (wrong.length === 0) {
    console.log(`dist/ is what the source gives: ${[...made.keys()].join(', ')}`);
    return 0;
  }
  console.error(
    `dist/ differs from what the source gives: ${wrong.join(', ')}; run \`npm run build\` in web/ and commit it`,
  );
  return 1;
}

async function test() {
  const to = fs.mkdtempSync(path.join(os.tmpdir(), 'tracemill-web-'));
  try {
    const list = fs.readdirSync(path.join(here, 'test')).filter((f) => f.endsWith('.test.ts'));
    await build({
      entryPoints: list.map((f) => path.join(here, 'test', f)),
      bundle: true,
      outdir: to,
      format: 'esm',
      platform: 'node',
      target: 'node20',
      outExtension: { '.js': '.mjs' },
      jsx: 'automatic',
      jsxImportSource: 'preact',
      logLevel: 'warning',
      absWorkingDir: here,
    });
    return (
      spawnSync(process.execPath, ['--test', ...list.map((f) => path.join(to, f.replace(/\.ts$/, '.mjs')))], {
        stdio: 'inherit',
      }).status ?? 1
    );
  } finally {
    fs.rmSync(to, { recursive: true, force: true });
  }
}
