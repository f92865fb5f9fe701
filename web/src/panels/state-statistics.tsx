// The states of the selection: of CPUs, of threads, the threads that CPUs ran, and states that the user defines.
import type { JSX } from 'preact';
import type { StateStatistics } from '../api/types';
import { goToState } from '../state/find';
import { stateColour } from '../state/states';
import { duration, grouped } from '../time/format';
import { Chip, clipped } from './parts';
import { theme } from './settings';

const TITLES: readonly (readonly [StateStatistics['of'], string])[] = [
  ['thread', 'State of threads'],
  ['cpu', 'State of CPUs'],
  ['running', 'Run by CPUs'],
  ['custom', 'Custom states'],
];
const DURATIONS = ['min', 'mean', 'p50', 'p90', 'p99', 'max'] as const;
const LABELS: Readonly<Record<(typeof DURATIONS)[number], string>> = {
  min: 'Min',
  mean: 'Mean',
  p50: 'p50',
  p90: 'p90',
  p99: 'p99',
  max: 'Longest',
};
/** Columns that go first where there is not room for all. */
const LESS: ReadonlySet<string> = new Set(['mean', 'p90']);
/** Rows beyond this many are counted, not listed. */
const MOST = 1000;

function Sign({ name }: { name: string }): JSX.Element {
  const colour = stateColour(name);
  return colour === undefined ? (
    <Chip name={name} small />
  ) : (
    <span class="chip s" style={{ background: theme.value.edge[colour] ?? '' }} />
  );
}

function StateTable({
  of,
  title,
  rows,
}: {
  of: StateStatistics['of'];
  title: string;
  rows: readonly StateStatistics[];
}): JSX.Element {
  const all = rows.reduce((sum, row) => sum + Number(row.total), 0);
  const less = (key: string): string => (LESS.has(key) ? ' less' : '');
  return (
    <table aria-label={title} data-testid="states" data-of={of}>
      <colgroup>
        <col class="w20 name" />
        <col class="w10" />
        <col class="w12" />
        <col class="w10" />
        {DURATIONS.map((key) => (
          <col class={less(key).trim()} />
        ))}
      </colgroup>
      <thead>
        <tr>
          <th scope="col">{title}</th>
          <th scope="col" class="r">
            Count
          </th>
          <th scope="col" class="r" aria-sort="descending">
            Time ↓
          </th>
          <th scope="col" class="r">
            Share
          </th>
          {DURATIONS.map((key) => (
            <th scope="col" class={`r${less(key)}`}>
              {LABELS[key]}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.slice(0, MOST).map((row) => (
          <tr
            key={row.name}
            data-testid="state-row"
            data-of={of}
            data-name={row.name}
            onDblClick={() => {
              if (of !== 'running' && row.name !== 'idle') void goToState(row.name, 'next');
            }}
          >
            <td data-column="name" data-value={row.name} title={clipped(row.name, 300)}>
              <Sign name={row.name} />
              {clipped(row.name, 300)}
            </td>
            <td class="r" data-column="count" data-value={row.count}>
              {grouped(row.count)}
            </td>
            <td class="r" data-column="total" data-value={row.total}>
              {duration(BigInt(row.total))}
            </td>
            <td class="r">{all > 0 ? ((Number(row.total) / all) * 100).toFixed(1) : '0.0'} %</td>
            {DURATIONS.map((key) => (
              <td class={`r${less(key)}`} data-column={key} data-value={row[key] ?? ''}>
                {row[key] === null ? '' : duration(BigInt(row[key] ?? 0))}
              </td>
            ))}
          </tr>
        ))}
        {rows.length > MOST ? (
          <tr>
            <td colSpan={10}>and {grouped(rows.length - MOST)} more: CSV has all of them</td>
          </tr>
        ) : null}
      </tbody>
    </table>
  );
}

export function StateTables({ states }: { states: readonly StateStatistics[] }): JSX.Element {
  return (
    <>
      {TITLES.map(([of, title]) => {
        const rows = states.filter((row) => row.of === of);
        return rows.length ? <StateTable key={of} of={of} title={title} rows={rows} /> : null;
      })}
    </>
  );
}
