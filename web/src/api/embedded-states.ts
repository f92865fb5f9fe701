// Answers about states of a page that holds its data: as those of the server, from slices.
import type { Activity } from '../state/active';
import type { Slices } from './pack';
import type { StateStatistics } from './types';

/** The states of a track: by its id what it is of, and its slices with ns since the origin. */
export interface OfTrack {
  readonly id: string;
  readonly slices: Slices;
}

/** First and last ns since the origin. */
type Range = readonly [number, number];

const KINDS: readonly StateStatistics['of'][] = ['cpu', 'thread', 'running'];
const RUNNING: ReadonlySet<string> = new Set(['user', 'system call', 'trap', 'kernel']);
const IDLE = 'idle';

const isCpu = (id: string): boolean => /^s\d+\.cpu/.test(id);
const machineOf = (id: string): string => id.slice(0, id.indexOf('.'));

/** The lane of a track that has its states; of CPUs that only run threads there is none. */
function lastLane({ slices }: OfTrack): number {
  let last = 0;
  for (let i = 0; i < slices.count; i++) last = Math.max(last, slices.depth[i]!);
  return last;
}

/** Of each machine the first ns of which something is known, and one past the last. */
function knownTimes(all: readonly OfTrack[]): Map<string, [number, number]> {
  const known = new Map<string, [number, number]>();
  for (const { id, slices } of all) {
    for (let i = 0; i < slices.count; i++) {
      const own = known.get(machineOf(id));
      if (!own) known.set(machineOf(id), [slices.begin[i]!, slices.end[i]!]);
      else {
        own[0] = Math.min(own[0], slices.begin[i]!);
        own[1] = Math.max(own[1], slices.end[i]!);
      }
    }
  }
  return known;
}

/** Shows every piece of some tracks, those when a CPU is idle too: these are between its states. */
function eachPiece(
  chosen: readonly OfTrack[],
  all: readonly OfTrack[],
  names: readonly string[],
  see: (of: StateStatistics['of'], name: string, from: number, to: number) => void,
): void {
  const known = knownTimes(all);
  for (const track of chosen) {
    const { id, slices } = track;
    const cpu = isCpu(id);
    const [begin, end] = known.get(machineOf(id)) ?? [0, 0];
    let idleSince = begin;
    let hasStates = false;
    const last = lastLane(track);
    for (let i = 0; i < slices.count; i++) {
      const [from, to, name] = [slices.begin[i]!, slices.end[i]!, names[slices.name[i]!]!];
      if (!cpu) {
        see('thread', name, from, to);
        continue;
      }
      if (slices.depth[i] === 0) {
        see('running', name, from, to);
        continue;
      }
      if (slices.depth[i] !== last) continue;
      hasStates = true;
      if (idleSince < from) see('cpu', IDLE, idleSince, from);
      idleSince = to;
      see('cpu', name, from, to);
    }
    if (hasStates && idleSince < end) see('cpu', IDLE, idleSince, end);
  }
}

export function stateStatistics(
  chosen: readonly OfTrack[],
  all: readonly OfTrack[],
  names: readonly string[],
  [begin, last]: Range,
  percentile: (sorted: Float64Array, p: number) => number,
): StateStatistics[] {
  const rows = new Map<
    string,
    { of: StateStatistics['of']; name: string; count: number; total: number; whole: number[] }
  >();
  eachPiece(chosen, all, names, (of, name, from, to) => {
    if (from > last || to <= begin) return;
    const key = `${of} ${name}`;
    let row = rows.get(key);
    if (!row) rows.set(key, (row = { of, name, count: 0, total: 0, whole: [] }));
    row.count++;
    row.total += Math.min(to, last) - Math.max(from, begin);
    if (begin <= from && to <= last) row.whole.push(to - from);
  });
  const list = [...rows.values()].sort(
    (a, b) =>
      KINDS.indexOf(a.of) - KINDS.indexOf(b.of) ||
      b.total - a.total ||
      (a.name === IDLE ? -1 : b.name === IDLE ? 1 : a.name < b.name ? -1 : 1),
  );
  return list.map(({ of, name, count, total, whole }) => {
    const sorted = Float64Array.from(whole).sort();
    const at = (p: number): string | null => (sorted.length ? String(percentile(sorted, p)) : null);
    const sum = whole.reduce((a, b) => a + BigInt(b), 0n);
    const mean = sorted.length ? String(sum / BigInt(sorted.length)) : null;
    return {
      of,
      name,
      count,
      whole: sorted.length,
      total: String(total),
      min: at(0),
      mean,
      p50: at(50),
      p90: at(90),
      p99: at(99),
      max: at(100),
    };
  });
}

/** For how long each thread ran, the busiest first. */
export function activity(all: readonly OfTrack[], names: readonly string[], [begin, last]: Range): Activity[] {
  const busy = all.map(({ id, slices }) => {
    let sum = 0;
    if (!isCpu(id))
      for (let i = 0; i < slices.count; i++) {
        const [from, to] = [slices.begin[i]!, slices.end[i]!];
        if (to > begin && from <= last && RUNNING.has(names[slices.name[i]!]!))
          sum += Math.max(0, Math.min(to, last) - Math.max(from, begin));
      }
    return { id, sum };
  });
  return busy
    .filter(({ sum }) => sum > 0)
    .sort((a, b) => b.sum - a.sum)
    .map(({ id, sum }) => ({ id, busy: String(sum) }));
}

/** The nearest piece after a time, or before it, whose state has a text in its name: the track, and the number of the slice. */
export function findState(
  all: readonly OfTrack[],
  names: readonly string[],
  text: string,
  at: number,
  isNext: boolean,
): { track: OfTrack; at: number } | null {
  let best: { track: OfTrack; at: number } | null = null;
  for (const track of all) {
    const { slices } = track;
    const last = lastLane(track);
    for (let i = 0; i < slices.count; i++) {
      const from = slices.begin[i]!;
      if (
        slices.depth[i] !== last ||
        (isNext ? from <= at : from >= at) ||
        !names[slices.name[i]!]!.toLowerCase().includes(text)
      )
        continue;
      const known = best === null ? null : best.track.slices.begin[best.at]!;
      if (known === null || (isNext ? from < known : from > known)) best = { track, at: i };
    }
  }
  return best;
}
