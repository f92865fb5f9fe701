// Ranges of time in whole nanoseconds, and the arithmetic of moving through them. A `bigint` of ns is always since the
// origin of the clocks, as everywhere in the program; a `number` of ns is a distance that is small enough to be drawn.

/** A range that includes both its ends. */
export interface Range {
  readonly begin: bigint;
  readonly end: bigint;
}

/** The narrowest view: a nanosecond is then some tens of pixels wide. */
export const NARROWEST_NS = 16n;

export const min = (a: bigint, b: bigint): bigint => (a < b ? a : b);
export const max = (a: bigint, b: bigint): bigint => (a > b ? a : b);
export const absolute = (a: bigint): bigint => (a < 0n ? -a : a);
export const spanOf = (r: Range): bigint => r.end - r.begin;
export const ordered = (a: bigint, b: bigint): Range => (a <= b ? { begin: a, end: b } : { begin: b, end: a });
export const contains = (r: Range, t: bigint): boolean => r.begin <= t && t <= r.end;
export const overlaps = (a: Range, b: Range): boolean => a.begin <= b.end && b.begin <= a.end;
export const sameRange = (a: Range | null, b: Range | null): boolean =>
  a === b || (a !== null && b !== null && a.begin === b.begin && a.end === b.end);

/** `a * numerator / denominator`, rounded down. */
export function scaled(a: bigint, numerator: bigint, denominator: bigint): bigint {
  const product = a * numerator;
  const quotient = product / denominator;
  return product % denominator !== 0n && product < 0n !== denominator < 0n ? quotient - 1n : quotient;
}

/** The time at a share of a range, 0 at its begin and 1 at its end; shares are kept to a part in 2^52. */
export function timeAt(r: Range, share: number): bigint {
  const parts = 2 ** 52;
  return r.begin + scaled(spanOf(r), BigInt(Math.round(share * parts)), BigInt(parts));
}

/** Where a time is in a range, as a share; beyond 0 and 1 outside of it. */
export function shareOf(r: Range, t: bigint): number {
  const span = spanOf(r);
  return span === 0n ? 0 : Number(t - r.begin) / Number(span);
}

/** A view that is half as long, and in which `around` stays at its place. */
export function zoomedIn(view: Range, around: bigint): Range {
  const span = max(spanOf(view) / 2n, min(NARROWEST_NS, spanOf(view)));
  return withSpan(view, span, around);
}

/** A view that is twice as long, and no longer than the full range unless it was longer before. */
export function zoomedOut(view: Range, around: bigint, fullRange: Range): Range {
  const span = max(spanOf(view), 1n) * 2n;
  if (span >= spanOf(fullRange)) return spanOf(view) > spanOf(fullRange) ? view : fullRange;
  return clampView(withSpan(view, span, around), fullRange);
}

/** A view zoomed by any factor (below 1: in), for wheels and pinches. */
export function zoomedBy(view: Range, factor: number, around: bigint, fullRange: Range): Range {
  const parts = 1_000_000n;
  const wanted = scaled(spanOf(view), BigInt(Math.max(1, Math.round(factor * Number(parts)))), parts);
  if (factor > 1) {
    const span = max(wanted, spanOf(view) + 1n);
    if (span >= spanOf(fullRange)) return spanOf(view) > spanOf(fullRange) ? view : fullRange;
    return clampView(withSpan(view, span, around), fullRange);
  }
  return withSpan(view, max(wanted, min(NARROWEST_NS, spanOf(view))), around);
}

/** A view of another length, in which `around` keeps its share of it. */
function withSpan(view: Range, span: bigint, around: bigint): Range {
  const old = spanOf(view);
  const before = old === 0n ? 0n : scaled(around - view.begin, span, old);
  const begin = around - before;
  return { begin, end: begin + span };
}

/** A view moved by a distance, which stays inside the full range where it was over it. */
export const moved = (view: Range, by: bigint, fullRange: Range): Range =>
  clampView({ begin: view.begin + by, end: view.end + by }, fullRange, view);

/** A view pushed back into the full range; one that was outside before (typed by hand) may stay as far outside. */
function clampView(view: Range, fullRange: Range, before?: Range): Range {
  const first = before ? min(fullRange.begin, before.begin) : fullRange.begin;
  const last = before ? max(fullRange.end, before.end) : fullRange.end;
  if (view.begin < first) return { begin: first, end: first + spanOf(view) };
  if (view.end > last) return { begin: last - spanOf(view), end: last };
  return view;
}

/** A view in which a range is in the middle and takes four fifths; of a single time, the view keeps its length. */
export function fitted(range: Range, view: Range): Range {
  const span = spanOf(range);
  if (span === 0n) return centred(view, range.begin);
  const margin = max(span / 8n, 1n);
  return { begin: range.begin - margin, end: range.end + margin };
}

/** A view of the same length around a time. */
export function centred(view: Range, at: bigint): Range {
  const begin = at - spanOf(view) / 2n;
  return { begin, end: begin + spanOf(view) };
}

/** The same, but inside the full range as far as it goes. */
export const centredInside = (view: Range, at: bigint, fullRange: Range): Range =>
  spanOf(view) <= spanOf(fullRange)
    ? clampView(centred(view, at), fullRange, { begin: at, end: at })
    : centred(view, at);

/** The level whose buckets of 2^level ns are at most a pixel wide. */
export function levelOf(view: Range, pixels: number): number {
  const perPixel = spanOf(view) / BigInt(Math.max(1, Math.floor(pixels)));
  return perPixel <= 1n ? 0 : perPixel.toString(2).length - 1;
}

/** Buckets in a tile, as a power of two. */
export const TILE_BITS = 10n;
export const TILE_BUCKETS = 1 << Number(TILE_BITS);

/** The first and the last tile of a level that hold a part of a view; none is before the origin. */
export function tilesOf(view: Range, level: number, origin: bigint): { from: number; to: number } {
  const shift = BigInt(level) + TILE_BITS;
  const index = (t: bigint): number => Number(max(t - origin, 0n) >> shift);
  return { from: index(view.begin), to: index(view.end) };
}

/** When a tile begins. */
export const tileBegin = (index: number, level: number, origin: bigint): bigint =>
  origin + (BigInt(index) << (BigInt(level) + TILE_BITS));
