// The whole trace in a strip: how many events where, losses, the view and the selection.
import { overlaps, type Range } from '../time/range';
import { hatch, resize } from './plain';
import { EDGE_PX, type Scale } from './scale';
import type { Theme } from './theme';

export interface OverviewInput {
  /** Of the whole trace. */
  readonly scale: Scale;
  readonly height: number;
  readonly ratio: number;
  readonly theme: Theme;
  /** Events by column of two pixels. */
  readonly columns: Float64Array;
  readonly losses: readonly Range[];
  readonly view: Range;
  readonly selection: Range | null;
  readonly estimated: boolean;
}

export const COLUMN_PX = 2;
export const HANDLE_PX = 6;

export function drawOverview(g: CanvasRenderingContext2D, input: OverviewInput): void {
  const { scale, height, ratio, theme, columns, view, selection } = input;
  const { width } = scale;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  g.drawImage(barsOf(columns, input), 0, 0, width, height);
  for (const loss of merged(input.losses, scale)) hatch(g, theme, loss[0], 3, Math.max(3, loss[1] - loss[0]), 6);
  const { left: from, right: to } = handles(scale, view);
  if (to - from < width - 2) {
    g.fillStyle = theme.veil;
    g.fillRect(0, 0, from, height);
    g.fillRect(to, 0, width - to, height);
  }
  g.strokeStyle = theme.accent;
  g.lineWidth = 1.5;
  g.strokeRect(from + 0.75, 0.75, to - from - 1.5, height - 2.5);
  g.fillStyle = theme.accent;
  for (const x of [from, to]) {
    g.beginPath();
    g.roundRect(Math.min(Math.max(x - HANDLE_PX / 2, 0), width - HANDLE_PX), height / 2 - 9, HANDLE_PX, 18, 3);
    g.fill();
  }
  if (selection && overlaps(selection, scale.view)) {
    g.fillStyle = theme.accentSoft;
    const a = scale.x(selection.begin);
    g.fillRect(a, 0, Math.max(1, scale.x(selection.end) - a), height);
  }
}

let bars: {
  columns: Float64Array;
  theme: Theme;
  canvas: HTMLCanvasElement;
  width: number;
  height: number;
  ratio: number;
} | null = null;

/** The bars, which are drawn again only when they change. */
function barsOf(columns: Float64Array, { scale, height, ratio, theme, estimated }: OverviewInput): HTMLCanvasElement {
  if (
    bars &&
    bars.columns === columns &&
    bars.theme === theme &&
    bars.width === scale.width &&
    bars.height === height &&
    bars.ratio === ratio
  )
    return bars.canvas;
  const canvas = bars?.canvas ?? document.createElement('canvas');
  bars = { columns, theme, canvas, width: scale.width, height, ratio };
  resize(canvas, scale.width, height, ratio);
  const g = canvas.getContext('2d');
  if (!g) return canvas;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, scale.width, height);
  const peak = Math.log1p(columns.reduce((a, b) => Math.max(a, b), 1));
  g.fillStyle = theme.map;
  g.globalAlpha = estimated ? 0.5 : 1;
  columns.forEach((n, i) => {
    if (n <= 0) return;
    const high = 2 + (Math.log1p(n) / peak) * (height - 16);
    g.fillRect(i * COLUMN_PX, height - 5 - high, COLUMN_PX, high);
  });
  g.globalAlpha = 1;
  return canvas;
}

/** The edges of the view on the strip; a view that is narrower than its handles is still seen. */
export function handles(scale: Scale, view: Range): { left: number; right: number } {
  if (scale.view.begin === scale.view.end) return { left: 0, right: scale.width };
  const clamp = (x: number): number => Math.min(scale.width, Math.max(0, x));
  let left = clamp(scale.x(view.begin) - EDGE_PX);
  let right = clamp(scale.x(view.end) + EDGE_PX);
  if (right - left < 4) {
    left = Math.min(scale.width - 4, Math.max(0, (left + right) / 2 - 2));
    right = left + 4;
  }
  return { left, right };
}

/** Losses in pixels, without those that would be drawn over each other. */
function merged(losses: readonly Range[], scale: Scale): [number, number][] {
  const out: [number, number][] = [];
  const places = losses.map((l): [number, number] => [scale.x(l.begin), scale.x(l.end)]).sort((a, b) => a[0] - b[0]);
  for (const [a, b] of places) {
    const last = out[out.length - 1];
    if (last && a <= last[1] + 1) last[1] = Math.max(last[1], b);
    else out.push([a, b]);
  }
  return out;
}
