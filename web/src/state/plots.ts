// Fields that are shown as counters. The id of such a track says what it shows: `p.GROUP.NAME.PATH`; signs of name and path
// that ids do not have stand as `-` and two hexadecimal digits for each byte.
import type { Track } from '../api/types';

const encoded = (text: string): string =>
  [...new TextEncoder().encode(text)]
    .map((b) => {
      const sign = String.fromCharCode(b);
      return /\w/.test(sign) ? sign : `-${b.toString(16).toUpperCase().padStart(2, '0')}`;
    })
    .join('');

/** The track of a field, by its path as filters take it, of the events of one name. */
export const plotId = (group: string, name: string, path: string): string =>
  `p.${group}.${encoded(name)}.${encoded(path)}`;

/** Periods, such as frames: events that begin and end them, paths whose values are equal at both ends, and the ns that one may take. */
export interface PeriodDefinition {
  readonly name: string;
  readonly begin: string;
  readonly end: string;
  readonly match: string;
  readonly deadline: bigint | null;
}

/** The id of the track of periods says what they are, too: `q.NAME.BEGIN.END.MATCH.DEADLINE`. */
export const periodId = ({ name, begin, end, match, deadline }: PeriodDefinition): string =>
  `q.${[name, begin, end, match].map(encoded).join('.')}.${deadline ?? ''}`;

const decoded = (part: string): string => {
  const bytes: number[] = [];
  for (const [sign, digits] of part.matchAll(/-([0-9A-Fa-f]{2})|[\s\S]/g))
    bytes.push(digits === undefined ? sign.charCodeAt(0) : Number.parseInt(digits, 16));
  return new TextDecoder().decode(new Uint8Array(bytes));
};

/** The periods of an id; null when it is none of periods. */
export function readPeriodId(id: string): PeriodDefinition | null {
  const [kind, name = '', begin = '', end = '', match = '', deadline = '', more] = id.split('.');
  if (kind !== 'q' || more !== undefined || !/^\d*$/.test(deadline)) return null;
  return {
    name: decoded(name),
    begin: decoded(begin),
    end: decoded(end),
    match: decoded(match),
    deadline: deadline === '' ? null : BigInt(deadline),
  };
}

/** Kinds of fields that have numbers to show. */
export const isPlottable = (kind: string): boolean =>
  kind === 'integer' || kind === 'real' || kind === 'boolean' || kind === 'enumeration';

/** Tracks with those that a user added: these stand first in their groups. */
export function withPlots(tracks: readonly Track[], plots: readonly Track[]): readonly Track[] {
  if (plots.length === 0) return tracks;
  return tracks.flatMap((track) => [track, ...plots.filter((plot) => plot.parent === track.id)]);
}
