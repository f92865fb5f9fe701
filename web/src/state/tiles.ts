// Tiles that were received, by track, level and number. What is drawn comes from here alone; what is missing is asked for,
// and until it is there a coarser tile stands in for it.
import type { Lanes, Tiles, TileTrack, TrackKind } from '../api/types';
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
  /** The logarithm of that, of events. */
  readonly height: Float32Array;
  /** Entries that reach over so many buckets that there may be room for a name. */
  readonly wide: Uint32Array;
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

/** Buckets of a slice that may have room for a name at the zoom at which its tile is asked for. */
export const WIDE = 16;

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
  beginDraw(): void {
    this.draws++;
  }

  put(answer: Tiles): void {
    this.answers++;
    const names: string[] = [];
    for (const [number, text] of Object.entries(answer.names)) names[Number(number)] = text;
    const colours = coloursBy(names);
    for (const track of answer.tracks) this.putTrack(track, answer, names, colours(track.kind));
    this.forget();
  }

  /** Marks what an index that went on may know better. */
  markInexact(): void {
    for (const tile of this.tiles.values()) if (!tile.exact) tile.stale = true;
  }
  markAll(): void {
    for (const tile of this.tiles.values()) tile.stale = true;
  }

  /** Marks the tiles of a track. */
  markTrack(track: string): void {
    for (const [key, tile] of this.tiles) if (key.startsWith(`${track} `)) tile.stale = true;
  }

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
    for (const tile of this.tiles.values())
      if (tile.kind === 'events') for (const name of tile.names) if (name !== undefined) met.add(name);
    return met;
  }

  clear(): void {
    for (const tile of this.tiles.values()) this.onForget(tile);
    this.tiles.clear();
    this.levels.clear();
    this.entries = 0;
  }

  private putTrack(track: TileTrack, { level, from, to }: Tiles, names: readonly string[], colours: Uint8Array): void {
    const members = membersOf(track, to - from + 1);
    for (let part = 0; part <= to - from; part++) {
      const shift = part * TILE_BUCKETS;
      const gaps = (track.gaps ?? [])
        .filter(([at, len]) => at < shift + TILE_BUCKETS && at + Math.max(len, 1) > shift)
        .map(([at, len, kind, count]) => ({ at: at - shift, len, kind, count }));
      this.set(
        track.id,
        level,
        from + part,
        tileOf(track, members[part] ?? NOBODY, shift, gaps, names, colours, this.answers, this.draws),
      );
    }
  }

  private set(track: string, level: number, index: number, tile: Tile): void {
    const key = keyOf(track, level, index);
    const old = this.tiles.get(key);
    if (old) {
      this.entries -= old.size + 1;
      this.onForget(old);
    }
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

const NOBODY = new Uint32Array(0);

/** Which entries of a track each of so many tiles has. Numbers only: lists of them would have to be collected again. */
function membersOf(track: TileTrack, parts: number): readonly Uint32Array[] {
  const slices = track.kind === 'calls' || track.kind === 'state';
  const clamp = (index: number): number => Math.max(0, Math.min(parts - 1, index));
  const { at, len, n } = track;
  const size = at.length;
  const [first, last] = [new Uint32Array(size), new Uint32Array(size)];
  const counts = new Uint32Array(parts);
  for (let i = 0; i < size; i++) {
    const begin = at[i] ?? 0;
    const long = len?.[i] ?? 1;
    // One may end in the bucket after its last whole one; several end where their last bucket does.
    const end = (n?.[i] ?? 1) > 1 ? begin + long - 1 : begin + long;
    first[i] = clamp(Math.floor(begin / TILE_BUCKETS));
    last[i] = !slices ? (first[i] ?? 0) : long < 0 ? parts - 1 : clamp(Math.floor(end / TILE_BUCKETS));
    for (let part = first[i] ?? 0; part <= (last[i] ?? 0); part++) counts[part] = (counts[part] ?? 0) + 1;
  }
  // The line of a counter begins with the value before.
  const before = track.kind === 'counter' ? 1 : 0;
  const members: Uint32Array[] = [];
  let known = -1;
  for (let part = 0; part < parts; part++) {
    const many = counts[part] ?? 0;
    const more = known < 0 ? 0 : before;
    const own = new Uint32Array(many + more);
    if (more) own[0] = known;
    members.push(own);
    counts[part] = more;
    while (before > 0 && known + 1 < size && (first[known + 1] ?? 0) <= part) known++;
  }
  for (let i = 0; i < size; i++) {
    for (let part = first[i] ?? 0; part <= (last[i] ?? 0); part++) {
      const own = members[part];
      const place = counts[part] ?? 0;
      if (own) own[place] = i;
      counts[part] = place + 1;
    }
  }
  return members;
}

const EMPTY = new Float64Array(0);
const EMPTY_HEIGHTS = new Float32Array(0);

/** The colours of names, by number: of tracks of states, and of others. */
function coloursBy(names: readonly string[]): (kind: TrackKind) => Uint8Array {
  const plain = Uint8Array.from(names, (name) => colourOf(name ?? ''));
  const states = Uint8Array.from(names, (name, i) => stateColour(name ?? '') ?? plain[i] ?? 0);
  return (kind) => (kind === 'state' ? states : plain);
}

function tileOf(
  track: TileTrack,
  members: Uint32Array,
  shift: number,
  gaps: readonly Gap[],
  names: readonly string[],
  colours: Uint8Array,
  answer: number,
  used: number,
): Tile {
  const size = members.length;
  const column = (from: readonly number[] | undefined, less = 0): Float64Array => {
    if (!from) return EMPTY;
    const to = new Float64Array(size);
    for (let i = 0; i < size; i++) to[i] = (from[members[i] ?? 0] ?? 0) - less;
    return to;
  };
  const small = <T extends Uint8Array | Uint16Array>(from: readonly number[] | undefined, to: T): T => {
    if (from) for (let i = 0; i < to.length; i++) to[i] = from[members[i] ?? 0] ?? 0;
    return to;
  };
  const name = new Int32Array(track.name ? size : 0);
  const colour = new Uint8Array(size);
  for (let i = 0; i < name.length; i++) {
    name[i] = track.name?.[members[i] ?? 0] ?? 0;
    colour[i] = colours[name[i] ?? 0] ?? 0;
  }
  const n = column(track.n);
  const len = column(track.len);
  const slices = len.length > 0;
  const wide: number[] = [];
  for (let i = 0; i < len.length; i++) if ((len[i] ?? 0) >= WIDE || (len[i] ?? 0) < 0) wide.push(i);
  let peak = 0;
  for (const count of n) peak = Math.max(peak, count);
  return {
    kind: track.kind,
    answer,
    exact: track.exact,
    stale: false,
    size,
    at: column(track.at, shift),
    len,
    n,
    height: slices ? EMPTY_HEIGHTS : Float32Array.from(n, Math.log1p),
    wide: Uint32Array.from(wide),
    depth: small(track.depth, new Uint16Array(track.depth ? size : 0)),
    name,
    colour,
    busy: small(track.busy, new Uint8Array(track.busy ? size : 0)),
    lanes: track.lanes ?? null,
    min: column(track.min),
    max: column(track.max),
    last: column(track.last),
    gaps,
    names,
    peak,
    used,
  };
}

/** The first index whose value is not below one. */
export function lowerBound(values: Float64Array, least: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] ?? 0) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}
