// The item under the pointer: at once what the picture shows, to the bucket and said as such, then exactly, as the source knows it.
import { effect, signal } from '@preact/signals';
import type { Located } from '../api/types';
import { LANE_PX, type Row, rowAt } from '../draw/layout';
import { LANE_TOP_PX } from '../draw/painter';
import { scaleOf } from '../draw/scale';
import { boundaryAt, describe, describeExactly, type Hit, hitAt, showsTiles } from '../draw/timeline';
import { locateAt } from '../state/selection';
import { origin, state, timeContext, view } from '../state/store';
import { tilesShown } from '../state/tiles-fetch';
import { layout, scroll, viewport } from '../state/tracks';

/** A box beside the pointer, and whether what it says is exact. */
export interface TipBox {
  readonly x: number;
  readonly y: number;
  readonly lines: readonly string[];
  readonly isExact: boolean;
}

export const tip = signal<TipBox | null>(null);
const TIP_MS = 150;
export const SNAP_PX = 8;
/** A slice that ends, or an event that is, this far from the pointer is still under it. */
const NEAR_SLICE_PX = 2;
const NEAR_EVENT_PX = 5;

/** A place of the timeline in pixels, and the row there. */
export interface Spot {
  readonly x: number;
  readonly y: number;
  readonly row: Row | null;
  readonly yInRow: number;
}

export function spotOf(e: MouseEvent, box: Element): Spot {
  const rect = box.getBoundingClientRect();
  return spotAt(e.clientX - rect.left, e.clientY - rect.top);
}

function spotAt(x: number, y: number): Spot {
  const row = rowAt(layout.peek(), y, scroll.peek());
  return { x, y, row, yInRow: row ? y - (row.pinned ? row.y : layout.peek().pinnedHeight + row.y - scroll.peek()) : 0 };
}

export const nearBoundary = (spot: Spot): { at: bigint; name: string } | null =>
  spot.row
    ? boundaryAt(
        spot.row,
        spot.x,
        spot.yInRow,
        { scale: scaleNow(), origin: origin.peek(), tiles: tilesShown.peek() },
        SNAP_PX,
      )
    : null;

export const scaleNow = () => scaleOf(view.peek(), viewport.peek().width);
export const timeAt = (x: number): bigint => scaleNow().time(Math.max(0, Math.min(viewport.peek().width, x)));
export const hit = (spot: Spot): Hit | null =>
  spot.row
    ? hitAt(spot.row, spot.x, spot.yInRow, { scale: scaleNow(), origin: origin.peek(), tiles: tilesShown.peek() })
    : null;

/** The lane of a place in a row with slices; null in other rows. */
function laneOf({ row, yInRow }: Spot): number | null {
  if (!row || (row.track.kind !== 'calls' && row.track.kind !== 'state')) return null;
  const lane = row.firstLane + Math.floor((yInRow - LANE_TOP_PX) / LANE_PX);
  return Math.max(row.firstLane, Math.min(lane, row.firstLane + row.lanes - 1));
}

/** Whether the source knows of nothing at a place. */
export const isNothing = (l: Located): boolean => l.begin === null && l.ns == null && l.value === undefined;

/** The exact thing under a place: at its time and lane, or next to it as near as a hand can point. Null when the source does not know yet. */
export async function locateUnder(spot: Spot): Promise<Located | null> {
  const { row } = spot;
  if (!row || !showsTiles(row)) return null;
  const lane = laneOf(spot);
  const at = timeAt(spot.x);
  const nearPx = lane === null ? NEAR_EVENT_PX : NEAR_SLICE_PX;
  const near = timeAt(spot.x + nearPx) - timeAt(spot.x - nearPx);
  const found = await locateAt(row.track.id, at, near / 2n, lane);
  if (!found || !isNothing(found)) return found;
  // Several that stand together are drawn as one block, gaps included: the nearest of them is meant.
  const block = hit(spot);
  return block && block.n > 1 && block.end !== null ? locateAt(row.track.id, at, block.end - block.begin, lane) : found;
}

/** Where the pointer rests, in pixels of the timeline. */
let resting: { readonly x: number; readonly y: number } | null = null;
let timer: ReturnType<typeof setTimeout> | null = null;
/** Counts the boxes that were begun, so that a late answer does not stand in for a newer one. */
let begun = 0;

/** The pointer is at a place; null when it is outside, or holds something. */
export function restAt(place: { readonly x: number; readonly y: number } | null): void {
  resting = place;
  begun++;
  if (timer !== null) clearTimeout(timer);
  tip.value = null;
  if (place) timer = setTimeout(() => void showTip(spotAt(place.x, place.y)), TIP_MS);
}

// The item under the pointer changes with the view, the rows and the filter, too.
effect(() => {
  void [
    view.value,
    scroll.value,
    layout.value,
    viewport.value,
    tilesShown.value,
    state.value.filter,
    state.value.cursor,
  ];
  if (resting) restAt(resting);
});

async function showTip(spot: Spot): Promise<void> {
  const own = ++begun;
  const put = (lines: readonly string[], isExact: boolean): void => {
    tip.value = { x: spot.x, y: spot.y, lines, isExact };
  };
  const block = hit(spot);
  if (block) put(describe(block, state.peek().cursor), block.gap !== null);
  if (!spot.row || block?.gap) return;
  const found = await locateUnder(spot);
  if (own !== begun || !found || !spot.row) return;
  if (!isNothing(found)) put(describeExactly(spot.row, found, block, state.peek().cursor, timeContext.peek()), true);
}
