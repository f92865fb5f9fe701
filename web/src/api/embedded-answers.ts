// The answers of a page that holds its data: those of the server (`docs/view.md`), from columns. What is sent once for all
// stands in the data as the server sent it; here is what depends on a question.

import { TILE_BUCKETS } from '../time/range';
import type { EventCells } from './columns';
import { why } from './embedded-paths';
import { sampleFlame } from './embedded-samples';
import { activity, findState, type OfTrack, stateStatistics } from './embedded-states';
import { DETAILS, JSON_LINE, PAYLOAD, type Pack, type Slices } from './pack';
import { ApiError, type Query } from './source';
import type {
  AnalysisTable,
  CallDetails,
  CallStatistics,
  EventDetails,
  Field,
  FlameAnswer,
  Located,
  Match,
  NameStatistics,
  Row,
  Rows,
  Selection,
  Tiles,
  TileTrack,
} from './types';

type Named = { kind: 'base' | 'calls' | 'group' | 'state'; at: number };
/** First and last ns since the origin. */
type Range = readonly [number, number];

const request = (message: string): ApiError => new ApiError(400, { code: 'request', message });
const ONLY_SERVER =
  'a page in a file has no filter, no plots of fields, no durations between two events and no outliers: `tracemill view` shows them';

/** The rows of a table in the order of a column: amounts fall, names and times rise; equal ones stay in their order. */
function sortedTable(table: AnalysisTable, at: number): AnalysisTable {
  const unit = table.columns[at]?.unit ?? 'name';
  const falls = !['name', 'time', 'address', 'device'].includes(unit);
  type Value = number | bigint | boolean | string | null;
  // Times and durations, and integers that numbers do not hold, are texts.
  const value = (i: number): Value => {
    const cell = table.rows[i]?.[at] ?? null;
    if (typeof cell === 'object') return null;
    return typeof cell === 'string' && unit !== 'name' && /^-?\d+$/.test(cell) ? BigInt(cell) : cell;
  };
  const KINDS = ['object', 'boolean', 'number', 'string'];
  const kind = (v: Value): number => KINDS.indexOf(typeof v === 'bigint' ? 'number' : typeof v);
  const compared = (i: number, j: number): number => {
    const [a, b] = [value(i), value(j)];
    if (a === null || b === null || kind(a) !== kind(b)) return kind(a) - kind(b);
    return a < b ? -1 : a > b ? 1 : 0;
  };
  const order = table.rows.map((_, i) => i);
  order.sort((i, j) => (falls ? compared(j, i) : compared(i, j)) || i - j);
  const tracks = table.tracks;
  return {
    ...table,
    rows: order.map((i) => table.rows[i]!),
    ...(tracks ? { tracks: order.map((i) => tracks[i] ?? null) } : {}),
  };
}

export class Answers {
  private readonly first: number;
  private readonly last: number;
  private readonly base: Uint32Array;
  private readonly name: Uint32Array;
  /** Numbers of the events of each base track, in their order. */
  private readonly ofBase: number[][];
  /** Of each call, by task: the call that made it, or -1, and ns of the calls that it made. */
  private readonly inner: { parent: Int32Array; inner: Float64Array }[];
  /** By task. */
  private readonly callsEnd: number[];

  constructor(private readonly pack: Pack) {
    const { head, kinds, times } = pack;
    this.base = kinds.map((kind) => head.kinds[kind]![1]);
    this.name = kinds.map((kind) => head.kinds[kind]![0]);
    this.ofBase = head.bases.map(() => []);
    this.base.forEach((base, i) => {
      if (!Number.isNaN(times[i])) this.ofBase[base]!.push(i);
    });
    for (const own of this.ofBase)
      if (own.some((event, i) => i > 0 && times[own[i - 1]!]! > times[event]!))
        own.sort((a, b) => times[a]! - times[b]! || a - b);
    const relative = (ns: string | null): number => (ns === null ? 0 : Number(BigInt(ns) - pack.origin));
    [this.first, this.last] = [relative(head.session.begin), relative(head.session.end)];
    this.callsEnd = head.tasks.map((task) => Number(task.end));
    this.inner = pack.calls.map((calls) => nested(calls));
  }

  get(path: string, query: Query): unknown {
    if (query['filter'])
      throw new ApiError(400, { code: 'filter', message: ONLY_SERVER, span: [0, String(query['filter']).length] });
    const { head } = this.pack;
    switch (path) {
      case 'session':
        return head.session;
      case 'tracks':
        return { tracks: head.tracks };
      case 'problems':
        return head.problems;
      case 'tiles':
        return this.tiles(query);
      case 'events':
        return this.events(query);
      case 'select':
        return this.select(query);
      case 'flame':
        return this.flame(query);
      case 'search':
        return this.search(query);
      case 'locate':
        return this.locate(query);
      case 'activity':
        return { tracks: activity(this.states, head.state_names, this.range(query).range) };
      case 'state':
        return this.findState(query);
      case 'analyze':
        return this.analyze(query);
      case 'why': {
        const time = (name: string): bigint | null => (query[name] == null ? null : BigInt(query[name]));
        return why(this.pack, String(query['track'] ?? ''), [time('begin'), time('end')]);
      }
      default: {
        const [kind, ...rest] = path.split('/');
        if (kind === 'event') return this.event(rest[0] ?? '');
        if (kind === 'call') return this.call(decodeURIComponent(rest[0] ?? ''), rest[1] ?? '');
        throw new ApiError(404, { code: 'path', message: ONLY_SERVER });
      }
    }
  }

  // Analyses.

  /** The list of analyses, or the statistics of one. They were made with the page, and are about the whole. */
  private analyze(query: Query): unknown {
    const known = this.pack.head.analyses;
    const [name, of, by] = ['name', 'of', 'by'].map((key) => String(query[key] ?? ''));
    if (!known) throw new ApiError(404, { code: 'analysis', message: 'no analysis fits these traces' });
    if (name === '') return known.list;
    const forms = known.list.analyses.find((a) => a.name === name)?.forms ?? [];
    const form = forms.find((f) => (f.of ?? '') === of);
    const table = known.tables[`${name}/${of}/${by || (form?.keys[0] ?? '')}`];
    const ranged = ['begin', 'end', 'view', 'tid', 'cpu'].some((key) => String(query[key] ?? '') !== '');
    if (!table || ranged)
      throw new ApiError(404, {
        code: 'analysis',
        message: 'a page in a file has only the statistics of the whole: `tracemill view` has the rest',
      });
    const sort = String(query['sort'] ?? '');
    const at = table.columns.findIndex((c) => c.name === sort);
    if (at < 0) return table;
    if (table.rows.length < table.total)
      throw new ApiError(404, {
        code: 'analysis',
        message: `this page has the first ${table.rows.length} rows only: \`tracemill view\` sorts all`,
      });
    return sortedTable(table, at);
  }

  // Tracks.

  private named(id: string): Named {
    const { head } = this.pack;
    const state = head.states.indexOf(id);
    if (state >= 0) return { kind: 'state', at: state };
    const found = /^([bcg])(\d+)$/.exec(id);
    const at = Number(found?.[2]);
    if (found?.[1] === 'b' && at < head.bases.length) return { kind: 'base', at };
    if (found?.[1] === 'c' && at < head.tasks.length) return { kind: 'calls', at };
    if (found?.[1] === 'g' && at < head.session.traces.length) return { kind: 'group', at };
    throw new ApiError(404, { code: 'track', message: `there is no track \`${id}\`` });
  }

  /** The base tracks and tasks that a list of ids stands for; null for all. */
  private chosen(query: Query): { bases: Set<number>; tasks: Set<number>; states: Set<number> } | null {
    const list = String(query['tracks'] ?? '');
    if (list === '') return null;
    const { tasks, bases } = this.pack.head;
    const found = { bases: new Set<number>(), tasks: new Set<number>(), states: new Set<number>() };
    for (const { kind, at } of list.split(',').map((id) => this.named(id))) {
      if (kind === 'base') {
        found.bases.add(at);
        tasks.forEach((task, i) => {
          if (task.of === at) found.tasks.add(i);
        });
      } else if (kind === 'calls') {
        found.tasks.add(at);
        const of = tasks[at]!.of;
        if (of !== null) found.bases.add(of);
      } else if (kind === 'group') {
        bases.forEach((trace, i) => {
          if (trace === at) found.bases.add(i);
        });
        tasks.forEach((task, i) => {
          if (task.trace === at) found.tasks.add(i);
        });
        for (const track of this.pack.head.tracks)
          if (track.kind === 'state' && track.trace === at) found.states.add(this.pack.head.states.indexOf(track.id));
      } else found.states.add(at);
    }
    return found;
  }

  /** All tracks of states, and those that are shown. */
  private get all(): OfTrack[] {
    return this.pack.head.states.map((id, i) => ({ id, slices: this.pack.states[i]! }));
  }
  private get states(): OfTrack[] {
    const shown = new Set(this.pack.head.tracks.map((track) => track.id));
    return this.all.filter(({ id }) => shown.has(id));
  }

  private findState(query: Query): Located {
    const { head } = this.pack;
    const at = Number(BigInt(query['at'] ?? 0) - this.pack.origin);
    const found = findState(
      this.states,
      head.state_names,
      String(query['name'] ?? '').toLowerCase(),
      at,
      query['direction'] !== 'previous',
    );
    if (!found) return { event: null, begin: null, end: null };
    const { slices, id } = { slices: found.track.slices, id: found.track.id };
    const begin = this.ns(slices.begin[found.at]!);
    return {
      event: null,
      track: id,
      ns: begin,
      begin,
      end: this.ns(slices.end[found.at]!),
      name: head.state_names[slices.name[found.at]!]!,
      ...{ depth: slices.depth[found.at]! },
    };
  }

  private range(query: Query): { range: Range; isAll: boolean } {
    const time = (name: string): number | null => {
      const text = query[name];
      if (text === null || text === undefined || text === '') return null;
      if (!/^-?\d+$/.test(String(text))) throw request(`\`${name}\` is not a number: \`${text}\``);
      return Number(BigInt(text) - this.pack.origin);
    };
    const [begin, end] = [time('begin'), time('end')];
    const range: Range = [begin ?? this.first, end ?? this.last];
    if (range[0] > range[1]) throw request('the range ends before it begins');
    return { range, isAll: begin === null && end === null };
  }

  private ns(time: number): string {
    return String(this.pack.origin + BigInt(time));
  }
  private someNs(time: number): string | null {
    return Number.isNaN(time) ? null : this.ns(time);
  }

  // Tiles.

  private tiles(query: Query): Tiles {
    const [level, from, to] = ['level', 'from', 'to'].map((name) => Number(query[name]));
    if (!(level! >= 0 && level! <= 62 && from! >= 0 && from! <= to! && to! - from! < 4096))
      throw request('tiles are asked by levels up to 62, at most 4,096 of them');
    const { head } = this.pack;
    const bucket = 2 ** level!;
    const begin = from! * TILE_BUCKETS * bucket,
      end = (to! + 1) * TILE_BUCKETS * bucket - 1;
    const names: Record<string, string> = {};
    const known = new Map<string, number>();
    const number = (text: string): number => {
      const at = known.get(text) ?? known.size;
      if (at === known.size) {
        known.set(text, at);
        names[at] = text;
      }
      return at;
    };
    const tracks = String(query['tracks'] ?? '')
      .split(',')
      .map((id): TileTrack => {
        const { kind, at } = this.named(id);
        if (kind === 'calls' || kind === 'state') {
          const [slices, texts] =
            kind === 'calls' ? [this.pack.calls[at]!, head.functions] : [this.pack.states[at]!, head.state_names];
          return {
            id,
            kind,
            exact: true,
            ...slicesInBuckets(slices, bucket, [begin, end], kind === 'state', (i) => number(texts[i]!)),
            gaps: [],
          };
        }
        const own = kind === 'base' ? [at] : head.bases.flatMap((trace, i) => (trace === at ? [i] : []));
        return {
          id,
          kind: kind === 'base' ? 'events' : 'group',
          exact: true,
          ...this.density(own, bucket, [begin, end], number),
          gaps: this.gaps(own, bucket, [begin, end]),
        };
      });
    return { generation: head.session.generation, level: level!, from: from!, to: to!, names, tracks };
  }

  private density(
    bases: readonly number[],
    bucket: number,
    [begin, end]: Range,
    number: (text: string) => number,
  ): Pick<TileTrack, 'at' | 'n' | 'name'> {
    const { times, head } = this.pack;
    const found = new Map<number, Map<number, number>>();
    for (const base of bases) {
      const own = this.ofBase[base]!;
      for (let i = lowerBound(own.length, (i) => times[own[i]!]! >= begin); i < own.length; i++) {
        const event = own[i]!;
        if (times[event]! > end) break;
        const at = Math.floor((times[event]! - begin) / bucket);
        let names = found.get(at);
        if (!names) found.set(at, (names = new Map()));
        names.set(this.name[event]!, (names.get(this.name[event]!) ?? 0) + 1);
      }
    }
    const at = [...found.keys()].sort((a, b) => a - b);
    const commonest = (names: Map<number, number>): number =>
      [...names].reduce((best, one) => (one[1] > best[1] || (one[1] === best[1] && one[0] < best[0]) ? one : best))[0];
    return {
      at,
      n: at.map((one) => [...found.get(one)!.values()].reduce((a, b) => a + b)),
      name: at.map((one) => number(head.names[commonest(found.get(one)!)]!)),
    };
  }

  private gaps(bases: readonly number[], bucket: number, [begin, end]: Range): NonNullable<TileTrack['gaps']> {
    const isNear = (loss: { begin: number | null; end: number }): boolean =>
      loss.begin !== null && loss.end >= begin && loss.begin <= end;
    const all = [...this.losses(), ...this.damage()];
    return bases
      .flatMap((base) => all.filter((loss) => loss.track === `b${base}` && isNear(loss)))
      .map((loss) => {
        const from = Math.floor(Math.max(loss.begin! - begin, 0) / bucket);
        return [from, Math.floor((Math.min(loss.end, end) - begin) / bucket) - from + 1, loss.kind, loss.count];
      });
  }

  private losses(): { track: string | null; kind: string; count: number | null; begin: number | null; end: number }[] {
    return this.pack.head.problems.losses.map(({ track, kind, count, begin, end }) => ({
      track,
      kind,
      count,
      begin: begin === null ? null : this.time(begin),
      end: end === null ? 0 : this.time(end),
    }));
  }

  /** Stretches that could not be read, in the same form. */
  private damage(): ReturnType<typeof this.losses> {
    return this.pack.head.problems.faults.map(({ track, ns, end }) => ({
      track,
      kind: 'damage',
      count: null,
      begin: ns === null ? null : this.time(ns),
      end: end == null ? 0 : this.time(end),
    }));
  }

  private time(ns: string): number {
    return Number(BigInt(ns) - this.pack.origin);
  }

  // Events.

  private row(event: number, before: number | null, withJson: boolean): Row {
    const { pack } = this;
    const name = pack.head.names[this.name[event]!]!;
    const line = pack.text(event, JSON_LINE);
    const cpu = (JSON.parse(line) as { cpu?: number }).cpu ?? null;
    const time = pack.times[event]!;
    const since = before === null ? NaN : time - pack.times[before]!;
    const base = this.base[event]!;
    const cells: EventCells = {
      event,
      ns: this.someNs(time),
      since: Number.isNaN(since) ? null : String(since),
      name,
      cpu,
      trace: pack.head.bases[base]!,
      track: `b${base}`,
      text: pack.text(event, PAYLOAD),
    };
    const row: Row = { ...cells, title: this.details(event).title ?? name };
    if (withJson) row.json = line;
    return row;
  }

  private events(query: Query): Rows {
    const { count, times } = this.pack;
    const limit = Math.min(Number(query['limit'] ?? 100), 1000);
    let from = Number(query['from'] ?? 0);
    if (query['at'] !== null && query['at'] !== undefined) {
      const at = Number(BigInt(query['at']) - this.pack.origin);
      from = times.findIndex((time) => time >= at);
      if (from < 0) from = count;
    }
    const to = Math.min(from + limit, count);
    const rows: Row[] = [];
    for (let i = from; i < to; i++) rows.push(this.row(i, i > 0 ? i - 1 : null, Boolean(query['json'])));
    return { total: count, from, rows };
  }

  private event(text: string): EventDetails {
    const event = /^\d+$/.test(text) ? Number(text) : NaN;
    if (!(event < this.pack.count)) throw new ApiError(404, { code: 'event', message: `there is no event ${text}` });
    const row = this.row(event, event > 0 ? event - 1 : null, true);
    const { cycles, fields } = this.details(event);
    return { ...row, cycles, fields: fields(), place: null, call: null };
  }

  private details(event: number): { cycles: string | null; title: string | null; fields: () => Field[] } {
    const [cycles, title, fields] = /^(\d*) ("(?:[^"\\]|\\[^])*"|) ([^]*)$/
      .exec(this.pack.text(event, DETAILS))!
      .slice(1) as [string, string, string];
    return {
      cycles: cycles === '' ? null : cycles,
      title: title === '' ? null : (JSON.parse(title) as string),
      fields: () => JSON.parse(fields) as Field[],
    };
  }

  private search(query: Query): Match {
    const text = String(query['q'] ?? '').toLowerCase();
    const from = Number(query['from'] ?? -1);
    const isNext = query['direction'] !== 'previous';
    const { count, head, times } = this.pack;
    const match = (event: number): Match['match'] => ({
      event,
      ns: this.someNs(times[event]!),
      track: `b${this.base[event]}`,
      name: head.names[this.name[event]!]!,
    });
    if (query['fields']) {
      const step = isNext ? 1 : -1;
      for (let i = isNext ? Math.max(from + 1, 0) : Math.min(from, count) - 1; i >= 0 && i < count; i += step) {
        const fields = this.details(i)
          .fields()
          .map((field) => field.text);
        const searchable = [head.names[this.name[i]!], this.pack.text(i, PAYLOAD), ...fields].join('\n');
        if (searchable.toLowerCase().includes(text)) return { match: match(i), index: null, count: null };
      }
      return { match: null, index: null, count: null };
    }
    const isMeant = head.names.map((name) => name.toLowerCase().includes(text));
    let [found, index, all] = [-1, 0, 0];
    this.name.forEach((name, i) => {
      if (!isMeant[name]) return;
      if (isNext ? found < 0 && i > from : i < from) [found, index] = [i, all];
      all++;
    });
    return { match: found < 0 ? null : match(found), index: found < 0 ? null : index, count: all };
  }

  private locate(query: Query): Located {
    const at = Number(BigInt(query['at'] ?? 0) - this.pack.origin);
    const direction = query['direction'] ?? 'nearest';
    const slack = direction === 'at' ? Number(query['slack'] ?? 0) : Infinity;
    const id = String(query['track'] ?? '');
    const { kind, at: place } = this.named(id);
    const { times, calls, states } = this.pack;
    const none: Located = { event: null, begin: null, end: null };
    if (kind === 'base') {
      const own = this.ofBase[place]!;
      const here = lowerBound(own.length, (i) => times[own[i]!]! >= at),
        behind = lowerBound(own.length, (i) => times[own[i]!]! > at);
      const [previous, next] = [own[here - 1], own[behind]];
      let event =
        direction === 'next' ? next : direction === 'previous' ? previous : here < behind ? own[here] : previous;
      if (
        direction !== 'next' &&
        direction !== 'previous' &&
        here === behind &&
        next !== undefined &&
        (previous === undefined || times[next]! - at < at - times[previous]!)
      )
        event = next;
      return event === undefined || Math.abs(times[event]! - at) > slack ? none : this.locatedEvent(id, event);
    }
    if (kind === 'group') {
      if (direction !== 'at') return none;
      const near = this.pack.head.bases.flatMap((trace, base) =>
        trace === place ? [this.locate({ ...query, track: `b${base}` }).event] : [],
      );
      const best = near
        .filter((event) => event != null)
        .sort((a, b) => Math.abs(times[a]! - at) - Math.abs(times[b]! - at) || a - b)[0];
      return best === undefined ? none : this.locatedEvent(id, best);
    }
    const slices = kind === 'calls' ? calls[place]! : states[place]!;
    const wanted = query['depth'];
    const fits = (i: number): boolean => wanted === null || wanted === undefined || slices.depth[i] === Number(wanted);
    if (direction === 'at') return this.locatedSlice(id, kind, place, sliceAt(slices, at, slack, fits));
    const fitsNext = (i: number): boolean => kind === 'calls' || fits(i);
    // Of pieces that begin together the deepest one counts.
    let [previous, inside, next] = [-1, -1, -1];
    for (let i = 0; i < slices.count; i++) {
      if (!fitsNext(i)) continue;
      const begin = slices.begin[i]!,
        end = slices.end[i]!;
      if (begin < at && (previous < 0 || begin >= slices.begin[previous]!)) previous = i;
      if (
        begin > at &&
        (next < 0 || begin < slices.begin[next]! || (kind === 'state' && begin === slices.begin[next]!))
      )
        next = i;
      if (
        begin <= at &&
        (kind === 'calls' ? at <= end : at < end) &&
        (inside < 0 || slices.depth[i]! >= slices.depth[inside]!)
      )
        inside = i;
    }
    return this.locatedSlice(
      id,
      kind,
      place,
      direction === 'next'
        ? next
        : direction === 'previous'
          ? previous
          : inside >= 0
            ? inside
            : previous >= 0
              ? previous
              : next,
    );
  }

  private locatedEvent(track: string, event: number): Located {
    const ns = this.ns(this.pack.times[event]!);
    return { event, track, ns, begin: ns, end: ns, name: this.pack.head.names[this.name[event]!]! };
  }

  private locatedSlice(track: string, kind: 'calls' | 'state', place: number, found: number): Located {
    if (found < 0) return { event: null, begin: null, end: null };
    const { head, calls, states } = this.pack;
    const slices = kind === 'calls' ? calls[place]! : states[place]!;
    const begin = this.ns(slices.begin[found]!),
      end = slices.end[found]!;
    const shared = {
      track,
      ns: begin,
      begin,
      end: Number.isFinite(end) ? this.ns(end) : null,
      depth: slices.depth[found]!,
    };
    return kind === 'calls'
      ? { call: found, ...shared, name: head.functions[slices.name[found]!]! }
      : { event: null, ...shared, name: head.state_names[slices.name[found]!]! };
  }

  // Statistics.

  private select(query: Query): Selection {
    const { range, isAll } = this.range(query);
    const chosen = this.chosen(query);
    const { times, head, count } = this.pack;
    const events = head.names.map(() => 0);
    const gaps: number[][] = head.names.map(() => []);
    const last = head.names.map(() => NaN);
    let all = 0;
    for (let i = 0; i < count; i++) {
      const time = times[i]!,
        name = this.name[i]!;
      if (chosen && !chosen.bases.has(this.base[i]!)) continue;
      if (!isAll && !(time >= range[0] && time <= range[1])) continue;
      all++;
      events[name]!++;
      if (Number.isNaN(time)) continue;
      if (!Number.isNaN(last[name]!)) gaps[name]!.push(time - last[name]!);
      last[name] = time;
    }
    const names = head.names
      .flatMap((name, i): NameStatistics[] => {
        if (events[i] === 0) return [];
        const sorted = Float64Array.from(gaps[i]!).sort();
        const at = (p: number): string | null => (sorted.length ? String(percentile(sorted, p)) : null);
        return [{ name, events: events[i]!, gap_min: at(0), gap_p50: at(50), gap_max: at(100) }];
      })
      .sort((a, b) => b.events - a.events || byBytes(a.name, b.name));
    const losses = this.losses().filter(
      (loss) =>
        (chosen === null || loss.track === null || chosen.bases.has(Number(loss.track.slice(1)))) &&
        (isAll || loss.begin === null || (loss.begin <= range[1] && loss.end >= range[0])),
    );
    const lost = (kind: string): number =>
      losses.filter((loss) => loss.kind === kind).reduce((sum, loss) => sum + (loss.count ?? 0), 0);
    return {
      begin: this.ns(range[0]),
      end: this.ns(range[1]),
      events: all,
      tracks: chosen ? chosen.bases.size : head.bases.length,
      losses: { events: lost('events'), packets: lost('packets'), intervals: losses.length },
      complete: true,
      names,
      ...(head.session.features.includes('calls') ? { calls: this.functions(range, chosen?.tasks ?? null) } : {}),
      ...(head.session.states
        ? {
            states: stateStatistics(
              chosen
                ? [...chosen.states]
                    .sort((a, b) => a - b)
                    .map((i) => ({ id: head.states[i]!, slices: this.pack.states[i]! }))
                : this.states,
              this.all,
              head.state_names,
              isAll ? [-Infinity, Infinity] : range,
              percentile,
            ),
          }
        : {}),
    };
  }

  /** Ns of a call inside of a range; null when it does not overlap it. */
  private nsInside(task: number, begin: number, end: number, [from, to]: Range): number | null {
    const until = Number.isFinite(end) ? end : Math.max(this.callsEnd[task]!, begin);
    return begin <= to && until >= from ? Math.max(Math.min(until, to) - Math.max(begin, from), 0) : null;
  }

  private functions(range: Range, tasks: Set<number> | null): CallStatistics[] {
    const { functions } = this.pack.head;
    const rows = functions.map(() => ({ calls: 0, total: 0, self: 0, durations: [] as number[] }));
    this.pack.calls.forEach((calls, task) => {
      if (tasks && !tasks.has(task)) return;
      const { parent } = this.inner[task]!;
      for (let i = 0; i < calls.count; i++) {
        const [begin, end] = [calls.begin[i]!, calls.end[i]!];
        const inside = this.nsInside(task, begin, end, range);
        if (inside === null) continue;
        const row = rows[calls.name[i]!]!;
        row.calls++;
        row.total += inside;
        row.self += inside;
        if (parent[i]! >= 0) rows[calls.name[parent[i]!]!]!.self -= inside;
        if (Number.isFinite(end) && begin >= range[0] && end <= range[1]) row.durations.push(end - begin);
      }
    });
    return rows
      .flatMap((row, i): CallStatistics[] => {
        if (row.calls === 0) return [];
        const sorted = Float64Array.from(row.durations).sort();
        const at = (p: number): string | null => (sorted.length ? String(percentile(sorted, p)) : null);
        const mean = sorted.length
          ? String(sorted.reduce((sum, one) => sum + BigInt(one), 0n) / BigInt(sorted.length))
          : null;
        return [
          {
            name: functions[i]!,
            calls: row.calls,
            whole: sorted.length,
            total: String(row.total),
            self: String(row.self),
            min: at(0),
            mean,
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max: at(100),
          },
        ];
      })
      .sort((a, b) => Number(b.total) - Number(a.total) || byBytes(a.name, b.name));
  }

  private flame(query: Query): FlameAnswer {
    const { range, isAll } = this.range(query);
    const chosen = this.chosen(query);
    const { head, samples } = this.pack;
    if (samples)
      return sampleFlame(head, samples, isAll ? null : range, chosen, query['event'] ? String(query['event']) : null);
    const { functions, session } = head;
    if (!session.features.includes('calls')) return { nodes: [] };
    const nodes = [{ parent: -1, name: '', calls: 0, total: 0, self: 0 }];
    const known = new Map<string, number>();
    this.pack.calls.forEach((calls, task) => {
      if (chosen && !chosen.tasks.has(task)) return;
      const { parent } = this.inner[task]!;
      const nodeOf = new Int32Array(calls.count).fill(-1);
      const node = (call: number): number => {
        if (call < 0) return 0;
        if (nodeOf[call]! >= 0) return nodeOf[call]!;
        const below = node(parent[call]!);
        const key = `${below} ${calls.name[call]}`;
        let at = known.get(key);
        if (at === undefined) {
          known.set(key, (at = nodes.length));
          nodes.push({ parent: below, name: functions[calls.name[call]!]!, calls: 0, total: 0, self: 0 });
        }
        return (nodeOf[call] = at);
      };
      for (let i = 0; i < calls.count; i++) {
        const inside = this.nsInside(task, calls.begin[i]!, calls.end[i]!, range);
        if (inside === null) continue;
        const at = node(i),
          below = nodes[nodes[at]!.parent]!;
        nodes[at]!.calls++;
        nodes[at]!.total += inside;
        nodes[at]!.self += inside;
        if (parent[i]! >= 0) below.self -= inside;
        else below.total += inside;
      }
    });
    return {
      nodes: nodes.map(({ parent, name, calls, total, self }, id) => ({
        id,
        parent: id > 0 ? parent : null,
        name,
        calls,
        total: String(total),
        self: String(self),
      })),
    };
  }

  private call(track: string, number: string): CallDetails {
    const named = track ? this.named(track) : null;
    const at = /^\d+$/.test(number) ? Number(number) : NaN;
    const calls = named?.kind === 'calls' ? this.pack.calls[named.at]! : null;
    if (!calls || !(at < calls.count))
      throw new ApiError(404, { code: 'call', message: `there is no call \`${track}/${number}\`` });
    const { parent, inner } = this.inner[named!.at]!;
    const { functions, modules } = this.pack.head;
    const name = functions[calls.name[at]!]!;
    const [begin, end] = [calls.begin[at]!, calls.end[at]!];
    const duration = Number.isFinite(end) ? end - begin : null;
    const fullRange: Range = [-Infinity, Infinity];
    return {
      name,
      symbol: name,
      begin: this.ns(begin),
      end: duration === null ? null : this.ns(end),
      duration: duration === null ? null : String(duration),
      self: duration === null ? null : String(duration - inner[at]!),
      parent: parent[at]! >= 0 ? parent[at]! : null,
      depth: calls.depth[at]!,
      args: null,
      retval: null,
      module: modules[calls.name[at]!] ?? null,
      all: this.functions(fullRange, null).find((row) => row.name === name) ?? null,
    };
  }
}

/** Names are in the order of their bytes, as those of the server. */
function byBytes(a: string, b: string): number {
  const [x, y] = [new TextEncoder().encode(a), new TextEncoder().encode(b)];
  for (let i = 0; i < x.length && i < y.length; i++) if (x[i] !== y[i]) return x[i]! - y[i]!;
  return x.length - y.length;
}

/** The smallest of sorted numbers that p of 100 do not exceed. */
function percentile(sorted: Float64Array, p: number): number {
  return sorted[Math.max(Math.ceil((p * sorted.length) / 100), 1) - 1]!;
}

/** The first place from which on something is so. */
function lowerBound(length: number, isSo: (at: number) => boolean): number {
  let [from, to] = [0, length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (isSo(middle)) to = middle;
    else from = middle + 1;
  }
  return from;
}

function nested(calls: Slices): { parent: Int32Array; inner: Float64Array } {
  const parent = new Int32Array(calls.count).fill(-1),
    inner = new Float64Array(calls.count);
  // By depth, the call that was made last.
  const open: number[] = [];
  for (let i = 0; i < calls.count; i++) {
    const depth = calls.depth[i]!;
    open[depth] = i;
    if (depth === 0) continue;
    parent[i] = open[depth - 1]!;
    if (Number.isFinite(calls.end[i]!)) inner[parent[i]!]! += calls.end[i]! - calls.begin[i]!;
  }
  return { parent, inner };
}

type Columns = Required<Pick<TileTrack, 'at' | 'len' | 'depth' | 'name' | 'n' | 'busy'>>;

interface Piece {
  at: number;
  len: number;
  depth: number;
  name: number;
  n: number;
  busy: number;
}

/** Of several short slices their ns in all; of one the longest, too. */
export interface Sum extends Piece {
  longest: number;
  ns: number;
}

/** How much fuller or emptier than the first bucket of several, of 255, another one is that stands together with it. */
const ALIKE = 32;

/** Sums of a tile before neighbours stand together that are not alike, and how many do then. */
const SUMS = 1536,
  BLOCKS = [1, 2, 4];

/** Puts sums of neighbours at a depth together, as the server does. They come in the order of time. */
export function joinSums(sums: readonly Sum[], bucket: number): Piece[] {
  const out: Piece[] = [];
  for (let from = 0, to = 0; from < sums.length; from = to) {
    const tile = Math.floor(sums[from]!.at / TILE_BUCKETS);
    while (to < sums.length && Math.floor(sums[to]!.at / TILE_BUCKETS) === tile) to++;
    let runs: Piece[] = [];
    for (const block of BLOCKS) {
      runs = joinRuns(sums.slice(from, to), bucket, block);
      if (runs.length <= SUMS) break;
    }
    for (const run of runs) out.push(run);
  }
  return out;
}

/** Puts the sums of a tile together that are drawn alike, and those of so many buckets side by side. */
function joinRuns(sums: readonly Sum[], bucket: number, block: number): Piece[] {
  const runs: (Sum & { first: number })[] = [];
  const last = new Map<number, (typeof runs)[number]>();
  const fills = (ns: number, len: number): number =>
    Math.min(Math.max(Math.floor((ns * 255) / (bucket * len)), 1), 255);
  for (const sum of sums) {
    const run = last.get(sum.depth);
    const own = fills(sum.ns, 1);
    const alike = run && run.name === sum.name && Math.abs(run.first - own) <= ALIKE;
    if (run && run.at + run.len === sum.at && Math.min(run.n, sum.n) > 1 && (alike || sum.at % block !== 0)) {
      if (sum.longest > run.longest) [run.longest, run.name] = [sum.longest, sum.name];
      run.len++;
      run.n += sum.n;
      run.ns += sum.ns;
    } else {
      const begun = { ...sum, first: own };
      last.set(sum.depth, begun);
      runs.push(begun);
    }
  }
  return runs.map((run) => ({ ...run, busy: fills(run.ns, run.len) }));
}

/** Slices in buckets: those that are shorter than a bucket stand together, by bucket and depth. */
function slicesInBuckets(
  slices: Slices,
  bucket: number,
  [begin, end]: Range,
  areStates: boolean,
  number: (name: number) => number,
): Columns {
  const place = (time: number): number => Math.floor((time - begin) / bucket);
  const found: Piece[] = [];
  const sums: Sum[] = [];
  const short = new Map<string, Sum>();
  const close = (key: string): void => {
    const sum = short.get(key);
    if (!sum) return;
    sum.busy = Math.min(Math.max(Math.floor((sum.ns * 255) / bucket), 1), 255);
    if (areStates) found.push(sum);
    else sums.push(sum);
    short.delete(key);
  };
  const behind = place(end) + 1;
  for (let i = 0; i < slices.count; i++) {
    const [from, to, depth, name] = [slices.begin[i]!, slices.end[i]!, slices.depth[i]!, slices.name[i]!];
    if (from > end) {
      if (areStates) continue;
      else break;
    }
    if (areStates ? to <= begin : to < begin) continue;
    const at = place(from),
      length = to - from;
    // The pieces of a lane come one after the other; calls of other depths come between.
    const key = areStates ? `${depth}` : `${at} ${depth}`;
    if (length < bucket) {
      if (at < 0 && !areStates) continue;
      if (areStates && short.get(key)?.at !== at) close(key);
      let sum = short.get(key);
      if (!sum) short.set(key, (sum = { at, len: 1, depth, name, longest: -1, n: 0, ns: 0, busy: 0 }));
      sum.n++;
      sum.ns += length;
      if (length > sum.longest) [sum.longest, sum.name] = [length, name];
      continue;
    }
    if (areStates) close(key);
    const len = Number.isFinite(to) ? Math.max(Math.min(place(to), behind) - at, 1) : -1;
    found.push({ at: Math.max(at, -(2 ** 52)), len, depth, name, n: 1, busy: 255 });
  }
  for (const key of [...short.keys()]) close(key);
  for (const run of joinSums(
    sums.sort((a, b) => a.at - b.at),
    bucket,
  ))
    found.push(run);
  if (areStates) found.sort((a, b) => a.depth - b.depth);
  else found.sort((a, b) => a.at - b.at || a.depth - b.depth);
  return {
    at: found.map((one) => one.at),
    len: found.map((one) => one.len),
    depth: found.map((one) => one.depth),
    name: found.map((one) => number(one.name)),
    n: found.map((one) => one.n),
    busy: found.map((one) => one.busy),
  };
}

/** The slice at a time, or else the nearest that is at most so far away: the deepest, and of those the last one to begin. Below 0 when there is none. */
function sliceAt(slices: Slices, at: number, slack: number, fits: (i: number) => boolean): number {
  let best = -1;
  let bestKey: readonly number[] = [];
  for (let i = 0; i < slices.count; i++) {
    if (!fits(i)) continue;
    const begin = slices.begin[i]!,
      end = slices.end[i]!;
    const inside = begin <= at && (at < end || at === begin);
    const away = inside ? 0 : at < begin ? begin - at : at - end;
    if (away > slack) continue;
    const key = [inside ? 0 : 1, away, -slices.depth[i]!, -begin];
    const differs = key.findIndex((part, k) => part !== bestKey[k]);
    if (best < 0 || (differs >= 0 && key[differs]! < bestKey[differs]!)) [best, bestKey] = [i, key];
  }
  return best;
}
