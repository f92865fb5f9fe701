// Numbers, durations and times as people read them.
import { absolute, scaled } from './range';

/** How points in time are shown. */
export type TimeFormat = 'begin' | 'utc' | 'local' | 'cursor' | 'ns' | 'cycles';

export const TIME_FORMATS: readonly TimeFormat[] = ['utc', 'local', 'begin', 'cursor', 'ns', 'cycles'];

export const TIME_FORMAT_LABELS: Record<TimeFormat, string> = {
  begin: 'since the begin',
  utc: 'UTC',
  local: 'local time',
  cursor: 'since the cursor',
  ns: 'ns',
  cycles: 'cycles',
};

const THIN = '\u202f';

/** A whole number with its thousands apart. */
export function grouped(value: number | bigint | string): string {
  const text = String(value);
  const [, sign, digits, rest] = /^(-?)(\d+)(.*)$/.exec(text) ?? ['', '', '', text];
  return sign + (digits ?? '').replace(/\B(?=(\d{3})+$)/g, THIN) + rest;
}

const UNITS: readonly [bigint, string][] = [
  [1_000_000_000n, 's'],
  [1_000_000n, 'ms'],
  [1_000n, 'µs'],
];

/** A length of time with three decimals; below a microsecond a whole number. */
export function duration(ns: bigint): string {
  const size = absolute(ns);
  const sign = ns < 0n ? '-' : '';
  for (const [unit, name] of UNITS) {
    if (size < unit) continue;
    const thousandths = scaled(size, 1000n, unit);
    return `${sign}${grouped(thousandths / 1000n)}.${String(thousandths % 1000n).padStart(3, '0')} ${name}`;
  }
  return `${sign}${size} ns`;
}

/** A length of time with as many decimals as it has, for ticks. */
export function shortDuration(ns: bigint): string {
  const size = absolute(ns);
  const sign = ns < 0n ? '-' : '';
  for (const [unit, name] of UNITS) {
    if (size < unit) continue;
    return `${sign}${grouped(size / unit)}${fraction(size % unit, String(unit).length - 1)}${THIN}${name}`;
  }
  return `${sign}${size}${THIN}ns`;
}

const fraction = (part: bigint, digits: number): string =>
  part === 0n ? '' : `.${String(part).padStart(digits, '0').replace(/0+$/, '')}`;

/** A distance with its sign, as from the cursor. */
export const signed = (ns: bigint): string => (ns < 0n ? duration(ns) : `+${duration(ns)}`);

/** Seconds since the epoch and the rest of a time, also of one before it. */
function parts(ns: bigint): { seconds: bigint; rest: bigint } {
  const rest = ((ns % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  return { seconds: (ns - rest) / 1_000_000_000n, rest };
}

const two = (n: number): string => String(n).padStart(2, '0');

/** Dates that `Date` can hold; others are shown as seconds. */
const DATE_LIMIT_S = 8_640_000_000_000n;

/** The time of day, with up to nine decimals. */
export function clock(ns: bigint, digits: number, local = false): string {
  const { seconds, rest } = parts(ns);
  const decimals = digits > 0 ? `.${String(rest).padStart(9, '0').slice(0, digits)}` : '';
  if (absolute(seconds) > DATE_LIMIT_S) return `${grouped(seconds)}${decimals}${THIN}s`;
  const date = new Date(Number(seconds) * 1000);
  const text = local
    ? `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
    : date.toISOString().replace(/^.*T/, '').slice(0, 8);
  return text + decimals;
}

/** The day of a time, or nothing for times that no calendar has. */
export function day(ns: bigint, local = false): string {
  const { seconds } = parts(ns);
  if (absolute(seconds) > DATE_LIMIT_S) return '';
  const date = new Date(Number(seconds) * 1000);
  return local
    ? `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
    : date.toISOString().replace(/T.*$/, '');
}

/** A time that others count from, as a day and a time of that day; of clocks without an epoch as what they show. */
export function baseWords(base: bigint, format: TimeFormat, isUnix: boolean): { date: string; time: string } {
  if (format === 'ns' || format === 'cycles') return { date: 'at', time: `${grouped(base)} ns` };
  const local = format === 'local';
  const date = isUnix ? day(base, local) : '';
  if (date === '') return { date: 'at the time', time: `${secondsSince(base).replace(/^\+/, '')} s of the clock` };
  return { date: `on ${date} at`, time: `${clock(base, 9, local)}${local ? ' local time' : ' UTC'}` };
}

/** The point that a time is shown relative to. */
export interface TimeContext {
  readonly format: TimeFormat;
  /** The first event of the trace. */
  readonly begin: bigint;
  readonly cursor: bigint | null;
}

/** A point in time in the chosen format, to the nanosecond unless fewer digits are asked for. */
export function point(ns: bigint, at: TimeContext, digits = 9): string {
  switch (at.format) {
    case 'utc':
      return clock(ns, digits);
    case 'local':
      return clock(ns, digits, true);
    case 'cursor':
      return signed(ns - (at.cursor ?? at.begin));
    case 'ns':
    case 'cycles':
      return grouped(ns);
    case 'begin':
      return secondsSince(ns - at.begin);
  }
}

/** A distance in seconds with all nine decimals, so that columns of it can be compared. */
export function secondsSince(ns: bigint): string {
  const size = absolute(ns);
  const rest = String(size % 1_000_000_000n).padStart(9, '0');
  return `${ns < 0n ? '-' : '+'}${grouped(size / 1_000_000_000n)}.${rest}`;
}

/** The ticks of a ruler: a time that they are counted from, and their distances to it. */
export interface Ticks {
  /** The point that labels are relative to. */
  readonly base: bigint;
  readonly step: bigint;
  /** The first tick that is not before the view. */
  readonly first: bigint;
}

/** Ticks of 1, 2 or 5 times a power of ten that are at least `apart` of the view from each other. */
export function ticks(begin: bigint, end: bigint, apart: number, origin: bigint): Ticks {
  const least = Math.max(1, Number(end - begin) * apart);
  let step = 1n;
  for (const factors = [2n, 5n, 10n]; ; ) {
    const power = step;
    const found = [power, ...factors.map((f) => power * f)].find((s) => Number(s) >= least);
    if (found !== undefined) {
      step = found;
      break;
    }
    step = power * 10n;
  }
  // Labels would repeat the same leading digits when a view is far from the begin; then they count from nearby.
  const far = step * 1000n;
  const distance = begin - origin;
  const base = absolute(distance) < far ? origin : origin + floorTo(distance, far);
  return { base, step, first: base + ceilTo(begin - base, step) };
}

const floorTo = (a: bigint, unit: bigint): bigint => scaled(a, 1n, unit) * unit;
const ceilTo = (a: bigint, unit: bigint): bigint => -floorTo(-a, unit);

/** A number of things. */
export const numberOf = (n: number, thing: string): string => `${grouped(n)} ${thing}${n === 1 ? '' : 's'}`;

/** A text in which no sign changes the order of those around it. */
export const inOrder = (text: string): string => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, '\ufffd');

/** A size in bytes, as `tracemill` prints it. */
export function size(bytes: number): string {
  let [n, unit] = [bytes, 'B'];
  for (const next of ['KiB', 'MiB', 'GiB']) if (n >= 1024) [n, unit] = [n / 1024, next];
  return unit === 'B' ? `${bytes} B` : `${n.toFixed(1)} ${unit}`;
}

/** The number of a device by its two parts, driver and device, as the kernel keeps them in 12 and 20 bits. */
export const device = (of: number): string =>
  of >= 2 ** 20 && of < 2 ** 32 ? `${Math.floor(of / 2 ** 20)}:${of % 2 ** 20}` : String(of);

/** An address in memory, as `tracemill` prints it: one of a signed field that is negative is the 64 bits that it has. */
export const address = (at: bigint): string => `0x${(at < 0n ? BigInt.asUintN(64, at) : at).toString(16)}`;
