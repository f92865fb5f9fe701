// The state of the page: one immutable value. The view, the panels and the link are functions of it.
import type { Range } from '../time/range';
import type { TimeFormat } from '../time/format';

export type Tab = 'events' | 'selection' | 'flame' | 'calls' | 'problems';

export const TABS: readonly Tab[] = ['events', 'selection', 'flame', 'calls', 'problems'];

export interface Bookmark {
  readonly ns: bigint;
  readonly label: string;
}

/** A call of a track that shows calls. */
export interface CallPlace {
  readonly track: string;
  readonly call: number;
}

export interface State {
  /** What the timeline shows; null is the whole trace. */
  readonly view: Range | null;
  /** The chosen time; null is all of it. */
  readonly selection: Range | null;
  /** The chosen tracks; none is all of them. */
  readonly chosen: readonly string[];
  readonly filter: string;
  readonly query: string;
  readonly event: number | null;
  readonly call: CallPlace | null;
  readonly tab: Tab;
  readonly pins: readonly string[];
  /** Tracks whose fold is not the one that they begin with. */
  readonly folds: readonly string[];
  readonly columns: readonly string[];
  /** Null is UTC for clocks with an origin, and since the begin for others. */
  readonly format: TimeFormat | null;
  readonly cursor: bigint | null;
  readonly bookmarks: readonly Bookmark[];
  /** Tracks of fields that are shown as counters. */
  readonly plots: readonly string[];
  /** Parts of the link that this version does not know, as they were. */
  readonly unknown: readonly string[];
}

export const INITIAL: State = {
  view: null, selection: null, chosen: [], filter: '', query: '', event: null, call: null, tab: 'events', pins: [], folds: [],
  columns: [], format: null, cursor: null, bookmarks: [], plots: [], unknown: [],
};
