// Search by name, and in values.
import { signal } from '@preact/signals';
import type { Match } from '../api/types';
import { reportFailure } from './answers';
import { hold } from './busy';
import { ask, complete } from './session';
import { state } from './store';

export interface Found {
  readonly query: string;
  readonly inValues: boolean;
  readonly index: number | null;
  readonly count: number | null;
  readonly filter: string;
}
export const found = signal<Found | null>(null);
export const inValues = signal(false);
const COUNT_MS = 200;
let searching: AbortController | null = null;

/** Goes to the next or the previous event whose name holds the text. */
export async function search(query: string, direction: 'next' | 'previous'): Promise<Match['match']> {
  searching?.abort();
  const mine = (searching = new AbortController());
  if (query === '') {
    found.value = null;
    return null;
  }
  const { filter, event } = state.peek();
  const from = event ?? (direction === 'next' ? -1 : Number.MAX_SAFE_INTEGER);
  const fields = inValues.peek();
  const once = (at: number, way: string): Promise<Match> =>
    ask<Match>('search', { q: query, from: at, direction: way, fields: fields ? 1 : null, filter }, mine.signal);
  const end = hold();
  try {
    let answer = await once(from, direction);
    // Beyond the last match is the first one again.
    if (!answer.match && answer.count !== 0)
      answer = await once(direction === 'next' ? -1 : Number.MAX_SAFE_INTEGER, direction);
    if (mine.signal.aborted) return null;
    const show = ({ index, count }: Match): void => {
      found.value = { query, inValues: fields, index, count, filter };
    };
    show(answer);
    if (answer.count === null) void countMatches(() => once(from, direction), show, mine.signal);
    return answer.match;
  } catch (e) {
    if (!mine.signal.aborted) reportFailure(e);
    return null;
  } finally {
    end();
  }
}

async function countMatches(again: () => Promise<Match>, show: (m: Match) => void, abort: AbortSignal): Promise<void> {
  const end = complete.peek() ? hold() : () => {};
  try {
    while (!abort.aborted) {
      await new Promise((resolve) => setTimeout(resolve, COUNT_MS));
      if (abort.aborted) return;
      const answer = await again();
      if (answer.count === null) continue;
      if (!abort.aborted && found.peek()) show({ ...answer, index: answer.index ?? found.peek()?.index ?? null });
      return;
    }
  } catch (e) {
    if (!abort.aborted) reportFailure(e);
  } finally {
    end();
  }
}
