// Threads of kernel traces in the order of what they did in view: the busiest first, the others below as the tree that they were.
import type { Track } from '../api/types';
import { subjectOf } from './states';

/** For how long a thread ran, by track. */
export interface Activity {
  readonly id: string;
  readonly busy: string;
}

/** Whether a track shows the states of a thread. */
export const isThread = (track: Track): boolean => track.kind === 'state' && subjectOf(track.id) === 'thread';

/** The heading above the threads of a trace that ran in view, and above those that did not. */
export const activeId = (group: string): string => `active.${group}`;
export const othersId = (group: string): string => `others.${group}`;

/** Tracks with the threads that ran in view first, below a heading, in the order of `activity`. */
export function withActive(tracks: readonly Track[], activity: readonly Activity[]): readonly Track[] {
  if (activity.length === 0) return tracks;
  const rank = new Map(activity.map(({ id, busy }, i) => [id, { i, busy }]));
  const byId = new Map(tracks.map((t) => [t.id, t]));
  const threads = new Map<string, Track[]>();
  for (const track of tracks) {
    const group = isThread(track) ? groupOf(track, byId) : null;
    if (group !== null) {
      const own = threads.get(group);
      if (own) own.push(track);
      else threads.set(group, [track]);
    }
  }
  const out: Track[] = [];
  const placed = new Set<string>();
  for (const track of tracks) {
    const group = isThread(track) ? groupOf(track, byId) : null;
    const own = group === null ? undefined : threads.get(group);
    if (group === null || own === undefined) {
      out.push(track);
      continue;
    }
    if (placed.has(group)) continue;
    placed.add(group);
    out.push(...arranged(group, own, rank, byId));
  }
  return out;
}

function arranged(
  group: string,
  own: readonly Track[],
  rank: ReadonlyMap<string, { i: number; busy: string }>,
  byId: ReadonlyMap<string, Track>,
): Track[] {
  const busy = own.filter((t) => rank.has(t.id)).sort((a, b) => (rank.get(a.id)?.i ?? 0) - (rank.get(b.id)?.i ?? 0));
  if (busy.length === 0) return [...own];
  const rest = own.filter((t) => !rank.has(t.id));
  const heading = (id: string, name: string, n: number): Track => ({
    id,
    parent: group,
    kind: 'heading',
    base: false,
    name,
    trace: busy[0]?.trace ?? null,
    events: null,
    threads: n,
  });
  // A thread below one that has gone up stands below the next one above.
  const above = (track: Track): string => {
    let parent = track.parent === null ? undefined : byId.get(track.parent);
    for (let steps = 0; parent && isThread(parent) && rank.has(parent.id) && steps < own.length; steps++)
      parent = parent.parent === null ? undefined : byId.get(parent.parent);
    return parent && isThread(parent) ? parent.id : othersId(group);
  };
  return [
    heading(activeId(group), 'Active in view', busy.length),
    ...busy.map((t) => ({ ...t, parent: activeId(group), busy: rank.get(t.id)?.busy ?? '0' })),
    ...(rest.length ? [heading(othersId(group), 'Not active in view', rest.length)] : []),
    ...rest.map((t) => ({ ...t, parent: above(t) })),
  ];
}

/** The group at the top of a track's tree. */
function groupOf(track: Track, byId: ReadonlyMap<string, Track>): string | null {
  let at: Track | undefined = track;
  for (let steps = 0; at && steps < byId.size; steps++) {
    if (at.kind === 'group') return at.id;
    at = at.parent === null ? undefined : byId.get(at.parent);
  }
  return null;
}
