// The table of events: of any length, with only those rows in the page that are in sight.
import { effect, signal } from '@preact/signals';
import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { EVENT_COLUMNS, type EventColumn } from '../api/columns';
import type { Row, Rows } from '../api/types';
import { dialog } from '../keys/focus';
import { addBookmark, chooseEvent, reveal } from '../state/actions';
import { chosenRow, shownTotal, table } from '../state/event-rows';
import { applyFilter } from '../state/filter';
import { isNamed } from '../state/filters';
import { valueAt } from '../state/json';
import { ask } from '../state/session';
import { change, format, session, state, timeContext, view } from '../state/store';
import { duration, grouped, point, TIME_FORMAT_LABELS } from '../time/format';
import { saveEvents } from './export';
import { type MenuItem, openMenu } from './menu';
import { Chip, clipped, copyText, Marked } from './parts';

const ROW_PX = 20;
const HEAD_PX = 24;
/** Browsers lose precision in boxes that are higher than this; then the scroll bar stands for shares of the rows. */
const MOST_PX = 8_000_000;
const MARGIN_ROWS = 8;
const FOLLOW_MS = 150;

/** The first row in sight. */
const first = signal(0);
const room = signal(10);
const follow = signal(false);

const totalRows = (): number => shownTotal.value ?? table.reached.value;
const scaledUp = (): boolean => totalRows() * ROW_PX > MOST_PX;

export function EventTools(): JSX.Element {
  return (
    <>
      <span>{state.value.filter ? 'Rows: what the filter leaves' : 'Rows: whole trace'}</span>
      <button
        type="button"
        class="ib out small"
        aria-pressed={follow.value}
        onClick={() => {
          follow.value = !follow.value;
        }}
      >
        Follow view
      </button>
      <button
        type="button"
        class="ib out small"
        onClick={() => {
          dialog.value = 'columns';
        }}
      >
        Columns
      </button>
      <button type="button" class="ib out small" onClick={() => void saveEvents()}>
        CSV
      </button>
    </>
  );
}

// The table goes to the row that is chosen, and to the view when it is told to.
effect(() => {
  const row = chosenRow.value;
  if (row === null) return;
  const at = first.peek();
  if (row < at || row > at + room.peek() - 2) first.value = Math.max(0, row - Math.floor(room.peek() / 3));
});
effect(() => {
  if (!follow.value) return undefined;
  const { begin } = view.value;
  const { filter } = state.value;
  const timer = setTimeout(() => {
    void ask<Rows>('events', { at: String(begin), limit: 1, filter }).then(
      (r) => {
        first.value = r.from;
      },
      () => {},
    );
  }, FOLLOW_MS);
  return () => clearTimeout(timer);
});
effect(() => {
  const to = Math.floor(first.value) + room.value + MARGIN_ROWS;
  table.request(
    Math.max(0, Math.floor(first.value) - MARGIN_ROWS),
    shownTotal.value === null ? to : Math.min(to, Math.max(1, shownTotal.value)),
  );
});

/** The height that rows have. */
const inside = (box: HTMLElement): number => Math.max(0, box.clientHeight - HEAD_PX);

/** A column of the table: one of those that all events have, or a field by its path. */
interface Column {
  readonly key: string;
  readonly head: string;
  readonly width: string;
  readonly right: boolean;
  cell(row: Row): { text: ComponentChildren; value: string };
}

type Shown = Omit<Column, 'key'>;

/** How each column is shown; null where it is not. */
function shownColumns(): Record<EventColumn, Shown | null> {
  const several = (session.value?.traces.length ?? 0) > 1;
  const { columns: paths, query } = state.value;
  const plain = (v: string | number | null): { text: string; value: string } => ({
    text: String(v ?? ''),
    value: String(v ?? ''),
  });
  return {
    event: {
      head: 'Event',
      width: '84px',
      right: true,
      cell: (r) => ({ text: grouped(r.event), value: String(r.event) }),
    },
    ns: {
      head: `Time, ${TIME_FORMAT_LABELS[format.value]}`,
      width: '172px',
      right: true,
      cell: (r) => ({ text: timeOf(r), value: r.ns ?? '' }),
    },
    since: {
      head: 'Since previous',
      width: '124px',
      right: true,
      cell: (r) => ({ text: sinceOf(r), value: r.since ?? '' }),
    },
    name: {
      head: 'Name',
      width: 'minmax(120px, 1fr)',
      right: false,
      cell: (r) => ({
        text: (
          <>
            <Chip name={r.name} small />
            <Marked text={clipped(r.title || r.name, 300)} query={query} />
          </>
        ),
        value: r.name,
      }),
    },
    cpu: { head: 'CPU', width: '54px', right: true, cell: (r) => plain(r.cpu) },
    trace: several ? { head: 'Trace', width: '110px', right: false, cell: (r) => plain(traceName(r.trace)) } : null,
    // The timeline shows it.
    track: null,
    // Fields that were chosen stand in its place.
    text:
      paths.length > 0
        ? null
        : {
            head: 'Fields',
            width: 'minmax(160px, 3fr)',
            right: false,
            cell: (r) => ({ text: <Fields text={clipped(r.text, 600)} />, value: r.text }),
          },
  };
}

function fieldColumn(path: string): Column {
  const cell = (row: Row): { text: string; value: string } => {
    const value = valueAt(row.json ?? '', path);
    return { text: clipped(value, 300), value };
  };
  return { key: path, head: path, width: 'minmax(90px, 1fr)', right: false, cell };
}

function columnsShown(): Column[] {
  const shown = shownColumns();
  const own = EVENT_COLUMNS.flatMap((key) => (shown[key] ? [{ key, ...shown[key] }] : []));
  return [...own, ...state.value.columns.map(fieldColumn)];
}

const sinceOf = ({ since }: Row): string =>
  since === null ? '' : `${since.startsWith('-') ? '' : '+'}${duration(BigInt(since))}`;

/** The time of a row; cycles are in its line alone. */
function timeOf(row: Row): string {
  if (format.value === 'cycles') {
    const cycles = valueAt(row.json ?? '', 'cycles');
    return cycles === 'null' ? '' : grouped(cycles);
  }
  return row.ns === null ? '' : point(BigInt(row.ns), timeContext.value);
}

function traceName(trace: number | string | null): string {
  if (typeof trace !== 'number') return trace ?? '';
  const t = session.value?.traces[trace];
  const name = t?.name ?? t?.path ?? '';
  return name.slice(name.lastIndexOf('/') + 1);
}

/** `{ a = 1, b = "x" }`, with the names paler than the values. */
function Fields({ text }: { text: string }): JSX.Element {
  const bare = /^\{ (.*) \}$/s.exec(text)?.[1] ?? text;
  const parts: ComponentChildren[] = [];
  let from = 0;
  for (const m of bare.matchAll(/(^|, |\{ )([A-Za-z_][\w:]*) = /g)) {
    const at = m.index + (m[1] ?? '').length;
    parts.push(bare.slice(from, at).replace(/, $/, '\u2002'), <span class="fk">{m[2]} </span>);
    from = m.index + m[0].length;
    if (parts.length > 60) break;
  }
  return (
    <>
      {parts}
      {bare.slice(from)}
    </>
  );
}

export function Events(): JSX.Element {
  const body = useRef<HTMLDivElement>(null);
  const programmatic = useRef(false);
  /** Scrolls to the first row in sight; before its rows are there a box cannot be scrolled. */
  const place = (): boolean => {
    const box = body.current;
    if (!box) return false;
    const most = Math.max(0, totalRows() - Math.floor(inside(box) / ROW_PX));
    const at = Math.min(first.peek(), most);
    const wanted = scaledUp() ? (most === 0 ? 0 : (at / most) * (MOST_PX - inside(box))) : at * ROW_PX;
    if (Math.abs(box.scrollTop - wanted) < (scaledUp() ? 1 : ROW_PX)) return false;
    const before = box.scrollTop;
    box.scrollTop = wanted;
    programmatic.current = box.scrollTop !== before;
    return programmatic.current;
  };
  const [, again] = useState(0);
  // Where rows stand in a box of shares follows from how far it is scrolled.
  useLayoutEffect(() => {
    if (place() && scaledUp()) again((n) => n + 1);
  });
  useLayoutEffect(() => {
    const box = body.current;
    if (!box) return undefined;
    const measure = (): void => {
      room.value = Math.max(3, Math.ceil(inside(box) / ROW_PX));
    };
    const watch = new ResizeObserver(measure);
    watch.observe(box);
    measure();
    const stop = effect(() => {
      void [totalRows(), first.value];
      place();
    });
    const wheel = (e: WheelEvent): void => {
      if (!scaledUp() || e.ctrlKey) return;
      e.preventDefault();
      first.value = Math.max(
        0,
        Math.min(
          totalRows() - room.peek() + 1,
          first.peek() + Math.round((e.deltaMode === 1 ? e.deltaY * 16 : e.deltaY) / ROW_PX),
        ),
      );
    };
    box.addEventListener('wheel', wheel, { passive: false });
    return () => {
      watch.disconnect();
      stop();
      box.removeEventListener('wheel', wheel);
    };
  }, []);
  const onScroll = (): void => {
    const box = body.current;
    if (!box) return;
    if (programmatic.current) {
      programmatic.current = false;
      return;
    }
    const total = totalRows();
    const most = Math.max(0, total - Math.floor(inside(box) / ROW_PX));
    first.value = scaledUp()
      ? Math.round((box.scrollTop / Math.max(1, MOST_PX - inside(box))) * most)
      : Math.floor(box.scrollTop / ROW_PX);
  };
  void table.arrived.value;
  const columns = columnsShown();
  const template = columns.map((c) => c.width).join(' ');
  const total = shownTotal.value;
  const rows: JSX.Element[] = [];
  const big = scaledUp();
  const from = Math.max(0, Math.floor(first.value) - MARGIN_ROWS);
  const to = Math.min(totalRows(), Math.floor(first.value) + room.value + MARGIN_ROWS);
  const scrolled = big ? (body.current?.scrollTop ?? 0) - first.value * ROW_PX : 0;
  const chosen = state.value.event;
  for (let i = from; i < to; i++) {
    const row = table.row(i);
    if (!row) continue;
    rows.push(
      <EventRow
        key={i}
        row={row}
        index={i}
        top={i * ROW_PX + scrolled}
        columns={columns}
        template={template}
        on={row.event === chosen}
      />,
    );
  }
  const height = big ? MOST_PX : totalRows() * ROW_PX;
  const active =
    chosenRow.value !== null && chosenRow.value >= from && chosenRow.value < to && table.row(chosenRow.value)
      ? `event-row-${chosenRow.value}`
      : undefined;
  return (
    <div
      class="grid"
      ref={body}
      role="grid"
      data-testid="events"
      aria-label="Events"
      tabIndex={0}
      aria-rowcount={total === null ? -1 : total + 1}
      aria-colcount={columns.length}
      aria-activedescendant={active}
      onKeyDown={onGridKey}
      onScroll={onScroll}
    >
      <div class="gr gh" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
        {columns.map((c) => (
          <div role="columnheader" class={c.right ? 'r' : ''} title={c.head}>
            {c.head}
          </div>
        ))}
      </div>
      <div role="rowgroup" class="rows" style={{ height: `${height}px` }}>
        {rows}
      </div>
    </div>
  );
}

function EventRow({
  row,
  index,
  top,
  columns,
  template,
  on,
}: {
  row: Row;
  index: number;
  top: number;
  columns: readonly Column[];
  template: string;
  on: boolean;
}): JSX.Element {
  return (
    <div
      id={`event-row-${index}`}
      class={`gr gb${index % 2 ? ' alt' : ''}`}
      role="row"
      data-testid="event-row"
      data-event={row.event}
      data-ns={row.ns ?? ''}
      aria-rowindex={index + 2}
      aria-selected={on}
      style={{ top: `${top}px`, gridTemplateColumns: template }}
      onClick={() => choose(row)}
      onContextMenu={(e) => {
        e.preventDefault();
        choose(row);
        openMenu(e.clientX, e.clientY, `Event ${row.event}`, rowMenu(row, columns));
      }}
    >
      {columns.map((c) => {
        const { text, value } = c.cell(row);
        return (
          <div
            role="gridcell"
            class={c.right ? 'r' : c.key === 'text' || c.key.includes('.') ? 'm' : ''}
            data-column={c.key}
            data-value={value}
            title={c.key === 'text' || c.key === 'name' ? undefined : value}
          >
            {text}
          </div>
        );
      })}
    </div>
  );
}

/** The actions of a row; text is copied as it is shown. */
const rowMenu = (row: Row, columns: readonly Column[]): (MenuItem | null)[] => [
  { label: 'Filter by name', run: () => void applyFilter(isNamed(row.name)) },
  {
    label: 'Bookmark',
    run: () => {
      if (row.ns !== null) {
        change({ cursor: BigInt(row.ns) });
        addBookmark();
        dialog.value = 'bookmark';
      }
    },
  },
  null,
  { label: 'Copy the time', run: () => void copyText(timeOf(row)) },
  { label: 'Copy the name', run: () => void copyText(row.name) },
  {
    label: 'Copy the row',
    run: () => void copyText(columns.map((c) => (c.key === 'ns' ? timeOf(row) : c.cell(row).value)).join('\t')),
  },
];

function choose(row: Row): void {
  chooseEvent(row.event);
  if (row.ns !== null) {
    change({ cursor: BigInt(row.ns) });
    reveal(BigInt(row.ns));
  }
}

/** Goes to another row, which is loaded first when it is far away. */
async function goTo(index: number): Promise<void> {
  const total = totalRows();
  const to = Math.max(0, Math.min(total - 1, index));
  if (to < first.peek()) first.value = to;
  else if (to > first.peek() + room.peek() - 2) first.value = Math.max(0, to - room.peek() + 2);
  const row =
    table.row(to) ??
    (await ask<Rows>('events', { from: to, limit: 1, filter: state.peek().filter }).catch(() => null))?.rows[0];
  if (row) choose(row);
}

function onGridKey(e: KeyboardEvent): void {
  if (e.altKey || e.metaKey) return;
  const at = chosenRow.peek();
  const page = Math.max(1, room.peek() - 2);
  const from = at ?? Math.max(0, Math.floor(first.peek()) - 1);
  switch (e.ctrlKey ? `Ctrl+${e.key}` : e.key) {
    case 'ArrowDown':
      void goTo(from + 1);
      break;
    case 'ArrowUp':
      void goTo(from - 1);
      break;
    case 'PageDown':
      void goTo(from + page);
      break;
    case 'PageUp':
      void goTo(from - page);
      break;
    case 'Ctrl+Home':
      void goTo(0);
      break;
    case 'Ctrl+End':
      void goTo(totalRows() - 1);
      break;
    case 'Home':
    case 'End':
    case 'ArrowLeft':
    case 'ArrowRight':
      break;
    case 'ContextMenu':
    case 'F10': {
      const row = at === null || (e.key === 'F10' && !e.shiftKey) ? null : table.row(at);
      const box = document.getElementById(`event-row-${at}`)?.getBoundingClientRect();
      if (!row || !box) return;
      openMenu(box.left + 90, box.bottom, `Event ${row.event}`, rowMenu(row, columnsShown()));
      break;
    }
    case 'Enter': {
      const row = at === null ? null : table.row(at);
      if (row?.ns) {
        change({ cursor: BigInt(row.ns) }, 'jump');
        reveal(BigInt(row.ns), 'jump');
      }
      break;
    }
    default:
      return;
  }
  e.preventDefault();
  e.stopPropagation();
}
