// Tiles that the rows in sight need.
import { batch, computed, effect, signal } from '@preact/signals';
import type { Session, Tiles } from '../api/types';
import { lanesToRequest } from '../draw/layout';
import { showsTiles } from '../draw/timeline';
import { levelOf, type Range, tilesOf } from '../time/range';
import { reportFailure } from './answers';
import { hold } from './busy';
import { filterDone } from './filter';
import { ask, complete, generation, phase } from './session';
import { origin, session, state, view } from './store';
import { TileStore } from './tiles';
import { layout, rowsInSight, trackById, viewport } from './tracks';

export const plainTiles = new TileStore();
export const filteredTiles = new TileStore();
/** Changes when tiles arrive. */
export const tilesArrived = signal(0);
/** Changes when some have become stale. */
export const tilesStale = signal(0);
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
  requestTiles(plainTiles, '', ids, level, view.value, false);
  if (state.value.filter) requestTiles(filteredTiles, state.value.filter, ids, level, view.value, false);
  refineAtRest();
});

/** Asks for the tiles that are missing, those of several tracks in one question. */
export function requestTiles(
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
    // A counter may have to be read first: no other question waits for that.
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
const lanesWanted = computed(() => lanesToRequest(layout.value));
let lanesAsked: ReadonlyMap<string, number> = new Map();
// After a step to deeper lanes, or a fold there, tiles of the lanes that are in sight now are missing.
effect(() => {
  const now = lanesWanted.value;
  const moved = [...new Set([...now.keys(), ...lanesAsked.keys()])].filter((id) => now.get(id) !== lanesAsked.get(id));
  lanesAsked = now;
  if (moved.length === 0) return;
  for (const id of moved) for (const store of [plainTiles, filteredTiles]) store.markTrack(id);
  // Answers that are under way have the lanes of before.
  abandonFlights();
  tilesStale.value = tilesStale.peek() + 1;
});

/** Whether the first tiles are on their way: no longer than for a moment. */
export const awaitsTiles = (): boolean => tilesArrived.peek() === 0 && !tilesLate.peek() && flights.size > 0;
const FIRST_MS = 250;
/** Set when the first tiles were awaited long enough. */
export const tilesLate = signal(false);
/** Begins to wait for the first tiles. */
export function awaitTilesBriefly(): void {
  setTimeout(() => {
    tilesLate.value = true;
  }, FIRST_MS);
}

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
  for (const key of keys) flying.add(key);
  // A fast journey leaves questions whose answers are not looked at.
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
    for (const key of keys) flying.delete(key);
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

function abandonFlights(): void {
  for (const flight of flights) {
    flight.abort.abort();
    for (const key of flight.keys) flying.delete(key);
  }
}

/** Lets estimates be asked for again. */
export function refreshTiles(store: TileStore): void {
  store.markInexact();
  tilesStale.value = tilesStale.peek() + 1;
}

/** Lets tiles be asked for again when a session takes the place of another one; only those from a time on, where the rest has not changed. */
export function markTiles(before: Session | null, now: Session, since: bigint | null): void {
  const sameGeneration = before !== null && String(before.generation) === String(now.generation);
  for (const store of [plainTiles, filteredTiles]) {
    // Tiles count from the origin.
    if (before && before.origin !== now.origin) store.clear();
    else if (sameGeneration) store.markInexact();
    else if (since !== null) store.markFrom(since - BigInt(now.origin));
    else store.markAll();
  }
  // Answers that are under way may be about the session before.
  if (!sameGeneration) abandonFlights();
  refined.clear();
  tilesStale.value = tilesStale.peek() + 1;
}
