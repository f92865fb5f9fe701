// The line at the bottom, and what is said to those who hear the page.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { markOf, notice, panelShown, pointer, said, sliceOf } from '../state/actions';
import { filterDone } from '../state/filter';
import { found } from '../state/search';
import { callAnswer, eventAnswer } from '../state/selection';
import { change, fullRange, session, state, timeContext } from '../state/store';
import { duration, grouped, numberOf, point, signed } from '../time/format';
import { spanOf } from '../time/range';
import { viewWords } from './tracks';

const SAID_MS = 500;

export function Status(): JSX.Element {
  const s = session.value;
  if (!s) return <footer class="stat" />;
  const { events, packets } = s.losses;
  const lost = [events ? numberOf(events, 'event') : '', packets ? numberOf(packets, 'packet') : '']
    .filter((t) => t !== '')
    .join(' and ');
  const at = pointer.value;
  const { selection } = state.value;
  const counting = s.index.state !== 'complete';
  const unit = timeContext.value.format === 'utc' ? ' UTC' : '';
  const toProblems = (): void => {
    panelShown.value = true;
    change({ tab: 'problems' });
  };
  return (
    <footer class="stat">
      <span>
        {s.events === null ? (
          'Counting events'
        ) : (
          <>
            <b>
              {counting ? '>\u202f' : ''}
              {grouped(s.events)}
            </b>{' '}
            {s.events === 1 ? 'event' : 'events'}
          </>
        )}
      </span>
      {lost ? (
        <button type="button" class="linkbtn" onClick={toProblems}>
          {lost} lost
        </button>
      ) : null}
      {s.faults ? (
        <button type="button" class="linkbtn" onClick={toProblems}>
          {grouped(s.faults)} {s.faults === 1 ? 'place is' : 'places are'} damaged
        </button>
      ) : null}
      {selection ? (
        <span>
          Selection <b>{duration(spanOf(selection))}</b>
        </span>
      ) : null}
      {at !== null ? (
        <span>
          Pointer <b>{point(at, timeContext.value)}</b>
          {unit}, <b>{signed(at - fullRange.value.begin)}</b>
        </span>
      ) : null}
      {at === null && state.value.cursor !== null ? (
        <span>
          Cursor <b>{point(state.value.cursor, timeContext.value)}</b>
          {unit}, <b>{signed(state.value.cursor - fullRange.value.begin)}</b>
        </span>
      ) : null}
      <span class="grow" />
      {state.value.filter !== '' && filterDone.value !== null && filterDone.value < 1 ? (
        <span>Filter {Math.floor(filterDone.value * 100)} %</span>
      ) : null}
      <span>
        {s.index.state === 'complete' ? 'Index complete' : `Index ${Math.floor((s.index.done ?? 0) * 100)} %`}
      </span>
    </footer>
  );
}

/** Files of the traces that are not there any more, or are others now: in sight as long as that is so. */
export function Gone(): JSX.Element | null {
  const text = session.value?.gone;
  return text ? (
    <div class="gone" data-testid="gone" role="alert">
      {text}
    </div>
  ) : null;
}

/** The messages that a user has to see now, above the line at the bottom. */
export function Notice(): JSX.Element | null {
  const text = notice.value;
  return text === '' ? null : (
    <div class="notice" data-testid="notice">
      <span>{text}</span>
      <button
        type="button"
        class="ib small"
        aria-label="Close the message"
        onClick={() => {
          notice.value = '';
        }}
      >
        ✕
      </button>
    </div>
  );
}

/** The selection, by name and length. */
function chosenWords(): string {
  const { event, call, slice } = state.value;
  const mark = markOf();
  const length = mark && mark.end !== null ? `, ${duration(mark.end - mark.begin)}` : '';
  const name =
    call !== null
      ? callAnswer.value.value?.name
      : slice !== null
        ? sliceOf()?.name
        : event !== null
          ? eventAnswer.value.value?.title || eventAnswer.value.value?.name
          : undefined;
  return name === undefined ? '' : `chosen: ${name.slice(0, 200)}${length}`;
}

/** Says the view, the selection, what is chosen and what was found, a while after the last change. */
export function Announce(): JSX.Element {
  const [text, setText] = useState('');
  const hits = found.value;
  const words = [
    viewWords(),
    chosenWords(),
    hits
      ? hits.count === 0
        ? 'nothing found'
        : hits.index === null
          ? ''
          : `match ${hits.index + 1} of ${hits.count ?? 'some'}`
      : '',
    said.value,
    notice.value,
  ]
    .filter((t) => t !== '')
    .join('; ');
  useEffect(() => {
    const timer = setTimeout(() => setText(words), SAID_MS);
    return () => clearTimeout(timer);
  }, [words]);
  return (
    <div class="sr" data-testid="announce" aria-live="polite" role="status">
      {text}
    </div>
  );
}
