// The chosen event or call: when it was, every field with its exact text, where it is in the file.
import { signal } from '@preact/signals';
import type { ComponentChildren, JSX } from 'preact';
import type { CallDetails, EventDetails, Field, Located, PathPart, WhyAnswer } from '../api/types';
import * as act from '../state/actions';
import { applyFilter } from '../state/filter';
import { andConditions, condition, filterPath, isNamed } from '../state/filters';
import { isPlottable } from '../state/plots';
import { callAnswer, eventAnswer, selectAnswer } from '../state/selection';
import { NOTHING_CHOSEN } from '../state/state';
import { pathColour, stateColour } from '../state/states';
import { change, fullRange, session, state, timeContext } from '../state/store';
import { trackById } from '../state/tracks';
import { canShowPath, pathAnswer, pinThreads, togglePath, whyAnswer, whyElsewhere } from '../state/why';
import { day, duration, grouped, numberOf, point, secondsSince, signed } from '../time/format';
import { type MenuItem, openMenu, openMenuAt } from './menu';
import { Chip, clipped, copyText } from './parts';
import { theme } from './settings';

export function Details(): JSX.Element {
  const { event, call } = state.value;
  const e = eventAnswer.value.value;
  const c = callAnswer.value.value;
  const chosen = event !== null && e && e.event === event ? e : null;
  const slice = act.sliceOf();
  return (
    <aside
      class="side"
      aria-label="Details"
      data-testid="details"
      data-event={chosen ? chosen.event : ''}
      data-ns={chosen?.ns ?? ''}
      tabIndex={0}
    >
      {call !== null && c ? (
        <OfCall value={c} />
      ) : chosen ? (
        <OfEvent value={chosen} />
      ) : slice ? (
        <OfSlice value={slice} />
      ) : state.value.path ? null : (
        <Nothing />
      )}
      <Path />
    </aside>
  );
}

const Nothing = (): JSX.Element => (
  <div class="nothing">
    <p>A click chooses an event or a call, and its fields stand here.</p>
    <p>
      <kbd>w</kbd> <kbd>s</kbd> zoom, <kbd>a</kbd> <kbd>d</kbd> move, <kbd>?</kbd> shows all keys.
    </p>
  </div>
);

function Line({ label, children }: { label: string; children: ComponentChildren }): JSX.Element | null {
  return children == null || children === '' ? null : (
    <div>
      <dt title={label}>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

const Steps = (): JSX.Element => (
  <>
    <button type="button" class="ib out small" onClick={() => void act.step('previous')}>
      Previous <kbd aria-hidden="true">,</kbd>
    </button>
    <button type="button" class="ib out small" onClick={() => void act.step('next')}>
      Next <kbd aria-hidden="true">.</kbd>
    </button>
  </>
);

const SCOPES: readonly (readonly [string, string])[] = [
  ['payload', 'Payload'],
  ['event_context', 'Event context'],
  ['stream_context', 'Stream context'],
  ['packet_context', 'Packet context'],
  ['header', 'Header'],
];

function OfEvent({ value }: { value: EventDetails }): JSX.Element {
  const track = trackById.value.get(value.track);
  const place = value.place;
  const at = value.ns === null ? null : BigInt(value.ns);
  const unix = session.value?.clock === 'unix';
  const begin = fullRange.value.begin;
  // Fields are listed in the order of the JSON line; a reader wants the payload first.
  const groups = new Map<string, Field[]>();
  for (const f of value.fields) {
    const scope = /^[a-z_]+/.exec(f.path)?.[0] ?? '';
    const list = groups.get(scope);
    if (list) list.push(f);
    else groups.set(scope, [f]);
  }
  const call = typeof value.call === 'object' && value.call !== null ? value.call : null;
  return (
    <>
      <div class="sh">
        <h2>
          <Chip name={value.name} />
          <span title={value.title || value.name}>{clipped(value.title || value.name, 300)}</span>
        </h2>
        <div class="sub">
          Event {grouped(value.event)}
          {track ? ` of ${clipped(track.name, 200)}` : ''}
          {value.title && value.title !== value.name ? `, ${clipped(value.name, 200)}` : ''}
        </div>
        <div class="acts">
          <Steps />
          <button type="button" class="ib out small" onClick={() => void applyFilter(isNamed(value.name))}>
            Filter by name
          </button>
          {call ? (
            <button
              type="button"
              class="ib out small"
              onClick={() => change({ ...NOTHING_CHOSEN, call: { track: call.track, call: call.call } })}
            >
              Show the call
            </button>
          ) : null}
        </div>
      </div>
      <div class="kv">
        <h3>Time</h3>
        <dl>
          {at === null ? (
            <Line label="time">not recorded</Line>
          ) : (
            <>
              <Line label="time">
                {timeContext.value.format === 'cycles' && value.cycles != null
                  ? grouped(value.cycles)
                  : point(at, timeContext.value)}
                {timeContext.value.format === 'utc' ? ' UTC' : ''}
              </Line>
              {unix ? <Line label="date">{day(at, timeContext.value.format === 'local')}</Line> : null}
              <Line label="since begin">{signed(at - begin)}</Line>
              {state.value.cursor !== null && state.value.cursor !== at ? (
                <Line label="since cursor">{signed(at - state.value.cursor)}</Line>
              ) : null}
              <Line label="ns">{String(at)}</Line>
            </>
          )}
          <Line label="own clock">{ownClock(value)}</Line>
          <Line label="cycles">{value.cycles == null ? null : grouped(value.cycles)}</Line>
          <Line label="since previous">{value.since === null ? null : signed(BigInt(value.since))}</Line>
        </dl>
      </div>
      {[...groups].map(([scope, fields]) => (
        <div class={`kv scope-${scope}`} key={scope}>
          <h3>{SCOPES.find(([key]) => key === scope)?.[1] ?? scope}</h3>
          <dl>
            {fields.map((f) => (
              <FieldLine key={f.path} field={f} scope={scope} first={f === value.fields[0]} />
            ))}
          </dl>
        </div>
      ))}
      {place ? (
        <div class="kv scope-place">
          <h3>Place</h3>
          <dl>
            <Line label="file">{place.file}</Line>
            <Line label="packet">{place.packet == null ? null : grouped(place.packet)}</Line>
            <Line label="byte">{place.byte == null ? null : grouped(place.byte)}</Line>
            <Line label="bit">{place.bit ? String(place.bit) : null}</Line>
          </dl>
        </div>
      ) : null}
    </>
  );
}

/** The time by the clock of the event's trace, when that was moved to be aligned with others. */
function ownClock({ ns, trace }: EventDetails): string | null {
  const of = session.value?.traces.find((t) => t.index === trace);
  if (ns === null || of?.aligned_ns == null) return null;
  return `${secondsSince(BigInt(ns) - BigInt(of.aligned_ns) - BigInt(of.moved_ns ?? 0)).replace(/^\+/, '')} s`;
}

/** The field under the pointer or with the focus: it alone has a button, the others are in each other's way. */
const activeField = signal<string | null>(null);

/** A field, and what can be done with it. */
function FieldLine({ field, scope, first }: { field: Field; scope: string; first: boolean }): JSX.Element {
  const short = field.path.startsWith(`${scope}.`) ? field.path.slice(scope.length + 1) : field.path;
  const label = /^(.*) \((-?\d+)\)$/s.exec(field.text);
  const shownText = clipped(field.text, 4000);
  const labelled = label && (field.kind === 'enum' || field.kind === 'enumeration' || field.kind === 'flags');
  const open = (at: Element): void => openMenuAt(at, `Field ${short}`, fieldMenu(field));
  const onKeyDown = (e: KeyboardEvent): void => {
    const line = e.currentTarget as HTMLElement;
    if (e.target !== line) return;
    if (e.key === 'Enter' || e.key === 'ContextMenu') open(line);
    else if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      const top = (x: HTMLElement): number => x.getBoundingClientRect().top;
      const lines = [...document.querySelectorAll<HTMLElement>('[data-testid="details"] [data-testid="field"]')].sort(
        (a, b) => top(a) - top(b),
      );
      lines[lines.indexOf(line) + (e.key === 'ArrowDown' ? 1 : -1)]?.focus();
    } else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div
      data-testid="field"
      data-path={field.path}
      tabIndex={first ? 0 : -1}
      onKeyDown={onKeyDown}
      onFocus={() => {
        activeField.value = field.path;
      }}
      onPointerEnter={() => {
        activeField.value = field.path;
      }}
      onPointerLeave={() => {
        activeField.value = null;
      }}
      onContextMenu={(e) => {
        e.preventDefault();
        openMenu(e.clientX, e.clientY, `Field ${short}`, fieldMenu(field));
      }}
    >
      <dt title={field.path}>{clipped(short, 200)}</dt>
      <dd data-column="text" data-value={field.text}>
        {labelled ? (
          <>
            {label[1]} <i>{label[2]}</i>
          </>
        ) : field.kind === 'string' ? (
          <>
            "<bdi>{shownText}</bdi>"
          </>
        ) : (
          shownText
        )}
        {activeField.value === field.path ? (
          <button
            type="button"
            class="fm"
            tabIndex={-1}
            aria-label={`Menu of ${clipped(short, 80)}`}
            aria-haspopup="menu"
            onClick={(e) => open(e.currentTarget)}
          >
            ⋯
          </button>
        ) : null}
      </dd>
    </div>
  );
}

/** Whether a field can be shown as a track. */
const canPlot = (field: Field): boolean =>
  isPlottable(field.kind) && (session.peek()?.features.includes('plots') ?? false);

const fieldMenu = (field: Field): (MenuItem | null)[] => [
  { label: 'Filter by this', run: () => void addToFilter(condition(field)) },
  { label: 'Leave these out', run: () => void addToFilter(`not ${condition(field)}`) },
  {
    label: 'Add as a column',
    run: () =>
      change({ columns: [...state.peek().columns.filter((c) => c !== field.path), field.path], tab: 'events' }),
  },
  { label: 'Chase', run: () => act.orderByField(field) },
  ...(canPlot(field) ? [{ label: 'Plot this field', run: () => act.plotField(filterPath(field.path)) }] : []),
  null,
  { label: 'Copy', run: () => void copyText(field.text) },
  { label: 'Copy the path', run: () => void copyText(field.path) },
];

const addToFilter = (more: string): Promise<void> => applyFilter(andConditions(state.peek().filter, more));

/** A state of a CPU or a thread. */
function OfSlice({ value }: { value: Located }): JSX.Element {
  const track = trackById.value.get(state.value.slice?.track ?? '');
  const [begin, end] = [
    value.begin === null ? null : BigInt(value.begin),
    value.end === null ? null : BigInt(value.end),
  ];
  const colour = stateColour(value.name ?? '');
  return (
    <>
      <div class="sh">
        <h2>
          {colour === undefined ? (
            <Chip name={value.name ?? ''} />
          ) : (
            <span class="chip" style={{ background: theme.value.edge[colour] ?? '' }} />
          )}
          <span>{clipped(value.name ?? '', 300)}</span>
        </h2>
        <div class="sub">State{track ? ` of ${clipped(track.name, 200)}` : ''}</div>
        <div class="acts">
          <Steps />
          <button type="button" class="ib out small" onClick={act.fit}>
            Fit <kbd aria-hidden="true">f</kbd>
          </button>
          {track && canShowPath(track.id) ? (
            <button type="button" class="ib out small" onClick={() => togglePath(track.id)}>
              Critical path <kbd aria-hidden="true">k</kbd>
            </button>
          ) : null}
        </div>
      </div>
      <div class="kv">
        <h3>Time</h3>
        <dl>
          {begin === null ? null : (
            <>
              <Line label="begin">{point(begin, timeContext.value)}</Line>
              <Line label="since begin">{signed(begin - fullRange.value.begin)}</Line>
            </>
          )}
          <Line label="end">{end === null ? <i>not recorded</i> : point(end, timeContext.value)}</Line>
          {begin !== null && end !== null ? <Line label="duration">{duration(end - begin)}</Line> : null}
        </dl>
      </div>
      <Why />
    </>
  );
}

/** Parts of a path that are listed; the drawing has all of them. */
const MOST_PARTS = 200;

/** The reason of the chosen state, in the words of `analyze why`. */
function Why(): JSX.Element | null {
  const { key, value, error, pending } = whyAnswer.value;
  const { slice } = state.value;
  if (whyElsewhere.value)
    return (
      <div class="kv" data-testid="why-elsewhere">
        <h3>Why</h3>
        <p>This page has no reasons of waits: tracemill view says them where the trace is.</p>
      </div>
    );
  if (key === null && !pending) return null;
  const own = value && value.track === slice?.track ? value : null;
  return (
    <div class="kv" data-testid="why" data-begin={own?.begin ?? ''} data-end={own?.end ?? ''}>
      <h3>Why</h3>
      {error ? <p>{error.body.message}</p> : own && !pending ? <Parts value={own} /> : <p>Reading…</p>}
    </div>
  );
}

/** Goes to a part of a path: its thread, at its begin. */
function goToPart({ track, from }: PathPart): void {
  const at = BigInt(from);
  if (track !== null) {
    act.currentTrack.value = track;
    act.scrollTo(track);
  }
  act.reveal(at, 'jump');
  act.setCursor(at);
}

function Parts({ value }: { value: WhyAnswer }): JSX.Element {
  const { parts } = value;
  const rest = parts.length + value.left_out - MOST_PARTS;
  return (
    <>
      {parts.length === 1 ? null : <p class="sentence">{value.sentence ?? value.note}</p>}
      <ol class="parts">
        {parts.slice(0, MOST_PARTS).map((part, i) => (
          <li key={part.from}>
            <button
              type="button"
              data-testid="why-part"
              data-from={part.from}
              data-to={part.to}
              data-why={part.why ?? ''}
              onClick={() => goToPart(part)}
            >
              <span class="chip s" style={{ background: theme.value.edge[pathColour(part.state ?? '')] ?? '' }} />
              <b>{duration(BigInt(part.to) - BigInt(part.from))}</b> {clipped(part.why ?? '', 400)}
              {/* The way there is said once for the parts that it led to. */}
              {part.through && part.through !== parts[i - 1]?.through ? <i> ({clipped(part.through, 400)})</i> : null}
            </button>
          </li>
        ))}
      </ol>
      {rest > 0 ? <p>and {grouped(rest)} more</p> : null}
    </>
  );
}

/** The critical path over a range. */
function Path(): JSX.Element | null {
  const { path } = state.value;
  if (!path) return null;
  const { value, error, pending } = pathAnswer.value;
  const own = value?.track === path.track && !pending ? value : null;
  const track = trackById.value.get(path.track);
  // Causes that are not listed, and those that a page in one file does not have.
  const rest = own?.totals.slice(MOST_PARTS) ?? [];
  const others = {
    count: rest.length + (own?.other_totals?.count ?? 0),
    total: rest.reduce((sum, t) => sum + BigInt(t.total ?? 0), BigInt(own?.other_totals?.total ?? 0)),
  };
  return (
    <>
      <div class="sh" data-testid="path" data-track={path.track} data-parts={own?.parts.length ?? ''}>
        <h2>Critical path</h2>
        <div class="sub">
          {track ? `${clipped(track.name, 200)}, ` : ''}
          {duration(path.range.end - path.range.begin)} from {point(path.range.begin, timeContext.value)}
        </div>
        <div class="acts">
          <button type="button" class="ib out small" onClick={() => change({ path: null })}>
            End
          </button>
          {own ? (
            <button type="button" class="ib out small" onClick={() => pinThreads(own.parts)}>
              Pin its threads
            </button>
          ) : null}
        </div>
      </div>
      {error ? (
        <p class="nothing" role="alert">
          {error.body.message}
        </p>
      ) : null}
      {!own ? (
        error ? null : (
          <p class="nothing">Reading…</p>
        )
      ) : (
        <>
          <div class="kv">
            <p class="sentence">{own.sentence ?? own.note ?? 'The thread is not known there.'}</p>
            {own.left_out ? <p>The first {grouped(own.parts.length)} parts are drawn.</p> : null}
          </div>
          {own.totals.length > 1 ? (
            <div class="kv">
              <h3>Time by cause</h3>
              <ol class="parts">
                {own.totals.slice(0, MOST_PARTS).map((t) => (
                  <li key={t.why} data-testid="path-total" data-why={t.why ?? ''} data-total={t.total ?? ''}>
                    <b>{t.total === null ? '' : duration(BigInt(t.total))}</b>{' '}
                    {t.share === null ? '' : `${(t.share * 100).toFixed(1)} %`} {clipped(t.why ?? '', 400)}
                  </li>
                ))}
              </ol>
              {others.count ? (
                <p data-testid="path-others">
                  {duration(others.total)} in {numberOf(others.count, 'shorter cause')}
                </p>
              ) : null}
            </div>
          ) : null}
        </>
      )}
    </>
  );
}

function OfCall({ value }: { value: CallDetails }): JSX.Element {
  const place = state.value.call;
  const track = place ? trackById.value.get(place.track) : undefined;
  const begin = BigInt(value.begin);
  const zero = fullRange.value.begin;
  const length = value.duration === null ? null : BigInt(value.duration);
  const share = length && value.self !== null ? `${((Number(value.self) / Number(length)) * 100).toFixed(1)} %` : '';
  const all = value.all;
  const text = (v: unknown): ComponentChildren =>
    v === null || v === undefined ? <i>not recorded</i> : typeof v === 'string' ? v : JSON.stringify(v);
  const statistic = (ns: string | null | undefined): string | null => (ns == null ? null : duration(BigInt(ns)));
  const top = (selectAnswer.value.value?.calls ?? [])
    .slice()
    .sort((a, b) => (BigInt(a.self) > BigInt(b.self) ? -1 : 1))
    .slice(0, 8);
  return (
    <>
      <div class="sh">
        <h2>
          <Chip name={value.name} />
          <span title={value.name}>{clipped(value.name, 300)}</span>
        </h2>
        <div class="sub">
          Call {place ? grouped(place.call) : ''}
          {track ? ` of ${clipped(track.name, 200)}` : ''}
        </div>
        <div class="acts">
          <Steps />
          <button type="button" class="ib out small" onClick={act.fit}>
            Fit <kbd aria-hidden="true">f</kbd>
          </button>
          {value.parent !== null ? (
            <button type="button" class="ib out small" onClick={act.toCaller}>
              Caller <kbd aria-hidden="true">[</kbd>
            </button>
          ) : null}
          <button
            type="button"
            class="ib out small"
            onClick={() => {
              change({ query: value.name });
              void act.searchFor('next');
            }}
          >
            Select all of this name
          </button>
        </div>
      </div>
      <div class="kv">
        <h3>Time</h3>
        <dl>
          <Line label="begin">{point(begin, timeContext.value)}</Line>
          <Line label="since begin">{signed(begin - zero)}</Line>
          <Line label="end">
            {value.end === null ? <i>not recorded</i> : point(BigInt(value.end), timeContext.value)}
          </Line>
          <Line label="duration">{length === null ? null : duration(length)}</Line>
          <Line label="self">
            {value.self === null ? null : (
              <>
                {duration(BigInt(value.self))} <i>{share}</i>
              </>
            )}
          </Line>
        </dl>
      </div>
      <div class="kv">
        <h3>Call</h3>
        <dl>
          <Line label="symbol">{value.symbol}</Line>
          <Line label="module">{value.module}</Line>
          <Line label="depth">{String(value.depth)}</Line>
          <Line label="arguments">{text(value.args)}</Line>
          <Line label="returns">{text(value.retval)}</Line>
        </dl>
      </div>
      {all ? (
        <div class="kv">
          <h3>All calls of this name</h3>
          <dl>
            <Line label="calls">{grouped(all.calls)}</Line>
            <Line label="total">{statistic(all.total)}</Line>
            <Line label="self">{statistic(all.self)}</Line>
            <Line label="min">{statistic(all.min)}</Line>
            <Line label="mean">{statistic(all.mean)}</Line>
            <Line label="p50">{statistic(all.p50)}</Line>
            <Line label="p99">{statistic(all.p99)}</Line>
            <Line label="max">{statistic(all.max)}</Line>
          </dl>
        </div>
      ) : null}
      {top.length ? (
        <div class="kv">
          <h3>Selection, by own time</h3>
          <dl>
            {top.map((t) => (
              <div>
                <dt title={t.name}>
                  <Chip name={t.name} small />
                  {clipped(t.name, 200)}
                </dt>
                <dd>{duration(BigInt(t.self))}</dd>
              </div>
            ))}
          </dl>
        </div>
      ) : null}
    </>
  );
}
