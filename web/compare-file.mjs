#!/usr/bin/env node
// Compares the answers of a page in one file with those of the server, question by question.
//   node compare-file.mjs BIN TRACE...
// Each TRACE is converted to HTML and shown by `tracemill view`; what the page would answer itself must be what the server
// answers: tracks, tiles of all levels, rows, events, calls, statistics, flame graphs, searches, neighbours, problems.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { build } from 'esbuild';

const here = path.dirname(new URL(import.meta.url).pathname);
const [bin, ...traces] = process.argv.slice(2);
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tracemill-file-'));
try {
  const out = path.join(scratch, 'answers.mjs');
  await build({
    stdin: {
      contents: "export { unpack } from './src/api/pack'; export { Answers } from './src/api/embedded-answers';",
      resolveDir: here,
    },
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    outfile: out,
    logLevel: 'warning',
  });
  const { unpack, Answers } = await import(out);
  for (const trace of traces) {
    const file = path.join(scratch, 'page.html');
    const { status } = spawnSync(bin, ['convert', '--to', 'html', '-o', file, '--force', '--quiet', trace], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    // 3: what is damaged is told, and the rest is there.
    assert.ok(status === 0 || status === 3, `${trace} cannot be converted: status ${status}`);
    const data = /<script type="text\/plain" id="data">([^<]*)<\/script>/.exec(fs.readFileSync(file, 'utf8'))[1];
    const inside = new Answers(await unpack(data));
    const server = await view(trace);
    try {
      console.log(`${trace}: ${await compared(inside, server)} answers are the same`);
    } finally {
      server.end();
    }
  }
} finally {
  fs.rmSync(scratch, { recursive: true, force: true });
}

async function view(trace) {
  const child = spawn(bin, ['view', '--no-open', trace], { stdio: ['ignore', 'pipe', 'inherit'] });
  const url = await new Promise((resolve) =>
    child.stdout.once('data', (text) => resolve(new URL(String(text).trim()))),
  );
  const token = url.hash.slice('#token='.length);
  const get = async (question, query = {}) => {
    const params = new URLSearchParams(
      Object.entries(query)
        .filter(([, value]) => value !== null)
        .map(([key, value]) => [key, String(value)]),
    );
    for (;;) {
      const answer = await fetch(`${url.origin}/api/${question}?${params}`, {
        headers: { Authorization: `Bearer ${token}` },
      });
      if (answer.ok) return answer.json();
      if (answer.status !== 503) return { status: answer.status };
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  while ((await get('session')).index.state !== 'complete') await new Promise((resolve) => setTimeout(resolve, 50));
  return { get, end: () => child.kill() };
}

/** Why threads waited: paths over the whole, waits, and ranges in which no wait is cut. */
async function paths(inside, same, tracks) {
  if (!inside.get('session', {}).features.includes('why')) return;
  // Sentences and sums are there of the whole, and sentences of waits that have several parts.
  const told = (keys) => (answer) => Object.fromEntries(Object.entries(answer).filter(([key]) => keys.includes(key)));
  const PARTS = ['track', 'begin', 'end', 'parts', 'left_out'];
  const lives = new Map();
  for (const { id } of tracks) lives.set(id.replace(/\.\d+$/, ''), id);
  for (const { track, begin, end, waits: explained } of inside.pack.head.paths.paths) {
    const whole = inside.get('why', { track });
    assert.ok(whole.sentence !== null && whole.parts.length > 0, track);
    // Asked for all times, the server answers for the last thread of a number.
    if (lives.get(track.replace(/\.\d+$/, '')) !== track) continue;
    const all = { track, begin, end };
    const { totals } = await same('why', all, told([...PARTS, 'sentence']));
    assert.deepEqual(whole.totals, totals.slice(0, 200), track);
    for (const [from, to, sentence] of explained.slice(0, 20)) {
      const wait = { track, begin: from, end: to };
      assert.equal(inside.get('why', wait).sentence, sentence);
      await same('why', wait, told([...PARTS, 'sentence']));
    }
    // From the middle of a part to the end of another one. A part in which several had the CPU is not cut: which of them
    // had it longest depends on the place.
    const first = whole.parts.slice(whole.parts.length / 3).find((part) => part.state === 'running');
    if (!first) continue;
    const last = whole.parts.findLast((part) => part.track === track) ?? whole.parts.at(-1);
    const middle = { track, begin: (BigInt(first.from) + BigInt(first.to)) / 2n, end: last.to };
    if (middle.begin < BigInt(last.to)) await same('why', middle, told(PARTS));
  }
}

async function compared(inside, server) {
  let count = 0;
  const without =
    (...keys) =>
    (answer) =>
      Object.fromEntries(Object.entries(answer).filter(([key]) => !keys.includes(key)));
  const same = async (question, query, shape = (answer) => answer) => {
    let own;
    try {
      own = JSON.parse(JSON.stringify(inside.get(question, query)));
    } catch (e) {
      own = { status: e.status ?? String(e) };
    }
    const theirs = await server.get(question, query);
    const plain = without('generation');
    assert.deepEqual(
      plain(shape(own)),
      plain(shape(theirs)),
      `${question} ${Object.entries(query)
        .map(([key, value]) => `${key}=${value}`)
        .join(' ')}`,
    );
    count++;
    return theirs;
  };
  // A page in a file moves no clocks.
  const unmoved = (answer) => ({ ...answer, traces: answer.traces.map(without('moved_ns')) });
  const session = await same('session', {}, (answer) => unmoved(without('features', 'elsewhere', 'command')(answer)));
  const { tracks } = await same('tracks', {}, (answer) => ({ tracks: answer.tracks }));
  await same('problems', {});
  const [origin, begin, end] = [session.origin, session.begin, session.end].map((ns) => BigInt(ns ?? session.origin));
  const span = end - begin;

  // Which of several names with as many events is shown is not told.
  // Neither is the order of slices in one bucket.
  const tiles = (answer) =>
    answer.status
      ? answer
      : {
          tracks: answer.tracks.map((track) => {
            if (!track.len) return { ...track, name: null };
            const { at, len, depth, name, n, busy, ...rest } = track;
            return {
              ...rest,
              slices: at
                .map((_, i) => [at[i], depth[i], len[i], n[i], busy[i], answer.names[name[i]]].join(' '))
                .sort(),
            };
          }),
        };
  const ids = tracks.map((track) => track.id);
  for (let level = 0; level <= 40; level += 3) {
    const size = 1n << BigInt(level + 10);
    for (const at of [0n, span / 3n, span / 2n, span]) {
      const tile = (begin - origin + at) / size;
      if (tile < 0n) continue;
      for (let i = 0; i < ids.length; i += 64)
        await same(
          'tiles',
          { tracks: ids.slice(i, i + 64).join(','), level, from: tile, to: tile + 1n, exact: 1 },
          tiles,
        );
    }
  }
  const events = session.events;
  for (const from of [0, 1, Math.floor(events / 2), Math.max(events - 40, 0), events, events + 5])
    await same('events', { from, limit: 60, json: 1 });
  for (const at of [begin - 1n, begin, begin + span / 2n, end, end + 1n]) await same('events', { at, limit: 3 });
  for (let i = 0; i < 25; i++) {
    const event = Math.floor((i * events) / 25);
    // A page in a file knows no places in files, nor the call that an event belongs to.
    await same(`event/${event}`, {}, without('place', 'call'));
  }
  await same(`event/${events}`, {});
  // A page in a file has the statistics of the whole, of most analyses, and 200 rows of each.
  if (session.features.includes('analyses')) {
    const { analyses } = inside.get('analyze', {});
    const theirs = (await server.get('analyze')).analyses;
    for (const own of analyses) {
      assert.deepEqual(
        own,
        theirs.find((a) => a.name === own.name),
      );
      for (const { of, keys } of own.forms) {
        for (const by of keys.length ? keys : ['']) {
          const asked = { name: own.name, of: of ?? '', by, limit: 200 };
          const table = await same('analyze', asked);
          if (table.status || table.rows.length < table.total) continue;
          for (const { name: sort } of table.columns.slice(0, 4)) await same('analyze', { ...asked, sort });
        }
      }
    }
    assert.ok(analyses.length > 0, 'some analysis is in the page');
  }
  await paths(inside, same, tracks);
  const ranges = [
    [null, null],
    [begin, begin],
    [begin + span / 4n, begin + span / 2n],
    [begin + span / 2n, null],
    [begin - 10n, end + 10n],
  ];
  const lists = [
    null,
    tracks[0]?.id ?? null,
    ...tracks
      .filter((track) => ['events', 'calls'].includes(track.kind))
      .slice(0, 4)
      .map((track) => track.id),
    ...tracks
      .filter((track) => track.kind === 'state')
      .slice(0, 2)
      .map((track) => track.id),
  ];
  for (const [from, to] of ranges) {
    for (const list of lists) {
      const query = { begin: from, end: to, tracks: list };
      await same('select', query);
      const { events: sampled = [] } = await same('flame', query);
      for (const event of sampled) await same('flame', { ...query, event });
    }
  }
  for (const q of ['a', 'E', 'no such name', ':']) {
    for (const direction of ['next', 'previous']) {
      for (const from of [-1, 0, Math.floor(events / 2), events]) {
        const is = (answer) => ({ ...answer, index: answer.match ? answer.index : null });
        await same('search', { q, from, direction }, is);
      }
    }
  }
  // In values: a word of the event in the middle, from both ends.
  const [middle] = (await server.get('events', { from: Math.floor(events / 2), limit: 1 })).rows;
  const word = /[A-Za-z]{4,}/.exec(middle?.text ?? '')?.[0];
  if (word)
    for (const [from, direction] of [
      [-1, 'next'],
      [events, 'previous'],
    ])
      await same('search', { q: word, from, direction, fields: 1 });
  for (const track of tracks.filter((one) => one.kind !== 'group').slice(0, 30)) {
    for (const direction of ['next', 'previous', 'nearest']) {
      for (const at of [begin - 5n, begin, begin + span / 3n, begin + (2n * span) / 3n, end, end + 5n])
        await same('locate', { track: track.id, at, direction });
    }
    if (track.kind === 'calls')
      for (const call of [0, 1, Math.floor(track.calls / 2), track.calls - 1, track.calls])
        await same(`call/${track.id}/${call}`, {}, without('args', 'retval'));
  }
  return count;
}
