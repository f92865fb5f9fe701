// Times that a user types, in the forms that the command line takes.
import { ordered, type Range } from './range';

/** The point that relative times refer to. */
export interface ParseContext {
  readonly begin: bigint;
  readonly end: bigint;
  readonly local: boolean;
}

const UNITS: Record<string, bigint> = {
  ns: 1n,
  us: 1_000n,
  µs: 1_000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
  d: 86_400_000_000_000n,
};

/** A decimal number of a unit, exactly; null when a digit would be below a nanosecond. */
function decimal(integer: string, fraction: string, unit: bigint): bigint | null {
  const scale = 10n ** BigInt(fraction.length);
  const value = BigInt(integer || '0') * scale + BigInt(fraction || '0');
  const ns = value * unit;
  return ns % scale === 0n ? ns / scale : null;
}

/** A duration with units, as `1.5s` or `1m30s`. */
export function parseDuration(text: string): bigint | null {
  const form = /(\d+)(?:\.(\d+))?\s*(ns|us|µs|ms|s|m|h|d)\s*/gy;
  let total = 0n;
  let at = 0;
  for (let m = form.exec(text); m; m = form.exec(text)) {
    const part = decimal(m[1] ?? '', m[2] ?? '', UNITS[m[3] ?? ''] ?? 1n);
    if (part === null) return null;
    total += part;
    at = form.lastIndex;
  }
  return at > 0 && at === text.length ? total : null;
}

/** A time in ns, or null when the text is none. */
export function parseTime(typed: string, context: ParseContext): bigint | null {
  const text = typed.trim().replace(/[\u202f\u00a0_]/g, '');
  const ns = /^(-?\d+)\s*ns$/.exec(text);
  if (ns) return BigInt(ns[1] ?? '0');
  const relative = /^([+-])(.+)$/.exec(text);
  if (relative) {
    const length = parseDuration(relative[2] ?? '');
    if (length !== null) return relative[1] === '+' ? context.begin + length : context.end - length;
  }
  const seconds = /^(-?)(\d+)(?:\.(\d{1,9}))?$/.exec(text);
  if (seconds) {
    const size = decimal(seconds[2] ?? '', seconds[3] ?? '', 1_000_000_000n);
    return size === null ? null : seconds[1] ? -size : size;
  }
  return parseCalendar(text, context);
}

/** Two times with `..` between them. */
export function parseRange(typed: string, context: ParseContext): Range | null {
  const [first, second, more] = typed.split('..');
  if (first === undefined || second === undefined || more !== undefined) return null;
  const [begin, end] = [parseTime(first, context), parseTime(second, context)];
  return begin === null || end === null ? null : ordered(begin, end);
}

function parseCalendar(text: string, { begin, local }: ParseContext): bigint | null {
  const form =
    /^(?:(\d{4})-(\d\d)-(\d\d))?(?:(?:^|[ T])(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(Z|[+-]\d\d:\d\d)?$/.exec(
      text,
    );
  if (!form || text === '') return null;
  const [, year, month, date, hour, minute, second, fraction, zone] = form;
  if (year === undefined && hour === undefined) return null;
  const utc = zone !== undefined || !local;
  const first = new Date(Number(begin / 1_000_000n));
  const fields: [number, number, number, number, number, number] = [
    year === undefined ? (utc ? first.getUTCFullYear() : first.getFullYear()) : Number(year),
    month === undefined ? (utc ? first.getUTCMonth() : first.getMonth()) : Number(month) - 1,
    date === undefined ? (utc ? first.getUTCDate() : first.getDate()) : Number(date),
    Number(hour ?? 0),
    Number(minute ?? 0),
    Number(second ?? 0),
  ];
  const ms = utc ? Date.UTC(...fields) : new Date(...fields).getTime();
  if (Number.isNaN(ms)) return null;
  const offset =
    zone && zone !== 'Z' ? Number(`${zone[0]}1`) * (Number(zone.slice(1, 3)) * 60 + Number(zone.slice(4, 6))) : 0;
  return (BigInt(ms) - BigInt(offset) * 60_000n) * 1_000_000n + BigInt((fraction ?? '').padEnd(9, '0'));
}
