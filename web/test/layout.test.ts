import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Track } from '../src/api/types';
import { AS_GIVEN, LANE_PX, layoutOf, MOST_LANES, rowAt, rowsBetween } from '../src/draw/layout';

const track = (id: string, parent: string | null, kind: Track['kind'] = 'events', more: Partial<Track> = {}): Track => ({ id, parent, kind, base: kind === 'events', name: id, trace: 0, events: 1, ...more });
const TRACKS = [track('g', null, 'group'), track('a', 'g'), track('b', 'g'), track('h', null, 'group'), track('c', 'h'), track('calls', 'h', 'calls', { depth: 100 })];
const ids = (rows: readonly { track: Track }[]): string[] => rows.map((r) => r.track.id);

test('rows follow each other without a hole', () => {
  const { rows, height } = layoutOf(TRACKS, [], []);
  assert.deepEqual(ids(rows), ['g', 'a', 'b', 'h', 'c', 'calls']);
  let y = 0;
  for (const row of rows) { assert.equal(row.y, y); y += row.height; }
  assert.equal(height, y);
  assert.equal(rows[5]?.lanes, MOST_LANES);
  assert.ok((rows[5]?.height ?? 0) >= MOST_LANES * LANE_PX);
});

test('deep lanes are scrolled to, and no further than there are', () => {
  const at = (from: number): number | undefined => layoutOf(TRACKS, [], [], AS_GIVEN, new Map([['calls', from], ['a', 5]])).rows.find((r) => r.track.id === 'calls')?.firstLane;
  assert.deepEqual([at(0), at(30), at(1000), at(-3)], [0, 30, 100 - MOST_LANES, 0]);
  assert.ok(layoutOf(TRACKS, [], [], AS_GIVEN, new Map([['a', 5]])).rows.every((r) => r.firstLane === 0));
  assert.equal(layoutOf(TRACKS, ['calls'], [], AS_GIVEN, new Map([['calls', 30]])).rows[5]?.firstLane, 0, 'folded it shows the outermost calls');
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
