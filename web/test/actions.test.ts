import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Query } from '../src/api/source';
import type { Track } from '../src/api/types';
import { Memory, type MemoryEvent } from './memory';

/** A source that groups its events by name. */
class Grouping extends Memory {
  private asked = 0;
  constructor(private readonly all: readonly MemoryEvent[]) {
    super(all);
  }

  override async get<T>(path: string, query: Query = {}): Promise<T> {
    const path_ = query['group'];
    if (path !== 'tracks' || !path_) return super.get<T>(path, query);
    const names = [...new Set(this.all.map((e) => e.name))].sort();
    const tracks = names.map(
      (value): Track => ({
        id: `v.g0.${String(path_)}.${value}`,
        parent: 'g0',
        kind: 'events',
        base: false,
        name: value,
        trace: 0,
        events: this.all.filter((e) => e.name === value).length,
        group: String(path_),
        value,
      }),
    );
    const done = this.asked++ === 0 ? 0.5 : 1;
    return { group: path_, trace: 0, done, values: names.length, left_out: 0, tracks: done < 1 ? [] : tracks } as T;
  }
}

test('tracks are moved, hidden, chased and grouped', async () => {
  const { start } = await import('../src/state/watch');
  const { layout } = await import('../src/state/tracks');
  const { state, change } = await import('../src/state/store');
  const act = await import('../src/state/actions');
  const events = [
    ['c', 'stop'],
    ['a', 'go'],
    ['b', 'stop'],
    ['a', 'stop'],
    ['b', 'go'],
    ['c', 'go'],
  ].map(([track = '', name = ''], i) => ({ ns: BigInt(i), name, track }));
  const until = async (ready: () => boolean): Promise<void> => {
    for (let i = 0; i < 200 && !ready(); i++) await new Promise((resolve) => setTimeout(resolve, 10));
    assert.ok(ready());
  };
  await start(new Grouping(events));
  const rows = (): string => layout.value.rows.map((r) => r.track.id).join(' ');
  await until(() => rows() === 'g0 a b c');

  act.placeTrack('a', 2);
  assert.equal(rows(), 'g0 b c a');
  act.moveTrack('a', -1);
  assert.equal(rows(), 'g0 b a c');
  act.bury('b');
  assert.equal(rows(), 'g0 a c b');
  act.pullUp('c');
  assert.equal(rows(), 'g0 c a b');
  act.hide('c');
  assert.equal(rows(), 'g0 a b');
  act.showHidden();
  act.togglePin('b');
  act.togglePin('a');
  assert.deepEqual(
    layout.value.pinned.map((r) => r.track.id),
    ['b', 'a'],
  );
  act.moveTrack('a', -1);
  assert.deepEqual(state.value.pins, ['a', 'b']);
  change({ pins: [] });

  // From the beginning `stop` is first on c, then on b, then on a.
  await act.orderByFirstMatch(0, 'name == "stop"', 'stop');
  assert.equal(rows(), 'g0 c b a');
  change({ cursor: 3n });
  await act.orderByFirstMatch(0, 'name == "stop"', 'stop');
  assert.equal(rows(), 'g0 a c b', 'what is before the cursor does not count');

  change({ chosen: ['a'], event: 2 });
  act.groupBy('g0', 'name');
  assert.deepEqual(state.value.chosen, [], 'tracks that are not there cannot stay chosen');
  await until(() => rows() === 'g0 v.g0.name.go v.g0.name.stop');
  await until(() => act.markOf()?.track === 'v.g0.name.stop');
  act.groupBy('g0', null);
  assert.equal(rows(), 'g0 a c b');
  await until(() => act.markOf()?.track === 'b');
});
