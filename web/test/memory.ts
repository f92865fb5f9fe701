// A source that answers from rows in memory: what a page with its data inside does, and what tests need.
import { ApiError, type Query, type Source } from '../src/api/source';
import type { Match, NameStatistics, Progress, Row, Session, Tiles, Track } from '../src/api/types';

export interface MemoryEvent {
  readonly ns: bigint;
  readonly name: string;
  readonly track: string;
  readonly cpu?: number;
  readonly fields?: readonly (readonly [string, string])[];
  readonly json?: string;
}

const TILE = 1024n;

export class Memory implements Source {
  private readonly events: readonly MemoryEvent[];
  private readonly origin: bigint;

  constructor(
    events: readonly MemoryEvent[],
    private readonly name = 'made up',
    private readonly format = 'ctf1.8',
  ) {
    this.events = [...events].sort((a, b) => (a.ns < b.ns ? -1 : a.ns > b.ns ? 1 : 0));
    this.origin = this.events[0]?.ns ?? 0n;
  }

  get<T>(path: string, query: Query = {}): Promise<T> {
    try {
      return Promise.resolve(this.answer(path, query) as T);
    } catch (e) {
      return Promise.reject(e as Error);
    }
  }
  post<T>(): Promise<T> {
    return Promise.reject(new ApiError(404, { code: 'path', message: 'nothing is taken' }));
  }
  watch(_hear: (progress: Progress) => void, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
  }

  private answer(path: string, q: Query): unknown {
    const [head, ...rest] = path.split('/');
    switch (head) {
      case 'session':
        return this.session();
      case 'tracks':
        return { generation: 1, tracks: this.tracks(this.kept(q)) };
      case 'tiles':
        return this.tiles(q);
      case 'events':
        return this.rows(q);
      case 'event':
        return this.event(Number(rest[0]));
      case 'select':
        return this.select(q);
      case 'search':
        return this.search(q);
      case 'locate':
        return this.locate(q);
      case 'problems':
        return { generation: 1, losses: [], faults: [], warnings: [] };
      default:
        throw new ApiError(404, { code: 'path', message: `there is no ${path}` });
    }
  }

  /** Filters of one form are enough: `name == "text"`, with `*`. */
  private kept(q: Query): { event: MemoryEvent; n: number }[] {
    const all = this.events.map((event, n) => ({ event, n }));
    if (!q['filter']) return all;
    const m = /^name == "([^"]*)"$/.exec(String(q['filter']));
    if (!m)
      throw new ApiError(400, {
        code: 'filter',
        message: 'no event has a field `nmae`',
        help: 'did you mean `name`?',
        span: [0, 4],
      });
    const form = new RegExp(
      `^${(m[1] ?? '')
        .split('*')
        .map((t) => t.replace(/[^\w]/g, '\\$&'))
        .join('.*')}$`,
    );
    return all.filter(({ event }) => form.test(event.name));
  }

  private session(): Session {
    const { events } = this;
    const begin = events[0] ? String(events[0].ns) : null;
    const end = events.length ? String(events[events.length - 1]?.ns) : null;
    return {
      api: 1,
      program: 'in memory',
      generation: 1,
      clock: 'unix',
      origin: String(this.origin),
      begin,
      end,
      events: events.length,
      traces: [{ index: 0, name: this.name, path: this.name, format: this.format, begin, end, events: events.length }],
      losses: { events: 0, packets: 0 },
      faults: 0,
      index: { state: 'complete', done: 1 },
      features: [],
      command: `tracemill view ${this.name}`,
    };
  }

  private tracks(kept: readonly { event: MemoryEvent }[]): Track[] {
    const counts = new Map<string, number>(this.events.map((e) => [e.track, 0]));
    for (const { event } of kept) counts.set(event.track, (counts.get(event.track) ?? 0) + 1);
    const group: Track = {
      id: 'g0',
      parent: null,
      kind: 'group',
      base: false,
      name: this.name,
      trace: 0,
      events: kept.length,
    };
    return [
      group,
      ...[...counts]
        .sort()
        .map(([id, events]): Track => ({ id, parent: 'g0', kind: 'events', base: true, name: id, trace: 0, events })),
    ];
  }

  private tiles(q: Query): Tiles {
    const level = Number(q['level']);
    const from = Number(q['from']);
    const to = Number(q['to']);
    const ids = String(q['tracks']).split(',');
    const names: Record<string, string> = {};
    const numbers = new Map<string, number>();
    const first = this.origin + ((BigInt(from) * TILE) << BigInt(level));
    const buckets = BigInt(to - from + 1) * TILE;
    const kept = this.kept(q);
    return {
      generation: 1,
      level,
      from,
      to,
      names,
      tracks: ids.map((id) => {
        const at: number[] = [];
        const n: number[] = [];
        const name: number[] = [];
        for (const { event } of kept) {
          if (event.track !== id && id !== 'g0') continue;
          const bucket = (event.ns - first) >> BigInt(level);
          if (bucket < 0n || bucket >= buckets) continue;
          let number = numbers.get(event.name);
          if (number === undefined) {
            number = numbers.size;
            numbers.set(event.name, number);
            names[number] = event.name;
          }
          if (at[at.length - 1] === Number(bucket)) n[n.length - 1] = (n[n.length - 1] ?? 0) + 1;
          else {
            at.push(Number(bucket));
            n.push(1);
            name.push(number);
          }
        }
        return { id, kind: id === 'g0' ? 'group' : 'events', exact: true, at, n, name, gaps: [] };
      }),
    };
  }

  private row(event: MemoryEvent, n: number, before: MemoryEvent | undefined): Row {
    return {
      event: n,
      ns: String(event.ns),
      since: before ? String(event.ns - before.ns) : null,
      name: event.name,
      title: event.name,
      trace: 0,
      track: event.track,
      cpu: event.cpu ?? null,
      text: `{ ${(event.fields ?? [])
        .filter(([p]) => p.startsWith('payload.'))
        .map(([p, t]) => `${p.slice(8)} = ${t}`)
        .join(', ')} }`,
      json: event.json ?? '{}',
    };
  }

  private rows(q: Query): unknown {
    const kept = this.kept(q);
    const from =
      q['at'] === undefined || q['at'] === null
        ? Number(q['from'])
        : Math.max(
            0,
            kept.findIndex(({ event }) => event.ns >= BigInt(String(q['at']))),
          );
    const rows = kept
      .slice(from, from + Number(q['limit']))
      .map(({ event, n }, i) => this.row(event, n, kept[from + i - 1]?.event));
    return { generation: 1, total: kept.length, from, rows };
  }

  private event(n: number): unknown {
    const event = this.events[n];
    if (!event) throw new ApiError(404, { code: 'event', message: `there is no event ${n}` });
    const fields = (event.fields ?? []).map(([path, text]) => ({
      path,
      text,
      kind: /^-?\d/.test(text) ? 'integer' : 'string',
    }));
    return {
      ...this.row(event, n, this.events[n - 1]),
      cycles: null,
      fields,
      place: { file: 'memory', packet: 0, byte: n, bit: 0 },
      call: null,
    };
  }

  private select(q: Query): unknown {
    const begin = q['begin'] ? BigInt(String(q['begin'])) : null;
    const end = q['end'] ? BigInt(String(q['end'])) : null;
    const ids = q['tracks'] ? String(q['tracks']).split(',') : null;
    const kept = this.kept(q).filter(
      ({ event: e }) =>
        (begin === null || e.ns >= begin) && (end === null || e.ns <= end) && (!ids || ids.includes(e.track)),
    );
    const times = new Map<string, bigint[]>();
    for (const { event } of kept) {
      const list = times.get(event.name);
      if (list) list.push(event.ns);
      else times.set(event.name, [event.ns]);
    }
    const names = [...times]
      .map(([name, t]): NameStatistics => {
        const gaps = t
          .slice(1)
          .map((x, i) => x - (t[i] ?? 0n))
          .sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
        const text = (g: bigint | undefined): string | null => (g === undefined ? null : String(g));
        return {
          name,
          events: t.length,
          gap_min: text(gaps[0]),
          gap_p50: text(gaps[Math.max(1, Math.ceil(gaps.length / 2)) - 1]),
          gap_max: text(gaps[gaps.length - 1]),
        };
      })
      .sort((a, b) => b.events - a.events || (a.name < b.name ? -1 : 1));
    return {
      generation: 1,
      begin: q['begin'] ?? null,
      end: q['end'] ?? null,
      events: kept.length,
      tracks: ids?.length ?? 0,
      losses: { events: 0, packets: 0, intervals: 0 },
      complete: true,
      names,
    };
  }

  private search(q: Query): Match {
    const text = String(q['q']).toLowerCase();
    const from = Number(q['from']);
    const hits = this.kept(q).filter(({ event }) => event.name.toLowerCase().includes(text));
    const index =
      q['direction'] === 'previous' ? hits.findLastIndex(({ n }) => n < from) : hits.findIndex(({ n }) => n > from);
    const hit = hits[index];
    return {
      match: hit ? { event: hit.n, ns: String(hit.event.ns), track: hit.event.track, name: hit.event.name } : null,
      index: hit ? index : null,
      count: hits.length,
    };
  }

  private locate(q: Query): unknown {
    const at = BigInt(String(q['at']));
    const list = this.events.map((event, n) => ({ event, n })).filter(({ event }) => event.track === q['track']);
    const far = ({ event }: { event: MemoryEvent }): bigint => (event.ns > at ? event.ns - at : at - event.ns);
    const found =
      q['direction'] === 'next'
        ? list.find(({ event }) => event.ns > at)
        : q['direction'] === 'previous'
          ? list.findLast(({ event }) => event.ns < at)
          : list.reduce<(typeof list)[number] | undefined>(
              (best, e) => (!best || far(e) < far(best) ? e : best),
              undefined,
            );
    if (!found) throw new ApiError(404, { code: 'event', message: 'there is none' });
    return {
      event: found.n,
      track: found.event.track,
      begin: String(found.event.ns),
      end: null,
      name: found.event.name,
    };
  }
}
