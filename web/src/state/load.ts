// Everything that is asked of the source, and when.
import { batch, computed, effect, signal, type ReadonlySignal } from '@preact/signals';
import { ApiError, Unreachable, type Source } from '../api/source';
import type {
  CallDetails,
  ErrorBody,
  EventDetails,
  FlameNode,
  IndexProgress,
  Located,
  Match,
  Problems,
  Progress,
  Rows,
  Selection,
  Session,
  Tiles,
  Track,
  TracksOfGroup,
  Wakeup,
} from '../api/types';
import { levelOf, tilesOf, type Range } from '../time/range';
import { lanesToAsk, layoutOf, rowsBetween, type Order, type Row } from '../draw/layout';
import { isLog, showsTiles, type Titled } from '../draw/timeline';
import { withActive, type Activity } from './active';
import { answer, onLost, reportFailure } from './answers';
import { hold, whileBusy } from './busy';
import { both, quoted } from './filters';
import { readGroupKey, withGroups } from './groups';
import { withPlots } from './plots';
import { RowStore } from './rows';
import { change, origin, session, state, view, whole } from './store';
import { TileStore } from './tiles';

export type Phase = 'loading' | 'ready' | 'error' | 'token' | 'ended';

export const phase = signal<Phase>('loading');
export const failure = signal<ErrorBody | null>(null);
/** Changes when what was answered before may be out of date. */
export const epoch = signal(0);

let source: Source;
const stopped = new AbortController();

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

const generation = computed(() => String(session.value?.generation ?? ''));
const complete = computed(() => session.value?.index.state === 'complete');
export const indexComplete = complete;

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

// Tracks and rows of the timeline.

/** How far the filter went through the events, as far as that was told. */
export const filterDone = signal<number | null>(null);
export const filterError = signal<{ text: string; error: ErrorBody } | null>(null);

/** Tracks that came with the session. */
let broughtTracks: Track[] | null = null;

const tracksAnswer = answer<{ tracks: Track[] }>(() => {
  if (!session.value || phase.value === 'token') return null;
  const filter = state.value.filter;
  return {
    key: `${filter}\n${epoch.value}`,
    ask(abort) {
      const brought = filter === '' ? broughtTracks : null;
      return brought ? Promise.resolve({ tracks: brought }) : ask('tracks', { filter }, abort);
    },
  };
});

/** Tracks as the filter leaves them. The answer before the present one stays until that is there. */
export const given = signal<readonly Track[]>([]);
effect(() => {
  const { value, error, pending } = tracksAnswer.value;
  if (value && !pending) given.value = value.tracks;
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
  const known = given.value;
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
/** A message that stays in sight until somebody closes it, or the next one comes. */
export const notice = signal('');
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
      withGroups(given.value, groups.value.length ? (groupsAnswer.value.value ?? []) : []),
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

// Tiles.

export const plainTiles = new TileStore();
export const filteredTiles = new TileStore();
/** Changes when tiles arrive, and when some have become stale. */
export const tilesArrived = signal(0);
const tilesStale = signal(0);
export const tilesShown = computed(() => (state.value.filter ? filteredTiles : plainTiles));
let filteredBy = '';

interface Flight {
  readonly abort: AbortController;
  readonly keys: readonly string[];
  readonly keep: boolean;
}
const flights = new Set<Flight>();
const flying = new Set<string>();
const MOST_FLIGHTS = 10;
const MOST_TRACKS = 64;
const MOST_TILES = 4096;
const REST_MS = 100;

effect(() => {
  const filter = state.value.filter;
  if (filter === filteredBy) return;
  filteredBy = filter;
  filterDone.value = null;
  filteredTiles.clear();
});

effect(() => {
  void tilesStale.value;
  const { width } = viewport.value;
  if (width === 0 || !session.value || phase.value === 'token' || phase.value === 'ended') return;
  const ids = rowsInSight.value.filter(showsTiles).map((r) => r.track.id);
  const level = levelOf(view.value, width);
  wantTiles(plainTiles, '', ids, level, view.value, false);
  if (state.value.filter) wantTiles(filteredTiles, state.value.filter, ids, level, view.value, false);
  refineAtRest();
});

/** Asks for the tiles that are missing, those of several tracks in one question. */
function wantTiles(
  store: TileStore,
  filter: string,
  ids: readonly string[],
  level: number,
  over: Range,
  keep: boolean,
  exact = false,
): void {
  const { from, to } = tilesOf(over, level, origin.peek());
  const groups = new Map<string, { first: number; last: number; ids: string[] }>();
  for (const id of ids) {
    let first = -1;
    let last = -1;
    for (let index = from; index <= to; index++) {
      if (!store.wants(id, level, index, exact) || flying.has(flightKey(filter, id, level, index, exact))) continue;
      if (first < 0) first = index;
      last = index;
    }
    if (first < 0) continue;
    // A counter may have to be read first: nobody else waits for that.
    const lane = laneOf(id);
    const key = trackById.peek().get(id)?.kind === 'counter' ? id : `${first} ${last} ${lane}`;
    const group = groups.get(key);
    if (group) group.ids.push(id);
    else groups.set(key, { first, last, ids: [id] });
  }
  for (const { first, last, ids: wanted } of groups.values()) {
    const most = Math.max(1, Math.min(MOST_TRACKS, Math.floor(MOST_TILES / (last - first + 1))));
    for (let i = 0; i < wanted.length; i += most)
      void fetchTiles(store, filter, wanted.slice(i, i + most), level, first, last, keep, exact);
  }
}

/** The first lane of a track that is asked for. */
const laneOf = (id: string): number => lanesWanted.peek().get(id) ?? 0;
const lanesWanted = computed(() => lanesToAsk(layout.value));
let lanesAsked: ReadonlyMap<string, number> = new Map();
// Whoever goes to deeper lanes, or folds a track there, has no tiles of the lanes that are in sight now.
effect(() => {
  const now = lanesWanted.value;
  const moved = [...new Set([...now.keys(), ...lanesAsked.keys()])].filter((id) => now.get(id) !== lanesAsked.get(id));
  lanesAsked = now;
  if (moved.length === 0) return;
  for (const id of moved) for (const store of [plainTiles, filteredTiles]) store.markTrack(id);
  // Answers that are under way have the lanes of before.
  for (const flight of flights) {
    flight.abort.abort();
    for (const key of flight.keys) flying.delete(key);
  }
  tilesStale.value = tilesStale.peek() + 1;
});

/** Whether the first tiles are on their way: no longer than for a moment. */
export const awaitsTiles = (): boolean => tilesArrived.peek() === 0 && !tilesLate.peek() && flights.size > 0;
const FIRST_MS = 250;
/** Set when whoever waits for the first tiles has waited long enough. */
export const tilesLate = signal(false);

const flightKey = (filter: string, id: string, level: number, index: number, exact: boolean): string =>
  `${filter}\n${id} ${level} ${index} ${exact ? 1 : 0}`;

async function fetchTiles(
  store: TileStore,
  filter: string,
  ids: readonly string[],
  level: number,
  from: number,
  to: number,
  keep: boolean,
  exact: boolean,
): Promise<void> {
  const keys: string[] = [];
  for (const id of ids) for (let i = from; i <= to; i++) keys.push(flightKey(filter, id, level, i, exact));
  const flight: Flight = { abort: new AbortController(), keys, keep };
  flights.add(flight);
  keys.forEach((k) => flying.add(k));
  // A fast journey leaves questions behind that nobody looks at the answers of.
  if (flights.size > MOST_FLIGHTS)
    for (const old of flights) {
      if (!old.keep && old !== flight) {
        old.abort.abort();
        break;
      }
    }
  const end = hold();
  try {
    const answer = await ask<Tiles>(
      'tiles',
      {
        tracks: ids.join(','),
        level,
        from,
        to,
        lane: laneOf(ids[0] ?? ''),
        g: complete.peek() ? generation.peek() : null,
        exact: exact ? 1 : null,
        filter,
      },
      flight.abort.signal,
    );
    if (filter !== '' && filter !== state.peek().filter) return;
    batch(() => {
      store.put(answer);
      tilesArrived.value = tilesArrived.peek() + 1;
    });
    if (!exact) refineAtRest();
  } catch (e) {
    if (!flight.abort.signal.aborted) reportFailure(e);
  } finally {
    flights.delete(flight);
    keys.forEach((k) => flying.delete(k));
    end();
  }
}

// An answer that was estimated to be quick is asked for again when the view stays where it is.

let restTimer: ReturnType<typeof setTimeout> | null = null;
let restEnd: (() => void) | null = null;
/** Tiles that were asked for exactly already: whatever came is kept. */
const refined = new Set<string>();
const MOST_REFINED = 20_000;

/** The tracks in sight that have estimates in view, although the index is complete. */
function inexactInView(): {
  store: TileStore;
  filter: string;
  ids: string[];
  level: number;
  from: number;
  to: number;
}[] {
  const { width } = viewport.peek();
  if (!complete.peek() || width === 0) return [];
  const level = levelOf(view.peek(), width);
  const { from, to } = tilesOf(view.peek(), level, origin.peek());
  const rows = rowsInSight
    .peek()
    .filter(showsTiles)
    .map((r) => r.track.id);
  const { filter } = state.peek();
  const of = (store: TileStore, by: string): ReturnType<typeof inexactInView>[number] => {
    const rough = (id: string): boolean => {
      for (let index = from; index <= to; index++)
        if (store.isEstimate(id, level, index) && !refined.has(flightKey(by, id, level, index, true))) return true;
      return false;
    };
    return { store, filter: by, ids: rows.filter(rough), level, from, to };
  };
  return [of(plainTiles, ''), ...(filter ? [of(filteredTiles, filter)] : [])].filter((w) => w.ids.length > 0);
}

function refineAtRest(): void {
  if (restTimer !== null) clearTimeout(restTimer);
  restTimer = null;
  restEnd?.();
  restEnd = null;
  if (inexactInView().length === 0) return;
  restEnd = hold();
  restTimer = setTimeout(() => {
    restTimer = null;
    if (refined.size > MOST_REFINED) refined.clear();
    for (const { store, filter, ids, level, from, to } of inexactInView()) {
      for (const id of ids)
        for (let index = from; index <= to; index++) refined.add(flightKey(filter, id, level, index, true));
      for (let i = 0; i < ids.length; i += MOST_TRACKS)
        void fetchTiles(store, filter, ids.slice(i, i + MOST_TRACKS), level, from, to, false, true);
    }
    restEnd?.();
    restEnd = null;
  }, REST_MS);
}

// The overview: all events of the whole.

/** Buckets of the overview are at most this part of it. */
const OVERVIEW_BUCKETS = 800;
const MOST_OVERVIEW_TRACKS = 256;

/** The tracks whose events together are all events: groups where there are any, else those that hold events. */
export const overviewTracks = computed<readonly string[]>(() => {
  const roots = tracks.value.filter((t) => t.parent === null);
  const list = roots.length > 0 && roots.every((t) => t.kind === 'group') ? roots : tracks.value.filter((t) => t.base);
  return list.slice(0, MOST_OVERVIEW_TRACKS).map((t) => t.id);
});
export const overviewLevel = computed(() => levelOf(whole.value, OVERVIEW_BUCKETS));

effect(() => {
  void tilesStale.value;
  if (!session.value || overviewTracks.value.length === 0 || phase.value === 'ended') return;
  wantTiles(plainTiles, '', overviewTracks.value, overviewLevel.value, whole.value, true);
});
// What stands in for every finer tile.
effect(() => {
  void tilesStale.value;
  const { width } = viewport.value;
  if (width === 0 || !session.value || state.value.view === null || phase.value === 'ended') return;
  wantTiles(
    plainTiles,
    '',
    rowsInSight.value.filter(showsTiles).map((r) => r.track.id),
    levelOf(whole.value, width),
    whole.value,
    true,
  );
});

// Wakes of the chosen thread.

/** Arrows from who woke to who was woken, of the thread whose state is chosen. */
export const wakeupsAnswer = answer<{ wakeups: Wakeup[]; left_out: number }>(() => {
  const { slice } = state.value;
  if (!session.value?.features.includes('wakeups') || slice === null || phase.value === 'ended') return null;
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

// Texts of events that are drawn one by one.

/** Whether such events of logs are in view. */
export const logsShown = signal(false);
const MOST_TITLES = 1000;
const titlesAnswer = answer<Rows>(() => {
  if (!session.value || !logsShown.value || !complete.value || phase.value === 'ended') return null;
  const { begin } = view.value;
  // Those of other traces would take the room.
  const { traces } = session.value;
  const logs = traces.filter((t) => isLog(t.format));
  const own =
    logs.length === traces.length || logs.some((t) => t.name === null)
      ? ''
      : `trace in (${logs.map((t) => quoted(t.name ?? '')).join(', ')})`;
  const filter = both(state.value.filter, own);
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

// The table.

export const table = new RowStore((query, abort) => ask<Rows>('events', query, abort));
effect(() => {
  const { filter, columns, format } = state.value;
  const json = columns.length > 0 || format === 'cycles';
  if (session.value) table.restart(`${filter}\n${json ? 'json' : ''}\n${epoch.value}`, filter, json);
});

/** How many events the filter leaves; null until it is known. */
export const shownTotal = computed(
  () => table.total.value ?? (state.value.filter ? null : (session.value?.events ?? null)),
);

// What is chosen.

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

/** The place of the chosen event among the rows of the table. */
const LOOKED_AT = 500;
const placeAnswer = answer<number | null>(() => {
  const { filter, event } = state.value;
  if (event === null || filter === '') return null;
  const details = eventAnswer.value;
  if (details.value?.event !== event || details.pending || !details.value.ns) return null;
  const { ns } = details.value;
  return {
    key: `${filter}\n${event}\n${epoch.value}`,
    async ask(abort) {
      const found = await ask<Rows>('events', { at: ns, limit: LOOKED_AT, filter }, abort);
      const i = found.rows.findIndex((r) => r.event >= event);
      return i < 0 ? null : found.from + i;
    },
  };
});
export const chosenRow = computed<number | null>(() => {
  const { filter, event } = state.value;
  if (event === null) return null;
  return filter === '' ? event : placeAnswer.value.value;
});

/** What statistics are about, as questions say it. */
export const rangeQuery = (): { begin: string | null; end: string | null; tracks: string; filter: string } => {
  const { selection, chosen, filter } = state.value;
  return {
    begin: selection ? String(selection.begin) : null,
    end: selection ? String(selection.end) : null,
    tracks: chosen.join(','),
    filter,
  };
};
const selectKey = (): string => Object.values(rangeQuery()).join('\n') + `\n${epoch.value}`;
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
export const flameAnswer = answer<{ nodes: FlameNode[] }>(() => {
  if (!session.value || state.value.tab !== 'flame' || !hasCalls.value) return null;
  const query = rangeQuery();
  return { key: selectKey(), ask: (abort) => ask('flame', query, abort) };
});
export const problemsAnswer = answer<Problems>(() => {
  if (!session.value) return null;
  return { key: `${epoch.value}`, ask: (abort) => ask('problems', {}, abort) };
});

// Search.

export interface Found {
  readonly query: string;
  readonly inValues: boolean;
  readonly index: number | null;
  readonly count: number | null;
  readonly filter: string;
}
export const found = signal<Found | null>(null);
export const inValues = signal(false);
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
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS / 2));
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

/** What is exactly at a time of a track, in a lane where it has lanes, or else the nearest that is at most `slack` ns away. Null when the source cannot tell: it is still being read. */
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

// A filter.

/** Tries a filter; a mistake is shown and leaves the old one. */
export async function applyFilter(text: string): Promise<void> {
  const trimmed = text.trim();
  if (trimmed === state.peek().filter) {
    filterError.value = null;
    return;
  }
  try {
    await whileBusy(ask('tracks', { filter: trimmed }));
    filterError.value = null;
    change({ filter: trimmed }, 'jump');
  } catch (e) {
    const error = reportFailure(e);
    if (error) filterError.value = { text, error: error.body };
  }
}

// The beginning, and what changes later.

export async function start(from: Source): Promise<void> {
  source = from;
  onLost((why) => {
    if (phase.peek() !== 'ended') phase.value = why === 'token' ? 'token' : 'ended';
  });
  const end = hold();
  try {
    const now = await askSession();
    bring(now, () => {
      session.value = now;
    });
    setTimeout(() => {
      tilesLate.value = true;
    }, FIRST_MS);
  } catch (e) {
    fail(e);
    return;
  } finally {
    end();
  }
  void watch();
}

/** What is known of the traces, with their tracks as no filter leaves them: a question less on the way to what is drawn. */
const askSession = (): Promise<Session> => ask<Session>('session', { tracks: state.peek().filter === '' ? 1 : null });

/** Lets a session take its place; the question for its tracks that follows has its answer already. */
function bring(now: Session, put: () => void): void {
  broughtTracks = now.tracks ?? null;
  batch(put);
  broughtTracks = null;
}

function fail(e: unknown): void {
  if (e instanceof ApiError && e.status === 401) {
    phase.value = 'token';
    return;
  }
  failure.value =
    e instanceof ApiError ? e.body : { code: 'gone', message: e instanceof Error ? e.message : String(e) };
  phase.value = 'error';
}

/** Begins again after an error. */
export async function tryAgain(): Promise<void> {
  failure.value = null;
  phase.value = 'loading';
  await start(source);
}

const RECONNECT_MS = 400;

async function watch(): Promise<void> {
  for (let failures = 0; !stopped.signal.aborted && phase.peek() !== 'token'; ) {
    try {
      await source.watch((progress) => {
        failures = 0;
        hear(progress);
      }, stopped.signal);
    } catch (e) {
      if (e instanceof ApiError && e.status === 401) {
        phase.value = 'token';
        return;
      }
    }
    if (phase.peek() === 'ended') return;
    // The stream is over: either the server is, or only the connection was.
    await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
    try {
      await refresh();
    } catch (e) {
      if (!(e instanceof Unreachable) || ++failures > 2) {
        phase.value = 'ended';
        return;
      }
    }
  }
}

/** How often an index that is being made makes the page ask again. */
const INDEX_MS = 400;
let indexTimer: ReturnType<typeof setTimeout> | null = null;

function hear(progress: Progress): void {
  switch (progress.kind) {
    case 'index':
      hearIndex(progress.index);
      break;
    case 'filter':
      if (progress.filter === state.peek().filter) {
        filterDone.value = progress.done;
        if (progress.done >= 1) {
          filteredTiles.markInexact();
          tilesStale.value = tilesStale.peek() + 1;
        }
      }
      break;
    case 'grown':
      refresh(BigInt(progress.begin)).catch(reportFailure);
      break;
    case 'gone':
      if (session.peek()) session.value = { ...session.peek()!, gone: progress.message };
      break;
    case 'end':
      phase.value = 'ended';
      break;
  }
}

function hearIndex(index: IndexProgress): void {
  const before = session.peek();
  if (!before) return;
  if (index.state !== before.index.state || before.begin === null) {
    refresh().catch(reportFailure);
    return;
  }
  if (index.state === 'complete') return;
  session.value = { ...before, index };
  indexTimer ??= setTimeout(() => {
    indexTimer = null;
    plainTiles.markInexact();
    tilesStale.value = tilesStale.peek() + 1;
  }, INDEX_MS);
}

/** Asks what is known now; everything else follows. When only what is not before a time changed, the rest is kept. */
export async function refresh(since: bigint | null = null): Promise<void> {
  const before = session.peek();
  const now = await askSession();
  const sameGeneration = before !== null && String(before.generation) === String(now.generation);
  if (sameGeneration && before.index.state === now.index.state && before.begin === now.begin) return;
  bring(now, () => {
    session.value = now;
    for (const store of [plainTiles, filteredTiles]) {
      // Tiles count from the origin.
      if (before && before.origin !== now.origin) store.clear();
      else if (sameGeneration) store.markInexact();
      else if (since !== null) store.markFrom(since - BigInt(now.origin));
      else store.markAll();
    }
    if (!sameGeneration)
      for (const flight of flights) {
        // What is under way may be about what was there before.
        flight.abort.abort();
        for (const key of flight.keys) flying.delete(key);
      }
    refined.clear();
    epoch.value = epoch.peek() + 1;
    tilesStale.value = tilesStale.peek() + 1;
  });
}
