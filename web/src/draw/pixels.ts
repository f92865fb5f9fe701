// The painter without a graphics processor: pixels are set one by one, and given to the canvas at once. With tens of
// thousands of bars that is several times faster than as many calls.

import { shapeOf } from '../state/states';
import { lowerBound, type Tile, WIDE } from '../state/tiles';
import {
  BAR_MARGIN_PX,
  BAR_PX,
  DOT_PX,
  DOTS_PX,
  EDGED_PX,
  FRAME_PX,
  HATCH_PX,
  LANE_GAP_PX,
  LANE_TOP_PX,
  LINE_PX,
  type Painter,
  type Placement,
  SINGLE_PX,
  STRIPE_PX,
  STRIPES_PX,
  shareOf,
} from './painter';
import { hasEdge, isSingle, resize } from './plain';
import { parseColour, type Theme } from './theme';

/** A pixel as the bytes red, green, blue, alpha: little-endian, as all machines with browsers are. */
const pixel = (r: number, g: number, b: number): number =>
  ((255 << 24) | (Math.round(b * 255) << 16) | (Math.round(g * 255) << 8) | Math.round(r * 255)) >>> 0;

type Rgb = readonly [number, number, number];
const mixed = (over: Rgb, under: Rgb, share: number): number =>
  pixel(
    over[0] * share + under[0] * (1 - share),
    over[1] * share + under[1] * (1 - share),
    over[2] * share + under[2] * (1 - share),
  );

/** Blocks of at most this width are set pixel by pixel. */
const NARROW_PX = 8;

/** A lane: where it is in sight, its middle, and its rows of pixels. */
interface Lane {
  readonly top: number;
  readonly bottom: number;
  readonly middle: number;
  readonly first: number;
  readonly last: number;
}

interface Colours {
  readonly fill: Uint32Array;
  readonly edge: Uint32Array;
}

export class PixelPainter implements Painter {
  readonly name = 'canvas2d';
  private readonly context: CanvasRenderingContext2D;
  private image: ImageData | null = null;
  private data = new Uint32Array(0);
  private width = 0;
  private height = 0;
  private ratio = 1;
  private theme: Theme | null = null;
  private readonly mixes = new Map<number, Colours>();
  /** Lanes of which a row of pixels was drawn, by that row: their last one, and the columns. */
  private readonly copies = new Map<number, { last: number; left: number; right: number }>();
  /** Of one row: where the bar of each column begins, and its colour. */
  private tops = new Int32Array(0);
  private inks = new Uint32Array(0);

  constructor(private readonly canvas: HTMLCanvasElement) {
    const context = canvas.getContext('2d', { willReadFrequently: true });
    if (!context) throw new Error('the browser has no canvas');
    this.context = context;
  }

  begin(width: number, height: number, ratio: number, theme: Theme): void {
    resize(this.canvas, width, height, ratio);
    const [w, h] = [this.canvas.width, this.canvas.height];
    if (!this.image || w !== this.width || h !== this.height) {
      this.image = new ImageData(w, h);
      this.data = new Uint32Array(this.image.data.buffer);
      this.tops = new Int32Array(w);
      this.inks = new Uint32Array(w);
      [this.width, this.height] = [w, h];
    } else this.data.fill(0);
    if (theme !== this.theme) this.mixes.clear();
    this.theme = theme;
    this.ratio = ratio;
  }

  rect(x: number, y: number, width: number, height: number, colour: string): void {
    const [r, g, b] = parseColour(colour);
    this.block(x, y, x + width, y + height, pixel(r, g, b));
  }

  hatch(x: number, y: number, width: number, height: number): void {
    if (!this.theme) return;
    const [sr, sg, sb] = parseColour(this.theme.surface);
    const [gr, gg, gb, ga] = parseColour(this.theme.lossSoft);
    const [lr, lg, lb] = parseColour(this.theme.loss);
    const under: Rgb = [gr * ga + sr * (1 - ga), gg * ga + sg * (1 - ga), gb * ga + sb * (1 - ga)];
    const [ground, line] = [mixed(under, under, 1), mixed([lr, lg, lb], under, 0.7)];
    const [x0, x1, y0, y1] = [this.inX(x), this.inX(x + width), this.inY(y), this.inY(y + height)];
    const period = Math.max(3, Math.round(HATCH_PX * this.ratio));
    const thick = Math.max(1, Math.round(this.ratio));
    for (let py = y0; py < y1; py++)
      for (let px = x0, at = py * this.width + x0; px < x1; px++, at++)
        this.data[at] = (px + py) % period < thick ? line : ground;
  }

  bars(tile: Tile, at: Placement): void {
    const { tops, inks, ratio } = this;
    const { edge } = this.coloursFor(at.alpha, at.grey);
    const [left, right] = [this.inX(at.left), this.inX(at.right)];
    const bottom = Math.min(this.inY(at.bottom), this.inY(at.y + at.height - 1));
    const base = Math.round((at.y + at.height - 1) * ratio);
    const room = (at.height - BAR_MARGIN_PX) * ratio;
    if (right <= left) return;
    tops.fill(0x7fffffff, left, right);
    const [x, bucket] = [at.x * ratio, at.bucketPx * ratio];
    for (let i = lowerBound(tile.at, (left - x - SINGLE_PX * ratio) / bucket - 1); i < tile.size; i++) {
      const begin = Math.round(x + (tile.at[i] ?? 0) * bucket);
      if (begin >= right) break;
      const least = Math.round((isSingle(tile, i, at.bucketPx) ? SINGLE_PX : BAR_PX) * ratio);
      const end = Math.min(right, begin + Math.max(least, Math.round(bucket)));
      if (end <= left) continue;
      const top = base - Math.round(shareOf(tile.height[i] ?? 0, at.peak) * room);
      const ink = edge[tile.colour[i] ?? 0] ?? 0;
      for (let px = Math.max(left, begin); px < end; px++)
        if (top < (tops[px] ?? 0)) {
          tops[px] = top;
          inks[px] = ink;
        }
    }
    for (let py = Math.max(this.inY(at.top), base - Math.ceil(room)); py < bottom; py++) {
      const line = py * this.width;
      for (let px = left; px < right; px++) if ((tops[px] ?? 0) <= py) this.data[line + px] = inks[px] ?? 0;
    }
  }

  slices(tile: Tile, at: Placement): void {
    // There are many calls, and they have one shape.
    if (tile.kind === 'calls' && tile.gaps.length === 0) {
      this.calls(tile, at);
      return;
    }
    const { fill, edge } = this.coloursFor(at.alpha);
    const lanes = this.lanesOf(at);
    for (let i = 0; i < tile.size; i++) {
      const lane = lanes[tile.depth[i] ?? 0];
      if (!lane || lane.last <= lane.first) continue;
      const len = tile.len[i] ?? 0;
      const from = at.x + (tile.at[i] ?? 0) * at.bucketPx;
      const to = len < 0 ? at.openEnd : Math.max(from + 1, from + len * at.bucketPx);
      if (from > at.right || to < at.left) continue;
      const colour = tile.colour[i] ?? 0;
      const left = Math.max(at.left, from);
      const right = Math.min(at.right, to);
      const ink = edge[colour] ?? 0;
      const shape = shapeOf(colour);
      const { top, bottom, middle, first, last } = lane;
      if (shape === 'line') {
        this.block(
          left,
          Math.max(top, middle - LINE_PX),
          right,
          Math.min(bottom, middle + LINE_PX),
          to - from > EDGED_PX ? (fill[colour] ?? 0) : ink,
        );
        continue;
      }
      if (shape === 'dotted') {
        this.dots(left, top, right, bottom, ink);
        continue;
      }
      if (shape === 'hollow') {
        this.block(left, top, right, Math.min(bottom, top + FRAME_PX), ink);
        this.block(left, Math.max(top, bottom - FRAME_PX), right, bottom, ink);
        if (to <= at.right) this.block(Math.max(left, right - 1), top, right, bottom, ink);
      } else this.fill(left, right, first, last, fill[colour] ?? 0);
      if (to - from > EDGED_PX && from >= at.left && hasEdge(tile, i))
        this.fill(from, Math.min(right, from + 1), first, last, ink);
      if ((tile.n[i] ?? 1) > 1)
        for (let x = Math.ceil(left / STRIPES_PX) * STRIPES_PX; x < right; x += STRIPES_PX)
          this.fill(x, Math.min(right, x + STRIPE_PX), first, last, ink);
    }
  }

  /** As slices, for calls: they look the same in all rows of pixels of their lane, so one is drawn, and copied later. */
  private calls(tile: Tile, place: Placement): void {
    const { width } = this;
    const { fill, edge } = this.coloursFor(place.alpha);
    const { at, len, depth, colour, n, size, wide } = tile;
    const { x, bucketPx, left, right, openEnd } = place;
    // Where the row of pixels of each lane begins; -1 where it is out of sight.
    const lines = new Int32Array(place.lanes).fill(-1);
    this.lanesOf(place).forEach(({ first, last }, lane) => {
      if (last <= first) return;
      lines[lane] = first * width;
      this.copyLater(first, last, this.inX(left), Math.min(width, this.inX(right) + 1));
    });
    // Long ones first, wherever they begin, then those that begin in sight.
    const first = lowerBound(at, (left - x) / bucketPx - WIDE);
    const behind = (right - x) / bucketPx;
    for (let k = 0, i = first; ; k++) {
      const isWide = k < wide.length;
      if (isWide) i = wide[k]!;
      else if (k === wide.length) i = first;
      else i++;
      if (i >= size) break;
      if (!isWide) {
        if (at[i]! > behind) break;
        if (len[i]! >= WIDE || len[i]! < 0) continue;
      }
      const lane = depth[i]!;
      if (lane >= lines.length || lines[lane]! < 0) continue;
      const line = lines[lane]!;
      const from = x + at[i]! * bucketPx;
      const to = len[i]! < 0 ? openEnd : Math.max(from + 1, from + len[i]! * bucketPx);
      if (from > right || to < left) continue;
      const begin = Math.max(left, from);
      const end = Math.min(right, to);
      const ink = edge[colour[i]!]!;
      this.line(line, begin, end, fill[colour[i]!]!);
      if (n[i]! > 1)
        for (let px = Math.ceil(begin / STRIPES_PX) * STRIPES_PX; px < end; px += STRIPES_PX)
          this.line(line, px, Math.min(end, px + STRIPE_PX), ink);
      else if (to - from > EDGED_PX && from >= left) this.line(line, from, Math.min(end, from + 1), ink);
    }
  }

  /** A piece of a row of pixels that is at least one wide. */
  private line(line: number, x0: number, x1: number, ink: number): void {
    const { data, width } = this;
    const left = this.inX(x0);
    const right = Math.min(width, Math.max(left + 1, this.inX(x1)));
    for (let at = line + left; at < line + right; at++) data[at] = ink;
  }

  /** Has a row of pixels, from one column to another, copied to those below it. Tiles stand side by side: all of a lane are copied at once. */
  private copyLater(first: number, last: number, left: number, right: number): void {
    const known = this.copies.get(first);
    this.copies.set(first, {
      last,
      left: Math.min(left, known?.left ?? left),
      right: Math.max(right, known?.right ?? right),
    });
  }

  private copyNow(): void {
    const { data, width } = this;
    for (const [first, { last, left, right }] of this.copies) {
      const from = first * width;
      for (let line = first + 1; line < last; line++) data.copyWithin(line * width + left, from + left, from + right);
    }
    this.copies.clear();
  }

  /** Where each lane is, as far as it is in sight. */
  private lanesOf(at: Placement): Lane[] {
    return Array.from({ length: at.lanes }, (_, depth) => {
      const y = at.y + LANE_TOP_PX + depth * at.lanePx;
      const [top, bottom] = [Math.max(at.top, y), Math.min(at.bottom, y + at.lanePx - LANE_GAP_PX)];
      return { top, bottom, middle: y + (at.lanePx - LANE_GAP_PX) / 2, first: this.inY(top), last: this.inY(bottom) };
    });
  }

  end(): void {
    this.copyNow();
    if (this.image) this.context.putImageData(this.image, 0, 0);
  }
  forget(): void {}

  /** A pixel of the canvas, inside of it. */
  private inX(x: number): number {
    return Math.max(0, Math.min(this.width, Math.round(x * this.ratio)));
  }
  private inY(y: number): number {
    return Math.max(0, Math.min(this.height, Math.round(y * this.ratio)));
  }

  /** A block that is at least a pixel wide. */
  private block(x0: number, y0: number, x1: number, y1: number, ink: number): void {
    this.fill(x0, x1, this.inY(y0), this.inY(y1), ink);
  }

  /** A block between rows of pixels. */
  private fill(x0: number, x1: number, first: number, last: number, ink: number): void {
    const { data, width } = this;
    const left = this.inX(x0);
    const right = Math.min(width, Math.max(left + 1, this.inX(x1)));
    const end = last * width;
    // Filling a piece costs as much as some twenty pixels.
    if (right - left > NARROW_PX)
      for (let line = first * width; line < end; line += width) data.fill(ink, line + left, line + right);
    else for (let x = left; x < right; x++) for (let at = first * width + x; at < end; at += width) data[at] = ink;
  }

  /** Dots in a block. */
  private dots(x0: number, y0: number, x1: number, y1: number, ink: number): void {
    const left = this.inX(x0);
    const right = Math.max(left + 1, this.inX(x1));
    const [size, period] = [
      Math.max(1, Math.round(DOT_PX * this.ratio)),
      Math.max(2, Math.round(DOTS_PX * this.ratio)),
    ];
    for (let y = this.inY(y0), bottom = this.inY(y1); y < bottom; y++) {
      if (y % period >= size) continue;
      for (let x = left; x < Math.min(right, this.width); x++)
        if (x % period < size) this.data[y * this.width + x] = ink;
    }
  }

  /** The colours of names over the ground, paler for what is estimated. */
  private coloursFor(alpha: number, grey = false): Colours {
    const known = this.mixes.get(grey ? -alpha : alpha);
    if (known || !this.theme) return known ?? { fill: new Uint32Array(), edge: new Uint32Array() };
    const [r, g, b] = parseColour(this.theme.surface);
    const of = (rgb: Float32Array): Uint32Array =>
      Uint32Array.from({ length: rgb.length / 3 }, (_, i) =>
        mixed([rgb[i * 3] ?? 0, rgb[i * 3 + 1] ?? 0, rgb[i * 3 + 2] ?? 0], [r, g, b], alpha),
      );
    const [mr, mg, mb] = parseColour(this.theme.map);
    const greys = (rgb: Float32Array): Float32Array => Float32Array.from(rgb, (_, i) => [mr, mg, mb][i % 3] ?? 0);
    const made = grey
      ? { fill: of(greys(this.theme.fillRgb)), edge: of(greys(this.theme.edgeRgb)) }
      : { fill: of(this.theme.fillRgb), edge: of(this.theme.edgeRgb) };
    this.mixes.set(grey ? -alpha : alpha, made);
    return made;
  }
}
