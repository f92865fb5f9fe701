// Actions of a user: keys, menus and the mouse come here.
import { computed, effect, signal } from '@preact/signals';
import type { EventDetails, Field, Located, Row, Rows } from '../api/types';
import type { Row as TrackRow } from '../draw/layout';
import { scaleOf } from '../draw/scale';
import type { Mark } from '../draw/timeline';
import { TIME_FORMATS } from '../time/format';
import {
  centred,
  centredInside,
  contains,
  fitted,
  max,
  min,
  moved,
  ordered,
  type Range,
  shareOf,
  spanOf,
  timeAt,
  zoomedBy,
  zoomedIn,
  zoomedOut,
} from '../time/range';
import { reportFailure } from './answers';
import { whileBusy } from './busy';
import { andConditions, condition, isNamed } from './filters';
import { firstOfTracks } from './first-match';
import { groupKey, readGroupKey } from './groups';
import { valueAt } from './json';
import { plotId } from './plots';
import { search } from './search';
import { callAnswer, eventAnswer, locate, sliceAnswer } from './selection';
import { ask, notice, phase, post } from './session';
import { NOTHING_CHOSEN, TABS, type Tab } from './state';
import { change, format, fullRange, linksRead, session, show, state, view } from './store';
import {
  groupsAnswer,
  hasCalls,
  hasSamples,
  lanesFrom,
  layout,
  rowsInSight,
  scroll,
  trackById,
  tracks,
  viewport,
  visibleTracks,
} from './tracks';
import { refresh } from './watch';

/** Where the pointer is in the timeline, in pixels from its left edge; null outside of it. */
export const pointerX = signal<number | null>(null);
/** The same as a time, which follows the view while the pointer rests. */
export const pointer = computed<bigint | null>(() => {
  const { width } = viewport.value;
  return pointerX.value === null ? null : scaleOf(view.value, width).time(Math.max(0, Math.min(width, pointerX.value)));
});
/** The selection was reached by a key: what the pointer would show stands next to it. */
export const byKey = signal(false);
/** The row that keys work on. */
export const currentTrack = signal<string | null>(null);
/** A line that is said to those who hear the page. */
export const said = signal('');
export { notice } from './session';
/** Whether the panel at the bottom is there. */
export const panelShown = signal(true);

/** The point that zooming keeps in place: the pointer, else the chosen event in view, else the middle. */
export function centre(): bigint {
  const v = view.peek();
  if (pointer.peek() !== null && contains(v, pointer.peek() ?? 0n)) return pointer.peek() ?? 0n;
  const at = chosenTime();
  return at !== null && contains(v, at) ? at : v.begin + spanOf(v) / 2n;
}

/** When the chosen thing is. */
export function chosenTime(): bigint | null {
  const mark = markOf();
  return mark ? mark.begin : null;
}

/** The chosen slice of a track of states, as the source knows it. */
export function sliceOf(): Located | null {
  const { slice } = state.value;
  const { key, value } = sliceAnswer.value;
  return slice && value?.begin != null && key?.startsWith(`${slice.track}:${slice.at}:${slice.depth}\n`) ? value : null;
}

/** The chosen event, call or state as a place in the timeline. */
export function markOf(): Mark | null {
  const { event, call } = state.value;
  if (call !== null) {
    const { key, value } = callAnswer.value;
    if (!value || key !== `${call.track}:${call.call}`) return null;
    return {
      track: call.track,
      begin: BigInt(value.begin),
      end: value.end === null ? null : BigInt(value.end),
      depth: value.depth,
    };
  }
  const slice = sliceOf();
  if (slice && state.value.slice && slice.begin !== null) {
    return {
      track: state.value.slice.track,
      begin: BigInt(slice.begin),
      end: slice.end === null ? null : BigInt(slice.end),
      depth: state.value.slice.depth,
    };
  }
  if (event === null) return null;
  const { value } = eventAnswer.value;
  if (!value || value.event !== event || value.ns === null) return null;
  return { track: rowOf(value), begin: BigInt(value.ns), end: null, depth: null };
}

/** The track that shows an event: its stream, or where the trace is grouped the track of its value, if that can be told. */
function rowOf(event: EventDetails): string {
  const trace = visibleTracks.value.find((t) => t.id === event.track)?.trace ?? null;
  const group = trace === null ? undefined : groupsAnswer.value.value?.find((g) => g.trace === trace && g.done >= 1);
  if (!group || state.value.groups.length === 0) return event.track;
  const value =
    group.group === 'name'
      ? event.name
      : group.group === 'cpu'
        ? String(event.cpu ?? '')
        : valueAt(event.json ?? '', group.group);
  return group.tracks.find((t) => t.value === value)?.id ?? group.of;
}

export const zoomIn = (): void => show(zoomedIn(view.peek(), centre()));
export const zoomOut = (): void => show(zoomedOut(view.peek(), centre(), fullRange.peek()));
export const zoomAround = (factor: number, around: bigint): void =>
  show(zoomedBy(view.peek(), factor, around, fullRange.peek()));
export const showAll = (): void => {
  change({ view: null }, 'jump');
};

/** Moves the view by a part of its length. */
export function pan(numerator: bigint, denominator: bigint): void {
  const v = view.peek();
  show(moved(v, (spanOf(v) * numerator) / denominator, fullRange.peek()));
}
export const panBy = (ns: bigint): void => show(moved(view.peek(), ns, fullRange.peek()));

/** Fits the selection, else the chosen slice, else goes to the chosen event. */
export function fit(): void {
  const { selection } = state.peek();
  if (selection) {
    show(fitted(selection, view.peek()), 'jump');
    return;
  }
  const mark = markOf();
  if (!mark) return;
  show(
    mark.end === null ? centred(view.peek(), mark.begin) : fitted({ begin: mark.begin, end: mark.end }, view.peek()),
    'jump',
  );
}

/** Brings a time into view without changing the zoom, when it is not there. */
export function reveal(at: bigint, how: 'move' | 'jump' = 'move'): void {
  if (!contains(view.peek(), at)) show(centredInside(view.peek(), at, fullRange.peek()), how);
}

/** Goes to a time, and marks it. */
export function goTo(at: bigint): void {
  const v = view.peek();
  const next =
    contains(fullRange.peek(), at) && spanOf(v) >= spanOf(fullRange.peek())
      ? zoomAt(at)
      : centredInside(v, at, fullRange.peek());
  change({ view: next, cursor: at }, 'jump');
}

/** From a view of everything a jump also goes nearer, so that something is seen of it. */
function zoomAt(at: bigint): Range {
  const span = max(spanOf(fullRange.peek()) / 10n, 1n);
  return centredInside({ begin: at, end: at + span }, at, fullRange.peek());
}

// The cursor.

export const CURSOR_STEPS = 50n;

const cursorOrMiddle = (): bigint => state.peek().cursor ?? centre();

export function moveCursor(steps: bigint): void {
  const v = view.peek();
  const at = cursorOrMiddle() + max(spanOf(v) / CURSOR_STEPS, 1n) * steps;
  setCursor(max(fullRange.peek().begin, min(fullRange.peek().end, at)));
}

export function setCursor(at: bigint): void {
  change({ cursor: at });
  const v = view.peek();
  if (at < v.begin || at > v.end) show(moved(v, at < v.begin ? at - v.begin : at - v.end, fullRange.peek()));
}

/** To the next boundary on the current track. */
export async function cursorToBoundary(direction: 'next' | 'previous'): Promise<void> {
  const track = trackForKeys();
  if (track === null) return;
  const found = await locate(track, cursorOrMiddle(), direction);
  const at = found?.begin ?? found?.ns;
  if (at != null) setCursor(BigInt(at));
}

// Selection.

export function select(range: Range | null, tracks?: readonly string[]): void {
  change(tracks ? { selection: range, chosen: tracks } : { selection: range });
  if (range && !(['selection', 'flame', 'calls', 'analyses'] as Tab[]).includes(state.peek().tab))
    change({ tab: 'selection' });
}

export function selectFrom(): void {
  const { selection } = state.peek();
  const at = cursorOrMiddle();
  select(selection && selection.end >= at ? { begin: at, end: selection.end } : ordered(at, max(view.peek().end, at)));
}

export function selectTo(): void {
  const { selection } = state.peek();
  const at = cursorOrMiddle();
  select(
    selection && selection.begin <= at ? { begin: selection.begin, end: at } : ordered(min(view.peek().begin, at), at),
  );
}

/** The chosen call, or from the event before to the chosen one. */
export async function selectChosen(): Promise<void> {
  const mark = markOf();
  if (!mark) return;
  if (mark.depth !== null) {
    select({ begin: mark.begin, end: mark.end ?? fullRange.peek().end });
    return;
  }
  const before = await locate(mark.track, mark.begin, 'previous');
  const at = before?.begin ?? before?.ns;
  if (at != null) select(ordered(BigInt(at), mark.begin));
}

export function toggleTrack(id: string): void {
  if (trackById.peek().get(id)?.kind === 'heading') return;
  const { chosen } = state.peek();
  change({ chosen: chosen.includes(id) ? chosen.filter((t) => t !== id) : [...chosen, id] });
}

// Tracks.

export function toggleFold(id: string): void {
  const { folds } = state.peek();
  change({ folds: folds.includes(id) ? folds.filter((t) => t !== id) : [...folds, id] });
}

export function togglePin(id: string): void {
  const { pins } = state.peek();
  change({ pins: pins.includes(id) ? pins.filter((t) => t !== id) : [...pins, id] });
}

const siblings = (id: string): string[] => {
  const parent = trackById.peek().get(id)?.parent ?? null;
  return layout
    .peek()
    .rows.map((r) => r.track)
    .filter((t) => t.parent === parent)
    .map((t) => t.id);
};

/** Moves a track among its siblings, or a pinned one among those. */
export function moveTrack(id: string, by: number): void {
  const list = state.peek().pins.includes(id) ? [...state.peek().pins] : siblings(id);
  placeTrack(id, list.indexOf(id) + by);
}

/** Puts a track at a place among its siblings. */
export function placeTrack(id: string, place: number): void {
  const { pins, first, last } = state.peek();
  const pinned = pins.includes(id);
  const list = pinned ? [...pins] : siblings(id);
  const at = list.indexOf(id);
  const to = Math.max(0, Math.min(list.length - 1, place));
  if (at < 0 || to === at) return;
  list.splice(at, 1);
  list.splice(to, 0, id);
  if (pinned) change({ pins: list });
  else
    change({
      first: [...first.filter((t) => !list.includes(t)), ...list],
      last: last.filter((t) => !list.includes(t)),
    });
  said.value = `${trackById.peek().get(id)?.name ?? id} is at place ${to + 1} of ${list.length}`;
}

export function pullUp(id: string): void {
  const { first, last } = state.peek();
  change({ first: [id, ...first.filter((t) => t !== id)], last: last.filter((t) => t !== id) });
}

export function bury(id: string): void {
  const { first, last } = state.peek();
  change({ first: first.filter((t) => t !== id), last: [...last.filter((t) => t !== id), id] });
}

export function hide(id: string): void {
  change({ hidden: [...state.peek().hidden.filter((t) => t !== id), id] });
}

/** Moves the clock of a trace to so many ns beside what the command line says, and gives what does the same next time. */
export async function moveClock(trace: number, offset: bigint): Promise<string> {
  const of = session.peek()?.traces[trace];
  await whileBusy(post('clock', { trace, offset_ns: String(offset) }));
  // Numbers of events and calls are others from now on.
  change(NOTHING_CHOSEN);
  await whileBusy(refresh());
  // With an offset of its own it is not aligned.
  return `Next time: --clock-offset-ns ${of?.name ?? of?.path ?? ''}=${offset + BigInt(of?.aligned_ns ?? 0)}`;
}

/** Shows a field of the chosen event, of all events of its name, as a track of its own. */
export function plotField(path: string): void {
  const event = eventAnswer.peek().value;
  const group = event && tracks.peek().find((t) => t.kind === 'group' && t.trace === event.trace)?.id;
  if (!event || !group) return;
  const id = plotId(group, event.name, path);
  const { plots, folds } = state.peek();
  if (!plots.includes(id)) change({ plots: [...plots, id], folds: folds.filter((f) => f !== group) }, 'jump');
  currentTrack.value = id;
  // Its row comes when the source has said what it is.
  const stop = effect(() => {
    if (!layout.value.rows.some((r) => r.track.id === id) && state.value.plots.includes(id)) return;
    queueMicrotask(() => {
      stop();
      scrollTo(id);
    });
  });
}

/** Shows a trace by the values of a path instead of by its streams; null is by its streams. */
export function groupBy(group: string, path: string | null): void {
  const others = state.peek().groups.filter((key) => readGroupKey(key)?.group !== group);
  const trace = trackById.peek().get(group)?.trace;
  // Tracks that are not there any more cannot be taken back by who sees none of them.
  const chosen = state.peek().chosen.filter((id) => trackById.peek().get(id)?.trace !== trace);
  change(
    {
      chosen,
      groups: path === null ? others : [...others, groupKey(group, path)],
      folds: state.peek().folds.filter((f) => f !== group),
    },
    'jump',
  );
  currentTrack.value = group;
}

export function unplot(id: string): void {
  const without = (list: readonly string[]): string[] => list.filter((other) => other !== id);
  const { plots, pins, chosen } = state.peek();
  change({ plots: without(plots), pins: without(pins), chosen: without(chosen) }, 'jump');
}

export const showHidden = (): void => change({ hidden: [] });

/** Shows other lanes of a track that has more than there is room for, or only says whether there are any. */
export function scrollLanes(id: string, by: number, only = false): boolean {
  const row = [...layout.peek().pinned, ...layout.peek().rows].find((r) => r.track.id === id);
  if (!row || row.unfolded === false) return false;
  const to = Math.max(0, Math.min((row.track.depth ?? 1) - row.lanes, row.firstLane + by));
  if (to === row.firstLane) return false;
  if (!only) lanesFrom.value = new Map(lanesFrom.peek()).set(id, to);
  return true;
}

// A call that is chosen is in sight.
effect(() => {
  const mark = markOf();
  if (mark?.depth == null) return;
  const row = [...layout.value.pinned, ...layout.value.rows].find((r) => r.track.id === mark.track);
  if (!row || row.lanes < 2) return;
  if (mark.depth < row.firstLane) scrollLanes(mark.track, mark.depth - row.firstLane);
  else if (mark.depth >= row.firstLane + row.lanes) scrollLanes(mark.track, mark.depth - row.firstLane - row.lanes + 1);
});

/** Brings the row of a track into sight. */
export function scrollTo(id: string): void {
  const row = layout.peek().rows.find((r) => r.track.id === id);
  if (!row) return;
  const room = viewport.peek().height - layout.peek().pinnedHeight;
  const top = scroll.peek();
  if (row.y < top) scroll.value = row.y;
  else if (row.y + row.height > top + room) scroll.value = Math.max(0, Math.min(row.y, row.y + row.height - room));
}

/** The tracks that a link chose, and how far rows were scrolled then: until somebody scrolls, or chooses others. */
let linkedTracks: { readonly ids: readonly string[]; scrolled: number } | null = null;

effect(() => {
  if (linksRead.value === 0) return;
  const ids = state.peek().chosen;
  linkedTracks = ids.length > 0 ? { ids, scrolled: scroll.peek() } : null;
});

// Of the tracks that a link chose one is in sight, also when others come before them as more becomes known.
effect(() => {
  void [linksRead.value, tracks.value, viewport.value];
  // Rows have their places when the page was drawn with them.
  if (linkedTracks) requestAnimationFrame(showLinkedTracks);
});

function showLinkedTracks(): void {
  if (!linkedTracks || viewport.peek().height === 0) return;
  const { ids, scrolled } = linkedTracks;
  if (state.peek().chosen !== ids || Math.abs(scroll.peek() - scrolled) > 1) {
    linkedTracks = null;
    return;
  }
  const isChosen = (row: TrackRow): boolean => ids.includes(row.track.id);
  const first = layout.peek().rows.find(isChosen);
  if (!first || rowsInSight.peek().some(isChosen)) return;
  scrollTo(first.track.id);
  linkedTracks.scrolled = scroll.peek();
}

/** The track that keys are about: that of the chosen thing, else the current row. */
const trackForKeys = (): string | null =>
  currentTrack.peek() ??
  markOf()?.track ??
  layout.peek().rows.find((r) => r.track.kind !== 'group' && r.track.kind !== 'heading')?.track.id ??
  null;

// Choosing.

export function chooseEvent(event: number, how: 'move' | 'jump' = 'move'): void {
  change({ ...NOTHING_CHOSEN, event }, how);
}

/** Chooses what was located; the view goes there unless it is under the pointer. */
export function takeLocated(
  track: string,
  found: {
    event?: number | null;
    call?: number | null;
    track?: string;
    depth?: number | null;
    begin: string | null;
    ns?: string | null;
  },
  goes = true,
): void {
  const at = found.begin ?? found.ns ?? null;
  const cursor = at === null ? {} : { cursor: BigInt(at) };
  if (found.call != null)
    change({ ...NOTHING_CHOSEN, call: { track: found.track ?? track, call: found.call }, ...cursor });
  else if (found.event != null) change({ ...NOTHING_CHOSEN, event: found.event, ...cursor });
  else if (found.depth != null && at !== null)
    change({
      ...NOTHING_CHOSEN,
      slice: { track: found.track ?? track, at: BigInt(at), depth: found.depth },
      ...cursor,
    });
  else change(cursor);
  if (goes && at !== null) reveal(BigInt(at));
}

/** The event or slice beside the chosen one, on its track. */
export async function step(direction: 'next' | 'previous'): Promise<void> {
  const mark = markOf();
  const track = mark?.track ?? trackForKeys();
  if (track === null) return;
  const from = mark?.begin ?? cursorOrMiddle();
  const found = await locate(track, from, direction, state.peek().slice?.depth ?? null);
  if (!found) return;
  byKey.value = true;
  takeLocated(track, found);
}

/** The caller of the chosen call. */
export function toCaller(): void {
  const { call } = state.peek();
  const parent = callAnswer.peek().value?.parent;
  byKey.value = true;
  if (call && parent != null) change({ call: { track: call.track, call: parent } });
}

/** The first call that the chosen one makes: the next one on its track, when it is deeper. */
export async function toCallee(): Promise<void> {
  const { call } = state.peek();
  const value = callAnswer.peek().value;
  if (!call || !value) return;
  byKey.value = true;
  const found = await locate(call.track, BigInt(value.begin), 'next');
  if (found?.call != null && (value.end === null || BigInt(found.begin ?? 0) <= BigInt(value.end)))
    change({ call: { track: call.track, call: found.call } });
}

/** Ends the selection, then the choice. */
export function onEscape(): boolean {
  const { selection, chosen, event, call, slice, cursor, path } = state.peek();
  if (selection || chosen.length) {
    change({ selection: null, chosen: [] });
    return true;
  }
  if (event !== null || call !== null || slice !== null) {
    change(NOTHING_CHOSEN);
    return true;
  }
  if (path !== null) {
    change({ path: null });
    return true;
  }
  if (cursor !== null) {
    change({ cursor: null });
    return true;
  }
  return false;
}

/** Asks the server to end. */
export async function endServer(): Promise<void> {
  await whileBusy(post('stop', {}).catch(() => null));
  phase.value = 'ended';
}

// Search.

export async function searchFor(direction: 'next' | 'previous'): Promise<void> {
  const match = await search(state.peek().query, direction);
  if (!match) return;
  const at = match.ns === null ? null : BigInt(match.ns);
  const next =
    at !== null && !contains(view.peek(), at) ? { view: centredInside(view.peek(), at, fullRange.peek()) } : {};
  change({ ...NOTHING_CHOSEN, event: match.event, ...next }, 'jump');
  scrollTo(match.track);
}

/** Marks all places of a name, and goes to the next one. */
export function searchForName(name: string): Promise<void> {
  change({ query: name });
  return searchFor('next');
}

/** Goes to the next event that is not before the cursor, or the first one, of those that a condition is true of. */
export async function goToNext(condition: string): Promise<void> {
  const filter = andConditions(state.peek().filter, condition);
  const { event, cursor } = state.peek();
  try {
    const row = await whileBusy(
      (async () => {
        const after = await ask<Rows>('events', { at: String(cursor ?? view.peek().begin), limit: 2, filter });
        return (
          after.rows.find((r) => r.event !== event) ??
          (await ask<Rows>('events', { from: 0, limit: 1, filter })).rows[0]
        );
      })(),
    );
    if (row) showRow(row);
  } catch (e) {
    notice.value = reportFailure(e)?.body.message ?? '';
  }
}

/** Chooses the event of a row, and brings it into view. */
export function showRow(row: Row): void {
  const at = row.ns === null ? null : BigInt(row.ns);
  const next =
    at !== null && !contains(view.peek(), at) ? { view: centredInside(view.peek(), at, fullRange.peek()) } : {};
  change({ ...NOTHING_CHOSEN, event: row.event, ...(at === null ? {} : { cursor: at }), ...next }, 'jump');
  scrollTo(row.track);
}

// Bookmarks.

/** A bookmark at the cursor, or where the selection begins. */
export function addBookmark(label?: string): void {
  const { selection, bookmarks, cursor } = state.peek();
  const ns = cursor ?? selection?.begin ?? chosenTime() ?? view.peek().begin + spanOf(view.peek()) / 2n;
  const name = label ?? `Mark ${bookmarks.length + 1}`;
  change(
    {
      bookmarks: [...bookmarks.filter((b) => b.ns !== ns), { ns, label: name }].sort((a, b) =>
        a.ns < b.ns ? -1 : a.ns > b.ns ? 1 : 0,
      ),
    },
    'jump',
  );
}

export function removeBookmark(ns: bigint): void {
  change({ bookmarks: state.peek().bookmarks.filter((b) => b.ns !== ns) }, 'jump');
}

export function renameBookmark(ns: bigint, label: string): void {
  change({ bookmarks: state.peek().bookmarks.map((b) => (b.ns === ns ? { ns, label } : b)) });
}

export function nextBookmark(): void {
  const { bookmarks, cursor } = state.peek();
  const from = cursor ?? view.peek().begin - 1n;
  const next = bookmarks.find((b) => b.ns > from) ?? bookmarks[0];
  if (next) goToBookmark(next.ns);
}

export function goToBookmark(ns: bigint): void {
  change(
    { cursor: ns, ...(contains(view.peek(), ns) ? {} : { view: centredInside(view.peek(), ns, fullRange.peek()) }) },
    'jump',
  );
}

// The rest.

export function nextFormat(): void {
  const at = TIME_FORMATS.indexOf(format.peek());
  const unix = session.peek()?.clock === 'unix';
  const list = TIME_FORMATS.filter((f) => unix || (f !== 'utc' && f !== 'local'));
  const now = list.indexOf(TIME_FORMATS[at] ?? 'begin');
  change({ format: list[(now + 1) % list.length] ?? null });
}

export const tabsShown = (): readonly Tab[] =>
  TABS.filter((t) =>
    t === 'flame'
      ? hasCalls.value || hasSamples.value
      : t === 'calls'
        ? hasCalls.value
        : t === 'analyses'
          ? (session.value?.features.includes('analyses') ?? false)
          : t !== 'sql' || (session.value?.features.includes('sql') ?? false),
  );

export function nextTab(): void {
  const list = tabsShown();
  panelShown.value = true;
  change({ tab: list[(list.indexOf(state.peek().tab) + 1) % list.length] ?? 'events' });
}

/** Orders the tracks of a trace by their first event that a condition is true of and that is not before the cursor. */
export async function orderByFirstMatch(trace: number | null, condition: string, what: string): Promise<void> {
  const from = state.peek().cursor ?? fullRange.peek().begin;
  const ids = tracks
    .peek()
    .filter((t) => t.kind === 'events' && t.trace === trace)
    .map((t) => t.id);
  try {
    const at = await firstOfTracks(ids, andConditions(state.peek().filter, condition), from);
    const ranked = ids.filter((id) => at.has(id)).sort((a, b) => ((at.get(a) ?? 0n) < (at.get(b) ?? 0n) ? -1 : 1));
    const { first, last } = state.peek();
    change({
      first: [...ranked, ...first.filter((t) => !ranked.includes(t))],
      last: last.filter((t) => !ranked.includes(t)),
    });
    said.value = ranked.length
      ? `${ranked.length} tracks are in the order of their first ${what}`
      : `No track has ${what} behind the cursor`;
    if (ranked.length === 0) notice.value = said.value;
  } catch (e) {
    notice.value = reportFailure(e)?.body.message ?? '';
  }
}

export const shareInView = (t: bigint): number => shareOf(view.value, t);
export const timeInView = (share: number): bigint => timeAt(view.peek(), share);

export const cursorToEdge = (edge: 'begin' | 'end'): void => change({ cursor: view.peek()[edge] });
export function cursorToEnd(edge: 'begin' | 'end'): void {
  setCursor(fullRange.peek()[edge]);
}

/** Chases the name of the chosen event. */
export function orderByChosenName(): void {
  const event = eventAnswer.peek().value;
  if (event && state.peek().event !== null) void orderByFirstMatch(traceOf(event), isNamed(event.name), event.name);
}

/** Chases a value of a field of the chosen event. */
export function orderByField(field: Field): void {
  const event = eventAnswer.peek().value;
  if (event) void orderByFirstMatch(traceOf(event), condition(field), `${field.path} of ${field.text.slice(0, 60)}`);
}

const traceOf = (event: EventDetails): number | null => trackById.peek().get(event.track)?.trace ?? null;
