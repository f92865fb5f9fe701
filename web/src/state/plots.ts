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

/** Kinds of fields that have numbers to show. */
export const isPlottable = (kind: string): boolean =>
  kind === 'integer' || kind === 'real' || kind === 'boolean' || kind === 'enumeration';

/** Tracks with those that a user added: these stand first in their groups. */
export function withPlots(tracks: readonly Track[], plots: readonly Track[]): readonly Track[] {
  if (plots.length === 0) return tracks;
  return tracks.flatMap((track) => [track, ...plots.filter((plot) => plot.parent === track.id)]);
}
