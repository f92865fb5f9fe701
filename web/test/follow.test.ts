import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Query } from '../src/api/source';
import type { Progress, Session } from '../src/api/types';
import { Memory } from './memory';

const MS = 1_000_000n;

/** A trace of an event each millisecond, to which more are added. */
class Growing extends Memory {
  private hear: (progress: Progress) => void = () => {};
  private generation = 1;
  private now: Memory;

  constructor(private count: number) {
    super([]);
    this.now = Growing.of(count);
  }

  private static of(count: number): Memory {
    return new Memory(Array.from({ length: count }, (_, i) => ({ ns: BigInt(i) * MS, name: 'tick', track: 'a' })));
  }

  override async get<T>(path: string, query: Query = {}): Promise<T> {
    const answer = await this.now.get<T>(path, query);
    const { generation } = this;
    if (path !== 'session') return { ...answer, generation };
    return { ...(answer as unknown as Session), generation, follows: true } as T;
  }

  override watch(hear: (progress: Progress) => void, signal: AbortSignal): Promise<void> {
    this.hear = hear;
    return super.watch(hear, signal);
  }

  grow(more: number): void {
    const begin = BigInt(this.count) * MS;
    this.count += more;
    this.generation += 1;
    this.now = Growing.of(this.count);
    const end = BigInt(this.count - 1) * MS;
    this.hear({ kind: 'grown', generation: this.generation, begin: String(begin), end: String(end) });
  }
}

test('the right edge of the view follows the newest event until the user moves it', async () => {
  const { start } = await import('../src/state/watch');
  const { change, fullRange, show, state, view } = await import('../src/state/store');
  const { following, growing, toggleFollowing } = await import('../src/state/follow');
  const act = await import('../src/state/actions');
  const source = new Growing(1001);
  const until = async (ready: () => boolean): Promise<void> => {
    for (let i = 0; i < 200 && !ready(); i++) await new Promise((resolve) => setTimeout(resolve, 10));
    assert.ok(ready());
  };
  const grow = async (more: number): Promise<void> => {
    const { end } = fullRange.value;
    source.grow(more);
    await until(() => fullRange.value.end === end + BigInt(more) * MS);
  };
  await start(source);
  await until(() => fullRange.value.end === 1000n * MS);
  assert.ok(growing.value);
  assert.ok(!following.value);

  // Without it the view stays.
  const looked = { begin: 100n * MS, end: 300n * MS };
  show(looked);
  await grow(10);
  assert.deepEqual(view.value, looked);

  change({ selection: { begin: 5n * MS, end: 7n * MS }, event: 3, chosen: ['a'], cursor: 6n * MS });
  const kept = state.value;
  toggleFollowing();
  assert.deepEqual([following.value, view.value], [true, { begin: 810n * MS, end: 1010n * MS }]);
  await grow(500);
  assert.deepEqual(view.value, { begin: 1310n * MS, end: 1510n * MS });
  // All else stays, and changes of something else do not end it.
  assert.deepEqual({ ...state.value, view: null }, { ...kept, view: null });
  change({ cursor: 1400n * MS });
  assert.ok(following.value);

  act.panBy(-50n * MS);
  assert.ok(!following.value);
  const panned = view.value;
  await grow(100);
  assert.deepEqual(view.value, panned);

  // The whole keeps its length, too, and whoever zooms out wants to see all of it.
  act.showAll();
  toggleFollowing();
  await grow(100);
  assert.deepEqual(view.value, { begin: 100n * MS, end: 1710n * MS });
  act.showAll();
  assert.ok(!following.value);
  await grow(10);
  assert.deepEqual(view.value, fullRange.value);
});
