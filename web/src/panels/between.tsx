// Two questions about the selection: how long from one event to another, and which values are far from the others.
import { effect, signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { resize } from '../draw/plain';
import { chooseEvent, reveal, setCursor } from '../state/actions';
import { answer } from '../state/answers';
import { ask, epoch, eventAnswer } from '../state/load';
import { state, timeContext } from '../state/store';
import { duration, grouped, point, shortDuration } from '../time/format';
import { spanOf, shareOf } from '../time/range';
import { Histogram } from './histogram';
import { clipped } from './parts';
import { rangeShown } from './ranges';
import { theme } from './settings';

type Line = Readonly<Record<string, unknown>>;
interface Pairs { readonly rows: readonly Line[]; readonly points: readonly { begin: string; duration: string }[] }
interface Outliers { readonly mean: unknown; readonly deviation: unknown; readonly events: readonly Line[] }

const pairQuestion = signal<{ from: string; to: string; by: string } | null>(null);
const outlierQuestion = signal<{ name: string; field: string; deviations: string } | null>(null);

const rangeOf = (): { begin: string | null; end: string | null; tracks: string } => {
  const { selection, chosen } = state.value;
  return { begin: selection ? String(selection.begin) : null, end: selection ? String(selection.end) : null, tracks: chosen.join(',') };
};

const pairs = answer<Pairs>(() => {
  if (!pairQuestion.value || state.value.tab !== 'selection') return null;
  const query = { ...pairQuestion.value, ...rangeOf(), filter: state.value.filter };
  return { key: `${Object.values(query).join('\n')}\n${epoch.value}`, ask: (abort) => ask('pairs', query, abort) };
});
const outliers = answer<Outliers>(() => {
  if (!outlierQuestion.value || state.value.tab !== 'selection') return null;
  const query = { ...outlierQuestion.value, tracks: rangeOf().tracks, filter: state.value.filter };
  return { key: `${Object.values(query).join('\n')}\n${epoch.value}`, ask: (abort) => ask('outliers', query, abort) };
});

interface FieldOfForm { readonly name: string; readonly label: string; readonly value: string; readonly hint?: string }

function Form({ fields, button, submit }: { fields: readonly FieldOfForm[]; button: string; submit: (values: Record<string, string>) => void }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const go = (): void => {
    const values: Record<string, string> = {};
    for (const input of box.current?.querySelectorAll('input') ?? []) values[input.name] = input.value.trim();
    submit(values);
  };
  return (
    <div class="sum form" ref={box}>
      {fields.map((f) => (
        <label key={f.name}>{f.label}<input class="plainfield" type="text" name={f.name} defaultValue={f.value} placeholder={f.hint ?? ''} autocomplete="off" spellcheck={false}
          onKeyDown={(e) => { if (e.key === 'Enter') { e.preventDefault(); go(); } }} /></label>
      ))}
      <button type="button" class="ib out small" onClick={go}>{button}</button>
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
  const keys = [...new Set((value?.rows ?? []).slice(0, 50).flatMap((r) => Object.keys(r)))];
  return (
    <div class="panel">
      <Form key={chosen} button="Measure" submit={({ from = '', to = '', by = '' }) => { if (from && to) pairQuestion.value = { from, to, by }; }} fields={[
        { name: 'from', label: 'From', value: pairQuestion.value?.from ?? chosen, hint: 'name of an event' }, { name: 'to', label: 'to', value: pairQuestion.value?.to ?? '', hint: 'name of an event' },
        { name: 'by', label: 'of the same', value: pairQuestion.value?.by ?? '', hint: 'field, e.g. payload.id' },
      ]} />
      {error ? <p class="nothing" role="alert">{error.body.message}</p> : null}
      {!value ? <p class="nothing">{pending ? 'Measuring…' : 'How long it is from one event to the next of another name.'}</p> : (
        <div class="split">
          <div class="scrolls" tabIndex={0} role="group" aria-label="Durations">
            <table aria-label="Durations">
              <thead><tr>{keys.map((k) => <th scope="col" class={k === 'key' ? '' : 'r'}>{k.replaceAll('_', ' ')}</th>)}</tr></thead>
              <tbody>{value.rows.slice(0, 1000).map((r) => <tr>{keys.map((k) => <td class={k === 'key' ? '' : 'r'} data-column={k}>{shown(k, r[k])}</td>)}</tr>)}</tbody>
            </table>
          </div>
          <aside aria-label="Distribution">
            {value.points.length ? <Histogram title="Durations" values={value.points.map((p) => Number(p.duration))} /> : <p class="nothing">No such pair is in the selection.</p>}
            {value.points.length ? <Points points={value.points} /> : null}
          </aside>
        </div>
      )}
    </div>
  );
}

const POINTS_PX = 110;

/** Durations over time: a click goes to the one that is nearest. */
function Points({ points }: { points: Pairs['points'] }): JSX.Element {
  const ref = useRef<HTMLCanvasElement>(null);
  const places = useRef<readonly { x: number; y: number; begin: bigint }[]>([]);
  useLayoutEffect(() => effect(() => {
    const canvas = ref.current;
    const g = canvas?.getContext('2d');
    if (!canvas || !g) return;
    const colours = theme.value;
    const over = rangeShown();
    const width = canvas.clientWidth;
    resize(canvas, width, POINTS_PX, devicePixelRatio);
    g.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    g.clearRect(0, 0, width, POINTS_PX);
    const logs = points.map((p) => Math.log2(Math.max(1, Number(p.duration))));
    const [low, high] = logs.reduce(([a, b], l) => [Math.min(a, l), Math.max(b, l)], [Infinity, -Infinity]);
    places.current = points.map((p, i) => ({
      x: 4 + (spanOf(over) === 0n ? 0 : shareOf(over, BigInt(p.begin))) * (width - 8), y: POINTS_PX - 20 - (high === low ? 0.5 : ((logs[i] ?? 0) - low) / (high - low)) * (POINTS_PX - 32), begin: BigInt(p.begin),
    }));
    g.fillStyle = colours.edge[0] ?? '';
    for (const { x, y } of places.current) g.fillRect(x - 1.5, y - 1.5, 3, 3);
    g.fillStyle = colours.line2;
    g.fillRect(0, POINTS_PX - 14, width, 1);
    g.fillStyle = colours.ink2;
    g.font = `11px ${colours.ui}`;
    g.textBaseline = 'middle';
    g.fillText(shortDuration(BigInt(Math.round(2 ** high))), 4, 6);
  }), [points]);
  const pick = (e: MouseEvent): void => {
    const box = ref.current?.getBoundingClientRect();
    if (!box) return;
    const [x, y] = [e.clientX - box.left, e.clientY - box.top];
    const far = (p: { x: number; y: number }): number => Math.hypot(p.x - x, p.y - y);
    const nearest = places.current.reduce<(typeof places.current)[number] | null>((a, p) => (!a || far(p) < far(a) ? p : a), null);
    if (nearest && far(nearest) < 12) { reveal(nearest.begin, 'jump'); setCursor(nearest.begin); }
  };
  return <canvas ref={ref} class="points" role="img" aria-label={`${grouped(points.length)} durations over time`} onClick={pick} />;
}

export function OutliersView(): JSX.Element {
  const event = eventAnswer.value.value;
  const number = event?.fields.find((f) => f.path.startsWith('payload.') && /^-?\d+(\.\d+)?$/.test(f.text));
  const { value, error, pending } = outliers.value;
  const list = value?.events ?? [];
  return (
    <div class="panel">
      <Form key={`${event?.event ?? ''}`} button="Look" submit={({ name = '', field = '', deviations = '' }) => { if (field) outlierQuestion.value = { name, field, deviations }; }} fields={[
        { name: 'name', label: 'Of', value: outlierQuestion.value?.name ?? event?.name ?? '', hint: 'name of an event' }, { name: 'field', label: 'the field', value: outlierQuestion.value?.field ?? number?.path ?? '', hint: 'payload.grams' },
        { name: 'deviations', label: 'beyond deviations', value: outlierQuestion.value?.deviations ?? '2.5' },
      ]} />
      {error ? <p class="nothing" role="alert">{error.body.message}</p> : null}
      {!value ? <p class="nothing">{pending ? 'Looking…' : 'Values of a field that are far from its mean.'}</p> : <>
        <div class="sum"><span>Mean <b>{String(value.mean)}</b></span><span>Deviation <b>{String(value.deviation)}</b></span><span><b>{grouped(list.length)}</b> beyond</span></div>
        <div class="scrolls" tabIndex={0} role="group" aria-label="Outliers">
          {list.slice(0, 2000).map((o) => {
            const at = typeof o['ns'] === 'string' ? BigInt(o['ns']) : null;
            const go = (): void => { if (typeof o['event'] === 'number') chooseEvent(o['event'], 'jump'); if (at !== null) { setCursor(at); reveal(at); } };
            return (
              <div class="problem"><button type="button" class="ib out small" aria-label={`Show event ${String(o['event'])}`} onClick={go}>Show</button>
                <span class="where"><b>{String(o['value'] ?? '')}</b> {clipped(String(o['name'] ?? ''), 200)}</span><span class="when">{at === null ? '' : point(at, timeContext.value)}</span></div>
            );
          })}
        </div>
      </>}
    </div>
  );
}
