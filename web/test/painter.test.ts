import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Placement } from '../src/draw/painter';
import { PixelPainter } from '../src/draw/pixels';
import { coloursOf, rgbOf, type Theme } from '../src/draw/theme';
import { type Tile, TileStore } from '../src/state/tiles';
import { Random } from './random';

// The parts of a browser that the painter needs.
const shown: { image: { width: number; height: number; data: Uint8ClampedArray } | null } = { image: null };
Object.assign(globalThis, {
  ImageData: class {
    data: Uint8ClampedArray;
    constructor(
      readonly width: number,
      readonly height: number,
    ) {
      this.data = new Uint8ClampedArray(width * height * 4);
    }
  },
});
const canvas = {
  width: 0,
  height: 0,
  getContext: () => ({
    putImageData: (image: typeof shown.image) => {
      shown.image = image;
    },
  }),
} as unknown as HTMLCanvasElement;
const { fills, edges } = coloursOf(false);
const theme = {
  surface: '#fff',
  loss: '#a83a0c',
  lossSoft: 'rgba(179, 64, 15, .13)',
  map: '#9aa2ab',
  fillRgb: Float32Array.from(fills.flatMap((c) => rgbOf(c))),
  edgeRgb: Float32Array.from(edges.flatMap((c) => rgbOf(c))),
} as unknown as Theme;

const WIDTH = 600;
const HEIGHT = 60;
const at = (more: Partial<Placement>): Placement => ({
  x: 0,
  bucketPx: 0.6,
  y: 10,
  height: 30,
  left: 0,
  right: WIDTH,
  top: 10,
  bottom: 40,
  peak: Math.log1p(10),
  lanes: 3,
  lanePx: 10,
  alpha: 1,
  grey: false,
  openEnd: WIDTH,
  ...more,
});
const alphaAt = (x: number, y: number, ratio = 1): number => shown.image?.data[(y * WIDTH * ratio + x) * 4 + 3] ?? 0;
const columnHas = (x: number, ratio = 1): boolean =>
  Array.from({ length: HEIGHT * ratio }, (_, y) => alphaAt(x, y, ratio)).some((a) => a > 0);

function tileOf(
  kind: 'events' | 'calls',
  columns: { at: number[]; n: number[]; len?: number[]; depth?: number[] },
): Tile {
  const store = new TileStore();
  store.put({
    generation: 1,
    level: 0,
    from: 0,
    to: 0,
    names: { 0: 'x' },
    tracks: [{ id: 't', kind, exact: true, name: columns.at.map(() => 0), ...columns }],
  });
  const tile = store.get('t', 0, 0);
  assert.ok(tile);
  return tile;
}

function paint(tile: Tile, place: Partial<Placement>, ratio = 1): void {
  const painter = new PixelPainter(canvas);
  painter.begin(WIDTH, HEIGHT, ratio, theme);
  if (tile.kind === 'events') painter.bars(tile, at(place));
  else painter.slices(tile, at(place));
  painter.end();
}

test('every event in view is drawn, at any zoom and on any screen', () => {
  const random = new Random(11);
  for (let round = 0; round < 200; round++) {
    const list = [...new Set(random.list(40, () => random.below(1024)))].sort((a, b) => a - b);
    const tile = tileOf('events', { at: list, n: list.map(() => 1 + random.below(20)) });
    const ratio = random.pick([1, 2]);
    const bucketPx = random.pick([0.01, 0.3, 0.58, 1, 7, 300]);
    const x = -random.below(400) * bucketPx;
    paint(tile, { x, bucketPx }, ratio);
    for (const bucket of list) {
      const column = Math.round((x + bucket * bucketPx) * ratio);
      if (column >= 0 && column < WIDTH * ratio) assert.ok(columnHas(column, ratio), `bucket ${bucket} at ${column}`);
    }
    for (let y = 0; y < HEIGHT * ratio; y++)
      if (y < 10 * ratio || y >= 40 * ratio)
        for (let c = 0; c < WIDTH * ratio; c += 7) assert.equal(alphaAt(c, y, ratio), 0, 'outside of the row');
  }
});

test('nothing is drawn outside of the part that a tile stands for', () => {
  const tile = tileOf('events', {
    at: Array.from({ length: 1024 }, (_, i) => i),
    n: Array.from({ length: 1024 }, () => 5),
  });
  paint(tile, { left: 100, right: 200, bucketPx: 4, x: -300 });
  for (let x = 0; x < WIDTH; x++) assert.equal(columnHas(x), x >= 100 && x < 200, `column ${x}`);
});

test('more events are higher', () => {
  paint(tileOf('events', { at: [10, 30, 50], n: [1, 5, 10] }), { bucketPx: 10 });
  const high = (x: number): number =>
    Array.from({ length: HEIGHT }, (_, y) => alphaAt(x, y)).filter((a) => a > 0).length;
  assert.ok(high(101) < high(301) && high(301) < high(501), `${high(101)} ${high(301)} ${high(501)}`);
});

test('slices: at least a pixel, in their lane, far begins and open ends', () => {
  const tile = tileOf('calls', { at: [-1e15, 100, 400], n: [1, 1, 1], len: [1e15 + 50, 0, -1], depth: [0, 1, 2] });
  paint(tile, { bucketPx: 1, openEnd: 500 });
  const lane = (depth: number): number => 10 + 3 + depth * 10 + 4;
  assert.ok(alphaAt(0, lane(0)) && alphaAt(49, lane(0)) && !alphaAt(51, lane(0)));
  assert.ok(alphaAt(100, lane(1)) && !alphaAt(102, lane(1)));
  assert.ok(alphaAt(400, lane(2)) && alphaAt(499, lane(2)) && !alphaAt(501, lane(2)));
  paint(tile, { bucketPx: 1, lanes: 1 });
  assert.ok(!alphaAt(400, lane(2)), 'lanes that are folded');
});

test('calls, of which one row of pixels is copied, look as when each is drawn', () => {
  const random = new Random(5);
  let drawn = 0;
  for (let round = 0; round < 100; round++) {
    // At each depth one after the other.
    const ends = [-50, -50, -50, -50];
    const calls = random
      .list(150, () => {
        const depth = random.below(4);
        const at = (ends[depth] ?? 0) + random.pick([0, 0, 1, 20]);
        const len = at > 900 ? -1 : random.pick([1, 1, 2, 40]);
        ends[depth] = len < 0 ? Infinity : at + len;
        return { at, len, depth };
      })
      .filter(({ at }) => at < 1024)
      .sort((a, b) => a.at - b.at);
    const tile = tileOf('calls', {
      at: calls.map((c) => c.at),
      n: calls.map(() => 1),
      len: calls.map((c) => c.len),
      depth: calls.map((c) => c.depth),
    });
    const ratio = random.pick([1, 2]);
    const bucketPx = random.pick([0.1, 0.6, 1, 5]);
    const [left, right] = random.pick([
      [0, WIDTH],
      [100, 333],
      [599, WIDTH],
    ]);
    const place = {
      x: -random.below(200) * bucketPx,
      bucketPx,
      left,
      right,
      lanes: 3,
      top: random.pick([10, 17]),
      bottom: random.pick([40, 33, 18]),
    };
    paint(tile, place, ratio);
    const copied = shown.image?.data.slice();
    // Tracks with states are drawn row by row.
    paint({ ...tile, kind: 'state' }, place, ratio);
    drawn += Number(copied?.some((byte) => byte > 0));
    // Things narrower than a pixel may be drawn over its neighbour, or below it.
    const seen = (pixels?: Uint8ClampedArray): Uint8ClampedArray | undefined =>
      bucketPx < 1 ? pixels?.filter((_, i) => i % 4 === 3) : pixels;
    assert.deepEqual(seen(copied), seen(shown.image?.data), `round ${round}`);
  }
  assert.ok(drawn > 30, String(drawn));
});

test('calls that stand together are striped from end to end, and have no edge', () => {
  const colours = (n: number): number[] => {
    paint(tileOf('calls', { at: [10], n: [n], len: [60], depth: [0] }), { bucketPx: 1 });
    return Array.from(
      { length: 60 },
      (_, x) => new Uint32Array(shown.image?.data.buffer ?? new ArrayBuffer(0))[15 * WIDTH + 10 + x] ?? 0,
    );
  };
  const [one, several] = [colours(1), colours(40)];
  const [edge, fill] = [one[0], one[1]];
  assert.ok(edge !== fill && one.slice(1).every((c) => c === fill));
  assert.ok(several[0] === fill && several[1] === fill);
  assert.equal(several.filter((c) => c === edge).length, 20);
});

test('what a filter leaves out has no colours', () => {
  const store = new TileStore();
  store.put({
    generation: 1,
    level: 0,
    from: 0,
    to: 0,
    names: { 0: 'x', 1: 'mill:grind' },
    tracks: [{ id: 't', kind: 'events', exact: true, at: [10, 200], n: [3, 3], name: [0, 1] }],
  });
  const tile = store.get('t', 0, 0);
  assert.ok(tile);
  const colours = (grey: boolean): number => {
    paint(tile, { grey });
    return new Set(new Uint32Array(shown.image?.data.buffer ?? new ArrayBuffer(0)).filter((c) => c !== 0)).size;
  };
  assert.equal(colours(false), 2);
  assert.equal(colours(true), 1);
});
