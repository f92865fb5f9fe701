// When tracks first have an event that a filter leaves.

import type { Located, Row, Rows } from '../api/types';
import { whileBusy } from './busy';
import { ask } from './session';
import { trackById } from './tracks';

const LOOKED_AT = 1000;
/** Questions about single tracks that are asked at once. */
const AT_ONCE = 8;

/** The first time of each track, of those that have one, not before a time. */
export const firstOfTracks = (tracks: readonly string[], filter: string, from: bigint): Promise<Map<string, bigint>> =>
  whileBusy(
    (async () => {
      const first = new Map<string, bigint>();
      const base = new Set(tracks.filter((t) => trackById.peek().get(t)?.base));
      const look = (rows: readonly Row[]): void => {
        for (const row of rows)
          if (row.ns !== null && base.has(row.track) && !first.has(row.track)) first.set(row.track, BigInt(row.ns));
      };
      if (base.size > 0) {
        for (let page = await ask<Rows>('events', { at: String(from), limit: LOOKED_AT, filter }); ; ) {
          look(page.rows);
          if (first.size === base.size || page.rows.length < LOOKED_AT) break;
          page = await ask<Rows>('events', { from: page.from + page.rows.length, limit: LOOKED_AT, filter });
        }
      }
      // Rows name the stream of an event, not the value by which it is grouped.
      const others = tracks.filter((t) => !base.has(t));
      for (let i = 0; i < others.length; i += AT_ONCE) {
        await Promise.all(
          others.slice(i, i + AT_ONCE).map(async (track) => {
            const found = await ask<Located | { at: Located | null }>('locate', {
              track,
              at: String(from - 1n),
              direction: 'next',
              filter,
            });
            const at = 'at' in found ? found.at : found;
            const ns = at?.begin ?? at?.ns;
            if (ns != null) first.set(track, BigInt(ns));
          }),
        );
      }
      return first;
    })(),
  );
