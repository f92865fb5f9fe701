// Counts by powers of two.

/** The power of two that is not above a value; 0 for what is below 1. */
export const powerOf = (value: number): number => (value < 1 ? 0 : Math.floor(Math.log2(value)));

/** Counts by power of two, from the first to the last that has any. */
export function byPowerOfTwo(values: readonly number[]): { first: number; counts: number[] } {
  const powers = values.map(powerOf);
  const first = powers.reduce((a, b) => Math.min(a, b), Infinity);
  if (!Number.isFinite(first)) return { first: 0, counts: [] };
  const counts: number[] = new Array<number>(powers.reduce((a, b) => Math.max(a, b), 0) - first + 1).fill(0);
  for (const p of powers) counts[p - first] = (counts[p - first] ?? 0) + 1;
  return { first, counts };
}

/** Counts that the source made of all durations, in the same form. */
export function histogramOfCounts(list: readonly (readonly [number, number])[]): { first: number; counts: number[] } {
  const filled = list.filter(([, n]) => n > 0);
  const first = filled.reduce((a, [p]) => Math.min(a, p), Infinity);
  if (!Number.isFinite(first)) return { first: 0, counts: [] };
  const counts: number[] = new Array<number>(filled.reduce((a, [p]) => Math.max(a, p), 0) - first + 1).fill(0);
  for (const [p, n] of filled) counts[p - first] = n;
  return { first, counts };
}
