// Questions to the source, and when it can answer.
import { computed, effect, signal } from '@preact/signals';
import { type Source, Unreachable } from '../api/source';
import type { ErrorBody } from '../api/types';
import { session } from './store';

export type Phase = 'loading' | 'ready' | 'error' | 'token' | 'ended';

export const phase = signal<Phase>('loading');
export const failure = signal<ErrorBody | null>(null);
/** Changes when what was answered before may be out of date. */
export const epoch = signal(0);

let source: Source;

/** Lets answers come from this source. */
export const answerFrom = (from: Source): void => {
  source = from;
};

/** The source that answers come from. */
export const currentSource = (): Source => source;

/** Questions that have answers before all events are counted, as long as there is no filter. */
const EARLY = new Set(['session', 'tracks', 'tiles', 'problems']);

/** Asks the source that the page was opened with. What needs the index waits here for it: a refusal would be on the console. */
export async function ask<T>(
  path: string,
  query: Record<string, string | number | null | undefined> = {},
  abort?: AbortSignal,
): Promise<T> {
  if (!complete.peek() && (query['filter'] || !EARLY.has(path))) await counted(abort);
  return source.get<T>(path, query, abort);
}
export const post = <T>(path: string, body: unknown, abort?: AbortSignal): Promise<T> =>
  source.post<T>(path, body, abort);

export const generation = computed(() => String(session.value?.generation ?? ''));
export const complete = computed(() => session.value?.index.state === 'complete');

/** When all events are counted; fails when they never will be. */
export const counted = (abort?: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    let stop = (): void => {};
    const end = (then: () => void): void => {
      queueMicrotask(() => stop());
      then();
    };
    abort?.addEventListener('abort', () => end(() => reject(abort.reason)), { once: true });
    stop = effect(() => {
      if (complete.value) end(resolve);
      else if (phase.value === 'ended' || phase.value === 'token')
        end(() => reject(new Unreachable('the server has ended')));
    });
  });

/** A message that stays in sight until it is closed, or the next one comes. */
export const notice = signal('');
