// The bar: what is open, search, filter, and what concerns the whole page.
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ErrorBody } from '../api/types';
import { dialog, focusTimeline } from '../keys/focus';
import * as act from '../state/actions';
import { busy } from '../state/busy';
import { shownTotal } from '../state/event-rows';
import { applyFilter, filterError } from '../state/filter';
import { findings, searchAll } from '../state/find';
import { following, growing, toggleFollowing } from '../state/follow';
import { found, inValues, search } from '../state/search';
import { phase } from '../state/session';
import { change, isFile, session, state } from '../state/store';
import { grouped, inOrder, numberOf } from '../time/format';
import { type Completion, completionsOf } from './complete';
import { copyLink, exportMenu } from './export';
import { scheme, turnTheme } from './settings';

export const Logo = (): JSX.Element => (
  <svg
    width="22"
    height="22"
    viewBox="0 0 22 22"
    fill="none"
    stroke="currentColor"
    stroke-width="1.8"
    aria-hidden="true"
  >
    <circle cx="11" cy="11" r="8.6" />
    <circle cx="11" cy="11" r="2.1" fill="currentColor" stroke="none" />
    <path d="M11 2.4C13.5 5 13.5 8 11 11M19.6 11C17 13.5 14 13.5 11 11M11 19.6C8.5 17 8.5 14 11 11M2.4 11C5 8.5 8 8.5 11 11" />
  </svg>
);

export function Bar(): JSX.Element {
  return (
    <header class="top">
      <h1 class="logo">
        <Logo />
        tracemill
      </h1>
      <Crumb />
      <span class="grow" />
      <Follow />
      <Search />
      <Filter />
      <button type="button" class="ib out" aria-haspopup="menu" onClick={(e) => exportMenu(e.currentTarget)}>
        Export
      </button>
      <LinkButton />
      <button
        type="button"
        class="ib"
        data-testid="theme"
        aria-label={`Theme: ${scheme.value}`}
        title="Theme"
        onClick={turnTheme}
      >
        ◐
      </button>
      <button
        type="button"
        class="ib"
        aria-label="Keys and help"
        title="Keys and help"
        onClick={() => {
          dialog.value = 'help';
        }}
      >
        <kbd>?</kbd>
      </button>
      {isFile.value ? null : (
        <button type="button" class="ib wide" onClick={() => void act.endServer()}>
          End server
        </button>
      )}
      <Progress />
    </header>
  );
}

/** Only where there is something to follow. */
function Follow(): JSX.Element | null {
  return growing.value ? (
    <button
      type="button"
      class="ib out"
      data-testid="follow"
      aria-pressed={following.value}
      title="Keep the newest event at the right edge"
      onClick={toggleFollowing}
    >
      Follow
    </button>
  ) : null;
}

function Crumb(): JSX.Element {
  const traces = session.value?.traces ?? [];
  const names = traces.map((t) => t.name ?? t.path);
  const last = names.slice(0, 2).map((name) => inOrder(/[^/]+(?=\/*$)/.exec(name)?.[0] ?? name));
  return (
    <span class="crumb" title={inOrder(names.join(', '))}>
      <b>{last.join(', ')}</b>
      {names.length > 2 ? ', … ' : ' '}
      {traces.length > 0 ? numberOf(traces.length, 'trace') : ''}
    </span>
  );
}

/** A thin line when something takes longer than a moment. */
function Progress(): JSX.Element | null {
  const [late, setLate] = useState(false);
  const on = busy.value && phase.value !== 'ended';
  useEffect(() => {
    if (!on) {
      setLate(false);
      return undefined;
    }
    const timer = setTimeout(() => setLate(true), 200);
    return () => clearTimeout(timer);
  }, [on]);
  return late ? <div class="progress" /> : null;
}

const copied = signal(false);

function LinkButton(): JSX.Element {
  const copy = async (): Promise<void> => {
    await copyLink();
    copied.value = true;
    setTimeout(() => {
      copied.value = false;
    }, 1500);
  };
  return (
    <button type="button" class="ib" title="Copy link" onClick={() => void copy()}>
      {copied.value ? 'Copied' : 'Link'}
    </button>
  );
}

function Search(): JSX.Element {
  const { query } = state.value;
  const result = found.value;
  const fresh =
    result !== null &&
    result.query === query &&
    result.inValues === inValues.value &&
    result.filter === state.value.filter
      ? result
      : null;
  const count = fresh?.count ?? null;
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const list = findings.value;
  const shown = open && query !== '' && list.length > 0;
  useEffect(() => setAt(-1), [query]);
  const take = (i: number): void => {
    setOpen(false);
    list[i]?.run();
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    if (shown && (e.key === 'ArrowDown' || e.key === 'ArrowUp'))
      setAt(e.key === 'ArrowDown' ? (at + 1) % list.length : at <= 0 ? list.length - 1 : at - 1);
    else if (shown && e.key === 'Escape') setOpen(false);
    else if (e.key === 'Enter' && shown && at >= 0) take(at);
    else if (e.key === 'Enter') {
      setOpen(false);
      void searchAll(e.shiftKey ? 'previous' : 'next');
    } else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const words = !fresh
    ? ''
    : count === 0
      ? 'none'
      : `${fresh.index === null ? '' : `${grouped(fresh.index + 1)} of `}${count === null ? '…' : grouped(count)}`;
  return (
    <span class="field search" role="search">
      <span class="glass" aria-hidden="true">
        ⌕
      </span>
      <input
        type="text"
        data-testid="search"
        aria-label="Find names"
        placeholder="Find names"
        autocomplete="off"
        spellcheck={false}
        value={query}
        role="combobox"
        aria-expanded={shown}
        aria-controls="search-options"
        aria-autocomplete="list"
        aria-activedescendant={shown && at >= 0 ? `search-option-${at}` : undefined}
        onInput={(e) => {
          setOpen(true);
          change({ query: e.currentTarget.value });
        }}
        onKeyDown={onKeyDown}
        onBlur={(e) => {
          const field = e.currentTarget;
          setTimeout(() => {
            if (document.activeElement !== field) setOpen(false);
          }, 150);
        }}
      />
      <span
        class="count"
        data-testid="search-count"
        data-index={fresh?.index ?? ''}
        data-count={count ?? ''}
        role="status"
      >
        {words}
      </span>
      {query === '' ? <kbd aria-hidden="true">/</kbd> : null}
      <button
        type="button"
        class="ib small"
        aria-pressed={inValues.value}
        aria-label="In values too"
        title="In values too"
        onClick={() => {
          inValues.value = !inValues.value;
          if (query) void search(query, 'next');
        }}
      >
        <span class="long">In values too</span>
        <span class="short" aria-hidden="true">
          values
        </span>
      </button>
      <div
        id="search-options"
        class="drop options"
        role="listbox"
        aria-label="Tracks and states"
        data-testid="search-options"
        hidden={!shown}
      >
        {shown
          ? list.map((f, i) => (
              <div
                id={`search-option-${i}`}
                role="option"
                data-kind={f.kind}
                aria-selected={i === at}
                onPointerDown={(e) => {
                  e.preventDefault();
                  take(i);
                }}
              >
                {inOrder(f.label.slice(0, 80))}
                <span>{f.note}</span>
              </div>
            ))
          : null}
      </div>
    </span>
  );
}

function Filter(): JSX.Element {
  const { filter } = state.value;
  const ref = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(filter);
  const [options, setOptions] = useState<{ from: number; to: number; list: readonly Completion[]; at: number } | null>(
    null,
  );
  const error = filterError.value;
  useEffect(() => {
    if (!filterError.peek()) setText(filter);
  }, [filter]);
  useEffect(() => {
    if (error) setText(error.text);
  }, [error]);
  const total = shownTotal.value;
  const eventCount = session.value?.events ?? null;
  const complete = (input: HTMLInputElement): void => {
    const found = completionsOf(input.value, input.selectionStart ?? input.value.length);
    setOptions(found.list.length ? { ...found, at: -1 } : null);
  };
  const take = (choice: Completion): void => {
    if (!options || !ref.current) return;
    const next = text.slice(0, options.from) + choice.text + text.slice(options.to);
    setText(next);
    setOptions(null);
    const at = options.from + choice.text.length;
    const input = ref.current;
    queueMicrotask(() => {
      input.focus();
      input.setSelectionRange(at, at);
    });
  };
  const onKeyDown = (e: KeyboardEvent): void => {
    if (options && (e.key === 'ArrowDown' || e.key === 'ArrowUp')) {
      const n = options.list.length;
      setOptions({
        ...options,
        at: (options.at + (e.key === 'ArrowDown' ? 1 : -1) + n + (options.at < 0 && e.key === 'ArrowUp' ? 1 : 0)) % n,
      });
    } else if (options && options.at >= 0 && (e.key === 'Enter' || e.key === 'Tab')) {
      const choice = options.list[options.at];
      if (choice) take(choice);
    } else if (e.key === 'Enter') {
      setOptions(null);
      void applyFilter((e.currentTarget as HTMLInputElement).value);
    } else if (e.key === 'Escape' && (options || error)) {
      setOptions(null);
      filterError.value = null;
      setText(state.peek().filter);
    } else if (e.key === 'Escape') {
      setText(state.peek().filter);
      focusTimeline();
    } else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const listId = 'filter-options';
  return (
    <span class={`field filter${error ? ' bad' : ''}`}>
      <span aria-hidden="true">Filter</span>
      <input
        ref={ref}
        type="text"
        data-testid="filter"
        aria-label="Filter"
        placeholder="e.g. cpu == 0 and grams > 100"
        autocomplete="off"
        spellcheck={false}
        value={text}
        role="combobox"
        aria-expanded={options !== null}
        aria-controls={listId}
        aria-autocomplete="list"
        aria-invalid={error !== null}
        aria-activedescendant={options && options.at >= 0 ? `filter-option-${options.at}` : undefined}
        onInput={(e) => {
          setText(e.currentTarget.value);
          complete(e.currentTarget);
        }}
        onKeyDown={onKeyDown}
        onBlur={() => setTimeout(() => setOptions(null), 150)}
      />
      {filter ? (
        <span class="count">
          {total === null ? '…' : grouped(total)}
          {eventCount === null ? '' : ` of ${grouped(eventCount)}`}
        </span>
      ) : (
        <kbd aria-hidden="true">F</kbd>
      )}
      {filter ? (
        <button
          type="button"
          class="ib small"
          aria-label="Clear filter"
          title="Clear filter"
          onClick={() => {
            filterError.value = null;
            setText('');
            change({ filter: '' }, 'jump');
          }}
        >
          ✕
        </button>
      ) : null}
      <div id={listId} class="drop options" role="listbox" aria-label="Paths and names" hidden={!options}>
        {options?.list.map((o, i) => (
          <div
            id={`filter-option-${i}`}
            role="option"
            aria-selected={i === options.at}
            onPointerDown={(e) => {
              e.preventDefault();
              take(o);
            }}
          >
            {o.text}
            <span>{o.what}</span>
          </div>
        ))}
      </div>
      {error ? <FilterError /> : null}
    </span>
  );
}

/** The server's words, with its place underlined. */
function FilterError(): JSX.Element | null {
  const error = filterError.value;
  if (!error) return null;
  return (
    <div class="drop" role="alert" data-testid="filter-error">
      <Faulty text={error.text} error={error.error} />
    </div>
  );
}

/** A text with the place of its mistake underlined, and what was said about it. */
export function Faulty({ text, error }: { text: string; error: ErrorBody }): JSX.Element {
  const signs = [...text];
  const [from, to] = error.span ?? [0, 0];
  const end = Math.max(to, from + 1);
  return (
    <>
      {error.span ? (
        <code>
          {signs.slice(0, from).join('')}
          <u>{signs.slice(from, end).join('') || ' '}</u>
          {signs.slice(end).join('')}
        </code>
      ) : null}
      <div>{error.message}</div>
      {error.help ? <div class="help">{error.help}</div> : null}
    </>
  );
}
