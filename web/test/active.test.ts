import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Track } from '../src/api/types';
import { withActive } from '../src/state/active';

const track = (id: string, parent: string | null, kind: Track['kind']): Track => ({
  id,
  parent,
  kind,
  base: false,
  name: id,
  trace: 0,
  events: null,
});
const TRACKS = [
  track('g0', null, 'group'),
  track('s0.cpu0', 'g0', 'state'),
  track('s0.1.0', 'g0', 'state'),
  track('s0.2.0', 's0.1.0', 'state'),
  track('s0.3.0', 's0.2.0', 'state'),
  track('s0.4.0', 's0.2.0', 'state'),
  track('b0', 'g0', 'events'),
  track('g1', null, 'group'),
  track('s1.7.0', 'g1', 'state'),
];

const parents = (tracks: readonly Track[]): string[] => tracks.map((t) => `${t.id} < ${t.parent}`);

test('threads that ran in view come first, the busiest above', () => {
  const found = withActive(TRACKS, [
    { id: 's0.4.0', busy: '90' },
    { id: 's0.2.0', busy: '10' },
  ]);
  assert.deepEqual(parents(found), [
    'g0 < null',
    's0.cpu0 < g0',
    'active.g0 < g0',
    's0.4.0 < active.g0',
    's0.2.0 < active.g0',
    'others.g0 < g0',
    's0.1.0 < others.g0',
    's0.3.0 < s0.1.0',
    'b0 < g0',
    'g1 < null',
    's1.7.0 < g1',
  ]);
  assert.equal(found.find((t) => t.id === 'active.g0')?.threads, 2);
  assert.equal(found.find((t) => t.id === 's0.4.0')?.busy, '90');
});

test('where nothing is known of any the tree stays as it is', () => {
  assert.equal(withActive(TRACKS, []), TRACKS);
  assert.deepEqual(parents(withActive(TRACKS, [{ id: 's9.9.0', busy: '1' }])), parents(TRACKS));
});

test('tracks that stand below each other in a circle are not lost', () => {
  const circle = [track('g0', null, 'group'), track('s0.1.0', 's0.2.0', 'state'), track('s0.2.0', 's0.1.0', 'state')];
  assert.deepEqual(withActive(circle, [{ id: 's0.1.0', busy: '1' }]).length, 3);
});

test('custom states are not threads: they stay where they are', () => {
  const found = withActive([...TRACKS, track('s0.x0.4', 'g0', 'state')], [{ id: 's0.4.0', busy: '90' }]);
  assert.deepEqual(parents(found).at(-1), 's0.x0.4 < g0');
  assert.ok(!parents(found).includes('s0.x0.4 < others.g0'));
});
