// The answers of the API, as they travel: ns, durations and 64-bit values are decimal texts, counts are numbers.
import type { EventCells } from './columns';

export interface Session {
  api: number;
  program: string;
  generation: string | number;
  clock: 'unix' | 'none';
  origin: string;
  begin: string | null;
  end: string | null;
  events: number | null;
  traces: TraceInfo[];
  losses: { events: number | null; packets: number | null };
  faults: number;
  index: IndexProgress;
  features: string[];
  /** Features that a page in a file does not have, and `tracemill view` has. */
  elsewhere?: string[];
  command: string;
  /** Does the server follow the traces while they grow? */
  follows?: boolean;
  /** A sentence when files of the traces are not there any more, or are other files now. */
  gone?: string | null;
  /** The states that occur, when they are known. */
  states?: { cpus: string[]; threads: string[] } | null;
  /** Where they were asked for. */
  tracks?: Track[];
}

export interface TraceInfo {
  index: number;
  name: string | null;
  path: string;
  format: string;
  begin: string | null;
  end: string | null;
  events: number | null;
  /** By how much its clock was moved since the traces were opened. */
  moved_ns?: string;
  /** Ns that were added to its clock, as it cannot be compared with that of the trace of that name: both begin together. */
  aligned_ns?: string | null;
  aligned_with?: string | null;
}

export interface IndexProgress {
  state: 'estimate' | 'counting' | 'complete';
  done: number;
}

export type TrackKind = 'group' | 'heading' | 'events' | 'calls' | 'state' | 'counter';

export interface Track {
  id: string;
  parent: string | null;
  kind: TrackKind;
  base: boolean;
  name: string;
  trace: number | null;
  events: number | null;
  untimed?: number;
  calls?: number | null;
  depth?: number | null;
  states?: number | null;
  /** Of a heading how many threads stand below it; of a thread that ran in view for how long. */
  threads?: number;
  busy?: string;
  unit?: string | null;
  /** Of a track of periods: ns that one may take, and how many took longer. */
  deadline?: string | null;
  missed?: number | null;
  min?: string | number | null;
  max?: string | number | null;
  losses?: { events?: number | null; packets?: number | null } | number | null;
  of?: string | null;
  /** Of a counter or a group how much was read, from 0 to 1. */
  done?: number;
  /** Of a track of one value: the path, and the value. */
  group?: string;
  value?: string | null;
  /** How many packets a stream has. */
  packets?: number | null;
}

/** The tracks of one trace by the values of a path. */
export interface TracksOfGroup {
  group: string;
  trace: number;
  /** How much was read, from 0 to 1: the tracks are there at the end. */
  done: number;
  values: number;
  left_out: number;
  tracks: Track[];
  /** The track of the trace, which the page adds. */
  of: string;
}

export interface Tiles {
  generation: string | number;
  level: number;
  from: number;
  to: number;
  names: Record<string, string>;
  tracks: TileTrack[];
}

/** From one lane to the one after the last, of so many. */
export interface Lanes {
  from: number;
  to: number;
  all: number;
}

/** Columns of equal length, in buckets from the begin of the first tile of the answer. */
export interface TileTrack {
  id: string;
  kind: TrackKind;
  exact: boolean;
  at: number[];
  n?: number[];
  name?: number[];
  len?: number[];
  depth?: number[];
  busy?: number[];
  /** Which lanes of calls are sent, the last one excluded, where there are others too. */
  lanes?: Lanes;
  min?: number[];
  max?: number[];
  last?: number[];
  gaps?: [number, number, string, number | null][];
}

export interface Row extends EventCells {
  title: string;
  /** The event as a line of JSON, when it was asked for. */
  json?: string;
}

export interface Rows {
  total: number | null;
  from: number;
  rows: Row[];
}

export interface Field {
  path: string;
  text: string;
  kind: string;
  base?: number | string | null;
}

export interface EventDetails extends Row {
  cycles: string | number | null;
  fields: Field[];
  place: { file?: string; packet?: number | null; byte?: number | string | null; bit?: number | null } | null;
  call?: { track: string; call: number } | number | string | null;
}

export interface CallDetails {
  name: string;
  symbol: string | null;
  begin: string;
  end: string | null;
  duration: string | null;
  self: string | null;
  parent: number | null;
  depth: number;
  args: unknown;
  retval: unknown;
  module: string | null;
  all: CallStatistics | null;
}

export interface NameStatistics {
  name: string;
  events: number;
  gap_min: string | null;
  gap_p50: string | null;
  gap_max: string | null;
}

/** A state of CPUs, of threads, or a thread that CPUs ran. */
export interface StateStatistics {
  of: 'cpu' | 'thread' | 'running' | 'custom';
  name: string;
  count: number;
  whole: number;
  total: string;
  min: string | null;
  mean: string | null;
  p50: string | null;
  p90: string | null;
  p99: string | null;
  max: string | null;
}

export interface CallStatistics {
  name: string;
  calls: number;
  whole: number;
  total: string;
  self: string;
  min: string | null;
  mean: string | null;
  p50: string | null;
  p90: string | null;
  p99: string | null;
  max: string | null;
}

export interface Selection {
  begin: string | null;
  end: string | null;
  events: number;
  tracks: number | string[];
  losses: { events: number | null; packets: number | null; intervals: number };
  complete: boolean;
  names: NameStatistics[];
  calls?: CallStatistics[];
  states?: StateStatistics[];
}

export interface FlameNode {
  id: number;
  parent: number | null;
  name: string;
  /** Of a function of samples. */
  module?: string;
  calls: number;
  total: string;
  self: string;
}

export interface FlameAnswer {
  nodes: FlameNode[];
  /** Of samples: what weights count, the event, and all events that have samples. */
  unit?: 'ns' | 'events' | 'samples';
  event?: string;
  events?: string[];
}

export interface Match {
  match: { event: number; ns: string | null; track: string; name: string } | null;
  index: number | null;
  count: number | null;
}

export interface Located {
  event?: number | null;
  call?: number | null;
  track?: string;
  ns?: string | null;
  begin: string | null;
  end: string | null;
  name?: string;
  /** Of a call or a state: its lane. */
  depth?: number | null;
  /** Of a counter, what it shows at a time. */
  value?: number | string;
}

export interface Loss {
  track: string;
  kind: 'events' | 'packets';
  count: number | null;
  begin: string | null;
  end: string | null;
}

export interface Fault {
  file: string;
  offset: number | string | null;
  reason: string;
  track: string | null;
  ns: string | null;
  /** Until when events are missing on the track. */
  end?: string | null;
}

export interface Problems {
  losses: Loss[];
  faults: Fault[];
  warnings: string[];
}

/** A thread was woken, by the tracks of both. */
export interface Wakeup {
  ns: string;
  from: string | null;
  to: string;
}

/** A part of a critical path. */
export interface PathPart {
  from: string;
  to: string;
  /** The track of its thread, where that has one. */
  track: string | null;
  tid: number;
  comm: string | null;
  /** As `analyze path` has it: running, wait_cpu, disk, .. */
  state: string | null;
  why: string | null;
  through: string | null;
}

/** The critical path of a thread, in words. */
export interface WhyAnswer {
  track: string;
  begin: string | null;
  end: string | null;
  sentence: string | null;
  /** Why a page in one file has no sentence of these times. */
  note?: string;
  parts: PathPart[];
  left_out: number;
  totals: { why: string | null; total: string | null; share: number | null; own: boolean }[];
  /** Shorter causes that are left out, and their time. */
  other_totals?: { count: number; total: string };
}

/** An analysis of `tracemill analyze`, and the forms that its table may have. */
export interface AnalysisInfo {
  name: string;
  about: string;
  forms: { of: string | null; keys: string[]; spans: boolean; takes: string[] }[];
}

export type AnalysisUnit =
  | 'name'
  | 'count'
  | 'time'
  | 'duration'
  | 'share'
  | 'correlation'
  | 'bytes'
  | 'address'
  | 'device';
export type AnalysisCell = string | number | boolean | null | Record<string, number>;

export interface AnalysisColumn {
  name: string;
  unit: AnalysisUnit;
  meaning: string;
  /** Others say the same in words. */
  hidden: boolean;
}

/** How many durations there are, by column of the time and by power of two. */
export interface Heat {
  begin: string;
  /** Ns of a column. */
  column: string;
  columns: number;
  cells: [number, number, number][];
}

/** Durations over time: the longest one by one, and how many others there are. */
export interface DurationPoints {
  points: { begin: string; duration: string; track?: string }[];
  summary?: { n: number }[];
  histogram?: [number, number][];
  heat?: Heat;
}

/** The table of an analysis. */
export interface AnalysisTable {
  analysis: string;
  begin: string | null;
  end: string | null;
  columns: AnalysisColumn[];
  rows: AnalysisCell[][];
  /** The track of the thread of each row, where rows are about threads. */
  tracks?: (string | null)[];
  total: number;
  /** The word for the rows. */
  noun: string;
  all: Record<string, AnalysisCell>;
  totals?: { columns: AnalysisColumn[]; rows: AnalysisCell[][] };
  sentences: string[];
  remarks: string[];
  points?: DurationPoints;
  /** Of periods with a deadline, how many of the range missed it. */
  missed?: { deadline: string; periods: number; missed: number };
}

/** The rows of a query, every value as its exact text. */
export interface SqlAnswer {
  columns: { name: string; type: string }[];
  rows: (string | null)[][];
  total: number;
  truncated: boolean;
}

/** A message of the stream of progress. */
export type Progress =
  | { kind: 'index'; index: IndexProgress; generation?: string | number }
  | { kind: 'filter'; filter: string; done: number; matches: number }
  | { kind: 'grown'; generation: string | number; begin: string; end: string }
  | { kind: 'gone'; message: string | null }
  | { kind: 'end' };

/** The body of an error. */
export interface ErrorBody {
  code: string;
  message: string;
  help?: string | null;
  span?: [number, number] | null;
}
