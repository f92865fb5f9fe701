// How many durations there are by time and by power of two: a map of cells, the darker the more.
import { effect, type Signal, signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Heat } from '../api/types';
import { resize } from '../draw/plain';
import { said } from '../state/actions';
import { timeContext } from '../state/store';
import { grouped, point, shortDuration } from '../time/format';
import type { Range } from '../time/range';
import { theme } from './settings';

const CELL_PX = 9;
const LABEL_PX = 46;

/** The map: arrows go from cell to cell, Enter and a click take the time of its column. */
export function HeatMap({ heat, take }: { heat: Heat; take: (range: Range) => void }): JSX.Element | null {
  const ref = useRef<HTMLCanvasElement>(null);
  const own = useRef<Signal<readonly [number, number] | null> | null>(null);
  const at = (own.current ??= signal<readonly [number, number] | null>(null));
  const { cells, columns } = heat;
  const powers = cells.map(([, power]) => power);
  const [low, high] = powers.reduce(([a, b], p) => [Math.min(a, p), Math.max(b, p)], [Infinity, -Infinity]);
  const rows = cells.length ? high - low + 1 : 0;
  const height = rows * CELL_PX + 14;
  const counts = new Map(cells.map(([column, power, n]) => [`${column} ${power}`, n]));
  useLayoutEffect(
    () =>
      effect(() => {
        const canvas = ref.current;
        const g = canvas?.getContext('2d');
        if (!canvas || !g) return;
        const colours = theme.value;
        const width = canvas.clientWidth;
        resize(canvas, width, height, devicePixelRatio);
        g.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
        g.clearRect(0, 0, width, height);
        const most = cells.reduce((m, [, , n]) => Math.max(m, n), 1);
        const cell = (width - LABEL_PX) / columns;
        const yOf = (power: number): number => (high - power) * CELL_PX;
        g.fillStyle = colours.sunken;
        g.fillRect(LABEL_PX, 0, width - LABEL_PX, rows * CELL_PX);
        // One duration is seen beside thousands: the shade goes with the logarithm.
        for (const [column, power, n] of cells) {
          g.globalAlpha = 0.3 + 0.7 * (most > 1 ? Math.log(n) / Math.log(most) : 1);
          g.fillStyle = colours.edge[0] ?? '';
          g.fillRect(LABEL_PX + column * cell, yOf(power), Math.max(1, cell - 0.3), CELL_PX - 0.5);
        }
        g.globalAlpha = 1;
        g.fillStyle = colours.ink2;
        g.font = `11px ${colours.ui}`;
        g.textBaseline = 'middle';
        let last = Infinity;
        for (let ns = 1; ns <= 2 ** 62; ns *= 10) {
          const y = (high + 1 - Math.log2(ns)) * CELL_PX;
          if (y < 4 || y > rows * CELL_PX + 6 || y > last - 13) continue;
          last = y;
          g.fillText(shortDuration(BigInt(ns)), 0, Math.max(6, y));
        }
        if (at.value) {
          g.strokeStyle = colours.accent;
          g.lineWidth = 1.5;
          g.strokeRect(LABEL_PX + at.value[0] * cell - 1, yOf(at.value[1]) - 1, Math.max(3, cell) + 1, CELL_PX + 1);
        }
      }),
    [heat],
  );
  if (cells.length === 0) return null;
  const rangeOf = (column: number): Range => {
    const begin = BigInt(heat.begin) + BigInt(column) * BigInt(heat.column);
    return { begin, end: begin + BigInt(heat.column) - 1n };
  };
  const tell = ([column, power]: readonly [number, number]): void => {
    const n = counts.get(`${column} ${power}`) ?? 0;
    const [from, to] = [shortDuration(BigInt(2 ** power)), shortDuration(BigInt(2 ** (power + 1)))];
    said.value = `${grouped(n)} from ${from} to ${to} at ${point(rangeOf(column).begin, timeContext.peek())}`;
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    const [column, power] = at.peek() ?? [cells[0]?.[0] ?? 0, cells[0]?.[1] ?? low];
    const next = {
      ArrowRight: [Math.min(columns - 1, column + 1), power],
      ArrowLeft: [Math.max(0, column - 1), power],
      ArrowUp: [column, Math.min(high, power + 1)],
      ArrowDown: [column, Math.max(low, power - 1)],
    }[e.key] as readonly [number, number] | undefined;
    if (next) {
      at.value = next;
      tell(next);
    } else if (e.key === 'Enter' && at.peek()) take(rangeOf(column));
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const onClick = (e: MouseEvent): void => {
    const box = ref.current?.getBoundingClientRect();
    if (!box) return;
    const column = Math.floor(((e.clientX - box.left - LABEL_PX) / (box.width - LABEL_PX)) * columns);
    const power = high - Math.floor((e.clientY - box.top) / CELL_PX);
    if (column < 0 || column >= columns || power < low) return;
    at.value = [column, power];
    take(rangeOf(column));
  };
  return (
    <div class="chart">
      <h3 class="h4">How many, by time and duration</h3>
      <div
        class="bars"
        role="group"
        tabIndex={0}
        data-testid="heat"
        data-cells={cells.length}
        data-count={cells.reduce((sum, [, , n]) => sum + n, 0)}
        aria-label={`Map of durations over time, ${grouped(rows)} rows: arrows go from cell to cell, Enter selects the time of one`}
        onKeyDown={onKeyDown}
        onClick={onClick}
      >
        <canvas ref={ref} class="heat" style={{ height: `${height}px` }} aria-hidden="true" />
      </div>
    </div>
  );
}
