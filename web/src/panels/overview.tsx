// The overview and the ruler, with what the mouse and keys do on them.
import { effect } from '@preact/signals';
import type { JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { drawAtFrames, requestDraw, shown, withoutMotion } from '../draw/frame';
import { drawOverview, handles } from '../draw/overview';
import { resize } from '../draw/plain';
import { drawRuler, rulerTicks } from '../draw/ruler';
import { type Scale, scaleOf } from '../draw/scale';
import { dialog } from '../keys/focus';
import { goToBookmark, panBy, removeBookmark, select } from '../state/actions';
import { problemsAnswer } from '../state/selection';
import type { Bookmark } from '../state/state';
import { change, format, fullRange, session, show, state, timeContext, view } from '../state/store';
import { tilesArrived } from '../state/tiles-fetch';
import { viewport } from '../state/tracks';
import { baseWords, duration, point } from '../time/format';
import { ordered, sameRange, spanOf } from '../time/range';
import { editedBookmark } from './dialogs';
import { openMenu } from './menu';
import { dragged, overviewInput, rulerInput } from './scene';
import { theme } from './settings';

/** Draws to a canvas at each frame, and again when a signal changes that `depends` reads. */
function useDrawing(
  draw: (g: CanvasRenderingContext2D, width: number, height: number, ratio: number) => void,
  depends: () => void,
) {
  const ref = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const canvas = ref.current;
    const g = canvas?.getContext('2d');
    const box = canvas?.parentElement;
    if (!canvas || !g || !box) return undefined;
    const stop = drawAtFrames(() => {
      const { clientWidth: width, clientHeight: height } = box;
      if (width === 0 || !session.peek()) return;
      resize(canvas, width, height, devicePixelRatio);
      draw(g, width, height, devicePixelRatio);
    });
    const end = effect(() => {
      depends();
      requestDraw();
    });
    const watch = new ResizeObserver(requestDraw);
    watch.observe(box);
    return () => {
      stop();
      end();
      watch.disconnect();
    };
  }, []);
  return ref;
}

const PAN_STEP = 8n;

export function Overview(): JSX.Element {
  const ref = useDrawing(
    (g, width, height, ratio) => drawOverview(g, overviewInput(width, height, ratio)),
    () => {
      void [
        shown.value,
        state.value,
        theme.value,
        tilesArrived.value,
        problemsAnswer.value,
        session.value,
        dragged.value,
      ];
    },
  );
  const onPointerDown = (e: PointerEvent): void => {
    if (e.button !== 0 || !(e.currentTarget instanceof HTMLElement)) return;
    const box = e.currentTarget.getBoundingClientRect();
    const scale = scaleOf(fullRange.peek(), box.width);
    const start = view.peek();
    const { left, right } = handles(scale, start);
    const x0 = e.clientX - box.left;
    const near = (x: number): boolean => Math.abs(x - x0) <= 7;
    // At its edges the view is resized, inside it is moved, outside it is drawn again.
    const mode =
      right - left > 20 && near(left)
        ? 'begin'
        : right - left > 20 && near(right)
          ? 'end'
          : x0 > left && x0 < right && !sameRange(start, fullRange.peek())
            ? 'move'
            : 'new';
    const target = e.currentTarget;
    target.setPointerCapture(e.pointerId);
    let far = false;
    const move = (m: PointerEvent): void => {
      const x = m.clientX - box.left;
      if (Math.abs(x - x0) > 3) far = true;
      if (!far) return;
      withoutMotion(() => {
        const at = scale.time(Math.max(0, Math.min(box.width, x)));
        if (mode === 'move') {
          const by = scale.time(x) - scale.time(x0);
          show({ begin: start.begin + by, end: start.end + by });
        } else if (mode === 'begin') show(ordered(at, start.end));
        else if (mode === 'end') show(ordered(start.begin, at));
        else show(ordered(scale.time(x0), at));
      });
    };
    const up = (): void => {
      target.removeEventListener('pointermove', move);
      target.removeEventListener('pointerup', up);
      target.removeEventListener('pointercancel', up);
      if (far) return;
      const span = spanOf(view.peek());
      const at = scale.time(x0);
      if (mode === 'new' && !sameRange(view.peek(), fullRange.peek()))
        show({ begin: at - span / 2n, end: at - span / 2n + span }, 'jump');
    };
    target.addEventListener('pointermove', move);
    target.addEventListener('pointerup', up);
    target.addEventListener('pointercancel', up);
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    const by = spanOf(view.peek()) / PAN_STEP || 1n;
    if (e.key === 'ArrowLeft') panBy(-by);
    else if (e.key === 'ArrowRight') panBy(by);
    else if (e.key === 'Home') panBy(fullRange.peek().begin - view.peek().begin);
    else if (e.key === 'End') panBy(fullRange.peek().end - view.peek().end);
    else return;
    e.preventDefault();
  };
  const v = view.value;
  const w = fullRange.value;
  const percent = spanOf(w) === 0n ? 0 : Number(((v.begin - w.begin) * 100n) / spanOf(w));
  return (
    <div
      class="map"
      data-testid="minimap"
      role="slider"
      tabIndex={0}
      aria-label="Overview: place of the view"
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.max(0, Math.min(100, percent))}
      aria-valuetext={`${duration(spanOf(v))} from ${point(v.begin, timeContext.value)}`}
      onPointerDown={onPointerDown}
      onKeyDown={onKeyDown}
      onDblClick={() => change({ view: null }, 'jump')}
    >
      <canvas ref={ref} aria-hidden="true" />
    </div>
  );
}

export function OverviewLabel(): JSX.Element {
  if (session.value?.begin == null) return <div class="mapl" />;
  const all = sameRange(view.value, fullRange.value);
  return (
    <div class="mapl">
      <b>{duration(spanOf(view.value))}</b>
      {all ? 'all of it' : `of ${duration(spanOf(fullRange.value))}`}
    </div>
  );
}

/** The time that the ruler's labels count from, in words: the day, and the time of it. */
export function RulerLabel(): JSX.Element {
  if (session.value?.begin == null) return <div class="rull" />;
  const { begin, end } = view.value;
  const { base } = rulerTicks(begin, end, Math.max(1, viewport.value.width), fullRange.value.begin);
  const { date, time } = baseWords(base, format.value, session.value.clock === 'unix');
  return (
    <div
      class="rull"
      data-testid="ruler-base"
      data-ns={String(base)}
      title="The labels of the ruler count from this time"
    >
      <small>0 is {date}</small>
      <span>{time}</span>
    </div>
  );
}

const FLAG_PX = 24;
const SIGN_PX = 6.4;

/** Where the flags of bookmarks are; one that the next one would cover has no room to be clicked. */
function flags(scale: Scale): { b: Bookmark; left: number; width: number; hidden: boolean }[] {
  const list = state.value.bookmarks.map((b) => ({ b, x: scale.x(b.ns) }));
  return list.map(({ b, x }, i) => {
    const left = Math.round(Math.max(0, Math.min(scale.width - FLAG_PX, x)));
    const wanted = Math.max(FLAG_PX, Math.min(260, b.label.length * SIGN_PX + 14)) + Math.min(0, x);
    const room = Math.min(scale.width, list[i + 1]?.x ?? Infinity) - left;
    const width = Math.floor(Math.min(wanted, room));
    return { b, left, width, hidden: x > scale.width || width < FLAG_PX };
  });
}

export function Ruler(): JSX.Element {
  const ref = useDrawing(
    (g, width, height, ratio) => {
      drawRuler(g, rulerInput(width, height, ratio));
    },
    () => {
      void [shown.value, state.value, theme.value, session.value, dragged.value];
    },
  );
  const onPointerDown = (e: PointerEvent): void => {
    if (
      e.button !== 0 ||
      !(e.currentTarget instanceof HTMLElement) ||
      (e.target instanceof HTMLElement && e.target.closest('button'))
    )
      return;
    const target = e.currentTarget;
    const box = target.getBoundingClientRect();
    const x0 = e.clientX - box.left;
    const at = (x: number): bigint => scaleOf(view.peek(), box.width).time(Math.max(0, Math.min(box.width, x)));
    const begin = at(x0);
    target.setPointerCapture(e.pointerId);
    const move = (m: PointerEvent): void => {
      const x = m.clientX - box.left;
      dragged.value = Math.abs(x - x0) < 4 ? null : { range: ordered(begin, at(x)), tracks: [] };
    };
    const up = (): void => {
      target.removeEventListener('pointermove', move);
      target.removeEventListener('pointerup', up);
      const { range } = dragged.peek() ?? {};
      dragged.value = null;
      if (range) select(range, []);
      else change({ cursor: begin });
    };
    target.addEventListener('pointermove', move);
    target.addEventListener('pointerup', up);
  };
  const scale = scaleOf(view.value, Math.max(1, viewport.value.width));
  return (
    <div class="rul" onPointerDown={onPointerDown}>
      <canvas ref={ref} aria-hidden="true" />
      {flags(scale).map(({ b, left, width, hidden }) => {
        return (
          <button
            type="button"
            class="bookmark"
            data-testid="bookmark"
            data-ns={String(b.ns)}
            data-label={b.label}
            key={String(b.ns)}
            style={{ left: `${left}px`, width: `${width}px`, visibility: hidden ? 'hidden' : 'visible' }}
            aria-label={`Bookmark ${b.label}`}
            title={`${b.label}, ${point(b.ns, timeContext.value)}`}
            onClick={() => goToBookmark(b.ns)}
            onContextMenu={(e) => {
              e.preventDefault();
              openMenu(e.clientX, e.clientY, 'Bookmark', [
                {
                  label: 'Rename',
                  run: () => {
                    editedBookmark.value = b.ns;
                    dialog.value = 'bookmark';
                  },
                },
                { label: 'Remove', run: () => removeBookmark(b.ns) },
              ]);
            }}
          />
        );
      })}
    </div>
  );
}
