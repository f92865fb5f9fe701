// Statistics of the selection: how often and how far apart, and how long calls took. The server counts, the page shows.
import { computed, signal } from '@preact/signals';
import type { JSX } from 'preact';
import type { CallStatistics, Heat, NameStatistics } from '../api/types';
import { goToNext, searchForName, select } from '../state/actions';
import { answer } from '../state/answers';
import { applyFilter } from '../state/filter';
import { exactly, isNamed } from '../state/filters';
import { rangeQuery, selectAnswer, selected } from '../state/selection';
import { ask, epoch } from '../state/session';
import { isFile, session, state, timeContext } from '../state/store';
import { hasCalls } from '../state/tracks';
import { duration, grouped, point } from '../time/format';
import { spanOf } from '../time/range';
import { cutTrace, saveStatistics } from './export';
import { HeatMap } from './heat';
import { Histogram, Points } from './histogram';
import { Between, OutliersView } from './latency';
import { goToPoint, type Measured, pickPoints } from './measured';
import { Chip, clipped, keepInSight, rowOfKey } from './parts';
import { rangeShown } from './ranges';
import { StateTables } from './state-statistics';

/** Names beyond this many are counted, not listed. */
const MOST_NAMES = 1000;

/** The name of events or calls whose durations are drawn. */
const chosen = signal<{ of: 'events' | 'calls'; name: string } | null>(null);
const choose = (of: 'events' | 'calls', name: string): void => {
  chosen.value = { of, name };
};

type Mode = 'names' | 'states' | 'between' | 'outliers';
const mode = signal<Mode>('names');
const MODES: readonly (readonly [Mode, string])[] = [
  ['names', 'Names'],
  ['states', 'States'],
  ['between', 'Between'],
  ['outliers', 'Outliers'],
];
/** The parts that have content. */
const modesShown = (): typeof MODES =>
  MODES.filter(([m]) => (m === 'states' ? session.value?.states != null : m === 'names' || !isFile.value));

export const SelectionTools = (): JSX.Element => (
  <>
    {state.value.tab === 'selection' && modesShown().length > 1
      ? modesShown().map(([m, label]) => (
          <button
            type="button"
            class="ib out small"
            aria-pressed={mode.value === m}
            onClick={() => {
              mode.value = m;
            }}
          >
            {label}
          </button>
        ))
      : null}
    {session.value?.features.includes('export') ? (
      <button type="button" class="ib out small" onClick={() => void cutTrace()}>
        Cut trace
      </button>
    ) : null}
    <button type="button" class="ib out small" onClick={() => void saveStatistics()}>
      CSV
    </button>
  </>
);

interface Pairs {
  readonly points: readonly { begin: string; duration: string }[];
  readonly summary?: readonly { n: number }[];
  readonly histogram?: readonly [number, number][];
  readonly heat?: Heat;
}
interface CallDurations extends Pairs {
  readonly points: readonly { begin: string; duration: string; track?: string; call?: number }[];
}

/** The name that is looked at: what was chosen, else the commonest one. */
const shownName = computed(() => {
  const { value } = selectAnswer.value;
  const known = chosen.value;
  if (known && (known.of === 'calls' ? value?.calls : value?.names)?.some((n) => n.name === known.name)) return known;
  const first = value?.names[0];
  return first ? { of: 'events' as const, name: first.name } : null;
});

/** The time between events of the name and the next of it, or how long its calls took. */
const measured = answer<CallDurations>(() => {
  const name = shownName.value;
  if (
    name === null ||
    state.value.tab !== 'selection' ||
    mode.value !== 'names' ||
    !session.value?.features.includes(name.of === 'calls' ? 'durations' : 'pairs')
  )
    return null;
  const query = rangeQuery();
  const key = `${name.of}\n${name.name}\n${Object.values(query).join('\n')}\n${epoch.value}`;
  if (name.of === 'calls') return { key, ask: (abort) => ask('durations', { name: name.name, ...query }, abort) };
  const exact = exactly(name.name);
  return { key, ask: (abort) => ask('pairs', { from: exact, to: exact, by: 'name', ...query }, abort) };
});

export function Selection(): JSX.Element {
  const { value, pending } = selectAnswer.value;
  const { selection } = state.value;
  const attributes = {
    'data-testid': 'selection',
    'data-begin': selection ? String(selection.begin) : '',
    'data-end': selection ? String(selection.end) : '',
    'data-events': selection && value && !pending ? String(value.events) : '',
  };
  if (state.value.tab !== 'selection' || !value) {
    return (
      <div class="panel" {...attributes}>
        {state.value.tab === 'selection' ? <p class="nothing">Counting…</p> : null}
      </div>
    );
  }
  const states = value.states ?? [];
  // Tracks of states have no events: then these are what there is to be shown.
  const onlyStates =
    states.length > 0 && (mode.value === 'states' || (mode.value === 'names' && value.names.length === 0));
  if (onlyStates) {
    return (
      <div class="panel" {...attributes}>
        <Summary />
        <div class="scrolls" tabIndex={0} role="group" aria-label="States">
          <StateTables states={states} />
        </div>
      </div>
    );
  }
  if (mode.value === 'between' || mode.value === 'outliers')
    return (
      <div class="panel" {...attributes}>
        <Summary />
        {mode.value === 'between' ? <Between /> : <OutliersView />}
      </div>
    );
  const events = value.events;
  const most = value.names[0]?.events ?? 1;
  const seconds = Number(spanOf(rangeShown())) / 1e9;
  const name = shownName.value;
  return (
    <div class="panel" {...attributes}>
      <Summary />
      <div class="split">
        <div class="scrolls" tabIndex={-1}>
          <NameTable
            names={value.names}
            events={events}
            most={most}
            seconds={seconds}
            chosen={name?.of === 'events' ? name.name : null}
          />
          {value.calls?.length ? (
            <CallTable calls={value.calls} chosen={name?.of === 'calls' ? name.name : null} />
          ) : null}
        </div>
        <aside aria-label="Distribution">
          {name === null ? null : <Distribution key={`${name.of} ${name.name}`} of={name.of} name={name.name} />}
        </aside>
      </div>
    </div>
  );
}

/** How long the gaps or the calls of a name were, and when. */
function Distribution({ of, name }: { of: 'events' | 'calls'; name: string }): JSX.Element {
  const { key, value, pending } = measured.value;
  const title = `${clipped(name, 80)}, ${of === 'calls' ? 'durations' : 'time since the one before'}`;
  const fresh = key?.startsWith(`${of}\n${name}\n`) ? value : null;
  if (!fresh || fresh.points.length === 0) return <Spread of={of} name={name} title={title} pending={pending} />;
  const points = fresh.points.map((p): Measured => {
    const [begin, length] = [BigInt(p.begin), BigInt(p.duration)];
    return { begin, duration: length, event: of === 'calls' ? begin : begin + length };
  });
  const rest = (fresh.summary ?? []).reduce((sum, s) => sum + s.n, 0);
  const pick = (some: readonly Measured[], n: number): void => pickPoints(of === 'calls' ? null : name, some, n);
  return (
    <>
      <Histogram title={title} points={points} all={fresh.histogram} pick={pick} />
      <Points points={points} pick={pick} go={goToPoint} />
      {fresh.heat ? <HeatMap heat={fresh.heat} take={select} /> : null}
      <div class="chartfoot">
        <p>
          {rest ? `The longest ${grouped(points.length)} of ${grouped(points.length + rest)}. ` : ''}A bar or a box is a
          filter.
        </p>
        <button
          type="button"
          class="ib out small"
          onClick={() => void (of === 'calls' ? searchForName(name) : applyFilter(isNamed(name)))}
        >
          {of === 'calls' ? 'Select all of this name' : 'Filter by name'}
        </button>
      </div>
    </>
  );
}

/** The statistics of a name, where single durations are not known. */
function Spread({
  of,
  name,
  title,
  pending,
}: {
  of: 'events' | 'calls';
  name: string;
  title: string;
  pending: boolean;
}): JSX.Element | null {
  const { value } = selectAnswer.value;
  const line = (label: string, ns: string | null | undefined): JSX.Element => (
    <div>
      <dt>{label}</dt>
      <dd>{ns == null ? '' : duration(BigInt(ns))}</dd>
    </div>
  );
  const row = of === 'events' ? value?.names.find((n) => n.name === name) : undefined;
  const call = of === 'calls' ? value?.calls?.find((n) => n.name === name) : undefined;
  if (!row && !call) return null;
  return (
    <div class="chart">
      <h3 class="h4">{title}</h3>
      <div class="kv bare">
        <dl>
          {row ? (
            <>
              {line('shortest', row.gap_min)}
              {line('median', row.gap_p50)}
              {line('longest', row.gap_max)}
            </>
          ) : (
            <>
              {line('shortest', call?.min)}
              {line('median', call?.p50)}
              {line('p90', call?.p90)}
              {line('p99', call?.p99)}
              {line('longest', call?.max)}
            </>
          )}
        </dl>
      </div>
      {pending ? <p class="hint2">Measuring…</p> : null}
      {row ? (
        <button type="button" class="ib out small" onClick={() => void applyFilter(isNamed(name))}>
          Filter by name
        </button>
      ) : (
        <button type="button" class="ib out small" onClick={() => void searchForName(name)}>
          Select all of this name
        </button>
      )}
    </div>
  );
}

export function Summary(): JSX.Element | null {
  const { value } = selectAnswer.value;
  if (!value) return null;
  const { begin, end } = rangeShown();
  const tracksChosen = state.value.chosen.length;
  const span = end - begin;
  const rate = span > 0n ? Math.round(value.events / (Number(span) / 1e9)) : null;
  const { losses } = value;
  return (
    <div class="sum">
      {state.value.selection ? (
        <span>
          From <b>{point(begin, timeContext.value)}</b> to <b>{point(end, timeContext.value)}</b>
        </span>
      ) : (
        <span>
          <b>{selected.value ? 'Whole time' : 'All of it'}</b>
        </span>
      )}
      <span>
        <b>{duration(span)}</b>
      </span>
      <span>
        <b>{tracksChosen || 'all'}</b> {tracksChosen === 1 ? 'track' : 'tracks'}
      </span>
      <span>
        <b>
          {value.complete === false ? '>\u202f' : ''}
          {grouped(value.events)}
        </b>{' '}
        {value.events === 1 ? 'event' : 'events'}
      </span>
      {rate !== null && rate > 0 && Number.isFinite(rate) ? (
        <span>
          <b>{grouped(rate)}</b> a second
        </span>
      ) : null}
      {losses.intervals > 0 ? (
        <span class="loss">
          Part of it is missing: {losses.intervals} {losses.intervals === 1 ? 'loss' : 'losses'}
        </span>
      ) : null}
    </div>
  );
}

const gap = (ns: string | null): string => (ns === null ? '' : duration(BigInt(ns)));

function NameTable({
  names,
  events,
  most,
  seconds,
  chosen,
}: {
  names: readonly NameStatistics[];
  events: number;
  most: number;
  seconds: number;
  chosen: string | null;
}): JSX.Element {
  const shown = names.slice(0, MOST_NAMES);
  const at = shown.findIndex((n) => n.name === chosen);
  const onKeyDown = (e: KeyboardEvent): void => {
    const to = rowOfKey(e, at, shown.length);
    const next = to === null ? undefined : shown[to];
    if (next) {
      choose('events', next.name);
      keepInSight(`name-row-${to}`);
    } else if (e.key === 'Enter' && chosen !== null) void goToNext(isNamed(chosen));
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <table
      role="grid"
      aria-label="Names"
      tabIndex={0}
      aria-activedescendant={at >= 0 ? `name-row-${at}` : undefined}
      onKeyDown={onKeyDown}
    >
      <colgroup>
        <col class="w20 name" />
        <col class="w10" />
        <col class="w20 extra" />
        <col class="w11 extra" />
        <col class="w12" />
        <col class="w13" />
        <col class="w13" />
      </colgroup>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col" class="r" aria-sort="descending">
            Events ↓
          </th>
          <th scope="col" class="extra">
            Share
          </th>
          <th scope="col" class="r extra">
            A second
          </th>
          <th scope="col" class="r">
            Gap, min
          </th>
          <th scope="col" class="r">
            Gap, median
          </th>
          <th scope="col" class="r">
            Gap, max
          </th>
        </tr>
      </thead>
      <tbody>
        {shown.map((n, i) => (
          <tr
            key={n.name}
            id={`name-row-${i}`}
            data-testid="name-row"
            data-name={n.name}
            class={n.name === chosen ? 'on' : ''}
            aria-selected={n.name === chosen}
            onClick={() => choose('events', n.name)}
            onDblClick={() => void goToNext(isNamed(n.name))}
          >
            <td data-column="name" data-value={n.name} title={clipped(n.name, 1000)}>
              <Chip name={n.name} small />
              {clipped(n.name, 300)}
            </td>
            <td class="r" data-column="events" data-value={n.events}>
              {grouped(n.events)}
            </td>
            <td class="extra">
              <span class="share">
                <span class="bar" style={{ width: `${Math.max(1, Math.round((n.events / most) * 58))}%` }} />
                <small>{events ? ((n.events / events) * 100).toFixed(1) : '0.0'} %</small>
              </span>
            </td>
            <td class="r extra">{seconds > 0 ? grouped(Math.round(n.events / seconds)) : ''}</td>
            <td class="r" data-column="gap_min" data-value={n.gap_min ?? ''}>
              {gap(n.gap_min)}
            </td>
            <td class="r" data-column="gap_p50" data-value={n.gap_p50 ?? ''}>
              {gap(n.gap_p50)}
            </td>
            <td class="r" data-column="gap_max" data-value={n.gap_max ?? ''}>
              {gap(n.gap_max)}
            </td>
          </tr>
        ))}
        {names.length > MOST_NAMES ? (
          <tr>
            <td colSpan={7}>and {grouped(names.length - MOST_NAMES)} names more: CSV has all of them</td>
          </tr>
        ) : null}
      </tbody>
    </table>
  );
}

type SortKey = 'total' | 'self' | 'calls' | 'min' | 'mean' | 'p50' | 'p90' | 'p99' | 'max';
const sortedBy = signal<SortKey>('total');
const COLUMNS: readonly (readonly [SortKey, string])[] = [
  ['calls', 'Calls'],
  ['total', 'Total'],
  ['self', 'Self'],
  ['min', 'Min'],
  ['mean', 'Mean'],
  ['p50', 'p50'],
  ['p90', 'p90'],
  ['p99', 'p99'],
  ['max', 'Max'],
];

/** Columns that go first where there is not room for all. */
const LESS: ReadonlySet<SortKey> = new Set<SortKey>(['mean', 'p90']);

function sorted(calls: readonly CallStatistics[]): CallStatistics[] {
  const key = sortedBy.value;
  if (key === 'total') return [...calls];
  const value = (c: CallStatistics): bigint => BigInt(c[key] ?? -1);
  return [...calls].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    return x > y ? -1 : x < y ? 1 : 0;
  });
}

export function CallTable({ calls, chosen }: { calls: readonly CallStatistics[]; chosen: string | null }): JSX.Element {
  const shown = sorted(calls).slice(0, MOST_NAMES);
  const at = shown.findIndex((c) => c.name === chosen);
  const onKeyDown = (e: KeyboardEvent): void => {
    if (e.target !== e.currentTarget) return;
    const to = rowOfKey(e, at, shown.length);
    const next = to === null ? undefined : shown[to];
    if (next) {
      choose('calls', next.name);
      keepInSight(`call-row-${to}`);
    } else if (e.key === 'Enter' && chosen !== null) void searchForName(chosen);
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <table
      role="grid"
      aria-label="Calls"
      tabIndex={0}
      aria-activedescendant={at >= 0 ? `call-row-${at}` : undefined}
      onKeyDown={onKeyDown}
    >
      <colgroup>
        <col class="w24" />
        {COLUMNS.map(([key]) => (
          <col class={LESS.has(key) ? 'less' : ''} />
        ))}
      </colgroup>
      <thead>
        <tr>
          <th scope="col">Function</th>
          {COLUMNS.map(([key, label]) => (
            <th
              scope="col"
              class={`r${LESS.has(key) ? ' less' : ''}`}
              aria-sort={sortedBy.value === key ? 'descending' : undefined}
            >
              <button
                type="button"
                onClick={() => {
                  sortedBy.value = key;
                }}
              >
                {label}
                {sortedBy.value === key ? ' ↓' : ''}
              </button>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {shown.map((c, i) => (
          <tr
            key={c.name}
            id={`call-row-${i}`}
            data-testid="call-row"
            data-name={c.name}
            class={c.name === chosen ? 'on' : ''}
            aria-selected={c.name === chosen}
            onClick={() => choose('calls', c.name)}
            onDblClick={() => void searchForName(c.name)}
          >
            <td data-column="name" data-value={c.name} title={clipped(c.name, 1000)}>
              <Chip name={c.name} small />
              {clipped(c.name, 300)}
            </td>
            {COLUMNS.map(([key]) => (
              <td class={`r${LESS.has(key) ? ' less' : ''}`} data-column={key} data-value={c[key] ?? ''}>
                {key === 'calls' ? grouped(c.calls) : c[key] === null ? '' : duration(BigInt(c[key] ?? 0))}
              </td>
            ))}
          </tr>
        ))}
        {calls.length > MOST_NAMES ? (
          <tr>
            <td colSpan={COLUMNS.length + 1}>
              and {grouped(calls.length - MOST_NAMES)} functions more: CSV has all of them
            </td>
          </tr>
        ) : null}
      </tbody>
    </table>
  );
}

/** All functions, as `report` has them. */
export function Calls(): JSX.Element {
  const { value } = selectAnswer.value;
  if (!hasCalls.value) return <p class="nothing">There are no calls in this trace.</p>;
  if (!value?.calls) return <p class="nothing">Counting…</p>;
  return (
    <div class="panel">
      <Summary />
      <div class="scrolls" tabIndex={0} role="group" aria-label="Functions">
        <CallTable calls={value.calls} chosen={chosen.value?.of === 'calls' ? chosen.value.name : null} />
      </div>
    </div>
  );
}
