// The flame graph of the selection: from the outside or the inside, drawn and as a table.
import { effect, signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { FlameNode } from '../api/types';
import { drawAtFrames, requestDraw } from '../draw/frame';
import { resize } from '../draw/plain';
import { Shapes } from '../draw/shapes';
import { shortName, useFont } from '../draw/timeline';
import { said } from '../state/actions';
import { colourOf } from '../state/names';
import { flameAnswer, sampledEvent } from '../state/selection';
import { state } from '../state/store';
import { hasCalls, hasSamples } from '../state/tracks';
import { duration, grouped, numberOf } from '../time/format';
import { spanOf } from '../time/range';
import { Chip, clipped, saveFile } from './parts';
import { rangeShown } from './ranges';
import { theme } from './settings';

const LANE = 22;
/** Frames of the table that are out of view are not all made. */
const MOST_ROWS = 3000;

/** A frame of the graph, with what it calls, the longest first. */
export interface Frame {
  readonly id: number;
  readonly name: string;
  readonly calls: number;
  readonly total: bigint;
  readonly self: bigint;
  readonly kids: readonly Frame[];
}

const inside = signal(false);
const asTable = signal(false);
/** The frame that fills the width, as the names on the way to it. */
const zoomed = signal<readonly string[]>([]);

/** The frame that keys are at, as the names on the way to it. */
const active = signal<readonly string[] | null>(null);
const samePath = (a: readonly string[] | null, b: readonly string[]): boolean =>
  a !== null && a.length === b.length && a.every((p, i) => p === b[i]);

/** The tree of an answer. */
export function treeOf(nodes: readonly FlameNode[]): Frame | null {
  const kids = new Map<number, FlameNode[]>();
  for (const n of nodes) {
    if (n.parent === null) continue;
    const list = kids.get(n.parent);
    if (list) list.push(n);
    else kids.set(n.parent, [n]);
  }
  const root = nodes.find((n) => n.parent === null) ?? nodes[0];
  if (!root) return null;
  const build = (n: FlameNode, depth: number): Frame => ({
    id: n.id,
    name: n.name,
    calls: n.calls,
    total: BigInt(n.total),
    self: BigInt(n.self),
    kids:
      depth > 500
        ? []
        : (kids.get(n.id) ?? [])
            .filter((k) => k !== n)
            .map((k) => build(k, depth + 1))
            .sort(byTotal),
  });
  return build(root, 0);
}

const byTotal = (a: Frame, b: Frame): number => (a.total > b.total ? -1 : a.total < b.total ? 1 : 0);

/** The same times with the innermost functions outside: each is as wide as its own time, its callers stand on it. */
export function invertTree(root: Frame): Frame {
  interface Build {
    name: string;
    calls: number;
    total: bigint;
    self: bigint;
    kids: Map<string, Build>;
  }
  const fresh = (name: string): Build => ({ name, calls: 0, total: 0n, self: 0n, kids: new Map() });
  const top = fresh(root.name);
  const walk = (frame: Frame, path: readonly Frame[]): void => {
    if (path.length > 0 && frame.self > 0n) {
      top.total += frame.self;
      let at = top;
      for (const step of [frame, ...path.slice(1).reverse()]) {
        let next = at.kids.get(step.name);
        if (!next) at.kids.set(step.name, (next = fresh(step.name)));
        next.total += frame.self;
        next.calls += frame.calls;
        at = next;
      }
      at.self += frame.self;
    }
    for (const kid of frame.kids) walk(kid, [...path, frame]);
  };
  walk(root, []);
  let id = 0;
  const done = (b: Build): Frame => ({
    id: id++,
    name: b.name,
    calls: b.calls,
    total: b.total,
    self: b.self,
    kids: [...b.kids.values()].map(done).sort(byTotal),
  });
  return done(top);
}

const tree = (): Frame | null => {
  const nodes = flameAnswer.value.value?.nodes;
  if (!nodes) return null;
  const root = treeOf(nodes);
  return root && inside.value ? invertTree(root) : root;
};

/** A weight in its unit. */
const weight = (value: bigint): string => {
  const unit = flameAnswer.value.value?.unit ?? 'ns';
  return unit === 'ns' ? duration(value) : `${grouped(value)} ${unit}`;
};

/** Which event's samples are shown, where several have some. */
function EventChoice(): JSX.Element | null {
  const answer = flameAnswer.value.value;
  if (!answer?.events || answer.events.length < 2) return null;
  return (
    <select
      aria-label="Event"
      data-testid="flame-event"
      value={answer.event}
      onChange={(e) => {
        sampledEvent.value = e.currentTarget.value;
        zoomed.value = [];
      }}
    >
      {answer.events.map((name) => (
        <option key={name} value={name}>
          {clipped(name, 60)}
        </option>
      ))}
    </select>
  );
}

export const FlameTools = (): JSX.Element => (
  <>
    {hasSamples.value ? <EventChoice /> : null}
    <span>{state.value.selection ? `Of the selection, ${duration(spanOf(rangeShown()))}` : 'Of the whole trace'}</span>
    <button
      type="button"
      class="ib out small"
      onClick={() => {
        inside.value = !inside.value;
        zoomed.value = [];
      }}
    >
      {inside.value ? 'From the outside' : 'From the inside'}
    </button>
    <button
      type="button"
      class="ib out small"
      aria-pressed={asTable.value}
      onClick={() => {
        asTable.value = !asTable.value;
      }}
    >
      As a table
    </button>
    <button type="button" class="ib out small" onClick={saveSvg}>
      SVG
    </button>
  </>
);

interface Box {
  readonly frame: Frame;
  readonly x: number;
  readonly width: number;
  readonly depth: number;
  readonly path: readonly string[];
}

/** Where frames are, those that are too narrow to be seen left out. */
export function boxesOf(root: Frame, way: readonly string[], width: number): Box[] {
  const out: Box[] = [];
  const put = (frame: Frame, x: number, w: number, depth: number, path: readonly string[]): void => {
    if (w < 0.6) return;
    out.push({ frame, x, width: w, depth, path });
    // On the way to the frame that fills the width, each fills it too.
    const next =
      path.length < way.length && path.every((p, i) => p === way[i])
        ? frame.kids.find((k) => k.name === way[path.length])
        : undefined;
    if (next) {
      put(next, 0, width, depth + 1, [...path, next.name]);
      return;
    }
    let at = x;
    for (const kid of frame.kids) {
      const share = frame.total === 0n ? 0 : (Number(kid.total) / Number(frame.total)) * w;
      put(kid, at, share, depth + 1, [...path, kid.name]);
      at += share;
    }
  };
  put(root, 0, width, 0, []);
  return out;
}

function drawFlame(
  g: CanvasRenderingContext2D,
  boxes: readonly Box[],
  scroll: number,
  height: number,
  rootFrame: Frame,
): void {
  const colours = theme.value;
  const query = state.value.query.toLowerCase();
  useFont(g, `11.5px ${colours.ui}`);
  g.textBaseline = 'middle';
  for (const { frame, x, width, depth, path } of boxes) {
    const y = 2 + depth * LANE - scroll;
    if (y + LANE < 0 || y > height) continue;
    const root = depth === 0;
    const colour = colourOf(frame.name);
    g.fillStyle = root ? colours.sunken : (colours.fill[colour] ?? '');
    g.fillRect(x, y, Math.max(0.6, width - 0.5), LANE - 1);
    if (width > 3) {
      g.fillStyle = root ? colours.line2 : (colours.edge[colour] ?? '');
      g.fillRect(x, y, 1, LANE - 1);
    }
    if (query && frame.name.toLowerCase().includes(query)) {
      g.strokeStyle = colours.hit;
      g.lineWidth = 2;
      g.strokeRect(x + 1, y + 1, Math.max(1, width - 2.5), LANE - 3);
    }
    if (samePath(active.peek(), path)) {
      g.strokeStyle = colours.accent;
      g.lineWidth = 2;
      g.strokeRect(x + 1, y + 1, Math.max(1, width - 2.5), LANE - 3);
    }
    if (width < 30) continue;
    g.fillStyle = root ? colours.ink : (colours.onFill[colour] ?? '');
    const text = shortName(
      g,
      root
        ? `all ${hasCalls.peek() ? 'calls' : 'samples'}${state.peek().selection ? ' in the selection' : ''}, ${weight(rootFrame.total)}`
        : frame.name,
      width - 10,
    );
    if (text) g.fillText(text, x + 5, y + LANE / 2);
  }
}

const tip = signal<{ x: number; y: number; frame: Frame } | null>(null);

export function Flame(): JSX.Element {
  if (!hasCalls.value && !hasSamples.value)
    return (
      <div class="panel" data-testid="flame">
        <p class="nothing">There are no calls and no samples in this trace.</p>
      </div>
    );
  const root = state.value.tab === 'flame' ? tree() : null;
  return (
    <div class="panel" data-testid="flame">
      {!root ? <p class="nothing">{flameAnswer.value.pending ? 'Counting…' : 'Nothing is in the selection.'}</p> : null}
      {root && !asTable.value ? <Graph root={root} /> : null}
      {root ? <FrameTable root={root} hidden={!asTable.value} /> : null}
    </div>
  );
}

function Graph({ root }: { root: Frame }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const now = useRef(root);
  now.current = root;
  const boxes = useRef<Box[]>([]);
  const depth = depthOf(root);
  useLayoutEffect(() => {
    const outer = box.current;
    const c = canvas.current;
    const g = c?.getContext('2d');
    if (!outer || !c || !g) return undefined;
    const stop = drawAtFrames(() => {
      const { clientWidth: width, clientHeight: height } = outer;
      if (width === 0) return;
      resize(c, width, height, devicePixelRatio);
      c.style.width = `${width}px`;
      c.style.height = `${height}px`;
      g.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
      g.clearRect(0, 0, width, height);
      boxes.current = boxesOf(now.current, zoomed.value, width);
      drawFlame(g, boxes.current, outer.scrollTop, height, now.current);
    });
    const end = effect(() => {
      void [theme.value, zoomed.value, active.value, state.value.query, flameAnswer.value, inside.value];
      requestDraw();
    });
    const watch = new ResizeObserver(requestDraw);
    watch.observe(outer);
    return () => {
      stop();
      end();
      watch.disconnect();
    };
  }, []);
  const at = (e: MouseEvent): Box | undefined => {
    const outer = box.current;
    if (!outer) return undefined;
    const rect = outer.getBoundingClientRect();
    const x = e.clientX - rect.left;
    const lane = Math.floor((e.clientY - rect.top + outer.scrollTop - 2) / LANE);
    return boxes.current.find((b) => b.depth === lane && x >= b.x && x < b.x + b.width);
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    const list = boxes.current;
    const now = list.find((b) => samePath(active.peek(), b.path)) ?? null;
    const beside = now
      ? list.filter((b) => b.depth === now.depth && samePath(b.path.slice(0, -1), now.path.slice(0, -1)))
      : [];
    const at = now ? beside.indexOf(now) : -1;
    const to =
      now === null
        ? list[0]
        : e.key === 'ArrowDown'
          ? list.find((b) => b.depth === now.depth + 1 && samePath(b.path.slice(0, -1), now.path))
          : e.key === 'ArrowUp'
            ? list.find((b) => samePath(b.path, now.path.slice(0, -1)))
            : e.key === 'ArrowLeft'
              ? beside[at - 1]
              : beside[at + 1];
    if (/^Arrow/.test(e.key)) {
      if (!to) {
        e.preventDefault();
        e.stopPropagation();
        return;
      }
      active.value = to.path;
      said.value = wordsOf(to.frame);
      const outer = box.current;
      const y = 2 + to.depth * LANE;
      if (outer && (y < outer.scrollTop || y + LANE > outer.scrollTop + outer.clientHeight))
        outer.scrollTop = Math.max(0, y - outer.clientHeight / 2);
      tip.value = { x: to.x, y: y - (outer?.scrollTop ?? 0) + 8, frame: to.frame };
    } else if (e.key === 'Enter' && now) zoomed.value = now.path;
    else if (e.key === 'Backspace' || e.key === 'Home') {
      zoomed.value = [];
      active.value = [];
    } else if (e.key === 'Escape' && (tip.peek() || active.peek())) {
      tip.value = null;
      active.value = null;
    } else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const t = tip.value;
  return (
    <div
      class="flamebox"
      ref={box}
      tabIndex={0}
      role="group"
      aria-label="Flame graph, drawn: arrows go from frame to frame, Enter zooms, Backspace shows all"
      onKeyDown={onKeyDown}
      onBlur={() => {
        tip.value = null;
        active.value = null;
      }}
      onScroll={requestDraw}
      onClick={(e) => {
        const hit = at(e);
        if (hit) {
          zoomed.value = hit.path;
          active.value = null;
        }
      }}
      onPointerMove={(e) => {
        const hit = at(e);
        const rect = box.current?.getBoundingClientRect();
        tip.value = hit && rect ? { x: e.clientX - rect.left, y: e.clientY - rect.top, frame: hit.frame } : null;
      }}
      onPointerLeave={() => {
        tip.value = null;
      }}
    >
      <div style={{ height: `${depth * LANE + 6}px`, position: 'relative' }}>
        <canvas ref={canvas} aria-hidden="true" />
      </div>
      {t ? (
        <div
          class="tip"
          role="tooltip"
          style={{
            position: 'absolute',
            transform: `translate(${Math.max(0, Math.min(t.x + 12, (box.current?.clientWidth ?? 0) - 260))}px, ${t.y + 14 + (box.current?.scrollTop ?? 0)}px)`,
          }}
        >
          <b>{clipped(t.frame.name, 300)}</b>
          {measures(t.frame)}
        </div>
      ) : null}
    </div>
  );
}

const measures = (frame: Frame): string =>
  `${weight(frame.total)}, own ${weight(frame.self)}, ${numberOf(frame.calls, hasCalls.peek() ? 'call' : 'sample')}`;
const wordsOf = (frame: Frame): string => `${clipped(frame.name, 300)}, ${measures(frame)}`;

const depthOf = (frame: Frame): number => 1 + frame.kids.reduce((d, k) => Math.max(d, depthOf(k)), 0);

function FrameTable({ root, hidden }: { root: Frame; hidden: boolean }): JSX.Element {
  const rows: { frame: Frame; depth: number }[] = [];
  const walk = (frame: Frame, depth: number): void => {
    if (rows.length >= MOST_ROWS) return;
    if (depth > 0) rows.push({ frame, depth });
    for (const kid of frame.kids) walk(kid, depth + 1);
  };
  walk(root, 0);
  return (
    // biome-ignore lint/a11y/useAriaPropsSupportedByRole: it has a name when it has a role
    <div
      class={hidden ? 'sr' : 'scrolls'}
      tabIndex={hidden ? undefined : 0}
      role={hidden ? undefined : 'group'}
      aria-label={hidden ? undefined : 'Flame graph as a table'}
    >
      <table aria-label="Flame graph">
        <colgroup>
          <col class="w60" />
          <col />
          <col />
          <col />
        </colgroup>
        <thead>
          <tr>
            <th scope="col">Function</th>
            <th scope="col" class="r">
              {hasCalls.value ? 'Calls' : 'Samples'}
            </th>
            <th scope="col" class="r">
              Total
            </th>
            <th scope="col" class="r">
              Self
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ frame, depth }) => (
            <tr
              key={frame.id}
              data-testid="flame-frame"
              data-name={frame.name}
              data-total={String(frame.total)}
              data-self={String(frame.self)}
            >
              <td style={{ paddingLeft: `${10 + Math.min(depth - 1, 30) * 12}px` }}>
                <Chip name={frame.name} small />
                {clipped(frame.name, 300)}
              </td>
              <td class="r">{grouped(frame.calls)}</td>
              <td class="r">{weight(frame.total)}</td>
              <td class="r">{weight(frame.self)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function saveSvg(): void {
  const root = tree();
  if (!root) return;
  const shapes = new Shapes();
  const width = 1400;
  const boxes = boxesOf(root, zoomed.peek(), width);
  const height = boxes.reduce((d, b) => Math.max(d, b.depth), 0) * LANE + LANE + 4;
  shapes.fillStyle = theme.peek().surface;
  shapes.fillRect(0, 0, width, height);
  drawFlame(shapes as unknown as CanvasRenderingContext2D, boxes, 0, height, root);
  saveFile('flame.svg', [shapes.svg(width, height)], 'image/svg+xml');
}
