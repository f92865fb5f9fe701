// Tracks and states that the search finds by their names, beside events.
import { computed } from '@preact/signals';
import type { Located, Track } from '../api/types';
import { currentTrack, scrollTo, searchFor, takeLocated, toggleFold } from './actions';
import { reportFailure } from './answers';
import { whileBusy } from './busy';
import { found } from './search';
import { ask } from './session';
import { subjectOf } from './states';
import { session, state, view } from './store';
import { layout, tracks } from './tracks';

export interface Finding {
  readonly kind: 'track' | 'state';
  readonly id: string;
  readonly label: string;
  readonly note: string;
  run(): void;
}

const MOST_TRACKS = 8;
const KINDS: Readonly<Record<Exclude<Track['kind'], 'state'>, string>> = {
  group: 'trace',
  heading: '',
  events: 'stream',
  calls: 'calls',
  counter: 'counter',
};

const kindOf = (track: Track): string => (track.kind === 'state' ? subjectOf(track.id) : KINDS[track.kind]);

/** Shows a track, whatever it stands below, and lets keys work on it. */
export function goToTrack(id: string): void {
  const byId = new Map(tracks.peek().map((t) => [t.id, t]));
  for (let at = byId.get(id), steps = 0; at?.parent != null && steps < byId.size; steps++) {
    const row = layout.peek().rows.find((r) => r.track.id === at?.parent);
    if (row?.unfolded === false) toggleFold(row.track.id);
    at = byId.get(at.parent);
  }
  currentTrack.value = id;
  scrollTo(id);
  requestAnimationFrame(() =>
    requestAnimationFrame(() => document.querySelector<HTMLElement>(`[data-track="${CSS.escape(id)}"]`)?.focus()),
  );
}

/** Goes to the next piece of time after the cursor, or the one before, whose state has the text in its name; beyond the last one is the first one. */
export async function goToState(name: string, direction: 'next' | 'previous'): Promise<boolean> {
  const { cursor, slice } = state.peek();
  const once = (at: bigint): Promise<Located> => ask<Located>('state', { name, at: String(at), direction });
  try {
    const from = slice?.at ?? cursor ?? view.peek().begin - 1n;
    let found = await whileBusy(once(from));
    if (found.track === undefined) found = await whileBusy(once(direction === 'next' ? -(1n << 62n) : 1n << 62n));
    if (found.track === undefined) return false;
    takeLocated(found.track, found);
    scrollTo(found.track);
    return true;
  } catch (e) {
    reportFailure(e);
    return false;
  }
}

/** Threads, CPUs, other tracks and states whose names hold what is searched. */
export const findings = computed<readonly Finding[]>(() => {
  const text = state.value.query.trim().toLowerCase();
  if (text === '') return [];
  const states = session.value?.states;
  const names = [...new Set([...(states?.threads ?? []), ...(states?.cpus ?? [])])].filter(
    (name) => name !== 'idle' && name.includes(text),
  );
  const found: Finding[] = names.map((name) => ({
    kind: 'state',
    id: name,
    label: name,
    note: 'state',
    run: () => void goToState(name, 'next'),
  }));
  const starts = (track: Track): number => (track.name.toLowerCase().startsWith(text) ? 0 : 1);
  const own = tracks.value
    .filter((t) => t.kind !== 'heading' && t.name.toLowerCase().includes(text))
    .sort((a, b) => starts(a) - starts(b));
  return [
    ...own
      .slice(0, MOST_TRACKS)
      .map((t): Finding => ({ kind: 'track', id: t.id, label: t.name, note: kindOf(t), run: () => goToTrack(t.id) })),
    ...found,
  ];
});

/** Goes to the next event whose name holds what is searched; where there is none, to the next such state, or the next such track. */
export async function searchAll(direction: 'next' | 'previous'): Promise<void> {
  const { query } = state.peek();
  await searchFor(direction);
  if (query === '' || found.peek()?.query !== query || found.peek()?.count !== 0) return;
  const list = findings.peek();
  if (list.some((f) => f.kind === 'state')) {
    await goToState(query.trim(), direction);
    return;
  }
  const own = list.filter((f) => f.kind === 'track');
  const at = own.findIndex((f) => f.id === currentTrack.peek());
  own[
    (at + (direction === 'next' ? 1 : -1) + own.length + (at < 0 && direction === 'previous' ? 1 : 0)) % own.length
  ]?.run();
}
