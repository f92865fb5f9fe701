// The painter that calls a canvas' context for each rectangle: for pictures, also those made of shapes.

import { COLOURS } from '../state/names';
import { PALETTE, shapeOf } from '../state/states';
import type { Tile } from '../state/tiles';
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
  SINGLE_ROOM_PX,
  STRIPE_PX,
  STRIPES_PX,
  shareOf,
} from './painter';
import type { Theme } from './theme';

export class PlainPainter implements Painter {
  readonly name = 'canvas2d';
  private theme: Theme | null = null;

  constructor(private readonly context: CanvasRenderingContext2D) {}

  begin(width: number, height: number, ratio: number, theme: Theme): void {
    this.theme = theme;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, width, height);
  }

  rect(x: number, y: number, width: number, height: number, colour: string): void {
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
  }

  hatch(x: number, y: number, width: number, height: number): void {
    if (!this.theme) return;
    hatch(this.context, this.theme, x, y, width, height);
  }

  bars(tile: Tile, at: Placement): void {
    const { context: g, theme } = this;
    if (!theme) return;
    this.clipped(at, () => {
      const bottom = at.y + at.height - 1;
      const room = at.height - BAR_MARGIN_PX;
      for (let colour = 0; colour < COLOURS; colour++) {
        g.fillStyle = at.grey ? theme.map : (theme.edge[colour] ?? '');
        for (let i = 0; i < tile.size; i++) {
          if (tile.colour[i] !== colour) continue;
          const x = at.x + (tile.at[i] ?? 0) * at.bucketPx;
          if (x > at.right || x + at.bucketPx + SINGLE_PX < at.left) continue;
          const width = Math.max(isSingle(tile, i, at.bucketPx) ? SINGLE_PX : BAR_PX, at.bucketPx);
          const high = shareOf(tile.height[i] ?? 0, at.peak) * room;
          g.fillRect(Math.round(x), bottom - high, Math.max(1, Math.round(width)), high);
        }
      }
    });
  }

  slices(tile: Tile, at: Placement): void {
    const { context: g, theme } = this;
    if (!theme) return;
    this.clipped(at, () => {
      for (let colour = 0; colour < PALETTE; colour++) {
        for (let i = 0; i < tile.size; i++) {
          const depth = tile.depth[i] ?? 0;
          if (tile.colour[i] !== colour || depth >= at.lanes) continue;
          const len = tile.len[i] ?? 0;
          const begin = Math.max(at.left - 8, at.x + (tile.at[i] ?? 0) * at.bucketPx);
          const end =
            len < 0
              ? Math.min(at.right + 8, at.openEnd)
              : Math.min(at.right + 8, at.x + ((tile.at[i] ?? 0) + len) * at.bucketPx);
          if (begin > at.right || end < at.left) continue;
          const y = at.y + LANE_TOP_PX + depth * at.lanePx;
          const width = Math.max(1, end - begin);
          const high = at.lanePx - LANE_GAP_PX;
          const shape = shapeOf(colour);
          g.fillStyle =
            (shape === 'full' || (shape === 'line' && width > EDGED_PX) ? theme.fill : theme.edge)[colour] ?? '';
          if (shape === 'line') {
            g.fillRect(begin, y + high / 2 - LINE_PX, width, 2 * LINE_PX);
            continue;
          }
          if (shape === 'dotted') {
            for (let x = begin; x < begin + width; x += DOTS_PX)
              for (let dy = 1; dy < high; dy += DOTS_PX) g.fillRect(x, y + dy, DOT_PX, DOT_PX);
            continue;
          }
          if (shape === 'hollow') {
            g.fillRect(begin, y, width, FRAME_PX);
            g.fillRect(begin, y + high - FRAME_PX, width, FRAME_PX);
            g.fillRect(begin + width - 1, y, 1, high);
          } else g.fillRect(begin, y, width, high);
          g.fillStyle = theme.edge[colour] ?? '';
          if (width > EDGED_PX && hasEdge(tile, i)) g.fillRect(begin, y, 1, at.lanePx - LANE_GAP_PX);
          if ((tile.n[i] ?? 1) > 1)
            for (let x = begin + 2; x < begin + width; x += STRIPES_PX)
              g.fillRect(x, y, STRIPE_PX, at.lanePx - LANE_GAP_PX);
        }
      }
    });
  }

  end(): void {}
  forget(): void {}

  private clipped(at: Placement, draw: () => void): void {
    const g = this.context;
    g.save();
    g.beginPath();
    g.rect(at.left, at.top, at.right - at.left, at.bottom - at.top);
    g.clip();
    g.globalAlpha = at.alpha;
    draw();
    g.restore();
  }
}

/** Whether a bucket holds one event that stands alone. */
export function isSingle(tile: Tile, i: number, bucketPx: number): boolean {
  if (tile.n[i] !== 1) return false;
  const at = tile.at[i] ?? 0;
  const room = SINGLE_ROOM_PX / bucketPx;
  return (i === 0 || at - (tile.at[i - 1] ?? 0) >= room) && (i + 1 >= tile.size || (tile.at[i + 1] ?? 0) - at >= room);
}

/** Whether a slice shows where it begins: calls that stand together are cut where the buckets of a tile are. */
export const hasEdge = (tile: Tile, i: number): boolean => tile.kind !== 'calls' || (tile.n[i] ?? 1) <= 1;

/** Gives a canvas the size of its box, in pixels of the screen. */
export function resize(canvas: HTMLCanvasElement, width: number, height: number, ratio: number): void {
  const w = Math.max(1, Math.round(width * ratio));
  const h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== h) canvas.height = h;
}

/** Diagonal lines over a soft ground: losses and damage. */
export function hatch(
  g: CanvasRenderingContext2D,
  theme: Theme,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  g.save();
  g.beginPath();
  g.rect(x, y, width, height);
  g.clip();
  g.fillStyle = theme.lossSoft;
  g.fillRect(x, y, width, height);
  g.strokeStyle = theme.loss;
  g.globalAlpha = 0.75;
  g.lineWidth = 1;
  g.beginPath();
  const first = Math.floor((x - height) / HATCH_PX) * HATCH_PX;
  for (let k = first; k < x + width; k += HATCH_PX) {
    g.moveTo(k, y + height);
    g.lineTo(k + height, y);
  }
  g.stroke();
  g.restore();
}
