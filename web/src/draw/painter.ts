// The painter of the many rectangles of a timeline: a graphics processor where there is one, else a plain canvas.
import type { Tile } from '../state/tiles';
import type { Theme } from './theme';

/** Where a tile goes, in pixels. */
export interface Placement {
  /** Where the tile begins, and how wide a bucket is. */
  readonly x: number;
  readonly bucketPx: number;
  readonly y: number;
  readonly height: number;
  /** All drawing is clipped to these. */
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
  /** The logarithm that is as high as the row. */
  readonly peak: number;
  /** Lanes that are drawn; slices in deeper ones are not. */
  readonly lanes: number;
  readonly lanePx: number;
  readonly alpha: number;
  /** Without colours: what a filter leaves out. */
  readonly grey: boolean;
  /** Where slices end whose end is not known: at the end of the trace. */
  readonly openEnd: number;
}

export interface Painter {
  readonly name: 'webgl2' | 'canvas2d';
  begin(width: number, height: number, ratio: number, theme: Theme): void;
  rect(x: number, y: number, width: number, height: number, colour: string): void;
  hatch(x: number, y: number, width: number, height: number): void;
  /** Bars from below, as high as the logarithm of their counts. */
  bars(tile: Tile, at: Placement): void;
  /** Slices in lanes from above. */
  slices(tile: Tile, at: Placement): void;
  end(): void;
  /** Forgets what belongs to a tile. */
  forget(tile: Tile): void;
}

/** The lowest bar is this part of the row. */
export const LEAST_BAR = 0.3;
/** Above and below the bars of a row. */
export const BAR_MARGIN_PX = 6;
export const BAR_PX = 1;
export const SINGLE_PX = 3;
/** A count of one is drawn wider when it has this much room, in pixels. */
export const SINGLE_ROOM_PX = 5;
/** From the top of a row of slices to its first lane, and between lanes. */
export const LANE_TOP_PX = 3;
export const LANE_GAP_PX = 1;

/** How much of its row a bar fills, by the logarithm of its count. */
export const shareOf = (height: number, peak: number): number => Math.max(LEAST_BAR, Math.min(1, height / peak));

/** From the middle of a lane to the edges of what is drawn as a line, and between dots. */
export const LINE_PX = 1.5;
export const DOT_PX = 2;
export const DOTS_PX = 5;

/** The frame of a hollow slice. */
export const FRAME_PX = 1.5;
/** Slices that are wider show their beginning by an edge. */
export const EDGED_PX = 3;
/** Slices that stand for several are striped: from one stripe to the next, and the width of a stripe. */
export const STRIPES_PX = 6;
export const STRIPE_PX = 1.5;

/** Colours of whole rows are mixed with these patterns. */
export const HATCH_PX = 5;
