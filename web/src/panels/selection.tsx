// Statistics of the selection: how often and how far apart, and how long calls took. The server counts, the page shows.
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { answer } from '../state/answers';
import { ask, epoch, hasCalls, selectAnswer } from '../state/load';
import { selected } from '../state/load';
import { applyFilter } from '../state/load';
import { isFile, session, state, timeContext } from '../state/store';
import { duration, grouped, point } from '../time/format';
import { spanOf } from '../time/range';
import type { CallStatistics, NameStatistics } from '../api/types';
import { Between, OutliersView } from './between';
import { cutTrace, saveStatistics } from './export';
import { Histogram } from './histogram';
import { Chip, clipped } from './parts';
import { rangeShown } from './ranges';

/** Names beyond this many are counted, not listed. */
const MOST_NAMES = 1000;

const chosenName = signal<string | null>(null);

type Mode = 'names' | 'between' | 'outliers';
const mode = signal<Mode>('names');
const MODES: readonly (readonly [Mode, string])[] = [['names', 'Names'], ['between', 'Between'], ['outliers', 'Outliers']];

export const SelectionTools = (): JSX.Element => (
  <>
    {state.value.tab === 'selection' && !isFile.value ? MODES.map(([m, label]) => (
      <button type="button" class="ib out small" aria-pressed={mode.value === m} onClick={() => { mode.value = m; }}>{label}</button>
    )) : null}
    {session.value?.features.includes('export') ? <button type="button" class="ib out small" onClick={() => void cutTrace()}>Cut trace</button> : null}
    <button type="button" class="ib out small" onClick={() => void saveStatistics()}>CSV</button>
  </>
);

/** The time between events of a name and the next of it, for the histogram: asked for when a name is chosen. */
interface Pairs { rows?: unknown[]; points?: { begin: string; duration: string }[] }
const gapsAnswer = answer<Pairs>(() => {
  const name = chosenName.value;
  if (name === null || state.value.tab !== 'selection') return null;
  const { selection, filter } = state.value;
  const query = { from: name, to: name, begin: selection ? String(selection.begin) : null, end: selection ? String(selection.end) : null, filter };
  return { key: `${Object.values(query).join('\n')}\n${epoch.value}`, ask: (abort) => ask('pairs', query, abort) };
});

export function Selection(): JSX.Element {
  const { value, pending } = selectAnswer.value;
  const { selection } = state.value;
  const attributes = {
    'data-testid': 'selection', 'data-begin': selection ? String(selection.begin) : '', 'data-end': selection ? String(selection.end) : '',
    'data-events': selection && value && !pending ? String(value.events) : '',
  };
  if (state.value.tab !== 'selection' || !value) {
    return <div class="panel" {...attributes}>{state.value.tab === 'selection' ? <p class="nothing">Counting…</p> : null}</div>;
  }
  if (mode.value !== 'names') return <div class="panel" {...attributes}><Summary />{mode.value === 'between' ? <Between /> : <OutliersView />}</div>;
  const events = value.events;
  const most = value.names[0]?.events ?? 1;
  const seconds = Number(spanOf(rangeShown())) / 1e9;
  const name = chosenName.value ?? value.names[0]?.name ?? null;
  const points = gapsAnswer.value.value?.points;
  return (
    <div class="panel" {...attributes}>
      <Summary />
      <div class="split">
        <div class="scrolls" tabIndex={-1}>
          <NameTable names={value.names} events={events} most={most} seconds={seconds} chosen={name} />
          {value.calls?.length ? <CallTable calls={value.calls} /> : null}
        </div>
        <aside aria-label="Distribution">
          {name !== null && points && points.length > 0
            ? <Histogram title={`${clipped(name, 80)}, time since the one before`} values={points.map((p) => Number(p.duration))} pick={() => void applyFilter(`name == ${JSON.stringify(name)}`)} />
            : <Spread names={value.names} name={name} />}
        </aside>
      </div>
    </div>
  );
}

/** The gaps of a name that the statistics tell, where the single ones are not known. */
function Spread({ names, name }: { names: readonly NameStatistics[]; name: string | null }): JSX.Element | null {
  const row = names.find((n) => n.name === name);
  if (!row) return null;
  const line = (label: string, ns: string | null): JSX.Element => <div><dt>{label}</dt><dd>{ns === null ? '' : duration(BigInt(ns))}</dd></div>;
  return (
    <div class="chart">
      <h3 class="h4">{clipped(row.name, 80)}, time since the one before</h3>
      <div class="kv bare"><dl>{line('shortest', row.gap_min)}{line('median', row.gap_p50)}{line('longest', row.gap_max)}</dl></div>
      <button type="button" class="ib out small" onClick={() => void applyFilter(`name == ${JSON.stringify(row.name)}`)}>Filter by name</button>
    </div>
  );
}

export function Summary(): JSX.Element | null {
  const { value } = selectAnswer.value;
  if (!value) return null;
  const { begin, end } = rangeShown();
  const { chosen } = state.value;
  const span = end - begin;
  const rate = span > 0n ? Math.round(value.events / (Number(span) / 1e9)) : null;
  const { losses } = value;
  return (
    <div class="sum">
      {state.value.selection ? <span>From <b>{point(begin, timeContext.value)}</b> to <b>{point(end, timeContext.value)}</b></span> : <span><b>{selected.value ? 'Whole time' : 'All of it'}</b></span>}
      <span><b>{duration(span)}</b></span>
      <span><b>{chosen.length || 'all'}</b> {chosen.length === 1 ? 'track' : 'tracks'}</span>
      <span><b>{value.complete === false ? '>\u202f' : ''}{grouped(value.events)}</b> {value.events === 1 ? 'event' : 'events'}</span>
      {rate !== null && Number.isFinite(rate) ? <span><b>{grouped(rate)}</b> a second</span> : null}
      {losses.intervals > 0 ? <span class="loss">Part of it is missing: {losses.intervals} {losses.intervals === 1 ? 'loss' : 'losses'}</span> : null}
    </div>
  );
}

const gap = (ns: string | null): string => (ns === null ? '' : duration(BigInt(ns)));

function NameTable({ names, events, most, seconds, chosen }: { names: readonly NameStatistics[]; events: number; most: number; seconds: number; chosen: string | null }): JSX.Element {
  const onKeyDown = (e: KeyboardEvent): void => {
    const at = names.findIndex((n) => n.name === chosen);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: names.length - 1 }[e.key];
    const next = to === undefined ? undefined : names[Math.max(0, Math.min(names.length - 1, to))];
    if (!next) return;
    chosenName.value = next.name;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <table role="grid" aria-label="Names" tabIndex={0} onKeyDown={onKeyDown}>
      <colgroup><col class="w20 name" /><col class="w10" /><col class="w20 extra" /><col class="w11 extra" /><col class="w12" /><col class="w13" /><col class="w13" /></colgroup>
      <thead><tr><th scope="col">Name</th><th scope="col" class="r" aria-sort="descending">Events ↓</th><th scope="col" class="extra">Share</th><th scope="col" class="r extra">A second</th><th scope="col" class="r">Gap, min</th><th scope="col" class="r">Gap, median</th><th scope="col" class="r">Gap, max</th></tr></thead>
      <tbody>
        {names.slice(0, MOST_NAMES).map((n) => (
          <tr key={n.name} data-testid="name-row" data-name={n.name} class={n.name === chosen ? 'on' : ''} aria-selected={n.name === chosen} onClick={() => { chosenName.value = n.name; }}>
            <td data-column="name" data-value={n.name} title={clipped(n.name, 1000)}><Chip name={n.name} small />{clipped(n.name, 300)}</td>
            <td class="r" data-column="events" data-value={n.events}>{grouped(n.events)}</td>
            <td class="extra"><span class="share"><span class="bar" style={{ width: `${Math.max(1, Math.round((n.events / most) * 58))}%` }} /><small>{events ? ((n.events / events) * 100).toFixed(1) : '0.0'} %</small></span></td>
            <td class="r extra">{seconds > 0 ? grouped(Math.round(n.events / seconds)) : ''}</td>
            <td class="r" data-column="gap_min" data-value={n.gap_min ?? ''}>{gap(n.gap_min)}</td>
            <td class="r" data-column="gap_p50" data-value={n.gap_p50 ?? ''}>{gap(n.gap_p50)}</td>
            <td class="r" data-column="gap_max" data-value={n.gap_max ?? ''}>{gap(n.gap_max)}</td>
          </tr>
        ))}
        {names.length > MOST_NAMES ? <tr><td colSpan={7}>and {grouped(names.length - MOST_NAMES)} names more: CSV has all of them</td></tr> : null}
      </tbody>
    </table>
  );
}

type SortKey = 'total' | 'self' | 'calls' | 'min' | 'mean' | 'p50' | 'p90' | 'p99' | 'max';
const sortedBy = signal<SortKey>('total');
const COLUMNS: readonly (readonly [SortKey, string])[] = [['calls', 'Calls'], ['total', 'Total'], ['self', 'Self'], ['min', 'Min'], ['mean', 'Mean'], ['p50', 'p50'], ['p90', 'p90'], ['p99', 'p99'], ['max', 'Max']];

function sorted(calls: readonly CallStatistics[]): CallStatistics[] {
  const key = sortedBy.value;
  if (key === 'total') return [...calls];
  const value = (c: CallStatistics): bigint => BigInt(c[key] ?? -1);
  return [...calls].sort((a, b) => { const [x, y] = [value(a), value(b)]; return x > y ? -1 : x < y ? 1 : 0; });
}

export function CallTable({ calls }: { calls: readonly CallStatistics[] }): JSX.Element {
  return (
    <table aria-label="Calls">
      <colgroup><col class="w24" />{COLUMNS.map(() => <col />)}</colgroup>
      <thead><tr><th scope="col">Function</th>{COLUMNS.map(([key, label]) => (
        <th scope="col" class="r" aria-sort={sortedBy.value === key ? 'descending' : undefined}><button type="button" onClick={() => { sortedBy.value = key; }}>{label}{sortedBy.value === key ? ' ↓' : ''}</button></th>
      ))}</tr></thead>
      <tbody>
        {sorted(calls).slice(0, MOST_NAMES).map((c) => (
          <tr key={c.name} data-testid="call-row" data-name={c.name}>
            <td data-column="name" data-value={c.name} title={clipped(c.name, 1000)}><Chip name={c.name} small />{clipped(c.name, 300)}</td>
            {COLUMNS.map(([key]) => <td class="r" data-column={key} data-value={c[key] ?? ''}>{key === 'calls' ? grouped(c.calls) : c[key] === null ? '' : duration(BigInt(c[key] ?? 0))}</td>)}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** All functions, as `report` has them. */
export function Calls(): JSX.Element {
  const { value } = selectAnswer.value;
  if (!hasCalls.value) return <p class="nothing">There are no calls in this trace.</p>;
  if (!value?.calls) return <p class="nothing">Counting…</p>;
  return <div class="panel"><Summary /><div class="scrolls" tabIndex={0} role="group" aria-label="Functions"><CallTable calls={value.calls} /></div></div>;
}
