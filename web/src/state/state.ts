// The state of the page: one immutable value. The view, the panels and the link are functions of it.

import type { TimeFormat } from '../time/format';
import type { Range } from '../time/range';

export type Tab = 'events' | 'selection' | 'flame' | 'calls' | 'analyses' | 'problems' | 'sql';

export const TABS: readonly Tab[] = ['events', 'selection', 'flame', 'calls', 'analyses', 'problems', 'sql'];

export interface Bookmark {
  readonly ns: bigint;
  readonly label: string;
}

/** A call of a track that shows calls. */
export interface CallPlace {
  readonly track: string;
  readonly call: number;
}

/** A slice that has no number: the state of a CPU or a thread at a time. */
export interface SlicePlace {
  readonly track: string;
  readonly at: bigint;
  readonly depth: number;
}

/** A thread, and the time of it whose critical path is shown. */
export interface PathPlace {
  readonly track: string;
  readonly range: Range;
}

export interface State {
  /** The range of the timeline; null is the whole trace. */
  readonly view: Range | null;
  /** The chosen time; null is all of it. */
  readonly selection: Range | null;
  /** The chosen tracks; none is all of them. */
  readonly chosen: readonly string[];
  readonly filter: string;
  readonly query: string;
  readonly event: number | null;
  readonly call: CallPlace | null;
  readonly slice: SlicePlace | null;
  readonly tab: Tab;
  readonly pins: readonly string[];
  /** Tracks whose fold is not the one that they begin with. */
  readonly folds: readonly string[];
  readonly columns: readonly string[];
  /** Null is UTC for clocks with an origin, and since the begin for others. */
  readonly format: TimeFormat | null;
  readonly cursor: bigint | null;
  readonly bookmarks: readonly Bookmark[];
  /** Tracks that are not shown. */
  readonly hidden: readonly string[];
  /** Tracks that come before their siblings, the first one first, and those that come after them. */
  readonly first: readonly string[];
  readonly last: readonly string[];
  /** The key by which the tracks of a trace are grouped, as `GROUP:PATH`. */
  readonly groups: readonly string[];
  /** The text of a query in SQL. */
  readonly sql: string;
  /** Tracks of fields that are shown as counters. */
  readonly plots: readonly string[];
  /** The critical path that is drawn over the tracks. */
  readonly path: PathPlace | null;
  /** The table of an analysis, as `NAME/OF/BY/VIEW`; empty is the first one. */
  readonly analysis: string;
  /** The periods whose table is shown, as the id of their track; empty is none. */
  readonly period: string;
  /** Parts of the link that this version does not know, as they were. */
  readonly unknown: readonly string[];
}

export const NOTHING_CHOSEN = { event: null, call: null, slice: null } as const;

export const INITIAL: State = {
  view: null,
  selection: null,
  chosen: [],
  filter: '',
  query: '',
  event: null,
  call: null,
  slice: null,
  tab: 'events',
  pins: [],
  folds: [],
  columns: [],
  format: null,
  cursor: null,
  bookmarks: [],
  hidden: [],
  first: [],
  last: [],
  groups: [],
  sql: '',
  plots: [],
  path: null,
  analysis: '',
  period: '',
  unknown: [],
};
