// Completions of a filter: paths of fields that were seen, names of events, labels, words of the language.

import { table } from '../state/event-rows';
import { labelsOf } from '../state/labels';
import { eventAnswer, selectAnswer } from '../state/selection';
import { plainTiles } from '../state/tiles-fetch';

export interface Completion {
  readonly text: string;
  readonly what: string;
}

const ROOTS: readonly Completion[] = [
  ['name', 'name of the event'],
  ['cpu', 'its CPU'],
  ['time', 'its time'],
  ['ns', 'its time in ns'],
  ['trace', 'name of the trace'],
  ['stream', 'its stream'],
  ['id', 'number of its class'],
  ['payload.', 'fields'],
  ['event_context.', 'fields'],
  ['stream_context.', 'fields'],
  ['packet_context.', 'fields'],
  ['header.', 'fields'],
  ['$ctx.', 'any context'],
].map(([text = '', what = '']) => ({ text, what }));
const WORDS: readonly Completion[] = ['and ', 'or ', 'not ', 'in ('].map((text) => ({ text, what: '' }));
const MOST = 12;
/** A field that is compared, and what is typed of a label of it. */
const FIELD_VALUE = /(?:^|[\s(.])(\w+)\s*(?:==|!=|=~)\s*"([^"]*)$/;
const NAME_VALUE = /\bname\s*(?:==|!=|=~)\s*"([^"]*)$/;

/** Choices for the word that ends at a place of a text. */
export function completionsOf(text: string, at: number): { from: number; to: number; list: readonly Completion[] } {
  const before = text.slice(0, at);
  const name = NAME_VALUE.exec(before);
  if (name) {
    const typed = name[1] ?? '';
    const list = names()
      .filter((n) => n.toLowerCase().includes(typed.toLowerCase()) && n !== typed)
      .slice(0, MOST)
      .map((n) => ({ text: `${n}"`, what: 'event' }));
    return { from: at - typed.length, to: text[at] === '"' ? at + 1 : at, list };
  }
  const value = FIELD_VALUE.exec(before);
  if (value) {
    const [, field = '', typed = ''] = value;
    const list = labelsOf(field, table.texts())
      .filter((l) => l.toLowerCase().includes(typed.toLowerCase()) && l !== typed)
      .slice(0, MOST)
      .map((l) => ({ text: `${l}"`, what: 'label' }));
    return { from: at - typed.length, to: text[at] === '"' ? at + 1 : at, list };
  }
  const typed = /[$\w.[\]]*$/.exec(before)?.[0] ?? '';
  if (typed === '' || /"[^"]*$/.test(before.replace(/"[^"]*"/g, ''))) return { from: at, to: at, list: [] };
  const low = typed.toLowerCase();
  const all = [...paths(), ...ROOTS, ...WORDS];
  const fits = (c: Completion): boolean =>
    c.text.toLowerCase().startsWith(low) || c.text.toLowerCase().includes(`.${low}`);
  const list = all
    .filter((c, i) => c.text.trim() !== typed && fits(c) && all.findIndex((o) => o.text === c.text) === i)
    .slice(0, MOST);
  return { from: at - typed.length, to: at, list };
}

const paths = (): Completion[] =>
  (eventAnswer.peek().value?.fields ?? []).map((f) => ({ text: f.path.replace(/\[\d+\]/g, '[0]'), what: f.kind }));

/** Names of events that the page has met. */
function names(): string[] {
  const met = new Set<string>(plainTiles.names());
  for (const n of selectAnswer.peek().value?.names ?? []) met.add(n.name);
  for (const n of table.names()) met.add(n);
  return [...met].sort();
}
