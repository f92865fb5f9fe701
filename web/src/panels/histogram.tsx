// How often a duration is between two powers of two, and when: bars and points that choose their events.
import { effect, type Signal, signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { resize } from '../draw/plain';
import { said } from '../state/actions';
import { byPowerOfTwo, histogramOfCounts, powerOf } from '../state/log-histogram';
import { timeContext } from '../state/store';
import { duration, grouped, point, shortDuration } from '../time/format';
import { type Range, shareOf, spanOf } from '../time/range';
import type { Measured } from './measured';
import { rangeShown } from './ranges';
import { theme } from './settings';

const HEIGHT_PX = 92;
const FOOT_PX = 18;
const BAR_PX = 28;

interface Drawn {
  readonly title: string;
  readonly points: readonly Measured[];
  /** Counts of all durations, where the points are not all of them. */
  readonly all?: readonly (readonly [number, number])[] | undefined;
  /** Shows the events of a bar, or of a box of points. */
  readonly pick: (points: readonly Measured[], n: number) => void;
}

/** Bars by power of two: the arrows go along them, Enter and a click take one. */
export function Histogram({ title, points, all, pick }: Drawn): JSX.Element {
  const ref = useRef<HTMLCanvasElement>(null);
  const active = useRef<Signal<number> | null>(null);
  const at = (active.current ??= signal(-1));
  const { first, counts } = all?.length ? histogramOfCounts(all) : byPowerOfTwo(points.map((p) => Number(p.duration)));
  const colours = theme.value;
  const chosen = Math.min(at.value, counts.length - 1);
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
    const bar = Math.min(BAR_PX, width / counts.length);
    counts.forEach((n, i) => {
      const high = (n / most) * (HEIGHT_PX - FOOT_PX - 15);
      if (i === chosen) {
        g.fillStyle = colours.accentSoft;
        g.fillRect(i * bar, 0, bar, HEIGHT_PX - FOOT_PX);
      }
      g.fillStyle = colours.fill[0] ?? '';
      g.fillRect(i * bar + 1, HEIGHT_PX - FOOT_PX - high, bar - 2, high);
      g.fillStyle = colours.edge[0] ?? '';
      g.fillRect(i * bar + 1, HEIGHT_PX - FOOT_PX - high, bar - 2, Math.min(2, high));
      g.fillStyle = colours.ink2;
      const text = grouped(n);
      if (n && g.measureText(text).width < bar + 6)
        g.fillText(
          text,
          Math.max(0, i * bar + bar / 2 - g.measureText(text).width / 2),
          HEIGHT_PX - FOOT_PX - 7 - high,
        );
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
  const bound = (i: number): string => shortDuration(BigInt(2 ** (first + i)));
  const take = (i: number): void => {
    const n = counts[i];
    if (!n) return;
    at.value = -1;
    pick(
      points.filter((p) => powerOf(Number(p.duration)) === first + i),
      n,
    );
  };
  const barAt = (e: MouseEvent): number => {
    const box = ref.current?.getBoundingClientRect();
    return box ? Math.floor((e.clientX - box.left) / Math.min(BAR_PX, box.width / Math.max(1, counts.length))) : -1;
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    const to = { ArrowRight: chosen + 1, ArrowLeft: chosen - 1, Home: 0, End: counts.length - 1 }[e.key];
    if (to !== undefined) at.value = Math.max(0, Math.min(counts.length - 1, to));
    else if (e.key === 'Enter' || e.key === ' ') take(chosen);
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div class="chart">
      <h3 class="h4">{title}</h3>
      <div
        class="bars"
        role="listbox"
        tabIndex={0}
        aria-label={title}
        aria-activedescendant={chosen >= 0 ? `bar-${chosen}` : undefined}
        onKeyDown={onKeyDown}
        onClick={(e) => take(barAt(e))}
      >
        <canvas ref={ref} class="hist" aria-hidden="true" />
        {counts.map((n, i) => (
          <div id={`bar-${i}`} class="sr" role="option" aria-selected={i === chosen}>
            {grouped(n)} from {bound(i)} to {bound(i + 1)}
          </div>
        ))}
      </div>
    </div>
  );
}

const POINTS_PX = 74;
const NEAR_PX = 12;
const BOX_PX = 4;

/** Durations over time: a click goes to the nearest one, a box takes all that are in it. Arrows go along them, with Shift they make a box. */
export function Points({
  points,
  over: range,
  pick,
  go,
}: Pick<Drawn, 'points' | 'pick'> & { over?: Range; go: (p: Measured) => void }): JSX.Element {
  const ref = useRef<HTMLCanvasElement>(null);
  const places = useRef<readonly { x: number; y: number; of: Measured }[]>([]);
  const own = useRef<{
    at: Signal<number>;
    box: Signal<readonly [number, number, number, number] | null>;
    from: number;
  } | null>(null);
  const { at, box } = (own.current ??= { at: signal(-1), box: signal(null), from: -1 });
  const ordered = [...points].sort((a, b) => (a.begin < b.begin ? -1 : a.begin > b.begin ? 1 : 0));
  useLayoutEffect(
    () =>
      effect(() => {
        const canvas = ref.current;
        const g = canvas?.getContext('2d');
        if (!canvas || !g) return;
        const colours = theme.value;
        const over = range ?? rangeShown();
        const width = canvas.clientWidth;
        resize(canvas, width, POINTS_PX, devicePixelRatio);
        g.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
        g.clearRect(0, 0, width, POINTS_PX);
        const logs = ordered.map((p) => Math.log2(Math.max(1, Number(p.duration))));
        const [low, high] = logs.reduce(([a, b], l) => [Math.min(a, l), Math.max(b, l)], [Infinity, -Infinity]);
        places.current = ordered.map((of, i) => ({
          x: 4 + (spanOf(over) === 0n ? 0 : shareOf(over, of.begin)) * (width - 8),
          y: POINTS_PX - 22 - (high === low ? 0.5 : ((logs[i] ?? 0) - low) / (high - low)) * (POINTS_PX - 36),
          of,
        }));
        g.fillStyle = colours.edge[0] ?? '';
        for (const { x, y } of places.current) g.fillRect(x - 1.5, y - 1.5, 3, 3);
        g.fillStyle = colours.line2;
        g.fillRect(0, POINTS_PX - 14, width, 1);
        g.fillStyle = colours.ink2;
        g.font = `11px ${colours.ui}`;
        g.textBaseline = 'middle';
        if (ordered.length) {
          const [least, most] = ordered.reduce(
            ([a, b], p) => [p.duration < a ? p.duration : a, p.duration > b ? p.duration : b],
            [ordered[0]?.duration ?? 0n, 0n],
          );
          g.fillText(duration(most), 4, 6);
          if (high !== low) g.fillText(duration(least), 4, POINTS_PX - 6);
        }
        g.strokeStyle = colours.accent;
        g.lineWidth = 1.5;
        const one = places.current[at.value];
        if (one) g.strokeRect(one.x - 4, one.y - 4, 8, 8);
        if (box.value) {
          const [x0, y0, x1, y1] = box.value;
          g.fillStyle = colours.accentSoft;
          g.fillRect(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0));
          g.strokeRect(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0));
        }
      }),
    [points],
  );
  const inBox = (): Measured[] => {
    if (!box.peek()) return [];
    const [x0, y0, x1, y1] = box.peek() ?? [0, 0, 0, 0];
    return places.current
      .filter(
        ({ x, y }) => x >= Math.min(x0, x1) && x <= Math.max(x0, x1) && y >= Math.min(y0, y1) && y <= Math.max(y0, y1),
      )
      .map((p) => p.of);
  };
  const takeBox = (): void => {
    const inside = inBox();
    if (inside.length) pick(inside, inside.length);
    else box.value = null;
  };
  const onPointerDown = (e: PointerEvent): void => {
    const target = e.currentTarget;
    if (!(target instanceof HTMLElement) || e.button !== 0) return;
    const rect = target.getBoundingClientRect();
    const [x0, y0] = [e.clientX - rect.left, e.clientY - rect.top];
    target.setPointerCapture(e.pointerId);
    box.value = null;
    const move = (m: PointerEvent): void => {
      const [x, y] = [m.clientX - rect.left, m.clientY - rect.top];
      if (box.peek() || Math.hypot(x - x0, y - y0) > BOX_PX) box.value = [x0, y0, x, y];
    };
    const up = (): void => {
      target.removeEventListener('pointermove', move);
      target.removeEventListener('pointerup', up);
      if (box.peek()) {
        takeBox();
        return;
      }
      const far = (p: { x: number; y: number }): number => Math.hypot(p.x - x0, p.y - y0);
      let best = -1;
      places.current.forEach((p, i) => {
        if (far(p) < NEAR_PX && (best < 0 || far(p) < far(places.current[best] ?? p))) best = i;
      });
      at.value = best;
      const of = places.current[best]?.of;
      if (of) go(of);
    };
    target.addEventListener('pointermove', move);
    target.addEventListener('pointerup', up);
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    const last = places.current.length - 1;
    const to = { ArrowRight: at.peek() + 1, ArrowLeft: at.peek() - 1, Home: 0, End: last }[e.key];
    if (to !== undefined) {
      const next = Math.max(0, Math.min(last, to));
      if (e.shiftKey) {
        if (!box.peek()) own.current!.from = Math.max(0, at.peek());
        const within = places.current.slice(Math.min(own.current!.from, next), Math.max(own.current!.from, next) + 1);
        const [xs, ys] = [within.map((p) => p.x), within.map((p) => p.y)];
        box.value = [Math.min(...xs) - 2, Math.min(...ys) - 2, Math.max(...xs) + 2, Math.max(...ys) + 2];
      } else box.value = null;
      at.value = next;
      const of = places.current[next]?.of;
      if (of)
        said.value = `${duration(of.duration)} at ${point(of.begin, timeContext.peek())}${box.peek() ? `, ${grouped(inBox().length)} in the box` : ''}`;
    } else if (e.key === 'Enter' && box.peek()) takeBox();
    else if (e.key === 'Enter') {
      const of = places.current[at.peek()]?.of;
      if (of) go(of);
    } else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div
      class="bars"
      role="group"
      tabIndex={0}
      aria-label={`${grouped(points.length)} durations over time: arrows go along them, with Shift they make a box, Enter takes it`}
      onKeyDown={onKeyDown}
      onPointerDown={onPointerDown}
    >
      <canvas ref={ref} class="points" aria-hidden="true" />
    </div>
  );
}
