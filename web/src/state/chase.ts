// When tracks first have an event that a filter leaves.
import { whileBusy } from './busy';
import { ask } from './load';
import type { Rows, Row } from '../api/types';

const LOOKED_AT = 1000;
const MOST_PAGES = 20;

/** The first time of each track, of those that have one among the next events from a time. */
export async function firstOfTracks(tracks: readonly string[], filter: string, from: bigint): Promise<Map<string, bigint>> {
  const wanted = new Set(tracks);
  const first = new Map<string, bigint>();
  const look = (rows: readonly Row[]): void => {
    for (const row of rows) if (row.ns !== null && wanted.has(row.track) && !first.has(row.track)) first.set(row.track, BigInt(row.ns));
  };
  await whileBusy((async () => {
    let page = await ask<Rows>('events', { at: String(from), limit: LOOKED_AT, filter });
    for (let pages = 1; ; pages++) {
      look(page.rows);
      if (first.size === wanted.size || page.rows.length < LOOKED_AT || pages >= MOST_PAGES) return;
      page = await ask<Rows>('events', { from: page.from + page.rows.length, limit: LOOKED_AT, filter });
    }
  })());
  return first;
}
