// Tiles that were received, by track, level and number. What is drawn comes from here alone; what is missing is asked for,
// and until it is there a coarser tile stands in for it.
import type { Lanes, TileTrack, Tiles, TrackKind } from '../api/types';
import { TILE_BUCKETS } from '../time/range';
import { colourOf } from './names';
import { stateColour } from './states';

export interface Gap {
  /** Buckets from the begin of the tile. */
  readonly at: number;
  readonly len: number;
  readonly kind: string;
  readonly count: number | null;
}

/** A part of a track: columns of equal length, in buckets from the begin of the tile. */
export interface Tile {
  readonly kind: TrackKind;
  /** Tiles of one answer have the same number. */
  readonly answer: number;
  readonly exact: boolean;
  /** Something newer is there to be asked for. */
  stale: boolean;
  readonly size: number;
  readonly at: Float64Array;
  /** Of slices; -1 where no end is known. */
  readonly len: Float64Array;
  readonly n: Float64Array;
  readonly depth: Uint16Array;
  readonly name: Int32Array;
  readonly colour: Uint8Array;
  readonly busy: Uint8Array;
  /** Of calls of which not all lanes are here. */
  readonly lanes: Readonly<Lanes> | null;
  readonly min: Float64Array;
  readonly max: Float64Array;
  readonly last: Float64Array;
  readonly gaps: readonly Gap[];
  readonly names: readonly string[];
  /** The largest count of a bucket, and the least and greatest values. */
  readonly peak: number;
  /** Used last at this draw. */
  used: number;
}

/** A tile that stands in for another one. */
export interface Found {
  readonly tile: Tile;
  readonly level: number;
  readonly index: number;
}

/** Entries of all tiles together: some 48 bytes each. */
const CAPACITY = 900_000;

export class TileStore {
  private readonly tiles = new Map<string, Tile>();
  /** Levels that a track has tiles of. */
  private readonly levels = new Map<string, Set<number>>();
  private entries = 0;
  private answers = 0;
  private draws = 0;
  /** Called with tiles that are forgotten. */
  onForget: (tile: Tile) => void = () => {};

  get(track: string, level: number, index: number): Tile | undefined {
    const tile = this.tiles.get(keyOf(track, level, index));
    if (tile) tile.used = this.draws;
    return tile;
  }

  /** Whether a tile has to be asked for; `exact` asks again for those that are estimates of a moment. */
  wants(track: string, level: number, index: number, exact: boolean): boolean {
    const tile = this.tiles.get(keyOf(track, level, index));
    return tile === undefined || tile.stale || (exact && !tile.exact);
  }

  /** Whether a tile is there, and no more than an estimate. */
  isEstimate(track: string, level: number, index: number): boolean {
    return this.tiles.get(keyOf(track, level, index))?.exact === false;
  }

  /** The nearest coarser tile that covers one. */
  coarser(track: string, level: number, index: number): Found | null {
    const levels = this.levels.get(track);
    if (!levels) return null;
    for (const coarse of [...levels].filter((l) => l > level).sort((a, b) => a - b)) {
      const at = Math.floor(index / 2 ** (coarse - level));
      const tile = this.get(track, coarse, at);
      if (tile) return { tile, level: coarse, index: at };
    }
    return null;
  }

  /** The tiles of the nearest finer level that has any in a range of another level. */
  finer(track: string, level: number, index: number): Found[] {
    const levels = this.levels.get(track);
    if (!levels) return [];
    for (const fine of [...levels].filter((l) => l < level && l >= level - 6).sort((a, b) => b - a)) {
      const many = 2 ** (level - fine);
      const found: Found[] = [];
      for (let at = index * many; at < (index + 1) * many; at++) {
        const tile = this.get(track, fine, at);
        if (tile) found.push({ tile, level: fine, index: at });
      }
      if (found.length) return found;
    }
    return [];
  }

  /** Begins a drawing: what is used from now on is younger than the rest. */
  beginDraw(): void { this.draws++; }

  put(answer: Tiles): void {
    this.answers++;
    const names: string[] = [];
    for (const [number, text] of Object.entries(answer.names)) names[Number(number)] = text;
    for (const track of answer.tracks) this.putTrack(track, answer, names);
    this.forget();
  }

  /** Marks what an index that went on may know better. */
  markInexact(): void { for (const tile of this.tiles.values()) if (!tile.exact) tile.stale = true; }
  markAll(): void { for (const tile of this.tiles.values()) tile.stale = true; }

  /** Marks the tiles of a track. */
  markTrack(track: string): void { for (const [key, tile] of this.tiles) if (key.startsWith(`${track} `)) tile.stale = true; }

  /** Marks tiles that reach to a time, in ns since the origin, and beyond. */
  markFrom(since: bigint): void {
    for (const [key, tile] of this.tiles) {
      const [level = '0', index = '0'] = key.split(' ').slice(-2);
      if (BigInt(TILE_BUCKETS * (Number(index) + 1)) << BigInt(level) > since) tile.stale = true;
    }
  }

  /** Names of events that tiles hold. */
  names(): Set<string> {
    const met = new Set<string>();
    for (const tile of this.tiles.values()) if (tile.kind === 'events') for (const name of tile.names) if (name !== undefined) met.add(name);
    return met;
  }

  clear(): void {
    for (const tile of this.tiles.values()) this.onForget(tile);
    this.tiles.clear();
    this.levels.clear();
    this.entries = 0;
  }

  private putTrack(track: TileTrack, { level, from, to }: Tiles, names: readonly string[]): void {
    const slices = track.kind === 'calls' || track.kind === 'state';
    const parts = to - from + 1;
    const members: number[][] = Array.from({ length: parts }, () => []);
    const clamp = (index: number): number => Math.max(0, Math.min(parts - 1, index));
    for (let i = 0; i < track.at.length; i++) {
      const at = track.at[i] ?? 0;
      const first = clamp(Math.floor(at / TILE_BUCKETS));
      const len = track.len?.[i] ?? 1;
      const last = !slices ? first : len < 0 ? parts - 1 : clamp(Math.floor((at + len) / TILE_BUCKETS));
      for (let part = first; part <= last; part++) members[part]?.push(i);
    }
    // The line of a counter begins with the value before.
    if (track.kind === 'counter') {
      for (let part = 1, before: number | undefined; part < parts; part++) {
        before = members[part - 1]?.at(-1) ?? before;
        if (before !== undefined) members[part]?.unshift(before);
      }
    }
    for (let part = 0; part < parts; part++) {
      const shift = part * TILE_BUCKETS;
      const gaps = (track.gaps ?? [])
        .filter(([at, len]) => at < shift + TILE_BUCKETS && at + Math.max(len, 1) > shift)
        .map(([at, len, kind, count]) => ({ at: at - shift, len, kind, count }));
      this.set(track.id, level, from + part, tileOf(track, members[part] ?? [], shift, gaps, names, this.answers, this.draws));
    }
  }

  private set(track: string, level: number, index: number, tile: Tile): void {
    const key = keyOf(track, level, index);
    const old = this.tiles.get(key);
    if (old) { this.entries -= old.size + 1; this.onForget(old); }
    this.tiles.set(key, tile);
    this.entries += tile.size + 1;
    let levels = this.levels.get(track);
    if (!levels) this.levels.set(track, (levels = new Set()));
    levels.add(level);
  }

  /** Gives up the tiles that were not drawn for the longest time. */
  private forget(): void {
    if (this.entries <= CAPACITY) return;
    const oldest = [...this.tiles].sort((a, b) => a[1].used - b[1].used);
    for (const [key, tile] of oldest) {
      if (this.entries <= CAPACITY * 0.75 || tile.used >= this.draws) break;
      this.tiles.delete(key);
      this.entries -= tile.size + 1;
      this.onForget(tile);
    }
  }
}

const keyOf = (track: string, level: number, index: number): string => `${track} ${level} ${index}`;

const EMPTY = new Float64Array(0);

function tileOf(
  track: TileTrack, members: readonly number[], shift: number, gaps: readonly Gap[], names: readonly string[], answer: number, used: number,
): Tile {
  const size = members.length;
  const column = (from: readonly number[] | undefined, less = 0): Float64Array => {
    if (!from) return EMPTY;
    const to = new Float64Array(size);
    members.forEach((m, i) => { to[i] = (from[m] ?? 0) - less; });
    return to;
  };
  const name = new Int32Array(track.name ? size : 0);
  const colour = new Uint8Array(size);
  members.forEach((m, i) => {
    if (!track.name) return;
    name[i] = track.name[m] ?? 0;
    const text = names[name[i] ?? 0] ?? '';
    colour[i] = (track.kind === 'state' ? stateColour(text) : undefined) ?? colourOf(text);
  });
  const n = column(track.n);
  let peak = 0;
  for (const count of n) peak = Math.max(peak, count);
  return {
    kind: track.kind, answer, exact: track.exact, stale: false, size, at: column(track.at, shift), len: column(track.len), n,
    depth: Uint16Array.from(track.depth ? members.map((m) => track.depth?.[m] ?? 0) : []), name, colour,
    busy: Uint8Array.from(track.busy ? members.map((m) => track.busy?.[m] ?? 0) : []), lanes: track.lanes ?? null,
    min: column(track.min), max: column(track.max), last: column(track.last), gaps, names, peak, used,
  };
}
