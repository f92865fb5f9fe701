// Screens in place of a trace, and messages above it.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { shownTotal } from '../state/event-rows';
import { failure, phase } from '../state/session';
import { change, session, state } from '../state/store';
import { tracks } from '../state/tracks';
import { tryAgain } from '../state/watch';
import { grouped, numberOf } from '../time/format';
import { Logo } from './bar';
import { clipped, copyText } from './parts';

const Title = (): JSX.Element => (
  <h1 class="logo">
    <Logo />
    tracemill
  </h1>
);

export const NoToken = (): JSX.Element => (
  <main class="page">
    <Title />
    <p>
      This page belongs to a running <code>tracemill view</code>. Open the address that it printed.
    </p>
  </main>
);

export const Failure = (): JSX.Element => (
  <main class="page">
    <Title />
    <p role="alert">
      {failure.value?.message}
      {failure.value?.help ? `\n${failure.value.help}` : ''}
    </p>
    <button type="button" class="ib out" onClick={() => void tryAgain()}>
      Try again
    </button>
  </main>
);

/** Said over what was drawn last. */
export function Ended(): JSX.Element {
  const [copied, setCopied] = useState(false);
  const command = session.value?.command ?? 'tracemill view';
  return (
    <div class="banner" role="alert">
      <span>The server has ended. Begin again with</span>
      <code>{/\bview\b/.test(command) ? command : `tracemill view (${command})`}</code>
      <button type="button" class="ib out small" onClick={() => void copyText(command).then(() => setCopied(true))}>
        {copied ? 'Copied' : 'Copy'}
      </button>
    </div>
  );
}

export const isEmpty = (): boolean => {
  if (phase.value !== 'ready') return false;
  return session.value?.events === 0 || (state.value.filter !== '' && shownTotal.value === 0);
};

/** Events that stand at no place of the timeline, and none that does. */
const isTimeless = (): boolean => {
  if (phase.value !== 'ready' || !session.value?.events || state.value.filter !== '') return false;
  const bases = tracks.value.filter((t) => t.base);
  return bases.length > 0 && bases.every((t) => t.events !== null && t.untimed === t.events);
};

const MOST_STREAMS = 12;

/** Traces without events: what there is of them. */
function NoEvents(): JSX.Element {
  const streams = tracks.value.filter((t) => t.base);
  const several = (session.value?.traces.length ?? 0) > 1;
  return (
    <div class="note">
      <b>{several ? 'The traces have no events' : 'The trace has no events'}</b>
      <span>{streams.length === 0 ? 'It has no streams' : numberOf(streams.length, 'stream')}</span>
      <ul class="plain">
        {streams.slice(0, MOST_STREAMS).map((t) => (
          <li>
            {clipped(t.name, 80)}
            {t.packets == null ? '' : `, ${numberOf(t.packets, 'packet')}`}
          </li>
        ))}
      </ul>
      {streams.length > MOST_STREAMS ? <span>and {grouped(streams.length - MOST_STREAMS)} more</span> : null}
    </div>
  );
}

/** Why the timeline has nothing to show. */
export function Empty(): JSX.Element | null {
  if (phase.value === 'loading') {
    const name = session.value?.traces[0]?.name ?? session.value?.traces[0]?.path;
    return tracks.value.length === 0 ? (
      <div class="note">
        <span>Reading {name ?? 'the trace'}</span>
      </div>
    ) : null;
  }
  if (isTimeless())
    return (
      <div class="note">
        <b>The events have no times</b>
        <span>The table has all of them.</span>
      </div>
    );
  if (!isEmpty()) return null;
  if (session.value?.events === 0) return <NoEvents />;
  return (
    <div class="note">
      <b>No event matches the filter</b>
      <button type="button" class="ib out" onClick={() => change({ filter: '' }, 'jump')}>
        Clear filter
      </button>
    </div>
  );
}
