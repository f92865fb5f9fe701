// How often a duration is between two powers of two.
import type { JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { resize } from '../draw/plain';
import { grouped, shortDuration } from '../time/format';
import { theme } from './settings';

const HEIGHT_PX = 132;
const FOOT_PX = 18;

/** Counts by power of two, from the first to the last that has any. */
export function byPowerOfTwo(values: readonly number[]): { first: number; counts: number[] } {
  const powers = values.map((v) => (v < 1 ? 0 : Math.floor(Math.log2(v))));
  const first = powers.reduce((a, b) => Math.min(a, b), Infinity);
  if (!Number.isFinite(first)) return { first: 0, counts: [] };
  const counts: number[] = new Array<number>(powers.reduce((a, b) => Math.max(a, b), 0) - first + 1).fill(0);
  for (const p of powers) counts[p - first] = (counts[p - first] ?? 0) + 1;
  return { first, counts };
}

export function Histogram({ title, values, pick }: { title: string; values: readonly number[]; pick?: () => void }): JSX.Element {
  const ref = useRef<HTMLCanvasElement>(null);
  const { first, counts } = byPowerOfTwo(values);
  const colours = theme.value;
  useLayoutEffect(() => {
    const canvas = ref.current;
    const g = canvas?.getContext('2d');
    if (!canvas || !g) return;
    const width = canvas.clientWidth;
    resize(canvas, width, HEIGHT_PX, devicePixelRatio);
    g.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    g.clearRect(0, 0, width, HEIGHT_PX);
    g.font = `11px ${colours.ui}`;
    g.textBaseline = 'middle';
    const most = counts.reduce((a, b) => Math.max(a, b), 1);
    const bar = Math.min(28, width / counts.length);
    counts.forEach((n, i) => {
      const high = (n / most) * (HEIGHT_PX - 36);
      g.fillStyle = colours.fill[0] ?? '';
      g.fillRect(i * bar + 1, HEIGHT_PX - FOOT_PX - high, bar - 2, high);
      g.fillStyle = colours.edge[0] ?? '';
      g.fillRect(i * bar + 1, HEIGHT_PX - FOOT_PX - high, bar - 2, Math.min(2, high));
      g.fillStyle = colours.ink2;
      const text = grouped(n);
      if (n && g.measureText(text).width < bar + 6) g.fillText(text, i * bar + bar / 2 - g.measureText(text).width / 2, HEIGHT_PX - FOOT_PX - 7 - high);
    });
    let last = -Infinity;
    for (let power = 1; power <= 2 ** 62; power *= 10) {
      const x = (Math.log2(power) - first) * bar;
      if (x < -1 || x > counts.length * bar || x < last + 46) continue;
      const text = shortDuration(BigInt(power));
      if (x - 4 + g.measureText(text).width > width) break;
      last = x;
      g.fillText(text, Math.max(0, x - 4), HEIGHT_PX - 8);
    }
    g.fillStyle = colours.line2;
    g.fillRect(0, HEIGHT_PX - FOOT_PX, width, 1);
  });
  const said = counts.map((n, i) => `${grouped(n)} from ${shortDuration(BigInt(2 ** (first + i)))}`).join(', ');
  return (
    <div class="chart">
      <h3 class="h4">{title}</h3>
      <canvas ref={ref} class="hist" role="img" aria-label={said} />
      {pick ? <button type="button" class="ib out small" onClick={pick}>Filter by name</button> : null}
    </div>
  );
}
