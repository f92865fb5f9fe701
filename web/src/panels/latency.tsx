// Two questions about the selection: how long from one event to another, and which values are far from the others.

import { type ReadonlySignal, type Signal, signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import type { Heat } from '../api/types';
import { chooseEvent, reveal, select, setCursor } from '../state/actions';
import { type Answer, answer } from '../state/answers';
import { eventAnswer, rangeQuery } from '../state/selection';
import { ask, epoch } from '../state/session';
import { state, timeContext } from '../state/store';
import { duration, grouped, point } from '../time/format';
import { HeatMap } from './heat';
import { Histogram, Points } from './histogram';
import { goToPoint, type Measured, pickPoints } from './measured';
import { clipped, onListKey } from './parts';

type Line = Readonly<Record<string, unknown>>;
interface Pairs {
  readonly rows: readonly Line[];
  readonly points: readonly { begin: string; duration: string }[];
  readonly summary?: readonly { n: number }[];
  readonly histogram?: readonly [number, number][];
  readonly left_out?: Readonly<Record<string, number>>;
  readonly heat?: Heat;
}

/** The events without a pair, in words. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  only_ends: 'ends without a begin',
  restarted: 'begun again before their end',
  unfinished: 'without an end',
  negative: 'with the end before the begin',
};
const leftOut = (counts: Pairs['left_out']): string =>
  Object.entries(counts ?? {})
    .filter(([key, n]) => n > 0 && LEFT_OUT[key])
    .map(([key, n]) => `${grouped(n)} ${LEFT_OUT[key]}`)
    .join(', ');
interface Outliers {
  readonly mean: unknown;
  readonly deviation: unknown;
  readonly events: readonly Line[];
}

const pairQuestion = signal<{ from: string; to: string; by: string } | null>(null);
const outlierQuestion = signal<{ name: string; field: string; deviations: string } | null>(null);

/** The answer to a question about the selection, while its tab is shown. */
const answerTo = <T,>(path: string, question: Signal<Record<string, string> | null>): ReadonlySignal<Answer<T>> =>
  answer<T>(() => {
    if (!question.value || state.value.tab !== 'selection') return null;
    const query = { ...question.value, ...rangeQuery() };
    return { key: `${Object.values(query).join('\n')}\n${epoch.value}`, ask: (abort) => ask(path, query, abort) };
  });
const pairs = answerTo<Pairs>('pairs', pairQuestion);
const outliers = answerTo<Outliers>('outliers', outlierQuestion);

interface FieldOfForm {
  readonly name: string;
  readonly label: string;
  readonly value: string;
  readonly hint?: string;
}

function Form({
  fields,
  button,
  submit,
}: {
  fields: readonly FieldOfForm[];
  button: string;
  submit: (values: Record<string, string>) => void;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const go = (): void => {
    const values: Record<string, string> = {};
    for (const input of box.current?.querySelectorAll('input') ?? []) values[input.name] = input.value.trim();
    submit(values);
  };
  return (
    <div class="sum form" ref={box}>
      {fields.map((f) => (
        <label key={f.name}>
          {f.label}
          <input
            class="plainfield"
            type="text"
            name={f.name}
            defaultValue={f.value}
            placeholder={f.hint ?? ''}
            autocomplete="off"
            spellcheck={false}
            onKeyDown={(e) => {
              if (e.key === 'Enter') {
                e.preventDefault();
                go();
              }
            }}
          />
        </label>
      ))}
      <button type="button" class="ib out small" onClick={go}>
        {button}
      </button>
    </div>
  );
}

/** A value of an answer: times are texts of digits, counts are numbers. */
function shown(key: string, value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return grouped(value);
  if (typeof value === 'string' && key !== 'key' && /^-?\d+$/.test(value)) return duration(BigInt(value));
  return typeof value === 'string' ? clipped(value, 300) : JSON.stringify(value);
}

export function Between(): JSX.Element {
  const chosen = eventAnswer.value.value?.name ?? '';
  const { value, error, pending } = pairs.value;
  const asked = pairQuestion.value;
  const points = (value?.points ?? []).map(
    (p): Measured => ({ begin: BigInt(p.begin), duration: BigInt(p.duration), event: BigInt(p.begin) }),
  );
  const rest = (value?.summary ?? []).reduce((sum, s) => sum + s.n, 0);
  const pick = (some: readonly Measured[], n: number): void => pickPoints(asked?.from ?? null, some, n);
  const keys = [...new Set((value?.rows ?? []).slice(0, 50).flatMap((r) => Object.keys(r)))];
  return (
    <div class="panel">
      <Form
        key={chosen}
        button="Measure"
        submit={({ from = '', to = '', by = '' }) => {
          if (from && to) pairQuestion.value = { from, to, by };
        }}
        fields={[
          { name: 'from', label: 'From', value: pairQuestion.value?.from ?? chosen, hint: 'name of an event' },
          { name: 'to', label: 'to', value: pairQuestion.value?.to ?? '', hint: 'name of an event' },
          { name: 'by', label: 'of the same', value: pairQuestion.value?.by ?? '', hint: 'field, e.g. payload.id' },
        ]}
      />
      {error ? (
        <p class="nothing" role="alert">
          {error.body.message}
        </p>
      ) : null}
      {!value ? (
        <p class="nothing">{pending ? 'Measuring…' : 'How long it is from one event to the next of another name.'}</p>
      ) : (
        <div class="split">
          <div class="scrolls" tabIndex={0} role="group" aria-label="Durations">
            <table aria-label="Durations">
              <thead>
                <tr>
                  {keys.map((k) => (
                    <th scope="col" class={k === 'key' ? '' : 'r'}>
                      {k.replaceAll('_', ' ')}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {value.rows.slice(0, 1000).map((r) => (
                  <tr>
                    {keys.map((k) => (
                      <td class={k === 'key' ? '' : 'r'} data-column={k}>
                        {shown(k, r[k])}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
            {value.rows.length > 1000 ? <p class="nothing">and {grouped(value.rows.length - 1000)} more</p> : null}
            {leftOut(value.left_out) ? <p class="nothing">Left out: {leftOut(value.left_out)}</p> : null}
          </div>
          <aside aria-label="Distribution">
            {points.length ? (
              <Histogram title="Durations" points={points} all={value.histogram} pick={pick} />
            ) : (
              <p class="nothing">No such pair is in the selection.</p>
            )}
            {points.length ? <Points points={points} pick={pick} go={goToPoint} /> : null}
            {value.heat ? <HeatMap heat={value.heat} take={select} /> : null}
            {points.length ? (
              <p class="hint2">
                {rest ? `The longest ${grouped(points.length)} of ${grouped(points.length + rest)}. ` : ''}A bar, or a
                box of points, is a filter of the first events.
              </p>
            ) : null}
          </aside>
        </div>
      )}
    </div>
  );
}

export function OutliersView(): JSX.Element {
  const event = eventAnswer.value.value;
  const number = event?.fields.find((f) => f.path.startsWith('payload.') && /^-?\d+(\.\d+)?$/.test(f.text));
  const { value, error, pending } = outliers.value;
  const list = value?.events ?? [];
  return (
    <div class="panel">
      <Form
        key={`${event?.event ?? ''}`}
        button="Look"
        submit={({ name = '', field = '', deviations = '' }) => {
          if (field) outlierQuestion.value = { name, field, deviations };
        }}
        fields={[
          {
            name: 'name',
            label: 'Of',
            value: outlierQuestion.value?.name ?? event?.name ?? '',
            hint: 'name of an event',
          },
          {
            name: 'field',
            label: 'the field',
            value: outlierQuestion.value?.field ?? number?.path ?? '',
            hint: 'payload.grams',
          },
          { name: 'deviations', label: 'beyond deviations', value: outlierQuestion.value?.deviations ?? '2.5' },
        ]}
      />
      {error ? (
        <p class="nothing" role="alert">
          {error.body.message}
        </p>
      ) : null}
      {!value ? (
        <p class="nothing">{pending ? 'Looking…' : 'Values of a field that are far from its mean.'}</p>
      ) : (
        <>
          <div class="sum">
            <span>
              Mean <b>{String(value.mean)}</b>
            </span>
            <span>
              Deviation <b>{String(value.deviation)}</b>
            </span>
            <span>
              <b>{grouped(list.length)}</b> beyond
            </span>
          </div>
          <div class="scrolls" tabIndex={0} role="group" aria-label="Outliers" onKeyDown={onListKey}>
            {list.slice(0, 2000).map((o) => {
              const at = typeof o['ns'] === 'string' ? BigInt(o['ns']) : null;
              const go = (): void => {
                if (typeof o['event'] === 'number') chooseEvent(o['event'], 'jump');
                if (at !== null) {
                  setCursor(at);
                  reveal(at);
                }
              };
              return (
                <div class="problem">
                  <button
                    type="button"
                    class="ib out small"
                    aria-label={`Show event ${String(o['event'])}`}
                    onClick={go}
                  >
                    Show
                  </button>
                  <span class="where">
                    <b>{String(o['value'] ?? '')}</b> {clipped(String(o['name'] ?? ''), 200)}
                  </span>
                  <span class="when">{at === null ? '' : point(at, timeContext.value)}</span>
                </div>
              );
            })}
          </div>
        </>
      )}
    </div>
  );
}
