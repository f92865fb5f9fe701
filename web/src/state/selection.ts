// The selection: an event, a call, a state, a range.
import { computed, signal } from '@preact/signals';
import { ApiError } from '../api/source';
import type { CallDetails, EventDetails, FlameAnswer, Located, Problems, Selection } from '../api/types';
import { answer, reportFailure } from './answers';
import { whileBusy } from './busy';
import { ask, complete, epoch } from './session';
import { session, state } from './store';
import { hasCalls, hasSamples } from './tracks';

export const eventAnswer = answer<EventDetails>(() => {
  const { event } = state.value;
  const events = session.value?.events;
  if (event === null || !session.value || (events != null && event >= events)) return null;
  return { key: `${event}\n${epoch.value}`, ask: (abort) => ask(`event/${event}`, {}, abort) };
});
export const callAnswer = answer<CallDetails>(() => {
  const { call } = state.value;
  if (call === null || !session.value) return null;
  return {
    key: `${call.track}:${call.call}\n${epoch.value}`,
    ask: (abort) => ask(`call/${encodeURIComponent(call.track)}/${call.call}`, {}, abort),
  };
});

export const sliceAnswer = answer<Located>(() => {
  const { slice } = state.value;
  if (slice === null || !session.value) return null;
  const { track, at, depth } = slice;
  return {
    key: `${track}:${at}:${depth}\n${epoch.value}`,
    async ask(abort) {
      const found = await ask<Located | { at: Located | null }>(
        'locate',
        { track, at: String(at), direction: 'nearest', depth },
        abort,
      );
      return 'at' in found ? (found.at ?? { begin: null, end: null }) : found;
    },
  };
});

/** The subject of statistics, as questions name it. */
export const rangeQuery = (): { begin: string | null; end: string | null; tracks: string; filter: string } => {
  const { selection, chosen, filter } = state.value;
  return {
    begin: selection ? String(selection.begin) : null,
    end: selection ? String(selection.end) : null,
    tracks: chosen.join(','),
    filter,
  };
};
const selectKey = (): string => `${Object.values(rangeQuery()).join('\n')}\n${epoch.value}`;
const RETRY_MS = 400;

export const selected = computed(() => state.value.selection !== null || state.value.chosen.length > 0);
export const selectAnswer = answer<Selection>(() => {
  if (!session.value || !(selected.value || state.value.tab === 'selection' || state.value.tab === 'calls'))
    return null;
  const query = rangeQuery();
  return {
    key: selectKey(),
    ask: (abort) => ask('select', query, abort),
    again: (value) => (value.complete === false ? { afterMs: RETRY_MS, busy: complete.peek() } : null),
  };
});
/** The event whose samples are wanted; null is that of the most. */
export const sampledEvent = signal<string | null>(null);
export const flameAnswer = answer<FlameAnswer>(() => {
  if (!session.value || state.value.tab !== 'flame' || !(hasCalls.value || hasSamples.value)) return null;
  const query = { ...rangeQuery(), event: hasSamples.value ? sampledEvent.value : null };
  return { key: `${selectKey()}\n${query.event ?? ''}`, ask: (abort) => ask('flame', query, abort) };
});
export const problemsAnswer = answer<Problems>(() => {
  if (!session.value) return null;
  return { key: `${epoch.value}`, ask: (abort) => ask('problems', {}, abort) };
});

/** The event or slice at a time of a track, or beside it. */
export const locate = (
  track: string,
  at: bigint,
  direction: 'next' | 'previous' | 'nearest',
  depth: number | null = null,
): Promise<Located | null> =>
  whileBusy(
    ask<Located | { at: Located | null }>('locate', { track, at: String(at), direction, depth }).then(
      (l) => ('at' in l ? l.at : l),
      (e: unknown) => {
        if (!(e instanceof ApiError && e.status === 404)) reportFailure(e);
        return null;
      },
    ),
  );

/** The exact thing at a time of a track, in a lane where it has lanes, or else the nearest that is at most `slack` ns away. Null when the source cannot tell: it is still being read. */
export async function locateAt(
  track: string,
  at: bigint,
  slack: bigint,
  depth: number | null,
): Promise<Located | null> {
  const { filter } = state.peek();
  try {
    return await ask<Located>('locate', {
      track,
      at: String(at),
      direction: 'at',
      slack: String(slack),
      depth,
      filter,
    });
  } catch (e) {
    if (!(e instanceof ApiError && (e.status === 404 || e.status === 503))) reportFailure(e);
    return null;
  }
}
