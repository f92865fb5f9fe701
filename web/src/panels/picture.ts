// Pictures of the view: ruler, labels and rows, as pixels or as shapes.

import { shown } from '../draw/frame';
import { PlainPainter, resize } from '../draw/plain';
import { drawRuler } from '../draw/ruler';
import { Shapes } from '../draw/shapes';
import { drawTimeline } from '../draw/timeline';
import { timeContext } from '../state/store';
import { layout, viewport } from '../state/tracks';
import { point } from '../time/format';
import { rulerInput, timelineInput } from './scene';
import { sizes, theme } from './settings';

const RULER_PX = 40;

/** Draws everything to a context, and gives its size. */
function draw(g: CanvasRenderingContext2D, ratio: number): { width: number; height: number } {
  const label = sizes.value.label;
  const { width } = viewport.value;
  const { pinnedHeight, height: rowsHeight } = layout.value;
  const height = Math.min(viewport.value.height, pinnedHeight + rowsHeight);
  const colours = theme.value;
  const at = (x: number, y: number): void => g.setTransform(ratio, 0, 0, ratio, x * ratio, y * ratio);
  at(0, 0);
  g.fillStyle = colours.surface;
  g.fillRect(0, 0, label + width, RULER_PX + height);
  const shift = new Shifted(g, ratio);
  drawRuler(shift.by(label, 0, width, RULER_PX), rulerInput(width, RULER_PX, ratio));
  drawTimeline(
    new PlainPainter(shift.by(label, RULER_PX, width, height)),
    shift.by(label, RULER_PX, width, height),
    timelineInput(width, height, ratio),
  );
  at(0, 0);
  g.fillStyle = colours.surface;
  g.fillRect(0, 0, label, RULER_PX + height);
  g.fillStyle = colours.ink2;
  g.font = `12px ${colours.ui}`;
  g.textBaseline = 'middle';
  g.fillText(point(shown.value.begin, timeContext.value, 3), 12, RULER_PX / 2);
  for (const { row, y } of rowsDrawn(height)) {
    if (row.track.kind === 'group' || row.track.kind === 'heading') {
      g.fillStyle = colours.sunken;
      g.fillRect(0, RULER_PX + y, label, row.height);
    }
    g.fillStyle = colours.ink;
    g.font = `${row.track.kind === 'group' ? '600 ' : ''}12px ${colours.ui}`;
    g.fillText(
      row.track.name.slice(0, 60),
      row.track.kind === 'group' ? 12 : 26,
      RULER_PX + y + Math.min(row.height, 30) / 2,
    );
  }
  return { width: label + width, height: RULER_PX + height };
}

function rowsDrawn(height: number): { row: (typeof layout.value.rows)[number]; y: number }[] {
  const input = timelineInput(1, height, 1);
  const moved = input.layout.rows.map((row) => ({ row, y: input.layout.pinnedHeight + row.y - input.scroll }));
  return [
    ...moved.filter(({ row, y }) => y + row.height > input.layout.pinnedHeight && y < height),
    ...input.layout.pinned.map((row) => ({ row, y: row.y })),
  ];
}

/** A context whose drawings are moved and cut to a box: drawings set their own transform and clear their ground. */
class Shifted {
  constructor(
    private readonly g: CanvasRenderingContext2D,
    private readonly ratio: number,
  ) {}

  by(x: number, y: number, width: number, height: number): CanvasRenderingContext2D {
    const { g, ratio } = this;
    return new Proxy(g, {
      get: (target, key) => {
        if (key === 'setTransform') {
          return () => {
            target.setTransform(ratio, 0, 0, ratio, x * ratio, y * ratio);
          };
        }
        if (key === 'clearRect')
          return () => {
            target.clearRect(0, 0, Math.min(width, 0), Math.min(height, 0));
          };
        const value: unknown = Reflect.get(target, key, target);
        return typeof value === 'function' ? (value as (...a: unknown[]) => unknown).bind(target) : value;
      },
      set: (target, key, value) => Reflect.set(target, key, value, target),
    });
  }
}

export async function pictureOfView(): Promise<Blob | null> {
  const canvas = document.createElement('canvas');
  const ratio = Math.max(2, devicePixelRatio);
  resize(
    canvas,
    sizes.value.label + viewport.value.width,
    RULER_PX + Math.min(viewport.value.height, layout.value.pinnedHeight + layout.value.height),
    ratio,
  );
  const g = canvas.getContext('2d');
  if (!g) return null;
  draw(g, ratio);
  return new Promise((resolve) => canvas.toBlob(resolve, 'image/png'));
}

/** The same as shapes and texts. */
export function svgOfView(): string {
  const shapes = new Shapes();
  const { width, height } = draw(shapes as unknown as CanvasRenderingContext2D, 1);
  return shapes.svg(width, height);
}
