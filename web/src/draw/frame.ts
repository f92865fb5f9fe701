// One animation frame for all that is drawn, and the motion of the view.
import { effect, signal } from '@preact/signals';
import { busy, undrawn } from '../state/busy';
import { view } from '../state/store';
import { type Range, sameRange, scaled } from '../time/range';

type Draw = () => void;

const draws = new Set<Draw>();
let scheduled = 0;
let measures = 0;
const MOST_MEASURES = 5000;
const MOTION_MS = 120;

/** The range that is drawn: the view, or on the way to it. */
export const shown = signal<Range>(view.peek());
let motion: { from: Range; to: Range; began: number } | null = null;
let direct = false;

/** Draws something at each frame that is asked for, until the function that it gives is called. */
export function drawAtFrames(draw: Draw): () => void {
  draws.add(draw);
  requestDraw();
  return () => draws.delete(draw);
}

export function requestDraw(): void {
  undrawn.value = true;
  if (scheduled === 0) scheduled = requestAnimationFrame(frame);
}

/** Changes the view without motion, as something that the pointer holds moves. */
export function withoutMotion(change: () => void): void {
  direct = true;
  try {
    change();
  } finally {
    direct = false;
  }
}

const calm = matchMedia('(prefers-reduced-motion: reduce)');

effect(() => {
  const to = view.value;
  const from = shown.peek();
  if (sameRange(from, to)) {
    motion = null;
    return;
  }
  if (direct || calm.matches || from.begin === from.end) {
    motion = null;
    shown.value = to;
  } else motion = { from, to, began: performance.now() };
  requestDraw();
});

export const moving = (): boolean => motion !== null;

function frame(): void {
  scheduled = 0;
  const start = performance.now();
  if (motion) {
    const done = Math.min(1, (start - motion.began) / MOTION_MS);
    if (done >= 1) {
      shown.value = motion.to;
      motion = null;
    } else shown.value = between(motion.from, motion.to, 1 - (1 - done) ** 3);
  }
  for (const draw of draws) draw();
  if (scheduled !== 0) cancelAnimationFrame(scheduled);
  scheduled = 0;
  if (++measures % MOST_MEASURES === 0) performance.clearMeasures('tracemill:frame');
  performance.measure('tracemill:frame', { start, end: performance.now() });
  if (motion) requestDraw();
  else undrawn.value = false;
}

const PARTS = 1 << 20;
const part = (a: bigint, b: bigint, share: number): bigint =>
  a + scaled(b - a, BigInt(Math.round(share * PARTS)), BigInt(PARTS));
const between = (a: Range, b: Range, share: number): Range => ({
  begin: part(a.begin, b.begin, share),
  end: part(a.end, b.end, share),
});

/** Calls a function when nothing is under way any more. */
export const whenQuiet = (then: () => void): (() => void) =>
  effect(() => {
    if (!busy.value) then();
  });
