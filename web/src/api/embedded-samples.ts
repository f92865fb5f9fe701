// The flame graph of samples, of a page that holds its data (`crates/answers/src/samples.rs`).
import type { Head, Samples, SamplesHead } from './pack';
import type { FlameAnswer, FlameNode } from './types';

/** Tracks that were chosen: those of samples by their place, their thread or their CPU. */
export type ChosenTracks = { bases: Set<number>; states: Set<number> };

/**
 * The samples in a range of time, null for all, on the chosen tracks, null for all: those of one event, which is the one of the
 * most samples where none of that name is there.
 */
export function sampleFlame(
  head: Head,
  samples: Samples,
  range: readonly [number, number] | null,
  chosen: ChosenTracks | null,
  event: string | null,
): FlameAnswer {
  const { events, frames, places } = head.samples!;
  const { threads, cpus } = ofStates(head, chosen);
  const isChosen = places.map((bases) => bases.some((base) => chosen?.bases.has(base)));
  const isWanted = (i: number): boolean => {
    const time = samples.times[i]!;
    if (range && !(time >= range[0] && time <= range[1])) return false;
    return !chosen || isChosen[samples.place[i]!]! || threads.has(samples.thread[i]!) || cpus.has(samples.cpu[i]!);
  };
  const wanted: number[] = [];
  const counts = events.map(() => 0);
  let hasWeights = false;
  for (let i = 0; i < samples.count; i++) {
    if (!isWanted(i)) continue;
    wanted.push(i);
    counts[samples.event[i]!]!++;
    hasWeights ||= !Number.isNaN(samples.weight[i]!);
  }
  const found = events.map((_, at) => at).filter((at) => counts[at]! > 0);
  found.sort((a, b) => counts[b]! - counts[a]! || a - b);
  const shown = found.find((at) => events[at]!.name === event) ?? found[0];
  if (shown === undefined) return { nodes: tree(samples, frames, []), unit: 'samples', event: '', events: [] };
  return {
    nodes: tree(
      samples,
      frames,
      wanted.filter((i) => samples.event[i] === shown),
    ),
    unit: hasWeights ? events[shown]!.unit : 'samples',
    event: events[shown]!.name,
    events: found.map((at) => events[at]!.name),
  };
}

function ofStates(head: Head, chosen: ChosenTracks | null): { threads: Set<number>; cpus: Set<number> } {
  const [threads, cpus] = [new Set<number>(), new Set<number>()];
  for (const at of chosen?.states ?? []) {
    const { thread, cpu } = head.states_of[at]!;
    if (thread !== undefined) threads.add(thread);
    if (cpu !== undefined) cpus.add(cpu);
  }
  return { threads, cpus };
}

/** The tree of some samples: callers before what they call, functions of one caller in the order of their names. */
function tree(samples: Samples, frames: SamplesHead['frames'], list: readonly number[]): FlameNode[] {
  const { parent, frame, node, weight } = samples;
  const count = new Float64Array(parent.length);
  const self = new Array<bigint>(parent.length).fill(0n);
  for (const i of list) {
    count[node[i]!]!++;
    self[node[i]!]! += Number.isNaN(weight[i]!) ? 1n : BigInt(weight[i]!);
  }
  const total = self.slice();
  const below: number[][] = Array.from(parent, () => []);
  for (let at = parent.length - 1; at > 0; at--) {
    if (count[at] === 0) continue;
    count[parent[at]!]! += count[at]!;
    total[parent[at]!]! += total[at]!;
    below[parent[at]!]!.push(at);
  }
  const nodes: FlameNode[] = [];
  const open: [number, number | null][] = [[0, null]];
  for (let next = open.pop(); next; next = open.pop()) {
    const [at, caller] = next;
    const [name, module] = at === 0 ? ['', ''] : frames[frame[at]!]!;
    const id = nodes.length;
    nodes.push({
      id,
      parent: caller,
      name,
      module,
      calls: count[at]!,
      total: String(total[at]),
      self: String(self[at]),
    });
    below[at]!.sort((a, b) => frame[b]! - frame[a]!);
    for (const callee of below[at]!) open.push([callee, id]);
  }
  return nodes;
}
