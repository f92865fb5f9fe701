// Marks above the rows of the timeline: selection, bookmarks, cursor, wakes, the frame around what is chosen.
import { LANE_PX } from './layout';
import { LANE_TOP_PX } from './painter';
import type { Mark, Place, TimelineInput } from './timeline';

/** Draws the selection, bookmarks, the cursor, wakes and what is chosen. */
export function drawMarks(g: CanvasRenderingContext2D, input: TimelineInput, places: readonly Place[]): void {
  const { scale, theme, selection, chosen, height } = input;
  const last = places.reduce((y, p) => Math.max(y, p.bottom), 0);
  if (selection) {
    const [from, to] = [scale.x(selection.begin), scale.x(selection.end)];
    const [left, right] = [Math.max(-2, from), Math.min(scale.width + 2, to)];
    g.fillStyle = theme.accentSoft;
    for (const { row, top, bottom } of places) {
      if (
        right > left &&
        (chosen.size === 0 ? row.track.kind !== 'group' && row.track.kind !== 'heading' : chosen.has(row.track.id))
      )
        g.fillRect(left, top, right - left, bottom - top - 1);
    }
    g.fillStyle = theme.accent;
    for (const x of [from, to]) if (x >= -1 && x <= scale.width + 1) g.fillRect(Math.round(x), 0, 1, last);
  }
  g.strokeStyle = theme.brand;
  g.globalAlpha = 0.55;
  g.setLineDash([2, 4]);
  for (const ns of input.bookmarks) verticalLine(g, scale.x(ns), scale.width, height);
  g.globalAlpha = 1;
  if (input.cursor !== null) {
    g.strokeStyle = theme.accent;
    g.setLineDash([3, 3]);
    verticalLine(g, scale.x(input.cursor), scale.width, height);
  }
  g.setLineDash([]);
  drawWakes(g, input, places);
  drawPath(g, input, places);
  if (input.mark) drawMark(g, input, places, input.mark);
}

/** From the thread that woke to the one that was woken; one that is out of sight begins at the edge. */
function drawWakes(
  g: CanvasRenderingContext2D,
  { scale, theme, wakes, height }: TimelineInput,
  places: readonly Place[],
): void {
  if (wakes.length === 0) return;
  const middles = new Map(places.map(({ row, y }) => [row.track.id, y + row.height / 2]));
  g.strokeStyle = g.fillStyle = theme.ink;
  g.lineWidth = 1.2;
  let before = -Infinity;
  for (const { ns, from, to } of wakes) {
    const x = scale.x(ns);
    const end = middles.get(to);
    const begin = from === null ? undefined : middles.get(from);
    if ((end === undefined && begin === undefined) || x < 0 || x > scale.width || x < before + 3) continue;
    before = x;
    // A thread out of sight is above or below: the nearer edge says so.
    const edge = (y: number): number => (y < height / 2 ? 0 : height);
    const [y0, y1] = [begin ?? (from === null ? (end ?? 0) - 16 : edge(end ?? 0)), end ?? edge(begin ?? 0)];
    arrow(g, x, y0, y1);
    g.beginPath();
    g.roundRect(x - 2, y0 - 2, 4, 4, 2);
    g.fill();
  }
}

const PATH_PX = 4;
/** Parts whose ends are nearer than this are one line: it would be drawn many times otherwise. */
const PART_PX = 0.5;

/** A critical path: a bar below what each of its threads does, and an arrow wherever it goes on in another one. */
function drawPath(
  g: CanvasRenderingContext2D,
  { scale, theme, path, height }: TimelineInput,
  places: readonly Place[],
): void {
  if (path.length === 0) return;
  const rows = new Map(places.map((place) => [place.row.track.id, place]));
  const barOf = ({ row, y }: Place): number => y + row.height - PATH_PX - 2;
  let first = 0;
  for (let last = path.length; first < last; ) {
    const middle = (first + last) >> 1;
    if ((path[middle]?.end ?? 0n) <= scale.view.begin) first = middle + 1;
    else last = middle;
  }
  const bars: { x: number; end: number; y: number; colour: number }[] = [];
  const turns: { x: number; from: number; to: number }[] = [];
  for (let i = first; i < path.length; i++) {
    const part = path[i];
    if (!part || part.begin > scale.view.end) break;
    const x = Math.max(-2, scale.x(part.begin));
    const end = Math.min(scale.width + 2, scale.x(part.end));
    const place = part.track === null ? undefined : rows.get(part.track);
    const before = path[i - 1];
    if (before && before.track !== part.track && x >= 0 && x <= scale.width) {
      const left = before.track === null ? undefined : rows.get(before.track);
      // A thread out of sight is above or below: the nearer edge says so.
      const out = (seen: Place | undefined): number => (seen && barOf(seen) > height / 2 ? height : 0);
      const turn = { x, from: left ? barOf(left) + 2 : out(place), to: place ? barOf(place) + 2 : out(left) };
      if (turn.from !== turn.to && x >= (turns.at(-1)?.x ?? -Infinity) + 2) turns.push(turn);
    }
    if (!place) continue;
    const y = barOf(place);
    const known = bars.at(-1);
    if (known && known.y === y && known.colour === part.colour && x - known.end < PART_PX) known.end = end;
    else bars.push({ x, end: Math.max(end, x + 1), y, colour: part.colour });
  }
  // Lines around the bars part them from the states above.
  g.fillStyle = theme.ink;
  for (const { x, end, y } of bars) g.fillRect(x - 0.5, y - 1, end - x + 1, PATH_PX + 2);
  for (const { x, end, y, colour } of bars) {
    g.fillStyle = theme.fill[colour] ?? '';
    g.fillRect(x, y, Math.max(1, end - x), PATH_PX);
  }
  g.strokeStyle = g.fillStyle = theme.ink;
  g.lineWidth = 1.4;
  for (const { x, from, to } of turns) arrow(g, x, from, to);
}

function arrow(g: CanvasRenderingContext2D, x: number, from: number, to: number): void {
  const way = to >= from ? 1 : -1;
  g.beginPath();
  g.moveTo(x, from);
  g.lineTo(x, to - way * 5);
  g.stroke();
  g.beginPath();
  g.moveTo(x, to);
  g.lineTo(x - 3.5, to - way * 6);
  g.lineTo(x + 3.5, to - way * 6);
  g.closePath();
  g.fill();
}

function verticalLine(g: CanvasRenderingContext2D, at: number, width: number, height: number): void {
  if (at < -1 || at > width + 1) return;
  const x = Math.round(at) + 0.5;
  g.lineWidth = 1;
  g.beginPath();
  g.moveTo(x, 0);
  g.lineTo(x, height);
  g.stroke();
}

/** A frame around what is chosen. */
function drawMark(
  g: CanvasRenderingContext2D,
  { scale, theme }: TimelineInput,
  places: readonly Place[],
  mark: Mark,
): void {
  const place = places.find((p) => p.row.track.id === mark.track);
  if (!place) return;
  const { row, y, top, bottom } = place;
  g.save();
  g.beginPath();
  g.rect(0, top, scale.width, bottom - top);
  g.clip();
  g.strokeStyle = theme.accent;
  g.lineWidth = 2;
  const x = scale.x(mark.begin);
  if (mark.depth === null) g.strokeRect(x - 3, y + 2, 7, row.height - 5);
  else {
    const end = mark.end === null ? scale.width + 4 : scale.x(mark.end);
    const left = Math.max(-4, x);
    g.strokeRect(
      left + 1,
      y + LANE_TOP_PX + (mark.depth - row.firstLane) * LANE_PX + 1,
      Math.max(3, Math.min(scale.width + 4, end) - left - 2),
      LANE_PX - 3,
    );
  }
  g.restore();
}
