// The tables of `tracemill analyze` about what is selected, else what is in view.
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import type { AnalysisCell, AnalysisColumn, AnalysisTable, AnalysisUnit } from '../api/types';
import { currentTrack, reveal, scrollTo, select, setCursor, takeLocated } from '../state/actions';
import {
  type AnalysisView,
  analysesAnswer,
  analysesShown,
  formOf,
  needsPeriod,
  needsThread,
  showAnalysis,
  shownAnalysis,
  sortedBy,
  tableAnswer,
  VIEWS,
} from '../state/analyses';
import { periodId, readPeriodId } from '../state/plots';
import { locate } from '../state/selection';
import { change, isFile, state, timeContext } from '../state/store';
import { address, device, duration, grouped, numberOf, point, size } from '../time/format';
import { parseDuration } from '../time/parse';
import type { Range } from '../time/range';
import { HeatMap } from './heat';
import { Histogram, Points } from './histogram';
import type { Measured } from './measured';
import { clipped, csvCell, keepInSight, rowOfKey, saveFile } from './parts';

const chosen = signal(-1);

/** A cell as exact text. */
const exact = (cell: AnalysisCell | undefined): string =>
  cell == null
    ? ''
    : typeof cell === 'object'
      ? Object.entries(cell)
          .map(([k, n]) => `${k}: ${n}`)
          .join(', ')
      : String(cell);

/** A cell for people. */
function shown(cell: AnalysisCell | undefined, unit: AnalysisUnit): string {
  if (cell == null) return '';
  if (typeof cell === 'boolean') return cell ? 'yes' : 'no';
  if (unit === 'time' && typeof cell === 'string') return point(BigInt(cell), timeContext.value);
  if (unit === 'duration') return duration(typeof cell === 'string' ? BigInt(cell) : BigInt(Math.round(Number(cell))));
  // Addresses that numbers do not hold are texts.
  if (unit === 'address' && /^-?\d+$/.test(exact(cell))) return address(BigInt(exact(cell)));
  if (typeof cell !== 'number') return clipped(exact(cell), 400);
  if (unit === 'device') return device(cell);
  if (unit === 'share') return `${(cell * 100).toFixed(2)} %`;
  if (unit === 'correlation') return cell.toFixed(4);
  if (unit === 'bytes') return size(cell);
  return unit === 'count' && Number.isInteger(cell) ? grouped(cell) : String(cell);
}

/** The title of a column: units are with the values. */
const titleOf = ({ name }: AnalysisColumn): string => name.replace(/_ns$/, '').replaceAll('_', ' ');
const isNumber = (unit: AnalysisUnit): boolean => !['name', 'address', 'device'].includes(unit);

const saveTable = (): void => {
  const table = tableAnswer.peek().value;
  if (!table) return;
  const line = (cells: readonly AnalysisCell[]): string => `${cells.map((c) => csvCell(exact(c))).join(',')}\n`;
  saveFile(`${table.analysis}.csv`, [line(table.columns.map((c) => c.name)), ...table.rows.map(line)], 'text/csv');
};

export function AnalysisTools(): JSX.Element {
  const now = shownAnalysis.value;
  const form = now ? formOf(now.info, now.question) : undefined;
  return (
    <>
      {now && form?.spans && !isFile.value
        ? VIEWS.map(([view, label]) => (
            <button
              key={view}
              type="button"
              class="ib out small"
              data-testid={`analysis-${view}`}
              aria-pressed={now.question.view === view}
              onClick={() => showAnalysis({ ...now.question, view: view as AnalysisView })}
            >
              {label}
            </button>
          ))
        : null}
      <button type="button" class="ib out small" disabled={!tableAnswer.value.value} onClick={saveTable}>
        CSV
      </button>
    </>
  );
}

/** The forms of an analysis that can be chosen: its kinds of rows, each with the keys of its groups. */
function choicesOf(forms: readonly { of: string | null; keys: string[] }[]): { value: string; label: string }[] {
  return forms.flatMap(({ of, keys }) => {
    const kind = of === null ? '' : of;
    if (keys.length === 0) return [{ value: `${kind}/`, label: kind === '' ? 'rows' : kind }];
    return keys.map((key) => ({ value: `${kind}/${key}`, label: kind === '' ? `by ${key}` : `${kind} by ${key}` }));
  });
}

export function Analyses(): JSX.Element {
  const now = shownAnalysis.value;
  const { value, error, pending } = tableAnswer.value;
  if (!now)
    return (
      <div class="panel" data-testid="analyses">
        <p class="nothing">{analysesAnswer.value.pending ? 'Asking…' : 'No analysis fits these traces.'}</p>
      </div>
    );
  const { info, question } = now;
  const choices = choicesOf(info.forms);
  const picked = `${question.of}/${question.by || (formOf(info, question)?.keys[0] ?? '')}`;
  const table = value?.analysis === info.name && !needsThread.value && !needsPeriod.value ? value : null;
  return (
    <div
      class="panel analyses"
      data-testid="analyses"
      data-analysis={table && !pending ? table.analysis : ''}
      data-begin={table?.begin ?? ''}
      data-end={table?.end ?? ''}
      data-total={table?.total ?? ''}
    >
      <div class="sum form">
        <label>
          Analysis
          <select
            class="plainfield"
            data-testid="analysis-name"
            value={info.name}
            onChange={(e) => showAnalysis({ name: e.currentTarget.value, of: '', by: '', view: 'statistics' })}
          >
            {analysesShown.value.map(({ name }) => (
              <option key={name} value={name} selected={name === info.name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        {choices.length > 1 ? (
          <label>
            Rows
            <select
              class="plainfield"
              data-testid="analysis-rows"
              value={picked}
              onChange={(e) => {
                const [of = '', by = ''] = e.currentTarget.value.split('/');
                showAnalysis({ ...question, of, by });
              }}
            >
              {choices.map(({ value: own, label }) => (
                <option key={own} value={own} selected={own === picked}>
                  {label}
                </option>
              ))}
            </select>
          </label>
        ) : null}
        <span>{info.about}</span>
        {table?.missed ? (
          <span data-testid="missed" data-missed={table.missed.missed} data-periods={table.missed.periods}>
            <b>{grouped(table.missed.missed)}</b> of {grouped(table.missed.periods)} missed{' '}
            {duration(BigInt(table.missed.deadline))}
          </span>
        ) : null}
        {!table ? null : isFile.value ? (
          <span>of the whole; lists, periods and parts of it are in tracemill view</span>
        ) : (
          <span>{state.value.selection ? 'of the selection' : 'of the view'}</span>
        )}
        {table && pending ? (
          <span class="late" role="status" data-testid="analysis-pending">
            Reading what is shown now…
          </span>
        ) : null}
      </div>
      {info.name === 'periods' ? <Period /> : null}
      {error ? (
        <p class="nothing" role="alert">
          {error.body.message}
        </p>
      ) : needsThread.value ? (
        <p class="nothing">It is about one thread: choose one of its states, or select its track.</p>
      ) : needsPeriod.value ? (
        <p class="nothing">Spans between two events: say which events begin and end them.</p>
      ) : !table ? (
        <p class="nothing">{pending ? 'Reading…' : ''}</p>
      ) : (
        <Answer table={table} />
      )}
    </div>
  );
}

/** Fields that say what the periods are. */
const FIELDS = [
  ['name', 'Name', 'frame'],
  ['begin', 'begins with', 'name == "net_if_receive_skb"'],
  ['end', 'ends with', 'name == "net_dev_xmit"'],
  ['match', 'of the same', 'field, e.g. payload.id'],
  ['deadline', 'deadline', 'e.g. 16.7ms'],
] as const;

const wrongDeadline = signal(false);

/** A duration as it is typed: `16.7ms`. */
const lengthOf = (ns: bigint): string => (ns % 1000n === 0n && ns < 10n ** 15n ? `${Number(ns) / 1e6}ms` : `${ns}ns`);

/** A form for periods, such as frames: their table, and their track. */
function Period(): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const known = readPeriodId(state.value.period);
  const given = (key: (typeof FIELDS)[number][0]): string =>
    key === 'deadline' ? (known?.deadline == null ? '' : lengthOf(known.deadline)) : (known?.[key] ?? '');
  const define = (): string | null => {
    const values = new Map<string, string>();
    for (const input of box.current?.querySelectorAll('input') ?? []) values.set(input.name, input.value.trim());
    const of = (key: string): string => values.get(key) ?? '';
    const deadline = parseDuration(of('deadline'));
    wrongDeadline.value = deadline === null && of('deadline') !== '';
    if (of('begin') === '' || of('end') === '' || wrongDeadline.peek()) return null;
    return periodId({
      name: of('name') || 'period',
      begin: of('begin'),
      end: of('end'),
      match: of('match'),
      deadline,
    });
  };
  const measure = (): void => {
    const id = define();
    if (id !== null) change({ period: id });
  };
  const addTrack = (): void => {
    const id = define();
    if (id === null) return;
    change({ period: id, plots: [...state.peek().plots.filter((p) => p !== id), id] });
    scrollTo(id);
  };
  return (
    <div class="sum form" ref={box} key={state.value.period}>
      {FIELDS.map(([key, label, hint]) => (
        <label key={key}>
          {label}
          <input
            class={`plainfield${key === 'name' || key === 'deadline' ? ' narrow' : ''}`}
            type="text"
            name={key}
            defaultValue={given(key)}
            placeholder={hint}
            autocomplete="off"
            spellcheck={false}
            aria-invalid={key === 'deadline' && wrongDeadline.value}
            onKeyDown={(e) => {
              if (e.key === 'Enter') {
                e.preventDefault();
                measure();
              }
            }}
          />
        </label>
      ))}
      <button type="button" class="ib out small" onClick={measure}>
        Measure
      </button>
      <button type="button" class="ib out small" onClick={addTrack}>
        Show as a track
      </button>
      {wrongDeadline.value ? <span role="alert">A deadline is a duration such as 16.7ms</span> : null}
    </div>
  );
}

function Answer({ table }: { table: AnalysisTable }): JSX.Element {
  const { points } = table;
  const rows = (
    <div class="scrolls" tabIndex={-1}>
      {table.sentences.map((sentence) => (
        <p class="remark" key={sentence}>
          {sentence}
        </p>
      ))}
      <Rows table={table} />
      {table.rows.length < table.total ? (
        <p class="remark">
          {grouped(table.rows.length)} of {grouped(table.total)} {table.noun}
        </p>
      ) : null}
      {table.totals && table.totals.rows.length > 1 ? (
        <table class="auto" aria-label={`Sums of ${table.analysis}`}>
          <Head columns={table.totals.columns} sort={null} />
          <tbody>
            {table.totals.rows.slice(0, MOST_TOTALS).map((row) => (
              <tr key={row.map(exact).join('\n')}>
                <Cells columns={table.totals?.columns ?? []} row={row} />
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
      {table.remarks.map((remark) => (
        <p class="remark" key={remark}>
          {remark}
        </p>
      ))}
    </div>
  );
  if (!points) return rows;
  const measured = points.points.map((p): Measured & { track?: string } => ({
    begin: BigInt(p.begin),
    duration: BigInt(p.duration),
    event: BigInt(p.begin),
    ...(p.track === undefined ? {} : { track: p.track }),
  }));
  const rest = (points.summary ?? []).reduce((sum, s) => sum + s.n, 0);
  const over: Range = { begin: BigInt(table.begin ?? 0), end: BigInt(table.end ?? 0) };
  // Spans are no events that a filter could leave: their time is selected.
  const pick = (some: readonly Measured[]): void => {
    const begins = some.map((p) => p.begin);
    const begin = begins.reduce((a, b) => (a < b ? a : b), begins[0] ?? 0n);
    const end = some.reduce((a, p) => (p.begin + p.duration > a ? p.begin + p.duration : a), begin);
    if (some.length) select({ begin, end });
  };
  return (
    <div class="split broad" data-testid="over-time" data-points={measured.length}>
      {rows}
      <aside aria-label="Distribution">
        {measured.length === 0 ? (
          <p class="nothing">Nothing of this is in the range.</p>
        ) : (
          <>
            <Points
              points={measured}
              over={over}
              pick={pick}
              go={(p) => goToSpan((p as { track?: string }).track ?? null, p.begin)}
            />
            {points.heat ? <HeatMap heat={points.heat} take={select} /> : null}
            <Histogram title="Durations" points={measured} all={points.histogram} pick={pick} />
            <p class="hint2">
              {rest ? `The longest ${grouped(measured.length)} of ${grouped(measured.length + rest)}. ` : ''}A bar or a
              box of points selects their time, a point goes there.
            </p>
          </>
        )}
      </aside>
    </div>
  );
}

/** Sums that are listed; programs have all. */
const MOST_TOTALS = 200;

/** Goes to a time, and chooses what the thread of a track did then. */
function goToSpan(track: string | null, at: bigint): void {
  reveal(at, 'jump');
  setCursor(at);
  if (track === null) return;
  currentTrack.value = track;
  scrollTo(track);
  void locate(track, at, 'nearest').then((found) => {
    if (found) takeLocated(track, found, false);
  });
}

function Head({
  columns,
  sort,
}: {
  columns: readonly AnalysisColumn[];
  sort: ((name: string) => void) | null;
}): JSX.Element {
  return (
    <thead>
      <tr>
        {columns.map((c) =>
          c.hidden ? null : (
            <th
              key={c.name}
              scope="col"
              class={isNumber(c.unit) ? 'r' : ''}
              title={c.meaning}
              aria-sort={
                sort && sortedBy.value === c.name
                  ? isNumber(c.unit) && c.unit !== 'time'
                    ? 'descending'
                    : 'ascending'
                  : undefined
              }
            >
              {sort ? (
                <button type="button" class="sort" onClick={() => sort(c.name)}>
                  {titleOf(c)}
                </button>
              ) : (
                titleOf(c)
              )}
            </th>
          ),
        )}
      </tr>
    </thead>
  );
}

const Cells = ({ columns, row }: { columns: readonly AnalysisColumn[]; row: readonly AnalysisCell[] }): JSX.Element => (
  <>
    {columns.map((c, i) =>
      c.hidden ? null : (
        <td key={c.name} class={isNumber(c.unit) ? 'r' : ''} data-column={c.name} data-value={exact(row[i])}>
          {shown(row[i], c.unit)}
        </td>
      ),
    )}
  </>
);

/** The rows: one that has a time or a thread goes there. */
function Rows({ table }: { table: AnalysisTable }): JSX.Element {
  const { columns, rows } = table;
  const timeAt = columns.findIndex((c) => c.unit === 'time');
  const isList = (shownAnalysis.value?.question.view ?? 'statistics') !== 'statistics';
  const go = (i: number): void => {
    const time = rows[i]?.[timeAt];
    const track = table.tracks?.[i] ?? null;
    if (typeof time === 'string') goToSpan(track, BigInt(time));
    else if (track !== null) {
      currentTrack.value = track;
      scrollTo(track);
    }
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    const to = rowOfKey(e, chosen.peek(), rows.length);
    if (to !== null) {
      chosen.value = to;
      keepInSight(`analysis-row-${to}`);
    } else if (e.key === 'Enter' && e.target === e.currentTarget && chosen.peek() >= 0) go(chosen.peek());
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  if (rows.length === 0) return <p class="nothing">Nothing of this is in the range.</p>;
  return (
    <table
      class="auto"
      role="grid"
      aria-label={`${table.analysis}, ${numberOf(rows.length, 'row')}`}
      tabIndex={0}
      aria-activedescendant={
        chosen.value >= 0 && chosen.value < rows.length ? `analysis-row-${chosen.value}` : undefined
      }
      onKeyDown={onKeyDown}
    >
      <Head
        columns={columns}
        sort={
          isList
            ? null
            : (name) => {
                sortedBy.value = name;
              }
        }
      />
      <tbody>
        {rows.map((row, i) => (
          <tr
            key={i}
            id={`analysis-row-${i}`}
            data-testid="analysis-row"
            aria-selected={i === chosen.value}
            class={i === chosen.value ? 'on' : ''}
            onClick={() => {
              chosen.value = i;
              go(i);
            }}
          >
            <Cells columns={columns} row={row} />
          </tr>
        ))}
      </tbody>
      {Object.keys(table.all).length ? (
        <tfoot>
          <tr>
            {columns.map((c, i) =>
              c.hidden ? null : (
                <td key={c.name} class={isNumber(c.unit) ? 'r' : ''} data-column={c.name}>
                  {c.name in table.all ? shown(table.all[c.name], c.unit) : i === 0 ? 'all' : ''}
                </td>
              ),
            )}
          </tr>
        </tfoot>
      ) : null}
    </table>
  );
}
