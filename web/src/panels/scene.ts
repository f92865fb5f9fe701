// The state and the answers as plain values, from which timeline, ruler and overview are drawn.
import { signal } from '@preact/signals';
import type { PathPart } from '../api/types';
import { moving, shown } from '../draw/frame';
import type { OverviewInput } from '../draw/overview';
import { COLUMN_PX } from '../draw/overview';
import type { RulerInput } from '../draw/ruler';
import { type Scale, scaleOf } from '../draw/scale';
import type { PathSegment, TimelineInput } from '../draw/timeline';
import { markOf } from '../state/actions';
import { titles, wakeupsAnswer } from '../state/overlays';
import { overviewLevel, overviewTracks } from '../state/overview';
import { problemsAnswer } from '../state/selection';
import { phase } from '../state/session';
import { pathColour } from '../state/states';
import { fullRange, origin, session, state } from '../state/store';
import { filteredTiles, plainTiles, tilesArrived, tilesShown } from '../state/tiles-fetch';
import { layout, scroll } from '../state/tracks';
import { pathShown } from '../state/why';
import { type Range, tileBegin, tilesOf } from '../time/range';
import { theme } from './settings';

/** A selection that is being drawn with the mouse. */
export const dragged = signal<{ range: Range; tracks: readonly string[] } | null>(null);

const selectionShown = (): Range | null => dragged.value?.range ?? state.value.selection;

export function timelineInput(width: number, height: number, ratio: number): TimelineInput {
  const { chosen, cursor, bookmarks, query, filter } = state.value;
  return {
    scale: scaleOf(shown.value, width),
    height,
    ratio,
    origin: origin.value,
    layout: layout.value,
    scroll: scroll.value,
    tiles: filter ? filteredTiles : tilesShown.value,
    behind: filter ? plainTiles : null,
    theme: theme.value,
    traces: session.value?.traces ?? [],
    selection: selectionShown(),
    chosen: new Set(dragged.value?.tracks ?? chosen),
    cursor,
    bookmarks: bookmarks.map((b) => b.ns),
    mark: markOf(),
    query: query.toLowerCase(),
    begin: fullRange.value.begin,
    end: fullRange.value.end,
    pale: phase.value === 'ended',
    words: !moving(),
    titles: titles.value,
    wakes: state.value.slice
      ? (wakeupsAnswer.value.value?.wakeups ?? []).map((w) => ({ ns: BigInt(w.ns), from: w.from, to: w.to }))
      : [],
    path: pathOf(pathShown.value),
  };
}

let converted: { of: readonly PathPart[]; segments: readonly PathSegment[] } = { of: [], segments: [] };

/** The parts of a path as they are drawn: the same array for the same answer. */
function pathOf(parts: readonly PathPart[]): readonly PathSegment[] {
  if (converted.of !== parts) {
    const segments = parts.map((p) => ({
      begin: BigInt(p.from),
      end: BigInt(p.to),
      track: p.track,
      colour: pathColour(p.state ?? ''),
    }));
    converted = { of: parts, segments };
  }
  return converted.segments;
}

export const rulerInput = (width: number, height: number, ratio: number): RulerInput => ({
  scale: scaleOf(shown.value, width),
  height,
  ratio,
  begin: fullRange.value.begin,
  theme: theme.value,
  selection: selectionShown(),
  bookmarks: state.value.bookmarks,
});

export function overviewInput(width: number, height: number, ratio: number): OverviewInput {
  const scale = scaleOf(fullRange.value, width);
  const losses = (problemsAnswer.value.value?.losses ?? []).map((l) => ({
    begin: BigInt(l.begin ?? l.end ?? fullRange.value.begin),
    end: BigInt(l.end ?? l.begin ?? fullRange.value.begin),
  }));
  const { columns, estimated } = columnsOf(scale);
  return {
    scale,
    height,
    ratio,
    theme: theme.value,
    columns,
    losses,
    view: shown.value,
    selection: selectionShown(),
    estimated,
  };
}

let kept: { key: string; columns: Float64Array; estimated: boolean } | null = null;

/** Events by column of the overview: the same array until tiles arrive or the strip has another size. */
function columnsOf(scale: Scale): { columns: Float64Array; estimated: boolean } {
  const key = `${scale.width} ${scale.view.begin} ${scale.view.end} ${tilesArrived.value} ${overviewTracks.value.length}`;
  if (kept?.key !== key) kept = { key, ...countColumns(scale) };
  return kept;
}

function countColumns(scale: Scale): { columns: Float64Array; estimated: boolean } {
  const columns = new Float64Array(Math.max(1, Math.ceil(scale.width / COLUMN_PX)));
  const level = overviewLevel.value;
  const { from, to } = tilesOf(fullRange.value, level, origin.value);
  let estimated = false;
  for (const id of overviewTracks.value)
    for (let index = from; index <= to; index++) {
      const tile = plainTiles.get(id, level, index);
      if (!tile || tile.kind === 'counter') continue;
      estimated ||= !tile.exact;
      const begin = scale.x(tileBegin(index, level, origin.value));
      const bucketPx = scale.length(2 ** level);
      for (let i = 0; i < tile.size; i++) {
        const column = Math.floor((begin + (tile.at[i] ?? 0) * bucketPx) / COLUMN_PX);
        const at = Math.max(0, Math.min(columns.length - 1, column));
        columns[at] = (columns[at] ?? 0) + (tile.n[i] ?? 1);
      }
    }
  return { columns, estimated };
}
