// Which rows the timeline has, in what order, and how high they are.
import type { Track } from '../api/types';

export interface Row {
  readonly track: Track;
  /** From the top of all rows, or for pinned ones from the top of the timeline. */
  readonly y: number;
  readonly height: number;
  /** How deep it is in the tree of tracks, from 1. */
  readonly level: number;
  readonly pinned: boolean;
  /** Null for rows that cannot be folded. */
  readonly unfolded: boolean | null;
  /** Lanes of a row with slices that are shown at once, and the first of them. */
  readonly lanes: number;
  readonly firstLane: number;
}

export interface Layout {
  readonly pinned: readonly Row[];
  readonly rows: readonly Row[];
  /** The height of the pinned rows, and of all others. */
  readonly pinnedHeight: number;
  readonly height: number;
}

export const LANE_PX = 17;
export const MOST_LANES = 24;
/** Lanes that an answer has, from the one on that is asked for. */
export const TOLD_LANES = 64;
/** The first lane that is asked for is a multiple of this: few steps of the wheel need others than are there. */
const LANE_STEP = 32;

/** The first lane of calls that is asked for when those from one on are in sight: 0 as long as they are among the first ones. */
export const laneToRequest = (from: number): number =>
  from + MOST_LANES > TOLD_LANES ? Math.floor(from / LANE_STEP) * LANE_STEP : 0;

/** The first lane that is asked for of each track of which that is not 0. A folded row shows its outermost lane, however far its others were scrolled. */
export const lanesToRequest = ({ pinned, rows }: Pick<Layout, 'pinned' | 'rows'>): ReadonlyMap<string, number> =>
  new Map(
    [...rows, ...pinned]
      .map((row): [string, number] => [row.track.id, laneToRequest(row.firstLane)])
      .filter(([, lane]) => lane > 0),
  );

const GROUP_PX = 24;
const HEADING_PX = 24;
const EVENTS_PX = 30;
const COUNTER_PX = 46;
const STATE_PX = 24;

/** Changes that a user made to the order of tracks. */
export interface Order {
  readonly hidden: readonly string[];
  /** Ids that come before their siblings, the first one first. */
  readonly first: readonly string[];
  /** Ids that come after their siblings. */
  readonly last: readonly string[];
}

export const AS_GIVEN: Order = { hidden: [], first: [], last: [] };

const NO_LANES: ReadonlyMap<string, number> = new Map();

/** Rows in the order of display. `folds` are ids whose fold is not the one that they begin with; `lanesFrom` is how far the lanes of a track are scrolled. */
export function layoutOf(
  tracks: readonly Track[],
  folds: readonly string[],
  pins: readonly string[],
  order: Order = AS_GIVEN,
  lanesFrom = NO_LANES,
): Layout {
  const children = childrenOf(tracks, order);
  const folded = new Set(folds);
  const pinned = new Set(pins);
  const hidden = new Set(order.hidden);
  const rows: Row[] = [];
  let y = 0;
  const walk = (parent: string | null, level: number): void => {
    for (const track of children.get(parent) ?? []) {
      if (hidden.has(track.id)) continue;
      const kids = children.has(track.id);
      const foldable = kids || track.kind === 'calls';
      const unfolded = foldable ? beginsUnfolded(track, kids) !== folded.has(track.id) : null;
      if (!pinned.has(track.id)) {
        const row = rowOf(track, y, level, false, unfolded, lanesFrom);
        rows.push(row);
        y += row.height;
      }
      // The streams below calls are hidden with them; a track of calls alone folds its lanes.
      if (kids && unfolded !== false) walk(track.id, level + 1);
    }
  };
  walk(null, 1);
  let pinnedHeight = 0;
  const above: Row[] = [];
  const byId = new Map(tracks.map((t) => [t.id, t]));
  for (const id of pins) {
    const track = byId.get(id);
    if (!track) continue;
    const foldable = track.kind === 'calls';
    const row = rowOf(
      track,
      pinnedHeight,
      1,
      true,
      foldable ? beginsUnfolded(track, false) !== folded.has(id) : null,
      lanesFrom,
    );
    above.push(row);
    pinnedHeight += row.height;
  }
  return { pinned: above, rows, pinnedHeight, height: y };
}

/** Groups, calls and threads with those that they made begin unfolded. */
const beginsUnfolded = (track: Track, kids: boolean): boolean =>
  track.kind === 'group' || track.kind === 'heading' || track.kind === 'calls' || track.kind === 'state' || !kids;

function rowOf(
  track: Track,
  y: number,
  level: number,
  pinned: boolean,
  unfolded: boolean | null,
  lanesFrom: ReadonlyMap<string, number>,
): Row {
  const lanes = unfolded === false && track.kind !== 'state' ? 1 : Math.max(1, Math.min(MOST_LANES, track.depth ?? 1));
  const firstLane =
    unfolded === false ? 0 : Math.max(0, Math.min((track.depth ?? 1) - lanes, lanesFrom.get(track.id) ?? 0));
  return { track, y, height: heightOf(track, lanes), level, pinned, unfolded, lanes, firstLane };
}

function heightOf(track: Track, lanes: number): number {
  switch (track.kind) {
    case 'group':
      return GROUP_PX;
    case 'heading':
      return HEADING_PX;
    case 'calls':
      return Math.max(GROUP_PX + 2, lanes * LANE_PX + 6);
    case 'counter':
      return COUNTER_PX;
    case 'state':
      return Math.max(STATE_PX, lanes * LANE_PX + 6);
    case 'events':
      return EVENTS_PX;
  }
}

function childrenOf(tracks: readonly Track[], order: Order): Map<string | null, Track[]> {
  const ids = new Set(tracks.map((t) => t.id));
  const children = new Map<string | null, Track[]>();
  for (const track of tracks) {
    // A parent that is not there, or itself, must not hide a track.
    const parent = track.parent !== null && track.parent !== track.id && ids.has(track.parent) ? track.parent : null;
    const list = children.get(parent);
    if (list) list.push(track);
    else children.set(parent, [track]);
  }
  if (order.first.length || order.last.length) {
    const rank = new Map<string, number>();
    for (const [i, id] of order.first.entries()) rank.set(id, i - order.first.length);
    for (const [i, id] of order.last.entries()) rank.set(id, i + 1);
    for (const list of children.values()) list.sort((a, b) => (rank.get(a.id) ?? 0) - (rank.get(b.id) ?? 0));
  }
  return children;
}

/** The rows that are at least partly between two heights. */
export function rowsBetween(rows: readonly Row[], top: number, bottom: number): readonly Row[] {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const row = rows[middle];
    if (row && row.y + row.height <= top) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < rows.length && (rows[end]?.y ?? 0) < bottom) end++;
  return rows.slice(low, end);
}

/** The row at a height. */
export const rowAt = (layout: Layout, y: number, scroll: number): Row | null => {
  if (y < layout.pinnedHeight) return layout.pinned.find((r) => y < r.y + r.height) ?? null;
  const inside = y - layout.pinnedHeight + scroll;
  return rowsBetween(layout.rows, inside, inside + 1)[0] ?? null;
};
