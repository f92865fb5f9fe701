// Drawings above the tiles: arrows of wakes, and texts of events.
import { computed, signal } from '@preact/signals';
import type { Rows, Wakeup } from '../api/types';
import { isLog, type Titled } from '../draw/timeline';
import { answer } from './answers';
import { andConditions, quoted } from './filters';
import { ask, complete, epoch, phase } from './session';
import { session, state, view } from './store';

const REST_MS = 100;

/** Arrows from who woke to who was woken, of the thread whose state is chosen. */
export const wakeupsAnswer = answer<{ wakeups: Wakeup[]; left_out: number }>(() => {
  const { slice } = state.value;
  // Periods have slices, too, and are woken by nobody.
  const isState = slice !== null && /^s\d/.test(slice.track);
  if (!session.value?.features.includes('wakeups') || !isState || phase.value === 'ended') return null;
  const { begin, end } = view.value;
  return {
    key: `${slice.track} ${begin} ${end}\n${epoch.value}`,
    async ask(abort) {
      await new Promise((resolve) => setTimeout(resolve, REST_MS));
      abort.throwIfAborted();
      return ask('wakeups', { track: slice.track, begin: String(begin), end: String(end) }, abort);
    },
  };
});

/** Whether such events of logs are in view. */
export const logsShown = signal(false);
const MOST_TITLES = 1000;
const titlesAnswer = answer<Rows>(() => {
  if (!session.value || !logsShown.value || !complete.value || phase.value === 'ended') return null;
  const { begin } = view.value;
  // Events of other traces would take the room.
  const { traces } = session.value;
  const logs = traces.filter((t) => isLog(t.format));
  const own =
    logs.length === traces.length || logs.some((t) => t.name === null)
      ? ''
      : `trace in (${logs.map((t) => quoted(t.name ?? '')).join(', ')})`;
  const filter = andConditions(state.value.filter, own);
  return {
    key: `${begin} ${view.value.end}\n${filter}\n${epoch.value}`,
    async ask(abort) {
      // Not for each step of a journey.
      await new Promise((resolve) => setTimeout(resolve, REST_MS));
      abort.throwIfAborted();
      return ask<Rows>('events', { at: String(begin), limit: MOST_TITLES, filter }, abort);
    },
  };
});
/** By track, in the order of time. */
export const titles = computed<ReadonlyMap<string, readonly Titled[]>>(() => {
  const by = new Map<string, Titled[]>();
  for (const { ns, title, name, track } of titlesAnswer.value.value?.rows ?? []) {
    if (ns === null || title === name) continue;
    const list = by.get(track);
    if (list) list.push({ ns: BigInt(ns), title });
    else by.set(track, [{ ns: BigInt(ns), title }]);
  }
  for (const list of by.values()) list.sort((a, b) => (a.ns < b.ns ? -1 : a.ns > b.ns ? 1 : 0));
  return by;
});
