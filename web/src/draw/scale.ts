// From times to pixels and back.
import { levelOf, type Range, spanOf, tileBegin, timeAt } from '../time/range';

/** The first and the last instant of a view stand this far from the edges, so that their marks are whole. */
export const EDGE_PX = 2;

export interface Scale {
  readonly view: Range;
  readonly width: number;
  x(t: bigint): number;
  /** How many pixels a length is. */
  length(ns: number): number;
  time(x: number): bigint;
  readonly level: number;
}

export function scaleOf(view: Range, width: number): Scale {
  const usable = Math.max(1, width - 2 * EDGE_PX);
  const span = Math.max(1, Number(spanOf(view)));
  return {
    view,
    width,
    x: (t) => EDGE_PX + (Number(t - view.begin) / span) * usable,
    length: (ns) => (ns / span) * usable,
    time: (x) => timeAt(view, (x - EDGE_PX) / usable),
    level: levelOf(view, width),
  };
}

/** Where a tile begins, and how wide its buckets are. */
export const placeOf = (
  scale: Scale,
  level: number,
  index: number,
  origin: bigint,
): { x: number; bucketPx: number } => ({
  x: scale.x(tileBegin(index, level, origin)),
  bucketPx: scale.length(2 ** level),
});
