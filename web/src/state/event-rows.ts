// The rows of the table of events.
import { computed, effect } from '@preact/signals';
import type { Rows } from '../api/types';
import { answer } from './answers';
import { RowStore } from './rows';
import { eventAnswer } from './selection';
import { ask, epoch } from './session';
import { session, state } from './store';

export const table = new RowStore((query, abort) => ask<Rows>('events', query, abort));
effect(() => {
  const { filter, columns, format } = state.value;
  const json = columns.length > 0 || format === 'cycles';
  if (session.value) table.restart(`${filter}\n${json ? 'json' : ''}\n${epoch.value}`, filter, json);
});

/** How many events the filter leaves; null until it is known. */
export const shownTotal = computed(
  () => table.total.value ?? (state.value.filter ? null : (session.value?.events ?? null)),
);

/** The place of the chosen event among the rows of the table. */
const LOOKED_AT = 500;
const placeAnswer = answer<number | null>(() => {
  const { filter, event } = state.value;
  if (event === null || filter === '') return null;
  const details = eventAnswer.value;
  if (details.value?.event !== event || details.pending || !details.value.ns) return null;
  const { ns } = details.value;
  return {
    key: `${filter}\n${event}\n${epoch.value}`,
    async ask(abort) {
      const found = await ask<Rows>('events', { at: ns, limit: LOOKED_AT, filter }, abort);
      const i = found.rows.findIndex((r) => r.event >= event);
      return i < 0 ? null : found.from + i;
    },
  };
});
export const chosenRow = computed<number | null>(() => {
  const { filter, event } = state.value;
  if (event === null) return null;
  return filter === '' ? event : placeAnswer.value.value;
});
