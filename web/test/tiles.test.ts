import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tiles, TileTrack } from '../src/api/types';
import { colourOf, hashOf } from '../src/state/names';
import { TileStore } from '../src/state/tiles';
import { Memory } from './memory';
import { Random } from './random';

const answer = (level: number, from: number, to: number, track: Partial<TileTrack> & { at: number[] }): Tiles => ({
  generation: 1,
  level,
  from,
  to,
  names: { 0: 'zero', 1: 'one' },
  tracks: [{ id: 't', kind: 'events', exact: true, ...track }],
});

test('an answer is cut into its tiles', () => {
  const store = new TileStore();
  store.put(
    answer(5, 2, 4, {
      at: [0, 1023, 1024, 3000],
      n: [1, 2, 3, 4],
      name: [0, 1, 0, 1],
      gaps: [[1000, 100, 'events', 7]],
    }),
  );
  assert.deepEqual([...(store.get('t', 5, 2)?.at ?? [])], [0, 1023]);
  assert.deepEqual([...(store.get('t', 5, 3)?.at ?? [])], [0]);
  assert.deepEqual([...(store.get('t', 5, 4)?.at ?? [])], [3000 - 2048]);
  assert.deepEqual([...(store.get('t', 5, 4)?.n ?? [])], [4]);
  assert.equal(store.get('t', 5, 2)?.peak, 2);
  assert.deepEqual(store.get('t', 5, 3)?.gaps, [{ at: 1000 - 1024, len: 100, kind: 'events', count: 7 }]);
  assert.deepEqual(store.get('t', 5, 4)?.gaps, []);
  assert.equal(store.get('t', 5, 5), undefined);
});

test('a slice is in every tile that it reaches', () => {
  const store = new TileStore();
  store.put(
    answer(0, 0, 2, {
      kind: 'calls',
      at: [-5, 1000, 2000],
      len: [10, 100, -1],
      depth: [0, 1, 2],
      name: [0, 1, 0],
      n: [1, 1, 3],
    }),
  );
  assert.deepEqual([...(store.get('t', 0, 0)?.at ?? [])], [-5, 1000]);
  assert.deepEqual([...(store.get('t', 0, 1)?.at ?? [])], [1000 - 1024, 2000 - 1024]);
  assert.deepEqual([...(store.get('t', 0, 2)?.at ?? [])], [2000 - 2048]);
  assert.deepEqual([...(store.get('t', 0, 1)?.depth ?? [])], [1, 2]);
  assert.deepEqual([...(store.get('t', 0, 2)?.len ?? [])], [-1]);
});

test('every tile of a counter begins with the value before', () => {
  const store = new TileStore();
  store.put(answer(0, 0, 2, { kind: 'counter', at: [-1, 5, 2100], min: [1, 2, 3], max: [1, 4, 3], last: [1, 3, 3] }));
  assert.deepEqual([...(store.get('t', 0, 0)?.at ?? [])], [-1, 5]);
  assert.deepEqual([...(store.get('t', 0, 1)?.at ?? [])], [5 - 1024]);
  assert.deepEqual([...(store.get('t', 0, 2)?.at ?? [])], [5 - 2048, 2100 - 2048]);
  assert.deepEqual([...(store.get('t', 0, 2)?.last ?? [])], [3, 3]);
});

test('a coarser tile stands in, the nearest one first; then finer ones', () => {
  const store = new TileStore();
  store.put(answer(20, 0, 0, { at: [1], n: [1], name: [0] }));
  store.put(answer(12, 3, 3, { at: [1], n: [1], name: [0] }));
  assert.deepEqual([store.coarser('t', 10, 13)?.level, store.coarser('t', 10, 13)?.index], [12, 3]);
  assert.deepEqual([store.coarser('t', 10, 20)?.level, store.coarser('t', 10, 20)?.index], [20, 0]);
  assert.equal(store.coarser('t', 20, 5), null);
  assert.deepEqual(
    store.finer('t', 14, 0).map((f) => [f.level, f.index]),
    [[12, 3]],
  );
  assert.deepEqual(store.finer('t', 14, 1), []);
});

test('what is missing, stale or estimated is asked for', () => {
  const store = new TileStore();
  assert.ok(store.wants('t', 1, 0, false));
  store.put(answer(1, 0, 0, { exact: false, at: [1], n: [1], name: [0] }));
  assert.ok(!store.wants('t', 1, 0, false));
  assert.ok(store.wants('t', 1, 0, true));
  store.markInexact();
  assert.ok(store.wants('t', 1, 0, false));
});

test('memory is bounded, and what is in sight stays', () => {
  const store = new TileStore();
  let forgotten = 0;
  store.onForget = () => {
    forgotten++;
  };
  const at = Array.from({ length: 1024 }, (_, i) => i);
  for (let i = 0; i < 1500; i++) {
    store.beginDraw();
    store.get('t', 0, 0);
    store.put(answer(0, i, i, { at, n: at, name: at.map(() => 0) }));
  }
  assert.ok(forgotten > 400);
  assert.ok(store.get('t', 0, 0), 'the tile that each drawing used');
  assert.ok(store.get('t', 0, 1499), 'the last one');
});

test('no event is lost between an answer and its tiles, at any level', async () => {
  const random = new Random(9);
  const events = Array.from({ length: 3000 }, () => ({
    ns: 1_000_000n + BigInt(random.below(2 ** 30)),
    name: random.pick(['a', 'b', 'c']),
    track: random.pick(['x', 'y']),
  }));
  const source = new Memory(events);
  const begin = events.reduce((a, e) => (e.ns < a ? e.ns : a), events[0]?.ns ?? 0n);
  const end = events.reduce((a, e) => (e.ns > a ? e.ns : a), 0n);
  for (const level of [8, 14, 18, 20, 25, 31]) {
    const last = Number((end - begin) >> BigInt(level + 10));
    const store = new TileStore();
    for (let from = 0; from <= last; from += 64) {
      const to = Math.min(last, from + 63);
      store.put(await source.get<Tiles>('tiles', { tracks: 'x,y', level, from, to }));
    }
    let sum = 0;
    for (const id of ['x', 'y'])
      for (let i = 0; i <= last; i++)
        sum += (store.get(id, level, i)?.n ?? new Float64Array()).reduce((a, b) => a + b, 0);
    assert.equal(sum, events.length, `level ${level}`);
  }
});

test('names have the colour of their FNV-1a', () => {
  assert.equal(hashOf(''), 0x811c9dc5);
  assert.equal(hashOf('a'), 0xe40c292c);
  assert.equal(hashOf('foobar'), 0xbf9cf968);
  assert.equal(colourOf('foobar'), 0xbf9cf968 % 8);
});
