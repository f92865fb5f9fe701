// The rows of the timeline: bars, glyphs, slices and counters below, names and marks above.
import type { Lanes, Located, TraceInfo } from '../api/types';
import { shapeOf } from '../state/states';
import { lowerBound, type Tile, type TileStore, WIDE } from '../state/tiles';
import { duration, grouped, inOrder, numberOf, point, signed, type TimeContext } from '../time/format';
import { type Range, TILE_BUCKETS, tileBegin, tilesOf } from '../time/range';
import { LANE_PX, type Layout, type Row } from './layout';
import { drawMarks } from './marks';
import { LANE_TOP_PX, type Painter, type Placement } from './painter';
import { placeOf, type Scale } from './scale';
import type { Theme } from './theme';

/** A thing that is chosen: an event has no end. */
export interface Mark {
  readonly track: string;
  readonly begin: bigint;
  readonly end: bigint | null;
  readonly depth: number | null;
}

export interface TimelineInput {
  readonly scale: Scale;
  readonly height: number;
  readonly ratio: number;
  readonly origin: bigint;
  readonly layout: Layout;
  readonly scroll: number;
  readonly tiles: TileStore;
  /** The tiles of the whole, drawn pale behind those that a filter leaves. */
  readonly behind: TileStore | null;
  readonly theme: Theme;
  readonly traces: readonly TraceInfo[];
  readonly selection: Range | null;
  readonly chosen: ReadonlySet<string>;
  readonly cursor: bigint | null;
  readonly bookmarks: readonly bigint[];
  readonly mark: Mark | null;
  /** In lower case. */
  readonly query: string;
  readonly begin: bigint;
  readonly end: bigint;
  readonly pale: boolean;
  /** Whether words are wanted: not while the view moves. */
  readonly words: boolean;
  /** Names of events, by track and in the order of time, where their names do not say it. */
  readonly titles: ReadonlyMap<string, readonly Titled[]>;
  /** Wakes, of and by the thread that is chosen. */
  readonly wakes: readonly Wake[];
  /** The critical path that is shown, in the order of time. */
  readonly path: readonly PathSegment[];
}

/** A part of a critical path. */
export interface PathSegment {
  readonly begin: bigint;
  readonly end: bigint;
  /** Null where its thread has no track. */
  readonly track: string | null;
  readonly colour: number;
}

/** The text of an event, as a log renders it. */
export interface Titled {
  readonly ns: bigint;
  readonly title: string;
}

/** A wake, by the tracks of who woke and who was woken. */
export interface Wake {
  readonly ns: bigint;
  readonly from: string | null;
  readonly to: string;
}

export interface TimelineOutput {
  /** Whether events of logs are drawn one by one, which have texts of their own. */
  readonly logs: boolean;
  /** The content of the view, in words, by track. */
  readonly words: ReadonlyMap<string, string>;
  /** Whether any tile was there to be drawn. */
  readonly drawn: boolean;
}

/** A tile in the view: the one that was asked for, or others that stand in for it, cut to its place. */
export interface Part {
  readonly tile: Tile;
  readonly x: number;
  readonly bucketPx: number;
  readonly left: number;
  readonly right: number;
  readonly fits: boolean;
}

/** A row on the screen. */
export interface Place {
  readonly row: Row;
  readonly y: number;
  readonly top: number;
  readonly bottom: number;
  readonly parts: readonly Part[];
}

const GLYPH_PX = 5;
/** Events this far apart are drawn one by one. */
const APART_PX = 12;
const LABEL_PX = 30;
const FONT_PX = 11.5;

export function drawTimeline(painter: Painter, g: CanvasRenderingContext2D, input: TimelineInput): TimelineOutput {
  const { scale, height, ratio, theme, tiles } = input;
  const { width } = scale;
  tiles.beginDraw();
  painter.begin(width, height, ratio, theme);
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  g.textBaseline = 'middle';
  const places = placesOf(input);
  const words = new Map<string, string>();
  let drawn = false;
  let logs = false;
  for (const place of places) logs = drawRow(painter, g, input, place) || logs;
  painter.end();
  for (const place of places) {
    drawn ||= place.parts.length > 0;
    if (input.words) words.set(place.row.track.id, wordsOf(place, input));
  }
  if (input.layout.pinnedHeight > 0) {
    g.fillStyle = theme.line2;
    g.fillRect(0, input.layout.pinnedHeight - 1, width, 1);
  }
  drawMarks(g, input, places);
  return { words, drawn, logs };
}

/** The rows in sight, those that are pinned last because they are above the others. */
function placesOf(input: TimelineInput): Place[] {
  const { layout, scroll, height } = input;
  const out: Place[] = [];
  for (const row of layout.rows) {
    const y = layout.pinnedHeight + row.y - scroll;
    if (y + row.height <= layout.pinnedHeight) continue;
    if (y >= height) break;
    out.push({
      row,
      y,
      top: Math.max(y, layout.pinnedHeight),
      bottom: Math.min(height, y + row.height),
      parts: partsOf(row, input, input.tiles),
    });
  }
  for (const row of layout.pinned) {
    if (row.y >= height) break;
    out.push({
      row,
      y: row.y,
      top: row.y,
      bottom: Math.min(height, row.y + row.height),
      parts: partsOf(row, input, input.tiles),
    });
  }
  return out;
}

/** Whether a row shows tiles: a group does while it is folded. */
export const showsTiles = (row: Row): boolean =>
  row.track.kind !== 'heading' && (row.track.kind !== 'group' || row.unfolded === false);

function partsOf(row: Row, { scale, origin }: TimelineInput, tiles: TileStore): Part[] {
  if (!showsTiles(row)) return [];
  const { level } = scale;
  const { from, to } = tilesOf(scale.view, level, origin);
  const out: Part[] = [];
  for (let index = from; index <= to; index++) {
    const left = Math.max(0, scale.x(tileBegin(index, level, origin)));
    const right = Math.min(scale.width, scale.x(tileBegin(index + 1, level, origin)));
    const tile = tiles.get(row.track.id, level, index);
    if (tile) {
      out.push({ tile, ...placeOf(scale, level, index, origin), left, right, fits: true });
      continue;
    }
    const coarse = tiles.coarser(row.track.id, level, index);
    if (coarse) {
      out.push({ tile: coarse.tile, ...placeOf(scale, coarse.level, coarse.index, origin), left, right, fits: false });
      continue;
    }
    for (const fine of tiles.finer(row.track.id, level, index)) {
      out.push({ tile: fine.tile, ...placeOf(scale, fine.level, fine.index, origin), left, right, fits: false });
    }
  }
  return out;
}

/** Draws a row; says whether it is one of a log with its events one by one. */
function drawRow(painter: Painter, g: CanvasRenderingContext2D, input: TimelineInput, place: Place): boolean {
  const { theme, scale } = input;
  const { row, y, top, bottom } = place;
  const { track } = row;
  if (track.kind === 'group' || track.kind === 'heading') painter.rect(0, top, scale.width, bottom - top, theme.sunken);
  else if (row.pinned) painter.rect(0, top, scale.width, bottom - top, theme.surface);
  for (const part of place.parts) drawGaps(painter, part, place);
  const peak = Math.max(Math.log1p(4), Math.log1p(Math.max(0, ...place.parts.map((p) => p.tile.peak))));
  const at = (part: Part, alpha: number, grey = false): Placement => ({
    x: part.x,
    bucketPx: part.bucketPx,
    y: y - row.firstLane * LANE_PX,
    height: row.height,
    left: part.left,
    right: part.right,
    top: row.firstLane > 0 ? Math.max(top, y + LANE_TOP_PX) : top,
    bottom,
    peak,
    lanes: row.firstLane + row.lanes,
    lanePx: LANE_PX,
    openEnd: scale.x(input.end),
    grey,
    alpha: alpha * (part.tile.exact ? 1 : 0.5) * (input.pale ? 0.35 : 1),
  });
  if (input.behind)
    for (const part of partsOf(row, input, input.behind))
      if (isBars(part.tile)) painter.bars(part.tile, at(part, 0.4, true));
  const glyphs = glyphsOf(place, input);
  if (!glyphs) {
    for (const part of place.parts) {
      if (part.tile.kind === 'counter') continue;
      if (isBars(part.tile)) painter.bars(part.tile, at(part, 1));
      else painter.slices(part.tile, at(part, 1));
    }
  }
  g.save();
  g.beginPath();
  g.rect(0, top, scale.width, bottom - top);
  g.clip();
  if (input.pale) g.globalAlpha = 0.35;
  if (glyphs) drawGlyphs(g, input, place, glyphs);
  else if (track.kind === 'group') drawAligned(g, input, place);
  else if (track.kind === 'counter') drawCounter(g, input, place);
  else if (track.kind === 'calls' || track.kind === 'state')
    for (const part of place.parts) drawSliceNames(g, theme, part, place, scale.x(input.end));
  drawLanesBar(g, theme, place, scale.width);
  drawGapLabels(g, theme, place);
  if (input.query && track.kind !== 'counter') drawHits(g, input, place);
  g.fillStyle = theme.line;
  g.fillRect(0, y + row.height - 1, scale.width, 1);
  g.restore();
  return glyphs !== null && isOfLog(row, input);
}

/** Says of a trace that it does not stand at the times of its own clock. */
export const alignedWords = (trace: TraceInfo | undefined): string | null => {
  if (trace?.aligned_ns == null) return null;
  const by = /[^/]+(?=\/*$)/.exec(trace.aligned_with ?? '')?.[0] ?? 'the others';
  return `clocks cannot be compared: aligned at its begin with that of ${inOrder(by)}, moved by ${signed(BigInt(trace.aligned_ns))}`;
};

function drawAligned(g: CanvasRenderingContext2D, { theme, traces, scale }: TimelineInput, { row, y }: Place): void {
  if (row.unfolded === false || row.track.trace === null) return;
  const words = alignedWords(traces[row.track.trace]);
  if (words === null) return;
  useFont(g, `${FONT_PX}px ${theme.ui}`);
  g.fillStyle = theme.ink2;
  g.fillText(fitting(g, words, scale.width - 16, 60), 8, y + row.height / 2);
}

/** Whether the events of a format have texts beside their names. */
export const isLog = (format: string): boolean => format === 'cpel' || format === 'elog';

const isOfLog = ({ track }: Row, { traces }: Pick<TimelineInput, 'traces'>): boolean =>
  track.trace !== null && isLog(traces[track.trace]?.format ?? '');

/** Which of the lanes are in sight, where there are more. */
function drawLanesBar(g: CanvasRenderingContext2D, theme: Theme, { row, y }: Place, width: number): void {
  const depth = row.track.depth ?? 1;
  if (row.lanes < 2 || depth <= row.lanes) return;
  const room = row.lanes * LANE_PX;
  g.fillStyle = theme.line2;
  g.beginPath();
  g.roundRect(width - 14, y + LANE_TOP_PX + (row.firstLane / depth) * room, 5, (row.lanes / depth) * room, 2.5);
  g.fill();
}

const isBars = (tile: Tile): boolean => tile.kind === 'events' || tile.kind === 'group';

function drawGaps(painter: Painter, part: Part, { top, bottom, y, row }: Place): void {
  const first = Math.max(top, y + 1);
  const high = Math.min(bottom, y + row.height - 2) - first;
  for (const gap of part.tile.gaps) {
    const x = Math.max(part.left, part.x + gap.at * part.bucketPx);
    const end = Math.min(part.right, Math.max(part.x + (gap.at + gap.len) * part.bucketPx, x + 3));
    if (end > x && high > 0) painter.hatch(x, first, end - x, high);
  }
}

const gapName = (kind: string): string =>
  kind === 'events' || kind === 'packets' ? `${kind} lost` : kind === 'damage' ? 'damaged' : kind;

/** The count of a loss, or its kind, where there is room: once for each loss in view. */
function drawGapLabels(g: CanvasRenderingContext2D, theme: Theme, { y, row, parts }: Place): void {
  if (parts.every((p) => p.tile.gaps.length === 0)) return;
  g.font = `600 11px ${theme.ui}`;
  let last = -Infinity;
  for (const part of parts)
    for (const gap of part.tile.gaps) {
      const x = Math.max(0, part.x + gap.at * part.bucketPx);
      const end = Math.min(part.right, part.x + (gap.at + gap.len) * part.bucketPx);
      const text =
        gap.count === null || gap.count === undefined
          ? gapName(gap.kind)
          : `${grouped(gap.count)} ${gapName(gap.kind)}`;
      const width = g.measureText(text).width;
      const middle = (x + end) / 2;
      if (end - x < width + 30 || middle - width / 2 < last + 60) continue;
      last = middle + width / 2;
      g.fillStyle = theme.surface;
      g.beginPath();
      g.roundRect(middle - width / 2 - 6, y + row.height / 2 - 8, width + 12, 15, 4);
      g.fill();
      g.fillStyle = theme.loss;
      g.fillText(text, middle - width / 2, y + row.height / 2);
    }
}

interface Glyph {
  readonly x: number;
  readonly begin: number;
  readonly end: number;
  readonly colour: number;
  readonly name: string;
  readonly n: number;
}

/** The events of a row one by one, when they are far enough apart for it. */
function glyphsOf({ row, parts }: Place, input: TimelineInput): Glyph[] | null {
  const { scale } = input;
  if (row.track.kind !== 'events' || parts.length === 0) return null;
  const logs = isOfLog(row, input);
  const most = scale.width / (logs ? 8 : APART_PX);
  const out: Glyph[] = [];
  for (const { tile, x, bucketPx, fits, left, right } of parts) {
    if (!fits || !tile.exact) return null;
    for (let i = lowerBound(tile.at, (-GLYPH_PX - x) / bucketPx - 1); i < tile.size; i++) {
      const at = x + ((tile.at[i] ?? 0) + 0.5 * Number(bucketPx > 1)) * bucketPx;
      if (at > scale.width + GLYPH_PX) break;
      if (at < left - GLYPH_PX || at > right + GLYPH_PX) continue;
      const begin = x + (tile.at[i] ?? 0) * bucketPx;
      out.push({
        x: at,
        begin,
        end: begin + bucketPx,
        colour: tile.colour[i] ?? 0,
        name: tile.names[tile.name[i] ?? 0] ?? '',
        n: tile.n[i] ?? 1,
      });
      if (out.length > most) return null;
    }
  }
  if (!logs && out.some((o, i) => i > 0 && o.x - (out[i - 1]?.x ?? 0) < APART_PX)) return null;
  return out;
}

function drawGlyphs(
  g: CanvasRenderingContext2D,
  { theme, scale, titles }: TimelineInput,
  { row, y }: Place,
  glyphs: readonly Glyph[],
): void {
  const middle = y + row.height / 2 - 0.5;
  useFont(g, `${FONT_PX}px ${theme.ui}`);
  g.lineWidth = 1.2;
  const said = titles.get(row.track.id) ?? [];
  let at = 0;
  glyphs.forEach(({ x, begin, end, colour, name, n }, i) => {
    while (at < said.length && scale.x(said[at]?.ns ?? 0n) < begin - 0.01) at++;
    const own = n === 1 && at < said.length && scale.x(said[at]?.ns ?? 0n) <= end + 0.01 ? said[at]?.title : undefined;
    g.fillStyle = theme.fill[colour] ?? '';
    g.strokeStyle = theme.edge[colour] ?? '';
    g.beginPath();
    g.moveTo(x, middle - GLYPH_PX);
    g.lineTo(x + GLYPH_PX, middle);
    g.lineTo(x, middle + GLYPH_PX);
    g.lineTo(x - GLYPH_PX, middle);
    g.closePath();
    g.fill();
    g.stroke();
    const next = glyphs[i + 1]?.x ?? scale.width + 8;
    const text = fitting(g, n > 1 ? `${inOrder(name)} ×${grouped(n)}` : inOrder(own ?? name), next - x - 18, 40);
    if (text) {
      g.fillStyle = theme.ink2;
      g.fillText(text, x + 9, middle + 0.5);
    }
  });
}

let widths = new Map<string, number>();
const widthsByFont = new Map<string, Map<string, number>>();
const MOST_WIDTHS = 4000;

/** Sets the font of the names that follow. Asking a context for its font takes longer than the text does. */
export function useFont(g: CanvasRenderingContext2D, font: string): void {
  g.font = font;
  const known = widthsByFont.get(font);
  if (known) widths = known;
  else widthsByFont.set(font, (widths = new Map()));
}

/** How wide a text is in that font: the same ones come back in every frame. */
function widthOf(g: CanvasRenderingContext2D, text: string): number {
  let width = widths.get(text);
  if (width === undefined) {
    if (widths.size >= MOST_WIDTHS) widths.clear();
    widths.set(text, (width = g.measureText(text).width));
  }
  return width;
}

/** A text cut to a width, or nothing when less than a part of it would be left. */
function fitting(g: CanvasRenderingContext2D, label: string, width: number, least: number): string {
  if (width < 16) return '';
  const text = label.length > 200 ? `${label.slice(0, 200)}…` : label;
  const full = widthOf(g, text);
  if (full <= width) return text;
  if (width < least) return '';
  const keep = Math.max(1, Math.floor((text.length * width) / full) - 2);
  return `${text.slice(0, keep)}…`;
}

/** Signs of a cut name that say nothing: the dots, the colons, and one letter. */
const LEAST_PART = 5;

/** A name without leading parts when it would not fit. */
export function shortName(g: CanvasRenderingContext2D, name: string, width: number): string {
  const cut = name.length > 300 ? name.slice(0, 300) : name;
  if (widthOf(g, cut) <= width) return cut;
  const template = cut.indexOf('<');
  const parts = cut.lastIndexOf('::', template > 0 ? template : cut.length);
  if (parts > 0 && !cut.startsWith('operator')) {
    const last = `…${cut.slice(parts)}`;
    if (widthOf(g, last) <= width) return last;
    const part = fitting(g, last, width, 20);
    return part.length > LEAST_PART ? part : '';
  }
  return fitting(g, cut, width, 20);
}

function drawSliceNames(
  g: CanvasRenderingContext2D,
  theme: Theme,
  part: Part,
  { row, y, top, bottom }: Place,
  openEnd: number,
): void {
  const { tile, x, bucketPx, left, right } = part;
  useFont(g, `${FONT_PX}px ${theme.ui}`);
  // Most have no room for a name, and are not even looked at while the tile is not stretched.
  const stretched = WIDE * bucketPx > LABEL_PX;
  // Calls are in the order of time.
  const inOrderOfTime = tile.kind === 'calls';
  const first = !stretched ? tile.size : inOrderOfTime ? lowerBound(tile.at, (left - x) / bucketPx - WIDE) : 0;
  for (let k = 0, count = tile.wide.length + tile.size - first; k < count; k++) {
    const i = k < tile.wide.length ? (tile.wide[k] ?? 0) : first + k - tile.wide.length;
    const len = tile.len[i] ?? 0;
    if (k >= tile.wide.length && (len >= WIDE || len < 0)) continue;
    if (inOrderOfTime && k >= tile.wide.length && x + (tile.at[i] ?? 0) * bucketPx > right) break;
    if (len >= 0 && len * bucketPx < LABEL_PX) continue;
    const at = tile.at[i] ?? 0;
    const depth = tile.depth[i] ?? 0;
    const laneY = y + LANE_TOP_PX + (depth - row.firstLane) * LANE_PX;
    if (depth < row.firstLane || depth >= row.firstLane + row.lanes || laneY > bottom || laneY + LANE_PX < top)
      continue;
    const begin = Math.max(0, x + at * bucketPx);
    const end = Math.min(part.fits ? Infinity : right, len < 0 ? openEnd : x + (at + len) * bucketPx);
    if (len < 0 && openEnd > left && openEnd <= right + 1) tornEdge(g, theme, openEnd, laneY);
    // One that began in the tile before has its name there.
    if (end - begin < LABEL_PX || begin > right || (at < 0 && left > 0.5)) continue;
    const colour = tile.colour[i] ?? 0;
    const shape = shapeOf(colour);
    // Waiting is a line, which a name would hide.
    if (shape === 'line' || shape === 'dotted') continue;
    const name = tile.names[tile.name[i] ?? 0] ?? '';
    const n = tile.n[i] ?? 1;
    g.fillStyle = shape === 'full' ? (theme.onFill[colour] ?? '') : theme.ink2;
    const text = shortName(
      g,
      n > 1 ? `${inOrder(name)} +${grouped(n - 1)}` : inOrder(name),
      Math.min(end, row ? 1e5 : end) - begin - 9,
    );
    if (text) g.fillText(text, begin + 5, laneY + LANE_PX / 2);
  }
}

/** Its end is unknown. */
function tornEdge(g: CanvasRenderingContext2D, theme: Theme, x: number, y: number): void {
  g.fillStyle = theme.surface;
  g.beginPath();
  g.moveTo(x + 1, y);
  for (let k = 0; k <= 4; k++) g.lineTo(x - (k % 2 ? 4 : 0), y + (k * (LANE_PX - 1)) / 4);
  g.lineTo(x + 1, y + LANE_PX - 1);
  g.fill();
}

function drawCounter(g: CanvasRenderingContext2D, input: TimelineInput, { row, y, parts }: Place): void {
  const { theme, scale } = input;
  let low = Number(row.track.min ?? NaN);
  let high = Number(row.track.max ?? NaN);
  if (!Number.isFinite(low) || !Number.isFinite(high)) {
    low = Infinity;
    high = -Infinity;
    for (const { tile } of parts)
      for (let i = 0; i < tile.size; i++) {
        low = Math.min(low, tile.min[i] ?? 0);
        high = Math.max(high, tile.max[i] ?? 0);
      }
  }
  if (!(high >= low)) return;
  const bottom = y + row.height - 5;
  const room = row.height - 12;
  const height = (v: number): number => bottom - (high === low ? 0.5 : (v - low) / (high - low)) * room;
  g.strokeStyle = theme.edge[0] ?? '';
  g.fillStyle = theme.fill[0] ?? '';
  g.lineWidth = 1;
  g.beginPath();
  let before: number | null = null;
  let begun = false;
  const go = (at: number, value: number): void => {
    if (begun) g.lineTo(at, height(value));
    else g.moveTo(at, height(value));
    begun = true;
  };
  for (const { tile, x, bucketPx, left, right } of parts) {
    for (let i = 0; i < tile.size; i++) {
      const at = x + (tile.at[i] ?? 0) * bucketPx;
      if (at > right + 1) break;
      const [min, max, last] = [tile.min[i] ?? 0, tile.max[i] ?? 0, tile.last[i] ?? 0];
      if (at >= left - bucketPx - 1) {
        if (before !== null) {
          if (!begun) go(Math.min(left, at), before);
          go(at, before);
        }
        go(at, min);
        if (max !== min) go(at, max);
        go(at, last);
      }
      before = last;
    }
  }
  // The last value holds until the next one, or the end.
  const end = Math.min(scale.width, scale.x(input.end));
  if (before !== null && end > 0) {
    if (!begun) go(0, before);
    go(Math.max(0, end), before);
  }
  g.stroke();
}

/** Triangles are at least this far apart. */
const HITS_PX = 2;

/** Triangles where names hold the text that is searched for. */
function drawHits(g: CanvasRenderingContext2D, { theme, query }: TimelineInput, { y, parts }: Place): void {
  g.fillStyle = theme.hitFill;
  g.strokeStyle = theme.hit;
  g.lineWidth = 0.8;
  for (const { tile, x, bucketPx, left, right } of parts) {
    const hits = hitNames(tile.names, query);
    if (hits.size === 0) continue;
    let last = -Infinity;
    for (let i = 0; i < tile.size; i++) {
      if (!hits.has(tile.name[i] ?? -1)) continue;
      // Where several stand together the name is in each of their buckets.
      const buckets = (tile.n[i] ?? 1) > 1 ? Math.max(1, tile.len[i] ?? 1) : 1;
      const first = x + (tile.at[i] ?? 0) * bucketPx + 0.5;
      const step = Math.max(bucketPx, HITS_PX);
      for (
        let at = Math.max(first, first + Math.ceil((left - first) / step) * step);
        at <= Math.min(right, first + (buckets - 1) * bucketPx);
        at += step
      ) {
        if (at < last + HITS_PX) continue;
        last = at;
        g.beginPath();
        g.moveTo(at - 3, y);
        g.lineTo(at + 3, y);
        g.lineTo(at, y + 5);
        g.closePath();
        g.fill();
        g.stroke();
      }
    }
  }
}

const hitCache = new WeakMap<readonly string[], { query: string; hits: Set<number> }>();

function hitNames(names: readonly string[], query: string): Set<number> {
  const known = hitCache.get(names);
  if (known?.query === query) return known.hits;
  const hits = new Set<number>();
  names.forEach((name, i) => {
    if (name.toLowerCase().includes(query)) hits.add(i);
  });
  hitCache.set(names, { query, hits });
  return hits;
}

/** The lanes of calls that all parts of a row have; null where these are all. */
function lanesOf(parts: readonly Part[]): Lanes | null {
  const lanes = parts.flatMap(({ tile }) => tile.lanes ?? []);
  if (lanes.length === 0) return null;
  return {
    from: Math.max(...lanes.map((l) => l.from)),
    to: Math.min(...lanes.map((l) => l.to)),
    all: Math.max(...lanes.map((l) => l.all)),
  };
}

/** The things of a row that are in view, in words. */
export function wordsOf(place: Place, input: Pick<TimelineInput, 'scale' | 'begin'>): string {
  const { row, parts } = place;
  const { scale, begin } = input;
  const { track } = row;
  if (track.kind === 'state') return stateWords(place, input);
  if (!showsTiles(row)) return `${numberOf(track.events ?? 0, 'event')} in all`;
  let inView = 0;
  let isAbout = false;
  let most = 0;
  let mostX = 0;
  let lost = 0;
  let damaged = 0;
  let low = Infinity;
  let high = -Infinity;
  const lanes = lanesOf(parts);
  for (const { tile, x, bucketPx, left, right, fits } of parts) {
    for (const gap of tile.gaps)
      if (gap.kind === 'damage') damaged++;
      else lost += gap.count ?? 0;
    for (let i = 0; i < tile.size; i++) {
      const at = x + (tile.at[i] ?? 0) * bucketPx;
      const end = tile.len.length ? at + Math.max(tile.len[i] ?? 0, 0) * bucketPx : at + bucketPx;
      // The begin of the view may lie within a bucket.
      if (end < left - 0.001 || at > right + 0.001 || (tile.len.length > 0 && (tile.at[i] ?? 0) < 0 && left > 0.5))
        continue;
      if (lanes && ((tile.depth[i] ?? 0) < lanes.from || (tile.depth[i] ?? 0) >= lanes.to)) continue;
      if (tile.kind === 'counter') {
        if (at < left - bucketPx) continue;
        low = Math.min(low, tile.min[i] ?? 0);
        high = Math.max(high, tile.max[i] ?? 0);
        continue;
      }
      const n = tile.n[i] ?? 1;
      // Of calls that stand together, and reach out of the view, it is unknown how many are in it.
      const share = n > 1 && tile.len.length > 0 ? (Math.min(end, right) - Math.max(at, left)) / (end - at) : 1;
      if (share < 1 && end - at > bucketPx * 1.5) isAbout = true;
      inView += share < 1 && end - at > bucketPx * 1.5 ? Math.round(n * share) : n;
      if (fits && n > most) {
        most = n;
        mostX = at;
      }
    }
  }
  const said: string[] = [];
  if (track.kind === 'counter')
    said.push(
      high >= low ? `from ${low} to ${high} in view` : (track.done ?? 1) < 1 ? 'being read' : 'no new value in view',
    );
  else {
    const what = track.kind === 'calls' ? 'calls' : 'events';
    const about = isAbout ? 'about ' : '';
    const all = (track.kind === 'calls' ? track.calls : track.events) ?? 0;
    // A tile of deep calls does not have all lanes: the others may have calls in view too.
    if (lanes)
      said.push(
        lanes.from < lanes.to
          ? `${about}${grouped(inView)} calls in view in lanes ${lanes.from + 1} to ${lanes.to} of ${grouped(lanes.all)}`
          : 'being read',
      );
    else
      said.push(
        `${about}${grouped(inView)} of ${grouped(all)} ${what} in view${most > 1 && what === 'events' ? `, most at ${signed(scale.time(mostX) - begin)}` : ''}`,
      );
    if (track.untimed) said.push(`${grouped(track.untimed)} without time`);
  }
  if (lost > 0) said.push(`${grouped(lost)} lost`);
  if (damaged > 0) said.push(`${numberOf(damaged, 'place')} damaged`);
  return said.join('; ');
}

/** The states of the last lane that fill most of the view: in parts of it, as long as none of them stand together. */
function stateWords({ row, parts }: Place, { scale }: Pick<TimelineInput, 'scale'>): string {
  const shares = new Map<string, number>();
  const lane = Math.max(0, (row.track.depth ?? 1) - 1);
  let together = false;
  for (const { tile, x, bucketPx, left, right } of parts) {
    for (let i = 0; i < tile.size; i++) {
      if ((tile.depth[i] ?? 0) !== lane) continue;
      const begin = x + (tile.at[i] ?? 0) * bucketPx;
      const len = tile.len[i] ?? 0;
      const end = len < 0 ? right : begin + len * bucketPx;
      const px =
        (Math.min(end, right) - Math.max(begin, left)) * ((tile.n[i] ?? 1) > 1 ? (tile.busy[i] ?? 0) / 255 : 1);
      if (!(px > 0)) continue;
      together ||= (tile.n[i] ?? 1) > 1;
      const name = tile.names[tile.name[i] ?? 0] ?? '';
      shares.set(name, (shares.get(name) ?? 0) + px);
    }
  }
  const most = [...shares].sort((a, b) => b[1] - a[1]).slice(0, 3);
  if (most.length === 0) return 'nothing known in view';
  const share = (px: number): string => {
    const p = (100 * px) / Math.max(1, scale.width);
    return p < 1 ? 'less than 1 %' : `${Math.round(p)} %`;
  };
  return together
    ? `mostly ${most.map(([name]) => name).join(', then ')}`
    : most.map(([name, px]) => `${name} ${share(px)}`).join(', ');
}

/** The value of a counter at a place: that of the bucket there, else the last one before. */
function valueAt(row: Row, x: number, parts: readonly Part[], scale: Scale): Hit | null {
  let found: Hit | null = null;
  for (const { tile, x: from, bucketPx } of parts) {
    for (let i = 0; i < tile.size; i++) {
      const begin = from + (tile.at[i] ?? 0) * bucketPx;
      if (begin > x + 1) return found;
      const last = tile.last[i] ?? 0;
      const range =
        begin + bucketPx + 1 < x ? ([last, last] as const) : ([tile.min[i] ?? 0, tile.max[i] ?? 0] as const);
      found = {
        row,
        name: '',
        n: 1,
        begin: scale.time(begin),
        at: scale.time(begin),
        end: null,
        depth: null,
        gap: null,
        range,
      };
    }
  }
  return found;
}

/** The thing under the pointer. */
export interface Hit {
  readonly row: Row;
  readonly name: string;
  readonly n: number;
  readonly begin: bigint;
  readonly end: bigint | null;
  /** Where it begins, or of several that stand together the bucket under the pointer. */
  readonly at: bigint;
  readonly depth: number | null;
  readonly gap: string | null;
  readonly range: readonly [number, number] | null;
}

const NEAR_PX = 5;

export function hitAt(
  row: Row,
  x: number,
  yInRow: number,
  input: Pick<TimelineInput, 'scale' | 'origin' | 'tiles'>,
): Hit | null {
  const parts = partsOf(row, input as TimelineInput, input.tiles);
  const { scale } = input;
  const depth = row.firstLane + Math.floor((yInRow - LANE_TOP_PX) / LANE_PX);
  let best: { distance: number; hit: Hit } | null = null;
  if (row.track.kind === 'counter') return valueAt(row, x, parts, scale);
  for (const { tile, x: from, bucketPx, left, right } of parts) {
    if (x < left - NEAR_PX || x > right + NEAR_PX) continue;
    const time = (bucket: number): bigint => scale.time(from + bucket * bucketPx);
    for (let i = 0; i < tile.size; i++) {
      const at = tile.at[i] ?? 0;
      const slices = tile.len.length > 0;
      if (slices && (tile.depth[i] ?? 0) !== Math.min(depth, row.firstLane + row.lanes - 1)) continue;
      const len = slices ? (tile.len[i] ?? 0) : 1;
      const begin = from + at * bucketPx;
      const end = len < 0 ? right : Math.max(begin + 1, from + (at + len) * bucketPx);
      const distance = x < begin ? begin - x : x > end ? x - end : 0;
      const together = slices && (tile.n[i] ?? 1) > 1;
      if (distance > (slices ? 2 : NEAR_PX) || (best && best.distance <= distance)) continue;
      best = {
        distance,
        hit: {
          row,
          name: tile.names[tile.name[i] ?? 0] ?? '',
          n: tile.n[i] ?? 1,
          begin: time(at),
          at: time(together ? Math.max(at, Math.min(at + len - 1, Math.floor((x - from) / bucketPx))) : at),
          end: slices && len >= 0 ? time(at + len) : null,
          depth: slices ? (tile.depth[i] ?? 0) : null,
          gap: null,
          range: tile.kind === 'counter' ? [tile.min[i] ?? 0, tile.max[i] ?? 0] : null,
        },
      };
    }
    if (best) continue;
    for (const gap of tile.gaps) {
      const begin = from + gap.at * bucketPx;
      const end = Math.max(begin + 3, from + (gap.at + gap.len) * bucketPx);
      if (x < begin || x > end) continue;
      const text = gap.count == null ? gapName(gap.kind) : `${grouped(gap.count)} ${gapName(gap.kind)}`;
      return {
        row,
        name: text,
        n: 0,
        begin: time(gap.at),
        at: time(gap.at),
        end: time(gap.at + gap.len),
        depth: null,
        gap: text,
        range: null,
      };
    }
  }
  return best?.hit ?? null;
}

/** The nearest begin or end of what a row shows, at most so many pixels away; to the bucket. */
export function boundaryAt(
  row: Row,
  x: number,
  yInRow: number,
  input: Pick<TimelineInput, 'scale' | 'origin' | 'tiles'>,
  most: number,
): { at: bigint; name: string } | null {
  const depth = row.firstLane + Math.floor((yInRow - LANE_TOP_PX) / LANE_PX);
  let best: { distance: number; at: bigint; name: string } | null = null;
  if (row.track.kind === 'group' || row.track.kind === 'heading' || row.track.kind === 'counter') return null;
  for (const { tile, x: from, bucketPx, left, right } of partsOf(row, input as TimelineInput, input.tiles)) {
    if (x < left - most || x > right + most) continue;
    const slices = tile.len.length > 0;
    for (let i = 0; i < tile.size; i++) {
      if (slices && (tile.depth[i] ?? 0) !== Math.min(depth, row.firstLane + row.lanes - 1)) continue;
      const at = tile.at[i] ?? 0;
      const len = tile.len[i] ?? -1;
      for (const bucket of slices && len >= 0 ? [at, at + len] : [at]) {
        const distance = Math.abs(from + bucket * bucketPx - x);
        if (distance > most || (best && best.distance <= distance)) continue;
        best = { distance, at: input.scale.time(from + bucket * bucketPx), name: tile.names[tile.name[i] ?? 0] ?? '' };
      }
    }
  }
  return best;
}

/** The facts that the picture shows of a thing, for the box beside the pointer: to the bucket, which is about. */
export function describe(hit: Hit, cursor: bigint | null): string[] {
  const lines = [hit.name];
  if (hit.range)
    lines[0] = `about ${hit.range[0] === hit.range[1] ? hit.range[0] : `${hit.range[0]} to ${hit.range[1]}`}`;
  else if (hit.end !== null) lines.push(`about ${duration(hit.end - hit.begin)}`);
  if (hit.n > 1) lines.push(countPhrase(hit));
  if (cursor !== null) lines.push(`about ${signed(hit.begin - cursor)} from the cursor`);
  return lines;
}

const countPhrase = ({ n, depth, row }: Hit): string =>
  `one of ${grouped(n)} ${depth === null ? 'events' : row.track.kind === 'state' ? 'states' : 'calls'} that stand together`;

/** The exact thing under the pointer, from the source. */
export function describeExactly(
  row: Row,
  found: Located,
  block: Hit | null,
  cursor: bigint | null,
  context: TimeContext,
): string[] {
  if (found.value !== undefined) return [`${found.value}${row.track.unit ? ` ${row.track.unit}` : ''}`];
  const begin = BigInt(found.begin ?? found.ns ?? 0);
  const isSlice = found.event == null;
  const lines = [
    found.name ?? '',
    !isSlice
      ? point(begin, context)
      : found.end === null
        ? 'its end is not recorded'
        : duration(BigInt(found.end) - begin),
  ];
  if (block && block.n > 1) lines.push(countPhrase(block));
  if (cursor !== null) lines.push(`${signed(begin - cursor)} from the cursor`);
  return lines;
}

/** Buckets of a tile; exported for those who place tiles by hand. */
export { TILE_BUCKETS };
