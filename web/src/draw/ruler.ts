// The ruler: bookmarks and the length of the selection above, ticks below.

import type { Bookmark } from '../state/state';
import { duration, shortDuration, type Ticks, ticks } from '../time/format';
import type { Range } from '../time/range';
import type { Scale } from './scale';
import type { Theme } from './theme';

/** Ticks are at least this far apart. */
const TICK_PX = 110;

/** The ticks of a view of so many pixels; `origin` is the begin of all. */
export const rulerTicks = (begin: bigint, end: bigint, width: number, origin: bigint): Ticks =>
  ticks(begin, end, TICK_PX / width, origin);

export interface RulerInput {
  readonly scale: Scale;
  readonly height: number;
  readonly ratio: number;
  readonly begin: bigint;
  readonly theme: Theme;
  readonly selection: Range | null;
  readonly bookmarks: readonly Bookmark[];
}

/** Draws it, and gives what labels are relative to. */
export function drawRuler(
  g: CanvasRenderingContext2D,
  { scale, height, ratio, begin, theme, selection, bookmarks }: RulerInput,
): bigint {
  const { view, width } = scale;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  g.textBaseline = 'middle';
  g.font = `11.5px ${theme.ui}`;
  const { base, step, first } = rulerTicks(view.begin, view.end, width, begin);
  const minor = step % 5n === 0n ? step / 5n : 0n;
  g.lineWidth = 1;
  for (let t = first - step; t <= view.end; t += step) {
    const x = Math.round(scale.x(t)) + 0.5;
    g.strokeStyle = theme.line2;
    line(g, x, height - 8, height);
    const label = t === base ? '0' : `${t < base ? '' : '+'}${shortDuration(t - base)}`;
    g.fillStyle = theme.ink2;
    if (x > -3) g.fillText(label, x + 5, height - 9.5);
    if (minor === 0n) continue;
    g.strokeStyle = theme.line2;
    for (let k = 1n; k < 5n; k++) line(g, Math.round(scale.x(t + minor * k)) + 0.5, height - 4, height);
  }
  for (const { ns, label } of bookmarks) drawBookmark(g, theme, scale.x(ns), label, width, height);
  if (selection) drawSelection(g, theme, scale, selection, height);
  return base;
}

function drawBookmark(
  g: CanvasRenderingContext2D,
  theme: Theme,
  at: number,
  label: string,
  width: number,
  height: number,
): void {
  if (at < -200 || at > width + 2) return;
  const x = Math.round(at);
  g.font = `600 11px ${theme.ui}`;
  const text = label.length > 40 ? `${label.slice(0, 40)}…` : label;
  const long = g.measureText(text).width;
  g.fillStyle = theme.brand;
  g.fillRect(x, 2, 1.5, height);
  g.beginPath();
  g.roundRect(x, 2, long + 12, 15, [0, 4, 4, 0]);
  g.fill();
  g.fillStyle = theme.onBrand;
  g.fillText(text, x + 6, 10);
}

function drawSelection(
  g: CanvasRenderingContext2D,
  theme: Theme,
  scale: Scale,
  selection: Range,
  height: number,
): void {
  const [a, b] = [scale.x(selection.begin), scale.x(selection.end)];
  const [left, right] = [Math.max(-10, a), Math.min(scale.width + 10, b)];
  if (right < left) return;
  g.fillStyle = theme.accentSoft;
  g.fillRect(left, 0, right - left, height);
  g.strokeStyle = theme.accent;
  g.lineWidth = 1;
  line(g, Math.round(a) + 0.5, 4, height);
  line(g, Math.round(b) + 0.5, 4, height);
  g.beginPath();
  g.moveTo(left, 9.5);
  g.lineTo(right, 9.5);
  g.stroke();
  const text = duration(selection.end - selection.begin);
  g.font = `600 11px ${theme.ui}`;
  const wide = g.measureText(text).width;
  const middle = Math.min(Math.max((left + right) / 2, wide / 2 + 6), scale.width - wide / 2 - 6);
  g.fillStyle = theme.bg;
  g.fillRect(middle - wide / 2 - 5, 2, wide + 10, 15);
  g.fillStyle = theme.accent;
  g.fillText(text, middle - wide / 2, 9.5);
}

function line(g: CanvasRenderingContext2D, x: number, from: number, to: number): void {
  g.beginPath();
  g.moveTo(x, from);
  g.lineTo(x, to);
  g.stroke();
}
