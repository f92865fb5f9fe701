// The data of a page in a file, unpacked: columns of events, calls and states (`crates/answers/src/html.rs`, `pack.rs`).
import type { AnalysisInfo, AnalysisTable, Problems, Session, Track } from './types';

export interface Head {
  session: Session;
  tracks: Track[];
  problems: Problems;
  names: string[];
  /** Of each kind of event, its name and its base track. */
  kinds: [number, number][];
  /** Of each base track, its trace. */
  bases: number[];
  functions: string[];
  /** Of each function, where it is from. */
  modules: (string | null)[];
  /** Calls without an end last until the end of their task. */
  tasks: { trace: number; of: number | null; end: string }[];
  states: string[];
  state_names: string[];
  /** Of each track of states, its thread or CPU. */
  states_of: { thread?: number; cpu?: number }[];
  /** Null: there are none, or there are calls. */
  samples: SamplesHead | null;
  /** The analyses, and their statistics of the whole, by `name/of/by`. Null: no analysis fits the traces. */
  analyses: { list: { analyses: AnalysisInfo[] }; tables: Record<string, AnalysisTable> } | null;
  /** Null: the traces do not say why threads waited. */
  paths: PathsHead | null;
}

/** Critical paths of the threads that waited longest, over the whole. */
export interface PathsHead {
  /** Thread, its name, state, words, and the waits that led there. */
  causes: [number, string | null, string, string, string | null][];
  paths: {
    track: string;
    begin: string;
    end: string;
    parts: number;
    sentence: string;
    /** The longest causes: words, time, whether it is the thread of the path; and the number and the time of the others. */
    totals: [string, string, boolean][];
    others: [number, string];
    /** Waits of several parts, in words. */
    waits: [string, string, string][];
  }[];
  left_out: number;
}

/** Parts of a path: each begins where the one before ends. */
export interface PathParts {
  readonly length: Float64Array;
  readonly cause: Uint32Array;
  /** The number of the track, and 1; 0 where the thread has none. */
  readonly track: Uint32Array;
}

/** Events and frames are in the order of their names. */
export interface SamplesHead {
  events: { name: string; unit: 'ns' | 'events' | 'samples' }[];
  /** Functions and their modules. */
  frames: [string, string][];
  /** Of each place, the base tracks that its samples are chosen with. */
  places: number[][];
}

/** Samples, and the tree of their stacks: node 0 is the root, callers come before what they call. */
export interface Samples {
  readonly parent: Uint32Array;
  readonly frame: Uint32Array;
  readonly count: number;
  /** Ns since the origin; NaN without time. */
  readonly times: Float64Array;
  readonly event: Uint32Array;
  readonly node: Uint32Array;
  /** NaN: the trace does not say for how much it stands. */
  readonly weight: Float64Array;
  /** NaN: unknown. */
  readonly thread: Float64Array;
  readonly cpu: Float64Array;
  readonly place: Uint32Array;
}

/** Slices of a track, in the order of their beginnings; times are ns since the origin. */
export interface Slices {
  readonly count: number;
  readonly begin: Float64Array;
  /** Infinity: nothing says when it ends. */
  readonly end: Float64Array;
  readonly depth: Uint32Array;
  readonly name: Uint32Array;
}

/** Stands for a value in a text. */
const HOLE = '\u0001';
const TEXTS = 3;
/** The texts of an event. */
export const JSON_LINE = 0,
  PAYLOAD = 1,
  DETAILS = 2;

type Column = (row: number) => string;

interface Shape {
  readonly between: readonly string[][];
  readonly parts: readonly Bytes[][];
  readonly columns: Map<number, Column>;
  readonly rows: number;
  /** Times of its events; 0 without one. */
  readonly times: Float64Array;
}

/** Signs stand in the last bit. */
function withSign(number: number): number {
  return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
}

class Bytes {
  private at = 0;
  constructor(private readonly bytes: Uint8Array) {}

  /** A number that is known to be small enough. */
  number(): number {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.byte();
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  }

  signed(): number {
    return withSign(this.number());
  }

  wide(): bigint {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.byte();
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value & 1n ? -((value + 1n) >> 1n) : value >> 1n;
    }
  }

  byte(): number {
    const byte = this.bytes[this.at++];
    if (byte === undefined) throw new Error('the data of this page is cut off');
    return byte;
  }

  text(): string {
    return new TextDecoder().decode(this.take(this.number()));
  }
  part(): Bytes {
    return new Bytes(this.take(this.number()));
  }

  private take(length: number): Uint8Array {
    if (this.at + length > this.bytes.length) throw new Error('the data of this page is cut off');
    return this.bytes.subarray(this.at, (this.at += length));
  }
}

export class Pack {
  readonly head: Head;
  readonly origin: bigint;
  readonly count: number;
  /** Ns since the origin; NaN without time. */
  readonly times: Float64Array;
  readonly kinds: Uint32Array;
  readonly calls: readonly Slices[];
  readonly states: readonly Slices[];
  readonly samples: Samples | null;
  readonly paths: readonly PathParts[];
  private readonly shapes: Shape[];
  private readonly shapeOf: Uint32Array;
  /** The place of each event among those of its shape. */
  private readonly rowOf: Uint32Array;

  constructor(data: Uint8Array) {
    const bytes = new Bytes(data);
    this.head = JSON.parse(bytes.text()) as Head;
    this.origin = BigInt(this.head.session.origin);
    const count = (this.count = bytes.number());
    this.times = new Float64Array(count);
    for (let i = 0, before = 0; i < count; i++) {
      const step = bytes.number();
      if (step === 0) {
        this.times[i] = NaN;
        continue;
      }
      before += step % 2 === 1 ? (step - 1) / 2 : -step / 2;
      this.times[i] = before;
    }
    this.kinds = Uint32Array.from({ length: count }, () => bytes.number());
    this.shapes = Array.from({ length: bytes.number() }, () => {
      const between = Array.from({ length: TEXTS }, () => bytes.text().split(HOLE));
      const rows = bytes.number();
      const parts = between.map((texts) => texts.slice(1).map(() => bytes.part()));
      return { between, parts, columns: new Map(), rows, times: new Float64Array(rows) };
    });
    const lastOf = new Map<number, number>();
    this.shapeOf = this.kinds.map((kind) => {
      const said = bytes.number();
      const shape = said === 0 ? (lastOf.get(kind) ?? 0) : said - 1;
      lastOf.set(kind, shape);
      return shape;
    });
    this.rowOf = new Uint32Array(count);
    const next = this.shapes.map(() => 0);
    this.shapeOf.forEach((shape, i) => {
      const row = (this.rowOf[i] = next[shape]!++);
      this.shapes[shape]!.times[row] = Number.isNaN(this.times[i]) ? 0 : this.times[i]!;
    });
    this.calls = this.head.tasks.map(() => readSlices(bytes, true));
    this.states = this.head.states.map(() => readSlices(bytes, false));
    this.samples = this.head.samples && readSamples(bytes);
    this.paths = (this.head.paths?.paths ?? []).map(({ parts }) => {
      const numbers = (): number[] => Array.from({ length: parts }, () => bytes.number());
      return {
        length: Float64Array.from(numbers()),
        cause: Uint32Array.from(numbers()),
        track: Uint32Array.from(numbers()),
      };
    });
  }

  /** A text of an event. */
  text(event: number, which: number): string {
    const shape = this.shapes[this.shapeOf[event]!]!;
    const row = this.rowOf[event]!;
    const texts = shape.between[which]!;
    let out = texts[0]!;
    for (let i = 1; i < texts.length; i++) out += this.column(shape, which, i - 1)(row) + texts[i]!;
    return out;
  }

  private column(shape: Shape, text: number, place: number): Column {
    const key = place * TEXTS + text;
    const known = shape.columns.get(key);
    if (known) return known;
    const made = this.readColumn(shape, shape.parts[text]![place]!);
    shape.columns.set(key, made);
    return made;
  }

  private readColumn(shape: Shape, bytes: Bytes): Column {
    const { rows, times } = shape;
    const form = bytes.byte();
    switch (form) {
      case 0: {
        const value = bytes.text();
        return () => value;
      }
      case 1:
      case 2:
      case 3: {
        let before = 0n;
        const values = Array.from({ length: rows }, (_, row) => {
          const value = bytes.wide();
          if (form === 1) return value;
          before += value;
          return form === 2 ? before : before + BigInt(times[row]!);
        });
        return (row) => String(values[row]);
      }
      case 4: {
        const words = Array.from({ length: bytes.number() }, () => bytes.text());
        const places = Uint32Array.from({ length: rows }, () => bytes.number());
        return (row) => words[places[row]!]!;
      }
      case 5: {
        const values = Array.from({ length: rows }, () => bytes.text());
        return (row) => values[row]!;
      }
      case 6:
        return this.column(shape, JSON_LINE, bytes.number());
      case 7: {
        const of = this.column(shape, JSON_LINE, bytes.number());
        return (row) => `0x${BigInt(of(row)).toString(16).toUpperCase()}`;
      }
      default:
        throw new Error('the data of this page has a form that it does not know');
    }
  }
}

function readSlices(bytes: Bytes, mayBeOpen: boolean): Slices {
  const count = bytes.number();
  const begin = new Float64Array(count);
  const steps = begin.map(() => bytes.signed());
  const end = new Float64Array(count);
  for (let i = 0, before = 0; i < count; i++) {
    const from = (begin[i] = before + steps[i]!),
      length = bytes.number();
    end[i] = mayBeOpen ? (length === 0 ? Infinity : from + length - 1) : from + length;
    // Calls are told from the begin of the one before, pieces of states from its end.
    before = mayBeOpen ? from : end[i]!;
  }
  const depth = Uint32Array.from({ length: count }, () => bytes.number());
  const name = Uint32Array.from({ length: count }, () => bytes.number());
  return { count, begin, end, depth, name };
}

function readSamples(bytes: Bytes): Samples {
  const nodes = bytes.number() + 1;
  const [parent, frame] = [new Uint32Array(nodes), new Uint32Array(nodes)];
  for (let i = 1; i < nodes; i++) [parent[i], frame[i]] = [bytes.number(), bytes.number()];
  const count = bytes.number();
  const numbers = (): Uint32Array => Uint32Array.from({ length: count }, () => bytes.number());
  /** Numbers less 1; 0 says that there is none. */
  const known = (one: (number: number) => number): Float64Array =>
    Float64Array.from({ length: count }, () => {
      const number = bytes.number();
      return number === 0 ? NaN : one(number - 1);
    });
  let before = 0;
  const times = known((step) => (before += withSign(step)));
  const [event, node] = [numbers(), numbers()];
  const weight = known((number) => number);
  const thread = known(withSign);
  const cpu = known((number) => number);
  return { parent, frame, count, times, event, node, weight, thread, cpu, place: numbers() };
}

/** Data as it stands in a page: base64 of what zlib made. */
export async function unpack(base64: string): Promise<Pack> {
  const text = atob(base64.trim());
  const bytes = Uint8Array.from({ length: text.length }, (_, i) => text.charCodeAt(i));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Pack(new Uint8Array(await new Response(inflated).arrayBuffer()));
}
