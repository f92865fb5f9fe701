// Tracks of a trace by the values of a path, instead of its streams.
import type { Track, TracksOfGroup } from '../api/types';

/** The key by which a trace is grouped, as the state and the link have it: `GROUP:PATH`. */
export const groupKey = (group: string, path: string): string => `${group}:${path}`;
export function readGroupKey(key: string): { group: string; path: string } | null {
  const colon = key.indexOf(':');
  return colon > 0 && colon < key.length - 1 ? { group: key.slice(0, colon), path: key.slice(colon + 1) } : null;
}

/** Paths that semantics knows, with their words. */
export const GROUPINGS: readonly (readonly [string, string])[] = [
  ['cpu', 'CPU'],
  ['thread', 'Thread'],
  ['process', 'Process'],
  ['name', 'Name'],
];

/** A path in words. */
export const groupWords = (path: string): string => GROUPINGS.find(([own]) => own === path)?.[1] ?? path;

/** Tracks with those of values instead of the streams of the same groups, where these are known already. */
export function withGroups(tracks: readonly Track[], groups: readonly TracksOfGroup[]): readonly Track[] {
  const complete = new Map(groups.filter((g) => g.done >= 1).map((g) => [g.of, g.tracks]));
  if (complete.size === 0) return tracks;
  const out: Track[] = [];
  for (const track of tracks) {
    if (track.base && track.kind === 'events' && track.parent !== null && complete.has(track.parent)) continue;
    out.push(track);
    const own = track.kind === 'group' ? complete.get(track.id) : undefined;
    if (own) out.push(...own);
  }
  return out;
}
