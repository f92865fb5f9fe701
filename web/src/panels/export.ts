// Exports: pictures, tables, parts of the trace, commands.

import { EVENT_COLUMNS, type EventColumn } from '../api/columns';
import type { ErrorBody, Row, Rows } from '../api/types';
import { notice, said } from '../state/actions';
import { reportFailure } from '../state/answers';
import { hold, whileBusy } from '../state/busy';
import { printing } from '../state/command';
import { andConditions, quoted } from '../state/filters';
import { selectAnswer } from '../state/selection';
import { ask, post } from '../state/session';
import { isFile, link, session, state, view } from '../state/store';
import { trackById } from '../state/tracks';
import { type MenuItem, openMenu, openMenuAt } from './menu';
import { copyText, csvCell, saveFile } from './parts';
import { pictureOfView, svgOfView } from './picture';

/** Rows that are asked for at once. */
const PAGE = 1000;

export function exportMenu(anchor?: Element): void {
  const items: (MenuItem | null)[] = [
    { label: 'Picture of the view, PNG', run: () => void savePicture() },
    { label: 'Picture of the view, SVG', run: () => saveFile('tracemill.svg', [svgOfView()], 'image/svg+xml') },
    null,
    { label: 'Table of events, CSV', run: () => void saveEvents() },
    { label: 'Statistics of the selection, CSV', run: () => void saveStatistics() },
    ...(session.peek()?.features.includes('export') ? [{ label: 'Cut trace', run: () => void cutTrace() }] : []),
    ...(isFile.peek()
      ? [
          {
            label: 'Cut trace',
            run: () => {
              said.value = 'A page in a file has no trace to cut: tracemill convert does it where the trace is.';
            },
          },
        ]
      : []),
    null,
    { label: 'Copy as command', run: () => void copyCommand() },
    { label: 'Copy link', run: () => void copyLink() },
  ];
  if (anchor instanceof Element) openMenuAt(anchor, 'Export', items);
  else openMenu(innerWidth / 2 - 100, 50, 'Export', items);
}

/** Why nothing was exported, in the words of the server. */
const refused = ({ message, help }: ErrorBody): string => `Nothing was exported: ${message}${help ? `; ${help}` : ''}`;

async function savePicture(): Promise<void> {
  const blob = await pictureOfView();
  if (blob) saveFile('tracemill.png', [blob], 'image/png');
}

/** Lets the browser fetch what the server writes. */
async function fetched(what: 'trace' | 'events', question: object): Promise<void> {
  notice.value = '';
  try {
    const { url } = await whileBusy(
      post<{ url: string }>('export', { what, filter: state.peek().filter, ...question }),
    );
    const a = document.createElement('a');
    a.href = url;
    a.download = '';
    a.click();
  } catch (e) {
    const error = reportFailure(e);
    if (error) notice.value = refused(error.body);
  }
}

/** A cell as tables outside of the page have it: tracks by their names. */
const exportedCell = (row: Row, column: EventColumn): string | number | null =>
  column === 'track' ? (trackById.peek().get(row.track)?.name ?? row.track) : row[column];

export async function saveEvents(): Promise<void> {
  // The server writes it while it is fetched, however long it is.
  if (!isFile.peek()) {
    await fetched('events', {});
    return;
  }
  const { filter } = state.peek();
  const lines = [`${EVENT_COLUMNS.join(',')}\n`];
  const end = hold();
  try {
    for (let from = 0; ; ) {
      const { rows } = await ask<Rows>('events', { from, limit: PAGE, filter });
      if (rows.length === 0) break;
      for (const row of rows)
        lines.push(`${EVENT_COLUMNS.map((column) => csvCell(exportedCell(row, column))).join(',')}\n`);
      from += rows.length;
    }
    saveFile('events.csv', lines, 'text/csv');
  } catch (e) {
    const error = reportFailure(e);
    if (error) notice.value = refused(error.body);
  } finally {
    end();
  }
}

export async function saveStatistics(): Promise<void> {
  const value = selectAnswer.peek().value ?? (await whileBusy(ask<typeof selectAnswer.value.value>('select', {})));
  if (!value) return;
  const lines = [
    'name,events,gap_min,gap_p50,gap_max\n',
    ...value.names.map((n) => `${[n.name, n.events, n.gap_min, n.gap_p50, n.gap_max].map(csvCell).join(',')}\n`),
  ];
  if (value.calls?.length) {
    lines.push('\nname,calls,whole,total,self,min,mean,p50,p90,p99,max\n');
    for (const c of value.calls)
      lines.push(
        `${[c.name, c.calls, c.whole, c.total, c.self, c.min, c.mean, c.p50, c.p90, c.p99, c.max].map(csvCell).join(',')}\n`,
      );
  }
  if (value.states?.length) {
    lines.push('\nof,state,count,whole,total,min,mean,p50,p90,p99,max\n');
    for (const s of value.states)
      lines.push(
        `${[s.of, s.name, s.count, s.whole, s.total, s.min, s.mean, s.p50, s.p90, s.p99, s.max].map(csvCell).join(',')}\n`,
      );
  }
  saveFile('statistics.csv', lines, 'text/csv');
}

/** The range that exports are about: the selection, else the view. */
const exported = (): { begin: string; end: string } => {
  const range = state.peek().selection ?? view.peek();
  return { begin: String(range.begin), end: String(range.end) };
};

export const cutTrace = (): Promise<void> => fetched('trace', { ...exported(), tracks: [...state.peek().chosen] });

/** The line that prints what is chosen. */
export function commandLine(): string {
  const { filter, chosen, selection, view: shown } = state.peek();
  const range = selection ?? shown;
  const of = chosen.map((id) => trackById.peek().get(id)).filter((t) => t !== undefined);
  const streams = of
    .map((t) => (t.base ? t.name : trackById.peek().get(t.of ?? '')?.name))
    .filter((n) => n !== undefined);
  const groups = new Map<string, string[]>();
  for (const t of of) if (t.group && t.value != null) groups.set(t.group, [...(groups.get(t.group) ?? []), t.value]);
  const value = (text: string): string => (/^-?\d+(\.\d+)?$/.test(text) ? text : quoted(text));
  const own = [...groups]
    .filter(([path]) => path !== 'thread' && path !== 'process')
    .map(([path, values]) => `${path} in (${values.map(value).join(', ')})`);
  const moved = (session.peek()?.traces ?? [])
    .filter((t) => BigInt(t.moved_ns ?? 0) !== 0n || t.aligned_ns != null)
    .map((t): [string, string] => [t.name ?? t.path, String(BigInt(t.moved_ns ?? 0) + BigInt(t.aligned_ns ?? 0))]);
  return printing(
    session.peek()?.command ?? '',
    (session.peek()?.traces ?? []).map((t) => t.path),
    {
      begin: range?.begin ?? null,
      end: range?.end ?? null,
      filter: own.reduce(andConditions, filter),
      streams: [...new Set(streams)],
      moved,
    },
  );
}

export async function copyLink(): Promise<void> {
  await copyText(
    `${location.origin === 'null' ? 'file://' : location.origin}${location.pathname}${link.peek() ? `#${link.peek()}` : ''}`,
  );
  said.value = 'The link is copied';
}

export async function copyCommand(): Promise<void> {
  await copyText(commandLine());
  said.value = 'The command is copied';
}
