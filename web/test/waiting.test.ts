import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Query } from '../src/api/source';
import type { Progress, Session } from '../src/api/types';
import { Memory } from './memory';

/** A source that counts until it is told that it is done. */
class Counting extends Memory {
  readonly asked: string[] = [];
  done = false;
  private hear: (progress: Progress) => void = () => {};

  override async get<T>(path: string, query: Query = {}): Promise<T> {
    this.asked.push(query['filter'] ? `${path} with a filter` : path);
    const value = await super.get<T>(path, query);
    return path === 'session' && !this.done ? { ...value, index: { state: 'counting', done: 0.5 } } : value;
  }

  override watch(hear: (progress: Progress) => void, signal: AbortSignal): Promise<void> {
    this.hear = hear;
    return super.watch(hear, signal);
  }

  finish(): void {
    this.done = true;
    this.hear({ kind: 'index', index: { state: 'complete', done: 1 } });
  }
}

test('what needs the index is asked when there is one', async () => {
  const { ask } = await import('../src/state/session');
  const { start } = await import('../src/state/watch');
  const source = new Counting([
    { ns: 5n, name: 'a', track: 's0' },
    { ns: 9n, name: 'b', track: 's0' },
  ]);
  const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20));
  await start(source);
  const answers: string[] = [];
  const given = new AbortController();
  const abandoned = ask('search', { q: 'a', from: -1, direction: 'next' }, given.signal).then(
    () => 'answered',
    () => 'given up',
  );
  void ask('events', { from: 0, limit: 10 }).then(() => answers.push('events'));
  void ask('tracks', { filter: 'name == "a"' }).then(() => answers.push('filtered'));
  void ask('tracks').then(() => answers.push('tracks'));
  await turn();
  given.abort();
  assert.equal(await abandoned, 'given up');
  assert.deepEqual(answers, ['tracks']);
  assert.ok(
    !source.asked.some((q) => q === 'events' || q === 'search' || q.endsWith('filter')),
    source.asked.join(', '),
  );
  source.finish();
  await turn();
  assert.deepEqual(answers.sort(), ['events', 'filtered', 'tracks']);
  assert.ok(!source.asked.includes('search'));
  assert.equal((await ask<Session>('session')).index.state, 'complete');
});
