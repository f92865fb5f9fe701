// Dialogs: help, go to, find, bookmarks, columns.
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { EventDetails } from '../api/types';
import { COMMANDS, GROUPS, keyLabel } from '../keys/commands';
import { dialog } from '../keys/focus';
import * as act from '../state/actions';
import { reportFailure } from '../state/answers';
import { whileBusy } from '../state/busy';
import { goToTrack } from '../state/find';
import { eventAnswer } from '../state/selection';
import { ask } from '../state/session';
import { change, format, fullRange, isFile, session, state } from '../state/store';
import { tracks } from '../state/tracks';
import { numberOf } from '../time/format';
import { parseDuration, parseRange, parseTime } from '../time/parse';
import { Dialog } from './parts';
import { letterKeys, setLetterKeys } from './settings';

/** The bookmark whose label is typed. */
export const editedBookmark = signal<bigint | null>(null);

/** The trace whose clock is moved. */
export const clockOf = signal<number | null>(null);

/** The trace that is grouped, by the id of its track. */
export const groupOf = signal<string | null>(null);

const close = (): void => {
  dialog.value = null;
};

export function Dialogs(): JSX.Element | null {
  switch (dialog.value) {
    case 'help':
      return <Help />;
    case 'goto':
      return <GoTo />;
    case 'tracks':
      return <Palette key="tracks" title="Find a track" entries={trackEntries()} />;
    case 'commands':
      return (
        <Palette
          key="commands"
          title="Find a command"
          entries={COMMANDS.map((c) => ({ label: c.label, note: c.keys.map(keyLabel).join('  '), run: c.run }))}
        />
      );
    case 'bookmark':
      return <BookmarkName />;
    case 'columns':
      return <Columns />;
    case 'clock':
      return <Clock />;
    case 'group':
      return <GroupBy />;
    default:
      return null;
  }
}

const MOUSE: readonly (readonly [string, string])[] = [
  ['Drag', 'select time and tracks; Alt: without snapping'],
  ['Drag the ruler', 'select time in all tracks'],
  ['Shift+drag', 'move'],
  ['Ctrl+wheel, pinch', 'zoom around the pointer'],
  ['Double click', 'fit a slice'],
  ['Right click', 'menu of a track, an event, a field, a bookmark'],
  ['Drag a label', 'put the track elsewhere'],
  ['Alt+drag a group', 'move its clock'],
  ['Wheel over deep calls', 'their deeper lanes'],
];

function Help(): JSX.Element {
  return (
    <Dialog id="help" title="Keys and help" close={close}>
      <div class="keys">
        {GROUPS.map((group) => (
          <section key={group}>
            <h3>{group}</h3>
            <dl>
              {COMMANDS.filter((c) => c.group === group && c.keys.length > 0).map((c) => (
                <div>
                  <dt>
                    {c.keys.map((k) => (
                      <kbd>{keyLabel(k)}</kbd>
                    ))}
                  </dt>
                  <dd>{c.label}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
        <section>
          <h3>Mouse and touchpad</h3>
          <dl>
            {MOUSE.map(([what, does]) => (
              <div>
                <dt>{what}</dt>
                <dd>{does}</dd>
              </div>
            ))}
          </dl>
        </section>
        <section>
          <h3>In tables</h3>
          <dl>
            <div>
              <dt>
                <kbd>↑</kbd>
                <kbd>↓</kbd>
              </dt>
              <dd>
                row above, below; PageUp and PageDown, Ctrl+Home, Ctrl+End; Enter shows it on the timeline, Shift+F10
                opens its menu
              </dd>
            </div>
          </dl>
        </section>
      </div>
      <label class="check">
        <input type="checkbox" checked={letterKeys.value} onChange={(e) => setLetterKeys(e.currentTarget.checked)} />
        Single letters are keys
      </label>
      {isFile.value ? (
        <p class="hint2">
          This page holds its data. It cannot cut traces, run SQL, group tracks, plot fields or move clocks, and has
          only the fields that were written into it: tracemill view does all of that where the trace is.
        </p>
      ) : null}
      <p class="hint2">{session.value?.program ?? ''}</p>
    </Dialog>
  );
}

function GoTo(): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  const [wrong, setWrong] = useState('');
  useEffect(() => field.current?.focus(), []);
  const go = async (selects: boolean): Promise<void> => {
    const text = field.current?.value ?? '';
    const number = /^#\s*([\d\s\u202f]+)$/.exec(text.trim());
    if (number) {
      const event = Number((number[1] ?? '').replace(/\D/g, ''));
      try {
        const found = await whileBusy(ask<EventDetails>(`event/${event}`));
        close();
        act.chooseEvent(event, 'jump');
        if (found.ns !== null) {
          change({ cursor: BigInt(found.ns) });
          act.reveal(BigInt(found.ns));
        }
      } catch (e) {
        setWrong(reportFailure(e)?.body.message ?? 'there is no such event');
      }
      return;
    }
    const context = { begin: fullRange.peek().begin, end: fullRange.peek().end, local: format.peek() === 'local' };
    const range = parseRange(text, context);
    if (range) {
      close();
      if (selects) act.select(range);
      else change({ view: range }, 'jump');
      return;
    }
    const at = parseTime(text, context);
    if (at === null) {
      setWrong(
        'That is no time: write +1.5s, -200ms, 10:30:05.25, seconds, 1700000001000962416ns, two of them with .. between, or #N for an event',
      );
      return;
    }
    close();
    act.goTo(at);
  };
  return (
    <Dialog id="goto-dialog" title="Go to" close={close}>
      <div class="palette">
        <input
          ref={field}
          class="plainfield"
          type="text"
          data-testid="goto"
          aria-label="Time or #event"
          placeholder="+1.5s, 10:30:05, 1700000001000962416ns, +1s..+2s or #1383"
          autocomplete="off"
          spellcheck={false}
          aria-invalid={wrong !== ''}
          onKeyDown={(e) => {
            if (e.key === 'Enter') {
              e.preventDefault();
              void go(e.shiftKey);
            }
          }}
        />
        <p class="hint2">
          With <code>A..B</code> Enter shows that time, Shift+Enter selects it.
        </p>
        {wrong ? (
          <p class="hint2 loss" role="alert">
            {wrong}
          </p>
        ) : null}
      </div>
    </Dialog>
  );
}

interface Entry {
  readonly label: string;
  readonly note: string;
  run(): unknown;
}
const MOST_ENTRIES = 60;

const trackEntries = (): Entry[] =>
  tracks.value
    .filter((t) => t.kind !== 'heading')
    .map((t) => ({
      label: t.name,
      note:
        t.kind === 'group'
          ? 'group'
          : t.kind === 'calls'
            ? numberOf(t.calls ?? 0, 'call')
            : t.kind === 'state'
              ? numberOf(t.states ?? 0, 'state')
              : numberOf(t.events ?? 0, 'event'),
      run: () => goToTrack(t.id),
    }));

function Palette({ title, entries }: { title: string; entries: readonly Entry[] }): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  useEffect(() => field.current?.focus(), []);
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((w) => w !== '');
  const list = entries.filter((e) => words.every((w) => e.label.toLowerCase().includes(w))).slice(0, MOST_ENTRIES);
  const run = (entry: Entry | undefined): void => {
    if (!entry) return;
    close();
    entry.run();
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    if (e.key === 'ArrowDown') setAt(Math.min(list.length - 1, at + 1));
    else if (e.key === 'ArrowUp') setAt(Math.max(0, at - 1));
    else if (e.key === 'Enter') run(list[at]);
    else return;
    e.preventDefault();
  };
  useEffect(() => document.getElementById(`palette-${at}`)?.scrollIntoView({ block: 'nearest' }), [at]);
  return (
    <Dialog id="palette" title={title} close={close}>
      <div class="palette">
        <input
          ref={field}
          type="text"
          role="combobox"
          aria-label={title}
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={list.length ? `palette-${at}` : undefined}
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(e) => {
            setText(e.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={onKeyDown}
        />
        <div class="options" id="palette-list" role="listbox" aria-label={title}>
          {list.map((e, i) => (
            <div id={`palette-${i}`} role="option" aria-selected={i === at} onClick={() => run(e)}>
              {e.label.slice(0, 120)}
              <span>{e.note}</span>
            </div>
          ))}
        </div>
      </div>
    </Dialog>
  );
}

function BookmarkName(): JSX.Element {
  const { bookmarks, cursor, selection } = state.peek();
  const ns = editedBookmark.peek() ?? cursor ?? selection?.begin ?? bookmarks[bookmarks.length - 1]?.ns ?? null;
  const own = bookmarks.find((b) => b.ns === ns) ?? bookmarks[bookmarks.length - 1];
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  const done = (): void => {
    if (own) act.renameBookmark(own.ns, field.current?.value ?? own.label);
    editedBookmark.value = null;
    close();
  };
  return (
    <Dialog
      id="bookmark-dialog"
      title="Bookmark"
      close={() => {
        editedBookmark.value = null;
        close();
      }}
    >
      <div class="palette">
        <input
          ref={field}
          class="plainfield"
          type="text"
          aria-label="Text of the bookmark"
          value={own?.label ?? ''}
          autocomplete="off"
          onKeyDown={(e) => {
            if (e.key === 'Enter') {
              e.preventDefault();
              done();
            }
          }}
        />
        <div class="actions">
          <button
            type="button"
            class="ib"
            onClick={() => {
              if (own) act.removeBookmark(own.ns);
              editedBookmark.value = null;
              close();
            }}
          >
            Remove
          </button>
          <button type="button" class="ib out" onClick={done}>
            Keep
          </button>
        </div>
      </div>
    </Dialog>
  );
}

const movedText = (ns: string | undefined): string =>
  ns === undefined || ns === '0' ? '' : `${ns.startsWith('-') ? '' : '+'}${ns}ns`;

/** Moves the clock of one trace, for as long as the server runs. */
function Clock(): JSX.Element | null {
  const field = useRef<HTMLInputElement>(null);
  const [said, setSaid] = useState('');
  useEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  const index = clockOf.value;
  const trace = index === null ? undefined : session.value?.traces[index];
  if (index === null || !trace) return null;
  const move = async (): Promise<void> => {
    const text = (field.current?.value ?? '').trim();
    const sign = text.startsWith('-') ? -1n : 1n;
    const length = parseDuration(text.replace(/^[+-]/, ''));
    if (length === null) {
      setSaid('That is no duration: write 1.5s, -200ms or 37ns');
      return;
    }
    try {
      setSaid(await act.moveClock(index, sign * length));
    } catch (e) {
      setSaid(reportFailure(e)?.body.message ?? '');
    }
  };
  return (
    <Dialog id="clock" title={`Move the clock of ${(trace.name ?? trace.path).slice(0, 120)}`} close={close}>
      <div class="palette">
        <input
          ref={field}
          class="plainfield"
          type="text"
          aria-label="By how much"
          defaultValue={movedText(trace.moved_ns)}
          placeholder="+1.5s, -200ms, 37ns"
          autocomplete="off"
          spellcheck={false}
          onKeyDown={(e) => {
            if (e.key === 'Enter') {
              e.preventDefault();
              void move();
            }
          }}
        />
        <p class="hint2" role="status">
          {said}
        </p>
        <div class="actions">
          <button type="button" class="ib out" onClick={() => void move()}>
            Move
          </button>
        </div>
      </div>
    </Dialog>
  );
}

/** Groups the tracks of a trace by any path. */
function GroupBy(): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const go = (): void => {
    const path = field.current?.value.trim() ?? '';
    if (path && groupOf.peek() !== null) {
      close();
      act.groupBy(groupOf.peek() ?? '', path);
    }
  };
  return (
    <Dialog id="group" title="Group by" close={close}>
      <div class="palette">
        <input
          ref={field}
          class="plainfield"
          type="text"
          aria-label="Path of a field"
          placeholder="payload.id, event_context.vtid"
          autocomplete="off"
          spellcheck={false}
          onKeyDown={(e) => {
            if (e.key === 'Enter') {
              e.preventDefault();
              go();
            }
          }}
        />
        <div class="actions">
          <button type="button" class="ib out" onClick={go}>
            Group
          </button>
        </div>
      </div>
    </Dialog>
  );
}

function Columns(): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  const { columns } = state.value;
  const known = (eventAnswer.value.value?.fields ?? [])
    .map((f) => f.path)
    .filter((p) => !columns.includes(p))
    .slice(0, 40);
  const add = (path: string): void => {
    const p = path.trim();
    if (p && !columns.includes(p)) change({ columns: [...columns, p] });
  };
  return (
    <Dialog id="columns" title="Columns" close={close}>
      <div class="palette">
        <p class="hint2">Without a choice all fields are shown in one column.</p>
        {columns.map((c) => (
          <div class="check">
            <code>{c}</code>
            <span class="grow" />
            <button
              type="button"
              class="ib small"
              aria-label={`Remove ${c}`}
              onClick={() => change({ columns: columns.filter((o) => o !== c) })}
            >
              ✕
            </button>
          </div>
        ))}
        <input
          ref={field}
          class="plainfield"
          type="text"
          aria-label="Path of a field"
          placeholder="payload.grams"
          autocomplete="off"
          spellcheck={false}
          onKeyDown={(e) => {
            if (e.key === 'Enter') {
              e.preventDefault();
              add(e.currentTarget.value);
              e.currentTarget.value = '';
            }
          }}
        />
        {known.length ? <p class="hint2">Of the chosen event</p> : null}
        <div class="acts">
          {known.map((p) => (
            <button type="button" class="ib out small" onClick={() => add(p)}>
              {p.slice(0, 60)}
            </button>
          ))}
        </div>
      </div>
    </Dialog>
  );
}
