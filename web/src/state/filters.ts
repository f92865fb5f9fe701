// Texts of filters that the page writes itself.
import type { Field } from '../api/types';

/** A text as a filter compares with it: no sign stands for others. */
export const quoted = (text: string): string =>
  `"${text
    .replace(/[*?\\"]/g, '\\$&')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replaceAll('\t', '\\t')}"`;

/** A name where a glob or a number of an event is taken as well. */
export const exactly = (name: string): string => name.replace(/[*?\\]|^\d/g, '\\$&');

/** True of the events of one name. */
export const isNamed = (name: string): string => `name == ${quoted(name)}`;

/** A path as the language of filters takes it: names that are no plain words in backquotes. */
export const filterPath = (path: string): string =>
  path.replace(/[^.[\]]+/g, (word) => (/^[A-Za-z_]\w*$|^\d+$/.test(word) ? word : `\`${word}\``));

/** The condition that is true of events with a value of a field. */
export function condition({ path, text, kind }: Pick<Field, 'path' | 'text' | 'kind'>): string {
  const labelled = /\((-?\d+)\)$/.exec(text);
  const bare = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text) || text === 'true' || text === 'false';
  const value = kind === 'string' ? quoted(text) : (labelled?.[1] ?? (bare ? text : quoted(text)));
  return `${filterPath(path)} == ${value}`;
}

/** One condition beside another; either may be empty. */
export const andConditions = (one: string, other: string): string =>
  one && other ? `(${one}) and ${other}` : one || other;

/** Times that a filter can name: an address has room for so many. */
export const MOST_TIMES = 400;

/** True of the events at some times, of a name or of any; null when these are too many. */
export function isNamedAt(name: string | null, times: readonly bigint[]): string | null {
  const own = [...new Set(times)].sort((a, b) => (a < b ? -1 : 1));
  if (own.length === 0 || own.length > MOST_TIMES) return null;
  const at = own.length === 1 ? `ns == ${own[0]}` : `ns in (${own.join(', ')})`;
  return name === null ? at : `${isNamed(name)} and ${at}`;
}
