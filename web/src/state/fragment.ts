// The link: a state as the fragment of an address, and back.

import { TIME_FORMATS, type TimeFormat } from '../time/format';
import { ordered, type Range } from '../time/range';
import { type Bookmark, INITIAL, type State, TABS, type Tab } from './state';

/** The fragment of a state, without `#`. What is as it begins is left out. */
export function writeFragment(state: State): string {
  const parts: string[] = [];
  const put = (key: string, value: string): void => {
    if (value) parts.push(`${key}=${value}`);
  };
  put('t', writeRange(state.view));
  put('sel', writeRange(state.selection));
  put('tr', writeList(state.chosen));
  put('f', encode(state.filter));
  put('q', encode(state.query));
  put('ev', state.event === null ? '' : String(state.event));
  put('call', state.call === null ? '' : `${encode(state.call.track)}:${state.call.call}`);
  put('at', state.slice === null ? '' : `${encode(state.slice.track)}:${state.slice.at}:${state.slice.depth}`);
  put('tab', state.tab === INITIAL.tab ? '' : state.tab);
  put('pin', writeList(state.pins));
  put('fold', writeList(state.folds));
  put('cols', writeList(state.columns));
  put('fmt', state.format ?? '');
  put('cur', state.cursor === null ? '' : String(state.cursor));
  put('bm', state.bookmarks.map((b) => `${b.ns}~${encode(b.label)}`).join(','));
  put('hide', writeList(state.hidden));
  put('up', writeList(state.first));
  put('down', writeList(state.last));
  put('by', writeList(state.groups));
  put('sql', encode(state.sql));
  put('plot', writeList(state.plots));
  put('an', encode(state.analysis));
  put('per', encode(state.period));
  put('path', state.path === null ? '' : `${encode(state.path.track)}:${writeRange(state.path.range)}`);
  return [...parts, ...state.unknown].join('&');
}

/** The state of a fragment; what cannot be understood is as if it were not there. */
export function readFragment(fragment: string): State {
  const state: { -readonly [K in keyof State]: State[K] } = { ...INITIAL };
  const unknown: string[] = [];
  for (const part of fragment.replace(/^#/, '').split('&')) {
    if (part === '') continue;
    const equals = part.indexOf('=');
    const key = equals < 0 ? part : part.slice(0, equals);
    const value = equals < 0 ? '' : part.slice(equals + 1);
    switch (key) {
      case 't':
        state.view = readRange(value);
        break;
      case 'sel':
        state.selection = readRange(value);
        break;
      case 'tr':
        state.chosen = readList(value);
        break;
      case 'f':
        state.filter = decode(value);
        break;
      case 'q':
        state.query = decode(value);
        break;
      case 'ev':
        state.event = readCount(value);
        break;
      case 'call': {
        const colon = value.lastIndexOf(':');
        const call = readCount(value.slice(colon + 1));
        state.call = colon > 0 && call !== null ? { track: decode(value.slice(0, colon)), call } : null;
        break;
      }
      case 'at': {
        const [, track = '', at = '', depth = ''] = /^(.+):(-?\d+):(\d+)$/.exec(value) ?? [];
        const [ns, lane] = [readNs(at), readCount(depth)];
        state.slice = ns !== null && lane !== null ? { track: decode(track), at: ns, depth: lane } : null;
        break;
      }
      case 'tab':
        state.tab = TABS.includes(value as Tab) ? (value as Tab) : INITIAL.tab;
        break;
      case 'pin':
        state.pins = readList(value);
        break;
      case 'fold':
        state.folds = readList(value);
        break;
      case 'cols':
        state.columns = readList(value);
        break;
      case 'fmt':
        state.format = TIME_FORMATS.includes(value as TimeFormat) ? (value as TimeFormat) : null;
        break;
      case 'cur':
        state.cursor = readNs(value);
        break;
      case 'bm':
        state.bookmarks = value
          .split(',')
          .map(readBookmark)
          .filter((b) => b !== null);
        break;
      case 'hide':
        state.hidden = readList(value);
        break;
      case 'up':
        state.first = readList(value);
        break;
      case 'down':
        state.last = readList(value);
        break;
      case 'by':
        state.groups = readList(value);
        break;
      case 'sql':
        state.sql = decode(value);
        break;
      case 'plot':
        state.plots = readList(value);
        break;
      case 'an':
        state.analysis = decode(value);
        break;
      case 'per':
        state.period = decode(value);
        break;
      case 'path': {
        const colon = value.lastIndexOf(':');
        const range = readRange(value.slice(colon + 1));
        state.path = colon > 0 && range !== null ? { track: decode(value.slice(0, colon)), range } : null;
        break;
      }
      default:
        unknown.push(part);
    }
  }
  state.unknown = unknown;
  return state;
}

/** A key of the fragment that is for the page alone, as the token is; and the fragment without it. */
export function takeKey(fragment: string, key: string): { value: string | null; rest: string } {
  const parts = fragment
    .replace(/^#/, '')
    .split('&')
    .filter((p) => p !== '');
  const own = parts.find((p) => p.startsWith(`${key}=`));
  return {
    value: own === undefined ? null : decode(own.slice(key.length + 1)),
    rest: parts.filter((p) => p !== own).join('&'),
  };
}

const encode = (text: string): string => encodeURIComponent(text).replace(/[~]/g, '%7E');

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const writeList = (list: readonly string[]): string => list.map(encode).join(',');
const readList = (text: string): string[] =>
  text
    .split(',')
    .filter((t) => t !== '')
    .map(decode);
const writeRange = (range: Range | null): string => (range === null ? '' : `${range.begin}..${range.end}`);
const readNs = (text: string): bigint | null => (/^-?\d{1,30}$/.test(text) ? BigInt(text) : null);
const readCount = (text: string): number | null => (/^\d{1,15}$/.test(text) ? Number(text) : null);

function readRange(text: string): Range | null {
  const [begin, end, more] = text.split('..').map(readNs);
  return begin == null || end == null || more !== undefined ? null : ordered(begin, end);
}

function readBookmark(text: string): Bookmark | null {
  const tilde = text.indexOf('~');
  const ns = readNs(tilde < 0 ? text : text.slice(0, tilde));
  return ns === null ? null : { ns, label: tilde < 0 ? '' : decode(text.slice(tilde + 1)) };
}
