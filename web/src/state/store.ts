// The present state, its link, and the history of the browser.
import { batch, computed, effect, signal } from '@preact/signals';
import type { Session } from '../api/types';
import type { TimeContext, TimeFormat } from '../time/format';
import { type Range, sameRange, spanOf } from '../time/range';
import { readFragment, writeFragment } from './fragment';
import { INITIAL, type State } from './state';

export const state = signal<State>(INITIAL);

/** The source's description of the traces; null until it has answered. */
export const session = signal<Session | null>(null);

/** Does the page hold what it shows, without a server? */
export const isFile = computed(() => session.value?.features.includes('file') ?? false);

/** Has the trace a feature that this page in a file leaves out? */
export const isElsewhere = (feature: string): boolean => session.value?.elsewhere?.includes(feature) ?? false;

/** From the first to the last event; a trace without times has an empty range. */
export const fullRange = computed<Range>(() => {
  const s = session.value;
  if (!s || s.begin === null || s.end === null) return { begin: 0n, end: 0n };
  return { begin: BigInt(s.begin), end: BigInt(s.end) };
});
export const origin = computed<bigint>(() => BigInt(session.value?.origin ?? 0));
export const view = computed<Range>(() => state.value.view ?? fullRange.value);
export const format = computed<TimeFormat>(
  () => state.value.format ?? (session.value?.clock === 'unix' ? 'utc' : 'begin'),
);
export const timeContext = computed<TimeContext>(() => ({
  format: format.value,
  begin: fullRange.value.begin,
  cursor: state.value.cursor,
}));

/** `move` replaces the entry of the history after a while, `jump` makes a new one, so that Back returns. */
export type How = 'move' | 'jump';

/** Changes parts of the state. */
export function change(part: Partial<State>, how: How = 'move'): void {
  if (how === 'jump') writeLink();
  batch(() => {
    state.value = { ...state.value, ...part };
  });
  if (how === 'jump') pushLink();
}

/** Shows a range; the whole trace is not kept as a range, so that it stays whole when the trace grows. */
export function show(range: Range, how: How = 'move'): void {
  const next = sameRange(range, fullRange.value) ? null : range;
  if (sameRange(next, state.value.view)) return;
  change({ view: next }, how);
}

const LINK_MS = 250;
let timer: ReturnType<typeof setTimeout> | null = null;
let linked = '';
let linking = false;
/** How often a state was taken from the address. */
export const linksRead = signal(0);

/** The fragment of the address as it should be. */
export const link = computed(() => writeFragment(state.value));

function writeLink(): void {
  if (timer !== null) clearTimeout(timer);
  timer = null;
  if (!linking || link.peek() === linked) return;
  linked = link.peek();
  history.replaceState(null, '', addressOf(linked));
}

function pushLink(): void {
  if (!linking || link.peek() === linked) return;
  if (timer !== null) clearTimeout(timer);
  timer = null;
  linked = link.peek();
  history.pushState(null, '', addressOf(linked));
}

const addressOf = (fragment: string): string =>
  `${location.pathname}${location.search}${fragment ? `#${fragment}` : ''}`;

/** Takes the state from the address, and lets the one follow the other from now on. */
export function followLink(): void {
  const take = (): void =>
    batch(() => {
      state.value = readFragment(linked);
      linksRead.value = linksRead.peek() + 1;
    });
  const read = (): void => {
    const fragment = location.hash.slice(1);
    if (fragment === linked) return;
    if (timer !== null) clearTimeout(timer);
    timer = null;
    linked = fragment;
    take();
  };
  linked = location.hash.slice(1);
  take();
  linking = true;
  addEventListener('hashchange', read);
  addEventListener('popstate', read);
  effect(() => {
    if (link.value !== linked && timer === null) timer = setTimeout(writeLink, LINK_MS);
  });
}

/** How long the view is, in words for a zoom. */
export const viewSpan = computed(() => spanOf(view.value));
