// Tracks, and the rows that follow from them.
import { batch, computed, effect, type ReadonlySignal, signal } from '@preact/signals';
import { ApiError } from '../api/source';
import type { Session, Track, TracksOfGroup } from '../api/types';
import { layoutOf, type Order, type Row, rowsBetween } from '../draw/layout';
import { type Activity, withActive } from './active';
import { answer } from './answers';
import { filterError } from './filter';
import { readGroupKey, withGroups } from './groups';
import { withPlots } from './plots';
import { ask, complete, epoch, failure, notice, phase } from './session';
import { change, session, state, view } from './store';

/** Tracks that came with the session: the question for them that follows has its answer already. */
let sessionTracks: Track[] | null = null;

/** Does something while the tracks of a session that takes its place are known. */
export function withTracksOf(now: Session, work: () => void): void {
  sessionTracks = now.tracks ?? null;
  batch(work);
  sessionTracks = null;
}

const tracksAnswer = answer<{ tracks: Track[] }>(() => {
  if (!session.value || phase.value === 'token') return null;
  const filter = state.value.filter;
  return {
    key: `${filter}\n${epoch.value}`,
    ask(abort) {
      const known = filter === '' ? sessionTracks : null;
      return known ? Promise.resolve({ tracks: known }) : ask('tracks', { filter }, abort);
    },
  };
});

/** Tracks as the filter leaves them. The answer before the present one stays until that is there. */
export const visibleTracks = signal<readonly Track[]>([]);
effect(() => {
  const { value, error, pending } = tracksAnswer.value;
  if (value && !pending) visibleTracks.value = value.tracks;
  if (error?.body.code === 'filter' && !pending) {
    const text = state.peek().filter;
    filterError.value = { text, error: error.body };
    change({ filter: '' });
  } else if (error && !pending && phase.peek() === 'loading') {
    failure.value = error.body;
    phase.value = 'error';
  }
});

const PLOTS_MS = 300;
const plotsAnswer = answer<Track[]>(() => {
  const { plots, filter } = state.value;
  if (!session.value || plots.length === 0 || phase.value === 'token') return null;
  // A link may name what these traces do not have.
  const one = (id: string, abort: AbortSignal): Promise<Track | null> =>
    ask<Track>(`track/${encodeURIComponent(id)}`, { filter }, abort).catch((e: unknown) => {
      if (e instanceof ApiError && e.status !== 401) return null;
      throw e;
    });
  return {
    key: `${plots.join(',')}\n${filter}\n${epoch.value}`,
    ask: async (abort) => (await Promise.all(plots.map((id) => one(id, abort)))).filter((t) => t !== null),
    again: (value) => (value.some((t) => (t.done ?? 1) < 1) ? { afterMs: PLOTS_MS, busy: false } : null),
  };
});
const GROUPS_MS = 200;
const groups = computed(() => state.value.groups);
/** Tracks by the values of a path, of the traces that are grouped so. */
export const groupsAnswer = answer<TracksOfGroup[]>(() => {
  const { filter } = state.value;
  if (!session.value || groups.value.length === 0 || phase.value === 'token') return null;
  const wanted = groups.value.map(readGroupKey).filter((g) => g !== null);
  const known = visibleTracks.value;
  return {
    key: `${groups.value.join(',')}\n${filter}\n${epoch.value}\n${known.length > 0}`,
    async ask(abort) {
      const one = async ({ group, path }: { group: string; path: string }): Promise<TracksOfGroup | null> => {
        const trace = known.find((t) => t.id === group && t.kind === 'group')?.trace;
        if (trace == null) return null;
        try {
          return { ...(await ask<TracksOfGroup>('tracks', { group: path, trace, filter }, abort)), of: group };
        } catch (e) {
          if (!(e instanceof ApiError) || e.status === 401) throw e;
          // A filter may leave no such event: then nothing is there to be grouped.
          if (filter === '') {
            notice.value = e.body.message + (e.body.help ? `; ${e.body.help}` : '');
            ungroup(group);
          }
          return null;
        }
      };
      return (await Promise.all(wanted.map(one))).filter((g) => g !== null);
    },
    again: (value) => (value.some((g) => g.done < 1) ? { afterMs: GROUPS_MS, busy: complete.peek() } : null),
  };
});
export const ungroup = (group: string): void =>
  change({ groups: state.peek().groups.filter((key) => readGroupKey(key)?.group !== group) });

/** Whether the threads of kernel traces are in the order of what they did in view, and not below those that made them. */
export const busiestFirst = signal(true);
const ACTIVITY_MS = 250;
/** For how long each thread ran in view, the busiest first. */
const activityAnswer = answer<{ tracks: Activity[] }>(() => {
  if (
    !busiestFirst.value ||
    !session.value?.states?.threads.length ||
    !complete.value ||
    phase.value === 'ended' ||
    phase.value === 'token'
  )
    return null;
  const { begin, end } = view.value;
  return {
    key: `${begin} ${end}\n${epoch.value}`,
    async ask(abort) {
      // Rows stay where they are as long as the view moves.
      await new Promise((resolve) => setTimeout(resolve, ACTIVITY_MS));
      abort.throwIfAborted();
      return ask('activity', { begin: String(begin), end: String(end) }, abort);
    },
  };
});

const NO_ACTIVITY: readonly Activity[] = [];
export const tracks = computed(() =>
  withActive(
    withPlots(
      withGroups(visibleTracks.value, groups.value.length ? (groupsAnswer.value.value ?? []) : []),
      plotsAnswer.value.value ?? [],
    ),
    activityAnswer.value.value?.tracks ?? NO_ACTIVITY,
  ),
);
export const trackById = computed(() => new Map(tracks.value.map((t) => [t.id, t])));

/** Parts of the state that rows follow from: they stay the same values while the view moves. */
const [folds, pins, hidden, first, last] = (['folds', 'pins', 'hidden', 'first', 'last'] as const).map((key) =>
  computed(() => state.value[key]),
) as [
  ReadonlySignal<readonly string[]>,
  ReadonlySignal<readonly string[]>,
  ReadonlySignal<readonly string[]>,
  ReadonlySignal<readonly string[]>,
  ReadonlySignal<readonly string[]>,
];
export const order = computed<Order>(() => ({ hidden: hidden.value, first: first.value, last: last.value }));
/** The first lane that is shown of tracks that have more than there is room for. */
export const lanesFrom = signal<ReadonlyMap<string, number>>(new Map());
export const layout = computed(() => layoutOf(tracks.value, folds.value, pins.value, order.value, lanesFrom.value));
export const hasCalls = computed(() => tracks.value.some((t) => t.kind === 'calls'));
/** Samples are shown where there are no calls. */
export const hasSamples = computed(() => !hasCalls.value && (session.value?.features.includes('samples') ?? false));

/** The box that rows are drawn in, and how far they are scrolled. */
export const viewport = signal<{ width: number; height: number }>({ width: 0, height: 0 });
export const scroll = signal(0);

export const rowsInSight = computed<readonly Row[]>(() => {
  const { rows, pinned, pinnedHeight } = layout.value;
  return [
    ...pinned,
    ...rowsBetween(rows, scroll.value, scroll.value + Math.max(0, viewport.value.height - pinnedHeight)),
  ];
});
