// Losses, damage and warnings, each with a way to it.
import type { JSX } from 'preact';
import type { Fault, Loss } from '../api/types';
import { scrollTo } from '../state/actions';
import { problemsAnswer } from '../state/selection';
import { change, fullRange, timeContext, view } from '../state/store';
import { trackById } from '../state/tracks';
import { duration, grouped, point } from '../time/format';
import { centred, spanOf } from '../time/range';
import { clipped, onListKey } from './parts';

const MOST = 2000;

export const problemCount = (): number => {
  const value = problemsAnswer.value.value;
  return value ? value.losses.length + value.faults.length + value.warnings.length : 0;
};

const trackName = (id: string | null): string => (id === null ? '' : (trackById.value.get(id)?.name ?? id));

function showLoss({ begin, end, track }: Loss): void {
  const from = BigInt(begin ?? end ?? fullRange.peek().begin);
  const to = BigInt(end ?? begin ?? fullRange.peek().end);
  const margin = (to - from) / 2n || spanOf(fullRange.peek()) / 20n || 1n;
  change({ view: { begin: from - margin, end: to + margin }, cursor: from }, 'jump');
  scrollTo(track);
}

function showFault({ ns, track }: Fault): void {
  if (ns === null) return;
  const span = spanOf(fullRange.peek()) / 10n;
  change(
    {
      view: centred(span < spanOf(view.peek()) ? { begin: 0n, end: span } : view.peek(), BigInt(ns)),
      cursor: BigInt(ns),
    },
    'jump',
  );
  if (track !== null) scrollTo(track);
}

export function Problems(): JSX.Element {
  const { value } = problemsAnswer.value;
  if (!value)
    return (
      <div class="panel" data-testid="problems">
        <p class="nothing">Looking…</p>
      </div>
    );
  const { losses, faults, warnings } = value;
  if (problemCount() === 0)
    return (
      <div class="panel" data-testid="problems">
        <p class="nothing">Nothing was lost, and everything could be read.</p>
      </div>
    );
  return (
    <div class="panel" data-testid="problems">
      <div class="scrolls" tabIndex={0} role="group" aria-label="List of problems" onKeyDown={onListKey}>
        {losses.length ? <h3 class="listhead">Losses</h3> : null}
        {losses.slice(0, MOST).map((l) => (
          <div class="problem" data-testid="loss-row" data-kind={l.kind} data-count={l.count ?? ''}>
            <button
              type="button"
              class="ib out small"
              aria-label={`Show the loss of ${trackName(l.track)}`}
              onClick={() => showLoss(l)}
            >
              Show
            </button>
            <span class="what">
              {l.count === null
                ? `some ${l.kind}`
                : `${grouped(l.count)} ${l.count === 1 ? l.kind.slice(0, -1) : l.kind}`}{' '}
              lost
            </span>
            <span class="where">{trackName(l.track)}</span>
            <span class="when">
              {l.begin !== null ? point(BigInt(l.begin), timeContext.value) : ''}
              {l.begin !== null && l.end !== null ? `, over ${duration(BigInt(l.end) - BigInt(l.begin))}` : ''}
            </span>
          </div>
        ))}
        {losses.length > MOST ? <p class="nothing">and {grouped(losses.length - MOST)} more</p> : null}
        {faults.length ? <h3 class="listhead">Damage</h3> : null}
        {faults.slice(0, MOST).map((f) => (
          <div class="problem">
            {f.ns !== null ? (
              <button
                type="button"
                class="ib out small"
                aria-label={`Show the damage of ${f.file}`}
                onClick={() => showFault(f)}
              >
                Show
              </button>
            ) : null}
            <span class="where">
              <b>{f.file}</b>
              {f.offset !== null ? `, byte ${grouped(f.offset)}` : ''}: {clipped(f.reason)}
            </span>
            {f.track !== null ? <span class="when">{trackName(f.track)}</span> : null}
          </div>
        ))}
        {warnings.length ? <h3 class="listhead">Warnings</h3> : null}
        {warnings.slice(0, MOST).map((w) => (
          <div class="problem">
            <span class="where">{clipped(typeof w === 'string' ? w : JSON.stringify(w))}</span>
          </div>
        ))}
      </div>
    </div>
  );
}
