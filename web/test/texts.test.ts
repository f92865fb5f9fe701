import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import type { Track, TracksOfGroup } from '../src/api/types';
import { printing, shellWord, wordsOf } from '../src/state/command';
import {
  andConditions,
  condition,
  exactly,
  filterPath,
  isNamed,
  isNamedAt,
  MOST_TIMES,
  quoted,
} from '../src/state/filters';
import { groupKey, readGroupKey, withGroups } from '../src/state/groups';
import { byPowerOfTwo, histogramOfCounts } from '../src/state/log-histogram';
import { Random } from './random';

test('texts of filters mean themselves', () => {
  assert.equal(quoted('operator* "x"\\?\n'), '"operator\\* \\"x\\"\\\\\\?\\n"');
  assert.equal(isNamed('mill:grind'), 'name == "mill:grind"');
  assert.equal(exactly('7*x'), '\\7\\*x');
  assert.equal(filterPath('payload.odd name.in[2]'), 'payload.`odd name`.in[2]');
  const field = (path: string, text: string, kind: string): string => condition({ path, text, kind });
  assert.equal(field('payload.a', '18446744073709551615', 'integer'), 'payload.a == 18446744073709551615');
  assert.equal(field('payload.a', '7', 'string'), 'payload.a == "7"');
  assert.equal(field('payload.a', 'x (7)', 'string'), 'payload.a == "x (7)"');
  assert.equal(field('payload.a', '2nd "crack" (20)', 'enumeration'), 'payload.a == 20');
  assert.equal(field('payload.a', 'true', 'boolean'), 'payload.a == true');
  assert.equal(andConditions('', 'b'), 'b');
  assert.equal(andConditions('a or c', 'b'), '(a or c) and b');
});

test('events at times: each time once, in order, and no more than an address holds', () => {
  assert.equal(isNamedAt('x', [5n, 3n, 5n]), 'name == "x" and ns in (3, 5)');
  assert.equal(isNamedAt(null, [-5n]), 'ns == -5');
  assert.equal(isNamedAt('x', []), null);
  const many = Array.from({ length: MOST_TIMES + 1 }, (_, i) => 1_700_000_000_000_000_000n + BigInt(i));
  assert.equal(isNamedAt('x', many), null);
  assert.ok(encodeURIComponent(isNamedAt('x', many.slice(1)) ?? '').length < 14_000);
});

test('words of a line are those that a shell makes of it', () => {
  const random = new Random(9);
  for (let round = 0; round < 40; round++) {
    const words = random.list(5, () => random.text().replaceAll('\0', ''));
    const line = words.map(shellWord).join(' ');
    assert.deepEqual(wordsOf(line), words, line);
    assert.deepEqual(
      execFileSync('sh', ['-c', `for w in ${line}; do printf '%s\\0' "$w"; done`], { encoding: 'utf8' })
        .split('\0')
        .slice(0, -1),
      words,
      line,
    );
  }
});

test('a command prints what is chosen, with the options that the page was begun with', () => {
  const nothing = { begin: null, end: null, filter: '', streams: [], moved: [] };
  const line =
    "/usr/bin/tracemill view --no-open --port=0 --filter 'cpu == 0' -b +1s --clock-offset a=2 'my trace' --idle-exit 5m";
  assert.equal(
    printing(line, [], nothing),
    "tracemill print --begin +1s --filter 'cpu == 0' --clock-offset a=2 'my trace'",
  );
  assert.equal(
    printing(line, [], { ...nothing, begin: 5n, end: 9n, filter: 'x or y', streams: ['a*'], moved: [['a', '-3']] }),
    "tracemill print --begin 5ns --end 9ns --filter '(cpu == 0) and (x or y)' --stream 'a\\*' --clock-offset-ns a=-3 --clock-offset a=2 'my trace'",
  );
  assert.equal(printing('tracemill convert --to html x', ['a b', 'c'], nothing), "tracemill print 'a b' c");
});

test('tracks by value stand for the streams of their trace, as soon as they are known', () => {
  const track = (id: string, parent: string | null, more: Partial<Track> = {}): Track => ({
    id,
    parent,
    kind: 'events',
    base: parent !== null,
    name: id,
    trace: 0,
    events: 1,
    ...more,
  });
  const tracks = [
    track('g0', null, { kind: 'group' }),
    track('c0', 'g0', { kind: 'calls', base: false }),
    track('b0', 'g0'),
    track('g1', null, { kind: 'group' }),
    track('b1', 'g1'),
  ];
  const values = [track('v.g0.cpu.0', 'g0', { base: false }), track('v.g0.cpu.1', 'g0', { base: false })];
  const group = (done: number): TracksOfGroup => ({
    group: 'cpu',
    trace: 0,
    done,
    values: 2,
    left_out: 0,
    tracks: done < 1 ? [] : values,
    of: 'g0',
  });
  assert.deepEqual(
    withGroups(tracks, [group(1)]).map((t) => t.id),
    ['g0', 'v.g0.cpu.0', 'v.g0.cpu.1', 'c0', 'g1', 'b1'],
  );
  assert.deepEqual(withGroups(tracks, [group(0.5)]), tracks);
  assert.deepEqual(readGroupKey(groupKey('g0', 'payload.a:b')), { group: 'g0', path: 'payload.a:b' });
  assert.deepEqual([readGroupKey(':x'), readGroupKey('g'), readGroupKey('g:')], [null, null, null]);
});

test('bars by powers of two', () => {
  assert.deepEqual(byPowerOfTwo([0, 1, 2, 3, 4, 1000]), { first: 0, counts: [2, 2, 1, 0, 0, 0, 0, 0, 0, 1] });
  assert.deepEqual(
    histogramOfCounts([
      [3, 2],
      [5, 1],
      [9, 0],
    ]),
    { first: 3, counts: [2, 0, 1] },
  );
  assert.deepEqual(histogramOfCounts([]), { first: 0, counts: [] });
});
