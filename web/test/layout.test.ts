import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Track } from '../src/api/types';
import {
  AS_GIVEN,
  LANE_PX,
  lanesToRequest,
  laneToRequest,
  layoutOf,
  MOST_LANES,
  rowAt,
  rowsBetween,
  TOLD_LANES,
} from '../src/draw/layout';
import { LANE_TOP_PX } from '../src/draw/painter';
import { EDGE_PX, placeOf, scaleOf } from '../src/draw/scale';
import { hitAt, wordsOf } from '../src/draw/timeline';
import { TileStore } from '../src/state/tiles';

const track = (
  id: string,
  parent: string | null,
  kind: Track['kind'] = 'events',
  more: Partial<Track> = {},
): Track => ({ id, parent, kind, base: kind === 'events', name: id, trace: 0, events: 1, ...more });
const TRACKS = [
  track('g', null, 'group'),
  track('a', 'g'),
  track('b', 'g'),
  track('h', null, 'group'),
  track('c', 'h'),
  track('calls', 'h', 'calls', { depth: 100 }),
];
const ids = (rows: readonly { track: Track }[]): string[] => rows.map((r) => r.track.id);

test('rows follow each other without a hole', () => {
  const { rows, height } = layoutOf(TRACKS, [], []);
  assert.deepEqual(ids(rows), ['g', 'a', 'b', 'h', 'c', 'calls']);
  let y = 0;
  for (const row of rows) {
    assert.equal(row.y, y);
    y += row.height;
  }
  assert.equal(height, y);
  assert.equal(rows[5]?.lanes, MOST_LANES);
  assert.ok((rows[5]?.height ?? 0) >= MOST_LANES * LANE_PX);
});

test('deep lanes are scrolled to, and no further than there are', () => {
  const at = (from: number): number | undefined =>
    layoutOf(
      TRACKS,
      [],
      [],
      AS_GIVEN,
      new Map([
        ['calls', from],
        ['a', 5],
      ]),
    ).rows.find((r) => r.track.id === 'calls')?.firstLane;
  assert.deepEqual([at(0), at(30), at(1000), at(-3)], [0, 30, 100 - MOST_LANES, 0]);
  assert.ok(layoutOf(TRACKS, [], [], AS_GIVEN, new Map([['a', 5]])).rows.every((r) => r.firstLane === 0));
  assert.equal(
    layoutOf(TRACKS, ['calls'], [], AS_GIVEN, new Map([['calls', 30]])).rows[5]?.firstLane,
    0,
    'folded it shows the outermost calls',
  );
});

test('the lanes that are asked for are those in sight, and few steps of the wheel need others', () => {
  const asked = Array.from({ length: 400 }, (_, from) => laneToRequest(from));
  for (const [from, lane] of asked.entries())
    assert.ok(lane <= from && from + MOST_LANES <= lane + TOLD_LANES, `${from}: ${lane}`);
  assert.equal(asked[TOLD_LANES - MOST_LANES], 0);
  const others = asked.filter((lane, from) => from > 0 && lane !== asked[from - 1]).length;
  assert.ok(others <= 400 / 30, `${others}`);
});

test('a folded row asks for its outermost lane, however far the others were scrolled', () => {
  const deep: Track[] = [{ ...(TRACKS[5] as Track), id: 'deep', parent: null, depth: 300 }];
  const from = new Map([['deep', 150]]);
  const asked = (folds: string[], pins: string[]) =>
    lanesToRequest(layoutOf(deep, folds, pins, AS_GIVEN, from)).get('deep');
  for (const pins of [[], ['deep']]) {
    const [unfolded, folded] = [asked([], pins), asked(['deep'], pins)];
    assert.equal(unfolded, laneToRequest(150));
    assert.equal(folded, undefined);
  }
  assert.equal(lanesToRequest(layoutOf(deep, [], [], AS_GIVEN, new Map([['deep', 3]]))).size, 0);
});

test('where not all lanes are there, it is said which calls are counted', () => {
  const row = layoutOf([track('calls', null, 'calls', { depth: 100, calls: 5000 })], [], []).rows[0]!;
  const store = new TileStore();
  const put = (index: number, lanes?: { from: number; to: number; all: number }): void =>
    store.put({
      generation: 1,
      level: 0,
      from: index,
      to: index,
      names: { 0: 'f' },
      tracks: [
        {
          id: 'calls',
          kind: 'calls',
          exact: true,
          at: [1, 20, 30],
          len: [5, 5, 5],
          n: [3, 2, 1],
          depth: [33, 50, 70],
          name: [0, 0, 0],
          ...(lanes && { lanes }),
        },
      ],
    });
  const said = (): string => {
    const part = (
      index: number,
    ): {
      tile: NonNullable<ReturnType<TileStore['get']>>;
      x: number;
      bucketPx: number;
      left: number;
      right: number;
      fits: boolean;
    } => ({
      tile: store.get('calls', 0, index)!,
      x: index * 1024,
      bucketPx: 1,
      left: index * 1024,
      right: (index + 1) * 1024,
      fits: true,
    });
    return wordsOf(
      { row, y: 0, top: 0, bottom: 100, parts: [part(0), part(1)] },
      { scale: scaleOf({ begin: 0n, end: 2048n }, 2048), begin: 0n },
    );
  };
  put(0);
  put(1);
  assert.equal(said(), '12 of 5\u202f000 calls in view');
  put(0, { from: 32, to: 96, all: 100 });
  put(1, { from: 32, to: 96, all: 100 });
  assert.equal(said(), '12 calls in view in lanes 33 to 96 of 100');
  // Lanes that some tiles lack are counted in none.
  put(1, { from: 0, to: 64, all: 100 });
  assert.equal(said(), '10 calls in view in lanes 33 to 64 of 100');
});

test('calls that stand together are those of the view as far as anybody knows, and are found by their bucket', () => {
  const row = layoutOf([track('calls', null, 'calls', { depth: 2, calls: 5000 })], [], []).rows[0]!;
  const tiles = new TileStore();
  tiles.put({
    generation: 1,
    level: 0,
    from: 0,
    to: 1,
    names: { 0: 'f' },
    tracks: [
      {
        id: 'calls',
        kind: 'calls',
        exact: true,
        at: [100, 924, 1024],
        len: [100, 100, 10],
        n: [300, 200, 50],
        depth: [0, 1, 0],
        name: [0, 0, 0],
        busy: [9, 9, 9],
      },
    ],
  });
  assert.deepEqual(
    [0, 1].map((index) => tiles.get('calls', 0, index)?.size),
    [2, 1],
  );
  const seen = (begin: number, end: number) => {
    const scale = scaleOf({ begin: BigInt(begin), end: BigInt(end) }, end - begin + 2 * EDGE_PX);
    const part = (index: number) => {
      const place = placeOf(scale, 0, index, 0n);
      return {
        tile: tiles.get('calls', 0, index)!,
        ...place,
        left: Math.max(0, place.x),
        right: Math.min(scale.width, place.x + 1024),
        fits: true,
      };
    };
    const words = wordsOf(
      { row, y: 0, top: 0, bottom: 100, parts: [part(0), part(1)].filter((p) => p.left < p.right) },
      { scale, begin: 0n },
    );
    return {
      words,
      hit: (bucket: number, depth = 0) =>
        hitAt(row, scale.x(BigInt(bucket)) + 0.5, LANE_TOP_PX + depth * LANE_PX + 3, { scale, origin: 0n, tiles }),
    };
  };
  const all = seen(0, 1400);
  assert.equal(all.words, '550 of 5\u202f000 calls in view');
  // Places are told to a part of a pixel.
  const near = (times: readonly (bigint | null | undefined)[], wanted: readonly number[]): void => {
    for (const [i, at] of wanted.entries()) assert.ok(Math.abs(Number(times[i]) - at) <= 1, `${times[i]} for ${at}`);
  };
  assert.equal(all.hit(150)?.n, 300);
  near([all.hit(150)?.begin, all.hit(150)?.at, all.hit(150)?.end, all.hit(1023, 1)?.at], [100, 150, 200, 1023]);
  assert.equal(all.hit(900, 0), null);
  // Fifty of the hundred buckets, and all of the others.
  assert.match(seen(150 + EDGE_PX, 1400).words, /^about 40[01] of/);
});

test('folding hides what is inside, and lanes but the first', () => {
  assert.deepEqual(ids(layoutOf(TRACKS, ['g'], []).rows), ['g', 'h', 'c', 'calls']);
  assert.equal(layoutOf(TRACKS, ['calls'], []).rows[5]?.lanes, 1);
});

test('pinned rows stand above and nowhere else', () => {
  const { rows, pinned, pinnedHeight } = layoutOf(TRACKS, [], ['c', 'no such track']);
  assert.deepEqual(ids(rows), ['g', 'a', 'b', 'h', 'calls']);
  assert.deepEqual(ids(pinned), ['c']);
  assert.equal(pinnedHeight, pinned[0]?.height);
});

test('order: first, last, hidden', () => {
  const order = { ...AS_GIVEN, first: ['b'], hidden: ['c'] };
  assert.deepEqual(ids(layoutOf(TRACKS, [], [], order).rows), ['g', 'b', 'a', 'h', 'calls']);
  assert.deepEqual(ids(layoutOf(TRACKS, [], [], { ...AS_GIVEN, last: ['a'] }).rows).slice(0, 3), ['g', 'b', 'a']);
});

test('a parent that is not there, or in a circle with itself, hides nothing', () => {
  assert.deepEqual(ids(layoutOf([track('a', 'gone'), track('b', 'b')], [], []).rows), ['a', 'b']);
});

test('rows in sight, and the row at a height', () => {
  const layout = layoutOf(TRACKS, [], ['c']);
  for (let y = 0; y < layout.height; y++) {
    const brute = layout.rows.filter((r) => r.y < y + 40 && r.y + r.height > y);
    assert.deepEqual(ids(rowsBetween(layout.rows, y, y + 40)), ids(brute));
  }
  assert.equal(rowAt(layout, 1, 0)?.track.id, 'c');
  assert.equal(rowAt(layout, layout.pinnedHeight + 1, 0)?.track.id, 'g');
  assert.equal(rowAt(layout, layout.pinnedHeight + 1, 30)?.track.id, 'a');
  assert.equal(rowAt(layout, 100_000, 0), null);
});

test('five thousand rows are laid out quickly enough to do it at each change', () => {
  const many = Array.from({ length: 5000 }, (_, i) => track(`t${i}`, null));
  const began = performance.now();
  assert.equal(layoutOf(many, [], []).rows.length, 5000);
  assert.ok(performance.now() - began < 500);
});
