// The tracks: labels as a tree for everybody, beside them the timeline that is drawn.
import { computed, effect, signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Track } from '../api/types';
import { drawAtFrames, moving, requestDraw, shown, withoutMotion } from '../draw/frame';
import { GlPainter } from '../draw/gl';
import { LANE_PX, type Row } from '../draw/layout';
import type { Painter } from '../draw/painter';
import { PixelPainter } from '../draw/pixels';
import { resize } from '../draw/plain';
import { scaleOf } from '../draw/scale';
import { alignedWords, drawTimeline, showsTiles } from '../draw/timeline';
import { commandOf, keyOf } from '../keys/commands';
import { dialog } from '../keys/focus';
import * as act from '../state/actions';
import { reportFailure } from '../state/answers';
import { whileBusy } from '../state/busy';
import { applyFilter } from '../state/filter';
import { filterPath, isNamed } from '../state/filters';
import { GROUPINGS, groupWords, readGroupKey } from '../state/groups';
import { logsShown, titles, wakeupsAnswer } from '../state/overlays';
import { callAnswer, eventAnswer, locate, selectAnswer, sliceAnswer } from '../state/selection';
import { phase } from '../state/session';
import { change, session, state, timeContext, view } from '../state/store';
import { awaitsTiles, filteredTiles, plainTiles, tilesArrived, tilesLate, tilesShown } from '../state/tiles-fetch';
import { busiestFirst, groupsAnswer, layout, rowsInSight, scroll, trackById, tracks, viewport } from '../state/tracks';
import { canShowPath, pathShown, togglePath } from '../state/why';
import { duration, grouped, inOrder, numberOf, point, signed } from '../time/format';
import { ordered, type Range, spanOf } from '../time/range';
import { clockOf, groupOf } from './dialogs';
import {
  hit,
  isNothing,
  locateUnder,
  nearBoundary,
  restAt,
  SNAP_PX,
  type Spot,
  scaleNow,
  spotOf,
  type TipBox,
  timeAt,
  tip,
} from './hover';
import { type MenuItem, openMenu } from './menu';
import { clipped, copyText, followPointer, formatName } from './parts';
import { dragged, timelineInput } from './scene';
import { theme } from './settings';
import { Empty } from './states';

const words = signal<ReadonlyMap<string, string>>(new Map());
const DRAG_PX = 4;
const WHEEL_STEP = 400;

export function Tracks(): JSX.Element {
  const outer = useRef<HTMLDivElement>(null);
  const { pinnedHeight, height, rows, pinned } = layout.value;
  useLayoutEffect(() => {
    const box = outer.current;
    if (!box) return undefined;
    const measure = (): void => {
      const inside = box.querySelector('.cv');
      const width = inside?.clientWidth ?? 0;
      if (width !== viewport.peek().width || box.clientHeight !== viewport.peek().height)
        viewport.value = { width, height: box.clientHeight };
    };
    const watch = new ResizeObserver(measure);
    watch.observe(box);
    const cv = box.querySelector('.cv');
    if (cv) watch.observe(cv);
    measure();
    const stop = effect(() => {
      if (Math.abs(box.scrollTop - scroll.value) > 0.5) box.scrollTop = scroll.value;
    });
    return () => {
      watch.disconnect();
      stop();
    };
  }, []);
  const at = scroll.value;
  const known = new Set(rowsInSight.value);
  return (
    <div class="trkbox">
      <div
        class="trk"
        ref={outer}
        onScroll={(e) => {
          scroll.value = e.currentTarget.scrollTop;
        }}
      >
        <div class="inner" style={{ height: `${pinnedHeight + height}px` }}>
          <div
            class="labels"
            role="treegrid"
            data-testid="tracks"
            aria-label="Tracks"
            aria-rowcount={pinned.length + rows.length}
            aria-multiselectable="true"
            onKeyDown={onTreeKey}
          >
            {rows.length + pinned.length === 0 ? (
              <div role="row">
                <span role="gridcell" class="sr">
                  No tracks
                </span>
              </div>
            ) : null}
            {rows
              .filter((r) => known.has(r))
              .map((row) => (
                <Label
                  key={row.track.id}
                  row={row}
                  top={pinnedHeight + row.y}
                  index={pinned.length + rows.indexOf(row)}
                />
              ))}
            {pinned.map((row, i) => (
              <Label key={`pin ${row.track.id}`} row={row} top={at + row.y} index={i} />
            ))}
            {dropAt.value !== null ? (
              <div class="drop-line" aria-hidden="true" role="presentation" style={{ top: `${dropAt.value - 1}px` }} />
            ) : null}
          </div>
          <Timeline />
        </div>
      </div>
      <Thumb />
      <Empty />
    </div>
  );
}

const THUMB_PX = 32;

/** The bar that says how far the rows are scrolled: it takes no room from the timeline, so that the ruler stays in line. */
function Thumb(): JSX.Element | null {
  const { height: room } = viewport.value;
  const all = layout.value.pinnedHeight + layout.value.height;
  if (all <= room || room === 0) return null;
  const track = room - 8;
  const high = Math.max(THUMB_PX, (room / all) * track);
  const top = 4 + (scroll.value / Math.max(1, all - room)) * (track - high);
  const onPointerDown = (e: PointerEvent): void => {
    if (!(e.currentTarget instanceof HTMLElement)) return;
    const target = e.currentTarget;
    const from = { y: e.clientY, scroll: scroll.peek() };
    followPointer(target, e, (m) => {
      scroll.value = Math.max(
        0,
        Math.min(all - room, from.scroll + ((m.clientY - from.y) / Math.max(1, track - high)) * (all - room)),
      );
    });
  };
  return (
    <div
      class="scr"
      aria-hidden="true"
      style={{ top: `${top}px`, height: `${high}px` }}
      onPointerDown={onPointerDown}
    />
  );
}

/** Keys of the tree that the page's own keys do not have. */
function onTreeKey(e: KeyboardEvent): void {
  const id = act.currentTrack.peek();
  const row = layout.peek().rows.find((r) => r.track.id === id);
  if (e.key === ' ' && id !== null) act.toggleTrack(id);
  else if (row?.unfolded === true && e.key === 'ArrowLeft' && !e.ctrlKey) act.toggleFold(row.track.id);
  else if (row?.unfolded === false && e.key === 'ArrowRight' && !e.ctrlKey) act.toggleFold(row.track.id);
  else if (e.key === 'ArrowUp' || e.key === 'ArrowDown') {
    commandOf(keyOf(e))?.run();
    focusRow();
  } else return;
  e.preventDefault();
  e.stopPropagation();
}

function focusRow(): void {
  queueMicrotask(() =>
    requestAnimationFrame(() => document.querySelector<HTMLElement>('[data-track][tabindex="0"]')?.focus()),
  );
}

function Label({ row, top, index }: { row: Row; top: number; index: number }): JSX.Element {
  const { track } = row;
  const { chosen } = state.value;
  const on = chosen.includes(track.id);
  const first = act.currentTrack.value === null ? index === 0 : act.currentTrack.value === track.id;
  const group = track.kind === 'group';
  const heading = track.kind === 'heading';
  const aligned = group ? alignedOf(track) : null;
  const pinnedHere = state.value.pins.includes(track.id);
  const indent = group ? 0 : Math.min(4, Math.max(0, row.level - 2)) * 12;
  const { text, bad } = countOf(track);
  const format = group && track.trace !== null ? formatName(session.value?.traces[track.trace]?.format ?? '') : '';
  return (
    <div
      class={`lab${group ? ' group' : heading ? ' heading' : ''}${on ? ' on' : ''}${row.height > 34 ? ' top1' : ''}`}
      role="row"
      data-testid={heading ? 'track-heading' : 'track'}
      data-track={track.id}
      data-kind={track.kind}
      aria-selected={on}
      aria-level={row.level}
      aria-rowindex={index + 1}
      aria-expanded={row.unfolded ?? undefined}
      tabIndex={first ? 0 : -1}
      style={{ top: `${top}px`, height: `${row.height}px`, zIndex: row.pinned ? 2 : 0, paddingLeft: `${9 + indent}px` }}
      onFocus={(e) => {
        if (e.target === e.currentTarget) act.currentTrack.value = track.id;
      }}
      onDblClick={() => {
        if (row.unfolded !== null) act.toggleFold(track.id);
      }}
      onPointerDown={(e) => {
        if (!heading) dragLabel(e, row);
      }}
      onContextMenu={(e) => {
        e.preventDefault();
        if (!heading) trackMenu(row, e.clientX, e.clientY);
      }}
    >
      <div class="head" role="rowheader">
        {row.unfolded !== null && !row.pinned ? (
          <button
            type="button"
            class="fold"
            tabIndex={-1}
            aria-label={`${row.unfolded ? 'Fold' : 'Unfold'} ${track.name}`}
            onClick={() => act.toggleFold(track.id)}
          >
            {row.unfolded ? '▾' : '▸'}
          </button>
        ) : null}
        {!group && !heading ? (
          <button
            type="button"
            class={`box${on ? ' checked' : ''}`}
            role="checkbox"
            aria-checked={on}
            tabIndex={-1}
            aria-label={`Select ${track.name}`}
            onClick={() => act.toggleTrack(track.id)}
          >
            <i />
          </button>
        ) : null}
        {pinnedHere ? (
          <span class="pinmark" aria-hidden="true">
            ●
          </span>
        ) : null}
        <Name name={track.name} path={group} />
        {aligned ? (
          <span class="aligned" title={aligned}>
            aligned<span class="sr">: {aligned}</span>
          </span>
        ) : null}
        {format ? <span class="fmt">{`\u200b${format.replaceAll(' ', '\u00a0')}`}</span> : null}
        <span class={`n${bad ? ' loss' : ''}`}>{text}</span>
        {heading ? null : (
          <button
            type="button"
            class="more"
            tabIndex={-1}
            aria-label={`Menu of ${track.name}`}
            aria-haspopup="menu"
            onClick={(e) => {
              const box = e.currentTarget.getBoundingClientRect();
              trackMenu(row, box.left, box.bottom);
            }}
          >
            ⋯
          </button>
        )}
      </div>
      {track.kind === 'counter' && track.max != null ? (
        <div class="axis" aria-hidden="true">
          <i>
            {track.max}
            {track.unit ? ` ${track.unit}` : ''}
          </i>
          {track.min !== track.max ? <i>{track.min}</i> : null}
        </div>
      ) : null}
      <span role="gridcell" class="sr">
        {heading ? text : (words.value.get(track.id) ?? numberOf(track.events ?? 0, 'event'))}
      </span>
    </div>
  );
}

/** Why a trace does not stand at the times of its own clock. */
function alignedOf(track: Track): string | null {
  return track.trace === null ? null : alignedWords(session.value?.traces[track.trace]);
}

/** Where a label that is dragged would go: a height among the rows. */
const dropAt = signal<number | null>(null);

/** Moves a track among its siblings with the pointer. */
function dragLabel(e: PointerEvent, row: Row): void {
  const target = e.currentTarget;
  if (e.button !== 0 || !(target instanceof HTMLElement) || (e.target instanceof Element && e.target.closest('button')))
    return;
  const { pinned, rows, pinnedHeight } = layout.peek();
  const siblings = row.pinned
    ? pinned
    : rows.filter((r) => r.track.parent === row.track.parent && r.level === row.level);
  if (siblings.length < 2) return;
  const box = target.closest('.inner')?.getBoundingClientRect();
  const own = siblings.indexOf(row);
  let place = own;
  let far = false;
  const move = (m: PointerEvent): void => {
    if (!far && Math.abs(m.clientY - e.clientY) < DRAG_PX * 2) return;
    if (!far) target.setPointerCapture(e.pointerId);
    far = true;
    const shift = row.pinned ? scroll.peek() : pinnedHeight;
    const y = m.clientY - (box?.top ?? 0) - shift;
    // A sibling reaches to the next one: what is below it goes with it.
    const ends = siblings.map(
      (r, i) =>
        siblings[i + 1]?.y ??
        (row.pinned
          ? pinnedHeight
          : Math.max(
              r.y + r.height,
              ...rows
                .filter((o) => o.y >= r.y && o.level > r.level && o.y < (siblings[i + 1]?.y ?? Infinity))
                .map((o) => o.y + o.height),
            )),
    );
    const over = siblings.findIndex((r, i) => y < (r.y + (ends[i] ?? 0)) / 2);
    const before = over < 0 ? siblings.length : over;
    place = before > own ? before - 1 : before;
    dropAt.value = shift + (siblings[before]?.y ?? ends[ends.length - 1] ?? 0);
  };
  const up = (): void => {
    target.removeEventListener('pointermove', move);
    target.removeEventListener('pointerup', up);
    target.removeEventListener('pointercancel', up);
    dropAt.value = null;
    if (far) act.placeTrack(row.track.id, place);
  };
  target.addEventListener('pointermove', move);
  target.addEventListener('pointerup', up);
  target.addEventListener('pointercancel', up);
}

/** Names of groups whose last parts are those of no other group. */
const plainGroups = computed(() => {
  const met = new Map<string, number>();
  for (const t of tracks.value) if (t.kind === 'group') met.set(lastPart(t.name), (met.get(lastPart(t.name)) ?? 0) + 1);
  return new Set([...met].filter(([, n]) => n === 1).map(([name]) => name));
});
const lastPart = (name: string): string => name.slice(name.replace(/\/+$/, '').lastIndexOf('/') + 1);

/** A name; of one that is a path the last part is enough where it is the only one. */
function Name({ name, path }: { name: string; path: boolean }): JSX.Element {
  const slash = path ? name.replace(/\/+$/, '').lastIndexOf('/') : -1;
  if (slash < 0)
    return (
      <span class="nm" title={name}>
        {inOrder(name)}
      </span>
    );
  if (plainGroups.value.has(lastPart(name)))
    return (
      <>
        <span class="sr">{name.slice(0, slash + 1)}</span>
        <span class="nm" title={name}>
          {inOrder(name.slice(slash + 1))}
        </span>
      </>
    );
  return (
    <>
      <span class="dir" title={name}>
        {inOrder(name.slice(0, slash + 1))}
      </span>
      <span class="nm" title={name}>
        {inOrder(name.slice(slash + 1))}
      </span>
    </>
  );
}

/** The losses of each trace, all streams together. */
const lossesOf = computed(() => {
  const sums = new Map<number, { events: number; packets: number }>();
  for (const { trace, base, losses } of tracks.value) {
    if (!base || trace === null || !losses || typeof losses === 'number') continue;
    const sum = sums.get(trace) ?? { events: 0, packets: 0 };
    sums.set(trace, { events: sum.events + (losses.events ?? 0), packets: sum.packets + (losses.packets ?? 0) });
  }
  return sums;
});

/** The part of the view for which a thread ran. */
function shareOfView(busy: bigint): string {
  const percent = (Number(busy) / Math.max(1, Number(spanOf(view.value)))) * 100;
  return percent < 0.1 ? '<\u202f0.1\u202f%' : `${percent.toFixed(percent < 10 ? 1 : 0)}\u202f%`;
}

/** The end of a label. */
function countOf(track: Track): { text: string; bad: boolean } {
  const losses = track.kind === 'group' ? (track.losses ?? lossesOf.value.get(track.trace ?? -1)) : null;
  if (losses) {
    const { events, packets } = typeof losses === 'number' ? { events: losses, packets: 0 } : losses;
    const lost = [events ? `${grouped(events)} lost` : '', packets ? `${numberOf(packets, 'packet')} lost` : ''].filter(
      (t) => t !== '',
    );
    if (lost.length) return { text: lost.join(', '), bad: true };
  }
  if (track.kind === 'counter')
    return { text: (track.done ?? 1) < 1 ? `${Math.floor(100 * (track.done ?? 0))} %` : '', bad: false };
  const reading =
    track.kind === 'group' ? groupsAnswer.value.value?.find((g) => g.of === track.id && g.done < 1) : undefined;
  if (reading) return { text: `by ${groupWords(reading.group)} ${Math.floor(100 * reading.done)} %`, bad: false };
  const more = session.value?.index.state === 'complete' ? '' : '>\u202f';
  if (track.kind === 'heading') return { text: numberOf(track.threads ?? 0, 'thread'), bad: false };
  if (track.missed != null) return { text: `${grouped(track.missed)} missed`, bad: track.missed > 0 };
  if (track.kind === 'state')
    return { text: track.busy === undefined ? '' : shareOfView(BigInt(track.busy)), bad: false };
  if (track.kind === 'calls')
    return { text: track.calls == null ? '' : `${more}${numberOf(track.calls, 'call')}`, bad: false };
  if (track.events == null) return { text: '', bad: false };
  return {
    text: `${more}${track.kind === 'group' ? numberOf(track.events, 'event') : grouped(track.events)}`,
    bad: false,
  };
}

export function trackMenu(row: Row, x: number, y: number, above: readonly (MenuItem | null)[] = []): void {
  const { track } = row;
  const { id } = track;
  const pinned = state.peek().pins.includes(id);
  const items: (MenuItem | null)[] = [...above];
  if (track.kind !== 'group')
    items.push({
      label: state.peek().chosen.includes(id) ? 'Do not select' : 'Select',
      key: 'x',
      run: () => act.toggleTrack(id),
    });
  items.push({ label: pinned ? 'Unpin' : 'Pin', key: 'p', run: () => act.togglePin(id) });
  if (row.unfolded !== null)
    items.push({ label: row.unfolded ? 'Fold' : 'Unfold', key: 'Enter', run: () => act.toggleFold(id) });
  items.push(
    null,
    { label: 'Pull up', run: () => act.pullUp(id) },
    { label: 'Bury', run: () => act.bury(id) },
    { label: 'Hide', run: () => act.hide(id) },
  );
  const name = eventAnswer.peek().value?.name;
  if (name !== undefined && state.peek().event !== null)
    items.push({ label: `Chase ${name.slice(0, 40)}`, key: 'c', run: act.orderByChosenName });
  const trace = track.kind === 'group' ? track.trace : null;
  if (trace !== null && session.peek()?.features.includes('clock'))
    items.push({
      label: 'Move its clock',
      run: () => {
        clockOf.value = trace;
        dialog.value = 'clock';
      },
    });
  const group = session.peek()?.features.includes('groups')
    ? tracks.peek().find((t) => t.kind === 'group' && t.trace === track.trace && track.trace !== null)
    : undefined;
  if (session.peek()?.states?.threads.length)
    items.push({
      label: `${busiestFirst.peek() ? '✓ ' : ''}Busiest threads first`,
      run: () => {
        busiestFirst.value = !busiestFirst.peek();
      },
    });
  if (canShowPath(id)) items.push({ label: 'Critical path', key: 'k', run: () => togglePath(id) });
  if (group) items.push({ label: 'Group by', run: () => openMenu(x, y, `Group ${group.name} by`, groupItems(group)) });
  if (state.peek().plots.includes(id)) items.push({ label: 'Remove', run: () => act.unplot(id) });
  if (state.peek().hidden.length) items.push({ label: 'Show hidden tracks', run: act.showHidden });
  openMenu(x, y, `Track ${track.name}`, items);
}

/** The menu of the row that keys work on. */
export function openTrackMenu(): void {
  const { pinned, rows, pinnedHeight } = layout.peek();
  const id = act.currentTrack.peek();
  const row = pinned.find((r) => r.track.id === id) ?? rows.find((r) => r.track.id === id);
  const box = document.querySelector('.trk')?.getBoundingClientRect();
  if (row && box)
    trackMenu(
      row,
      box.left + 40,
      box.top + Math.max(0, row.pinned ? row.y : pinnedHeight + row.y - scroll.peek()) + 20,
    );
}

/** Paths by which the tracks of a trace may be grouped: those that are known, and the fields of the chosen event. */
function groupItems(group: Track): (MenuItem | null)[] {
  const now =
    state
      .peek()
      .groups.map(readGroupKey)
      .find((g) => g?.group === group.id)?.path ?? null;
  const item = (label: string, path: string | null): MenuItem => ({
    label: `${path === now ? '✓ ' : ''}${label}`,
    run: () => act.groupBy(group.id, path),
  });
  const event = eventAnswer.peek().value;
  const fields =
    event && state.peek().event !== null && trackById.peek().get(event.track)?.trace === group.trace
      ? event.fields.slice(0, MOST_FIELDS)
      : [];
  return [
    item('Streams', null),
    ...GROUPINGS.map(([path, label]) => item(label, path)),
    ...(fields.length ? [null] : []),
    ...fields.map((f) => item(f.path, filterPath(f.path))),
    null,
    {
      label: 'Another field',
      run: () => {
        groupOf.value = group.id;
        dialog.value = 'group';
      },
    },
  ];
}

const MOST_FIELDS = 14;

function Timeline(): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const below = useRef<HTMLCanvasElement>(null);
  const above = useRef<HTMLCanvasElement>(null);
  const painted = useRef(false);
  useLayoutEffect(() => {
    const canvas = below.current;
    const over = above.current;
    const g = over?.getContext('2d');
    const target = box.current;
    if (!canvas || !over || !g || !target) return undefined;
    const painter: Painter = GlPainter.on(canvas) ?? new PixelPainter(canvas);
    canvas.addEventListener('webglcontextlost', (e) => e.preventDefault());
    canvas.addEventListener('webglcontextrestored', () => location.reload());
    plainTiles.onForget = filteredTiles.onForget = (tile) => painter.forget(tile);
    const stop = drawAtFrames(() => {
      const { width, height } = viewport.peek();
      if (width === 0 || height === 0 || !session.peek()) return;
      // Rows without anything on them would only delay the first tiles.
      if (!painted.current && awaitsTiles()) return;
      resize(over, width, height, devicePixelRatio);
      const { words: said, drawn, logs } = drawTimeline(painter, g, timelineInput(width, height, devicePixelRatio));
      if (!moving() && !sameWords(said, words.peek())) words.value = said;
      if (!moving() && logs !== logsShown.peek()) logsShown.value = logs;
      if (drawn && !painted.current) {
        painted.current = true;
        performance.mark('tracemill:first-paint');
      }
      if (phase.peek() === 'loading' && tracks.peek().length > 0) phase.value = 'ready';
      if (phase.peek() === 'loading' && session.peek()?.events === 0) phase.value = 'ready';
    });
    const end = effect(() => {
      void [
        shown.value,
        state.value,
        layout.value,
        scroll.value,
        viewport.value,
        theme.value,
        tilesArrived.value,
        tilesShown.value,
        dragged.value,
        eventAnswer.value,
        callAnswer.value,
        sliceAnswer.value,
        titles.value,
        wakeupsAnswer.value,
        pathShown.value,
        phase.value,
        session.value,
        tilesLate.value,
      ];
      requestDraw();
    });
    const wheel = (e: WheelEvent): void => onWheel(e, target);
    target.addEventListener('wheel', wheel, { passive: false });
    return () => {
      stop();
      end();
      target.removeEventListener('wheel', wheel);
    };
  }, []);
  const v = view.value;
  const { height } = viewport.value;
  return (
    <div
      class="cv"
      ref={box}
      data-testid="timeline"
      role="application"
      tabIndex={0}
      aria-label="Timeline"
      aria-describedby="timeline-keys"
      data-begin={String(v.begin)}
      data-end={String(v.end)}
      aria-activedescendant={act.markOf() ? 'chosen' : undefined}
      style={{ height: `${Math.max(0, height)}px` }}
      onBlur={() => {
        act.byKey.value = false;
      }}
      onPointerDown={onPointerDown}
      onPointerMove={onPointerMove}
      onPointerLeave={onPointerLeave}
      onDblClick={(e) => void onDoubleClick(e)}
      onContextMenu={onContextMenu}
    >
      <span id="timeline-keys" class="sr">
        W and S zoom, A and D move, arrows move the cursor and go between tracks, I and O select, question mark shows
        all keys
      </span>
      <div data-testid="canvas" aria-hidden="true" class="layers" style={{ height: `${Math.max(0, height)}px` }}>
        <canvas ref={below} />
        <canvas ref={above} />
        {act.pointerX.value !== null ? (
          <div class="pointer" style={{ transform: `translateX(${Math.round(act.pointerX.value)}px)` }} />
        ) : null}
      </div>
      <Chosen />
      <Tip />
    </div>
  );
}

const sameWords = (a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean =>
  a.size === b.size && [...a].every(([k, v]) => b.get(k) === v);

/** The chosen thing, for those who do not see the frame around it. */
function Chosen(): JSX.Element | null {
  const mark = act.markOf();
  if (!mark) return null;
  const name = state.value.call
    ? callAnswer.value.value?.name
    : state.value.slice
      ? act.sliceOf()?.name
      : eventAnswer.value.value?.title;
  const what = mark.end !== null ? `, ${duration(mark.end - mark.begin)}` : '';
  return (
    <div
      id="chosen"
      role="img"
      class="sr"
      aria-label={`${name ?? ''}${what}, at ${point(mark.begin, timeContext.value)}`}
    />
  );
}

/** The box that the pointer would show, where a key went. */
function tipOfKey(): TipBox | null {
  const mark = act.byKey.value ? act.markOf() : null;
  if (!mark) return null;
  const { pinned, rows, pinnedHeight } = layout.value;
  const row = pinned.find((r) => r.track.id === mark.track) ?? rows.find((r) => r.track.id === mark.track);
  if (!row) return null;
  const top = row.pinned ? row.y : pinnedHeight + row.y - scroll.value;
  const { call, slice } = state.value;
  const name = call ? callAnswer.value.value?.name : slice ? act.sliceOf()?.name : eventAnswer.value.value?.title;
  const { cursor } = state.value;
  const lines = [
    clipped(name ?? '', 300),
    mark.end === null ? point(mark.begin, timeContext.value) : duration(mark.end - mark.begin),
  ];
  if (cursor !== null && cursor !== mark.begin) lines.push(`${signed(mark.begin - cursor)} from the cursor`);
  const lane = mark.depth === null ? row.height : (mark.depth - row.firstLane + 1) * LANE_PX;
  return {
    x: Math.max(0, Math.min(viewport.value.width, scaleOf(view.value, viewport.value.width).x(mark.begin))),
    y: top + lane - 8,
    lines,
    isExact: true,
  };
}

function Tip(): JSX.Element | null {
  const open = tip.value ?? tipOfKey();
  if (!open) return null;
  const { width, height } = viewport.value;
  const left = open.x > width - 260;
  const up = open.y > height - 70;
  return (
    <div
      class="tip"
      role="tooltip"
      data-exact={open.isExact}
      style={{
        transform: `translate(${Math.round(open.x + (left ? -12 : 12))}px, ${Math.round(open.y + (up ? -10 : 14))}px) translate(${left ? '-100%' : '0'}, ${up ? '-100%' : '0'})`,
      }}
    >
      {open.lines.map((l, i) => (i === 0 ? <b>{l.slice(0, 300)}</b> : <div>{l}</div>))}
    </div>
  );
}

// The mouse.

function onPointerMove(e: PointerEvent): void {
  if (!(e.currentTarget instanceof HTMLElement)) return;
  const { x, y } = spotOf(e, e.currentTarget);
  act.pointerX.value = x;
  act.byKey.value = false;
  restAt(e.buttons === 0 ? { x, y } : null);
}

function onPointerLeave(): void {
  restAt(null);
  act.pointerX.value = null;
}

function onPointerDown(e: PointerEvent): void {
  const target = e.currentTarget;
  if (!(target instanceof HTMLElement) || e.button > 1) return;
  restAt(null);
  const from = spotOf(e, target);
  const pan = e.button === 1 || e.shiftKey;
  if (e.button === 1) e.preventDefault();
  target.setPointerCapture(e.pointerId);
  const began = view.peek();
  let far = false;
  let last = from;
  let alt = e.altKey;
  const { row } = from;
  const clock =
    alt && !pan && row?.track.kind === 'group' && session.peek()?.features.includes('clock') ? row.track.trace : null;
  const move = (m: PointerEvent): void => {
    last = spotOf(m, target);
    alt = m.altKey;
    if (!far && Math.abs(last.x - from.x) < DRAG_PX && (!pan || Math.abs(last.y - from.y) < DRAG_PX)) return;
    far = true;
    if (pan) {
      const by = BigInt(Math.round(((last.x - from.x) / Math.max(1, viewport.peek().width)) * Number(spanOf(began))));
      withoutMotion(() => change({ view: { begin: began.begin - by, end: began.end - by } }));
      scroll.value = Math.max(0, scroll.peek() - m.movementY);
      return;
    }
    if (clock !== null) {
      tip.value = { x: last.x, y: last.y, lines: ['Move its clock', signed(clockMove(from.x, last.x))], isExact: true };
      return;
    }
    const [begin, end] = alt ? [null, null] : [nearBoundary(from), nearBoundary(last)];
    const range = ordered(begin?.at ?? timeAt(from.x), end?.at ?? timeAt(last.x));
    dragged.value = { range, tracks: tracksBetween(from.y, last.y) };
    tip.value = {
      x: last.x,
      y: last.y,
      lines: [duration(range.end - range.begin), ...(end ? [`to ${inOrder(end.name.slice(0, 80))}`] : [])],
      isExact: true,
    };
  };
  const up = (): void => {
    target.removeEventListener('pointermove', move);
    target.removeEventListener('pointerup', up);
    target.removeEventListener('pointercancel', up);
    if (far && pan) return;
    if (!far) {
      if (!pan) void choose(from);
      return;
    }
    tip.value = null;
    if (clock !== null) void endClockDrag(clock, clockMove(from.x, last.x));
    else void endDrag(from, last, alt);
  };
  target.addEventListener('pointermove', move);
  target.addEventListener('pointerup', up);
  target.addEventListener('pointercancel', up);
}

const clockMove = (from: number, to: number): bigint => timeAt(to) - timeAt(from);

/** Moves the clock of a trace by as much as its group was dragged. */
async function endClockDrag(trace: number, by: bigint): Promise<void> {
  const before = BigInt(session.peek()?.traces[trace]?.moved_ns ?? 0);
  try {
    act.notice.value = await act.moveClock(trace, before + by);
  } catch (e) {
    act.notice.value = reportFailure(e)?.body.message ?? '';
  }
}

/** The tracks that a drag goes over; all of them when it is over nothing. */
function tracksBetween(a: number, b: number): string[] {
  const ids: string[] = [];
  const [top, bottom] = [Math.min(a, b), Math.max(a, b)];
  const { pinnedHeight, rows, pinned } = layout.peek();
  const add = (row: Row, y: number): void => {
    if (row.track.kind !== 'group' && row.track.kind !== 'heading' && y <= bottom && y + row.height > top)
      ids.push(row.track.id);
  };
  for (const row of pinned) add(row, row.y);
  for (const row of rows) {
    const y = pinnedHeight + row.y - scroll.peek();
    if (y + row.height > pinnedHeight) add(row, y);
  }
  return ids;
}

async function endDrag(from: Spot, to: Spot, free: boolean): Promise<void> {
  const end = dragged.peek();
  if (!end) return;
  const range = free ? end.range : ordered(await snapped(from), await snapped(to));
  dragged.value = null;
  act.select(range, end.tracks);
}

/** The time of a place, or of the boundary of an event or slice that is near it. */
async function snapped(spot: Spot): Promise<bigint> {
  const at = timeAt(spot.x);
  const { row } = spot;
  if (!row || row.track.kind === 'group' || row.track.kind === 'heading' || row.track.kind === 'counter') return at;
  const found = await whileBusy(locate(row.track.id, at, 'nearest'));
  const scale = scaleNow();
  let best = at;
  let distance = SNAP_PX + 0.001;
  for (const text of [found?.begin, found?.end, found?.ns]) {
    if (text == null) continue;
    const d = Math.abs(scale.x(BigInt(text)) - scale.x(at));
    if (d < distance) {
      best = BigInt(text);
      distance = d;
    }
  }
  return best;
}

/** Chooses what is exactly under the pointer; where nothing is, the click sets the cursor. */
async function choose(spot: Spot): Promise<void> {
  const at = timeAt(spot.x);
  const { row } = spot;
  if (row) act.currentTrack.value = row.track.id;
  if (!row || row.track.kind === 'counter' || !showsTiles(row)) {
    change({ cursor: at });
    return;
  }
  const found = await whileBusy(locateUnder(spot));
  if (found && !isNothing(found)) act.takeLocated(found.track ?? row.track.id, found, false);
  else change({ cursor: at });
}

async function onDoubleClick(e: MouseEvent): Promise<void> {
  if (!(e.currentTarget instanceof HTMLElement)) return;
  const spot = spotOf(e, e.currentTarget);
  const found =
    spot.row && showsTiles(spot.row) && spot.row.track.kind !== 'counter' ? await whileBusy(locateUnder(spot)) : null;
  if (found?.begin != null && found.end !== null && found.begin !== found.end)
    change({ view: widened({ begin: BigInt(found.begin), end: BigInt(found.end) }) }, 'jump');
}

const widened = ({ begin, end }: Range): Range => {
  const margin = (end - begin) / 8n || 1n;
  return { begin: begin - margin, end: end + margin };
};

function onContextMenu(e: MouseEvent): void {
  if (!(e.currentTarget instanceof HTMLElement)) return;
  e.preventDefault();
  const spot = spotOf(e, e.currentTarget);
  const { row } = spot;
  if (!row) return;
  const found = hit(spot);
  const above: (MenuItem | null)[] = [];
  if (found && found.gap === null && found.range === null) {
    if (found.end !== null) {
      const slice = { begin: found.begin, end: found.end };
      above.push(
        { label: 'Fit', run: () => change({ view: widened(slice) }, 'jump') },
        { label: 'Select its time', run: () => act.select(slice) },
      );
    } else if (row.track.kind === 'events')
      above.push({ label: 'Filter by name', run: () => void applyFilter(isNamed(found.name)) });
    above.push({ label: 'Copy the name', run: () => void copyText(found.name) }, null);
  }
  trackMenu(row, e.clientX, e.clientY, above);
}

function onWheel(e: WheelEvent, target: HTMLElement): void {
  const unit = e.deltaMode === 1 ? 16 : e.deltaMode === 2 ? 400 : 1;
  const [dx, dy] = [e.deltaX * unit, e.deltaY * unit];
  if (e.ctrlKey || e.metaKey) {
    e.preventDefault();
    const x = e.clientX - target.getBoundingClientRect().left;
    withoutMotion(() => act.zoomAround(Math.exp(dy / WHEEL_STEP), timeAt(x)));
  } else if (e.shiftKey || Math.abs(dx) > Math.abs(dy)) {
    e.preventDefault();
    const by = (e.shiftKey && dx === 0 ? dy : dx) / Math.max(1, viewport.peek().width);
    withoutMotion(() => act.panBy(BigInt(Math.round(by * Number(spanOf(view.peek()))))));
  } else {
    // Lanes that are out of sight come first, then the tracks go on.
    const { row } = spotOf(e, target);
    const lanes = Math.trunc((wheelRest + dy) / LANE_PX);
    if (row && act.scrollLanes(row.track.id, lanes || Math.sign(dy), lanes === 0)) {
      e.preventDefault();
      wheelRest = lanes === 0 ? wheelRest + dy : 0;
    }
  }
}

/** Steps of the wheel that were less than a lane. */
let wheelRest = 0;

/** The announcement when the view rests. */
export function viewWords(): string {
  const v = view.value;
  const parts = [`${duration(spanOf(v))} in view, from ${point(v.begin, timeContext.value)}`];
  const { selection, chosen } = state.value;
  if (selection) {
    const events = selectAnswer.value.value?.events;
    parts.push(
      `selection of ${duration(spanOf(selection))}${events === undefined ? '' : `, ${numberOf(events, 'event')}`}`,
    );
  }
  if (chosen.length) parts.push(`${chosen.length} ${chosen.length === 1 ? 'track' : 'tracks'} selected`);
  return parts.join('; ');
}
