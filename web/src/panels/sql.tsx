// Queries in SQL, where the server was built with it: a text, and the rows that it gives.
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import { ApiError } from '../api/source';
import type { ErrorBody, SqlAnswer } from '../api/types';
import { chooseEvent, goTo } from '../state/actions';
import { reportFailure } from '../state/answers';
import { whileBusy } from '../state/busy';
import { counted, post } from '../state/session';
import { change, isFile, session, state } from '../state/store';
import { grouped, numberOf } from '../time/format';
import { Faulty } from './bar';
import { clipped, csvCell, keepInSight, rowOfKey, saveFile } from './parts';

const answer = signal<{ query: string; value: SqlAnswer } | null>(null);
const failed = signal<{ query: string; error: ErrorBody } | null>(null);
const running = signal<AbortController | null>(null);
const chosen = signal(-1);

/** Asks the query of the state; one that still runs is given up. */
export async function runSql(): Promise<void> {
  const query = state.peek().sql.trim();
  running.peek()?.abort();
  if (query === '') {
    running.value = null;
    return;
  }
  const mine = new AbortController();
  running.value = mine;
  try {
    const value = await whileBusy(counted(mine.signal).then(() => post<SqlAnswer>('sql', { query }, mine.signal)));
    if (running.peek() !== mine) return;
    answer.value = { query, value };
    failed.value = null;
    chosen.value = -1;
  } catch (e) {
    if (mine.signal.aborted) return;
    const error = e instanceof ApiError ? e.body : reportFailure(e)?.body;
    if (e instanceof ApiError) reportFailure(e);
    if (error) failed.value = { query, error };
  } finally {
    if (running.peek() === mine) running.value = null;
  }
}

export const SqlTools = (): JSX.Element => (
  <>
    {running.value ? (
      <button
        type="button"
        class="ib out small"
        onClick={() => {
          running.peek()?.abort();
          running.value = null;
        }}
      >
        Stop
      </button>
    ) : null}
    <button type="button" class="ib out small" onClick={() => void runSql()}>
      Run <kbd aria-hidden="true">Ctrl+Enter</kbd>
    </button>
    <button type="button" class="ib out small" disabled={!answer.value} onClick={saveRows}>
      CSV
    </button>
  </>
);

function saveRows(): void {
  const value = answer.peek()?.value;
  if (!value) return;
  saveFile(
    'query.csv',
    [
      `${value.columns.map((c) => csvCell(c.name)).join(',')}\n`,
      ...value.rows.map((row) => `${row.map(csvCell).join(',')}\n`),
    ],
    'text/csv',
  );
}

export function Sql(): JSX.Element {
  const field = useRef<HTMLTextAreaElement>(null);
  const onKeyDown = (e: KeyboardEvent): void => {
    if (e.key !== 'Enter' || !(e.ctrlKey || e.metaKey)) return;
    e.preventDefault();
    e.stopPropagation();
    void runSql();
  };
  if (!session.value?.features.includes('sql')) {
    return (
      <div class="panel" data-testid="sql">
        <p class="nothing">
          {isFile.value
            ? 'A page in a file cannot run SQL: tracemill sql does where the trace is.'
            : 'This server was built without SQL.'}
        </p>
      </div>
    );
  }
  const wrong = failed.value;
  const value = answer.value?.value ?? null;
  return (
    <div class="panel" data-testid="sql">
      <textarea
        ref={field}
        class="sql"
        rows={3}
        aria-label="Query in SQL"
        placeholder="select name, count(*) as events from events group by name order by events desc"
        spellcheck={false}
        value={state.value.sql}
        onInput={(e) => change({ sql: e.currentTarget.value })}
        onKeyDown={onKeyDown}
      />
      {wrong ? (
        <div class="sqlerror" role="alert">
          <Faulty text={wrong.query} error={wrong.error} />
        </div>
      ) : null}
      {!value ? (
        <p class="nothing">
          {running.value ? 'Asking…' : 'Ctrl+Enter runs the query. Tables and functions are those of tracemill sql.'}
        </p>
      ) : (
        <>
          <div class="sum">
            <span>
              <b>{value.truncated ? `the first ${grouped(value.rows.length)}` : grouped(value.rows.length)}</b>{' '}
              {value.rows.length === 1 ? 'row' : 'rows'}
            </span>
            {value.truncated ? <span>The query was ended there</span> : null}
          </div>
          <Rows value={value} />
        </>
      )}
    </div>
  );
}

const isNumber = (type: string): boolean => type === 'integer' || type === 'real';

/** The rows of an answer; one that has an event goes there. */
function Rows({ value }: { value: SqlAnswer }): JSX.Element {
  const eventAt = value.columns.findIndex((c) => c.name === 'event' && c.type === 'integer');
  const nsAt = value.columns.findIndex((c) => c.name === 'ns' && c.type === 'integer');
  const go = (i: number): void => {
    const row = value.rows[i];
    const [event, ns] = [row?.[eventAt], row?.[nsAt]];
    if (ns != null) goTo(BigInt(ns));
    if (event != null) chooseEvent(Number(event));
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    const to = rowOfKey(e, chosen.peek(), value.rows.length);
    if (to !== null) {
      chosen.value = to;
      keepInSight(`sql-row-${to}`);
    } else if (e.key === 'Enter' && chosen.peek() >= 0) go(chosen.peek());
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div class="scrolls">
      <table
        role="grid"
        aria-label={`Answer, ${numberOf(value.rows.length, 'row')}`}
        tabIndex={0}
        aria-activedescendant={chosen.value >= 0 ? `sql-row-${chosen.value}` : undefined}
        onKeyDown={onKeyDown}
      >
        <thead>
          <tr>
            {value.columns.map((c) => (
              <th scope="col" class={isNumber(c.type) ? 'r' : ''}>
                {clipped(c.name, 100)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {value.rows.map((row, i) => (
            <tr
              key={i}
              id={`sql-row-${i}`}
              aria-selected={i === chosen.value}
              class={i === chosen.value ? 'on' : ''}
              onClick={() => {
                chosen.value = i;
                go(i);
              }}
            >
              {row.map((cell, k) => (
                <td
                  class={isNumber(value.columns[k]?.type ?? '') ? 'r' : ''}
                  data-column={value.columns[k]?.name}
                  data-value={cell ?? ''}
                >
                  {cell === null ? <i class="null">null</i> : clipped(cell, 400)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
