// The filter, and what is said of it.
import { signal } from '@preact/signals';
import type { ErrorBody } from '../api/types';
import { reportFailure } from './answers';
import { whileBusy } from './busy';
import { ask } from './session';
import { change, state } from './store';

/** How far the filter went through the events, as far as that was reported. */
export const filterDone = signal<number | null>(null);
export const filterError = signal<{ text: string; error: ErrorBody } | null>(null);

/** Tries a filter; a mistake is shown and leaves the old one. */
export async function applyFilter(text: string): Promise<void> {
  const trimmed = text.trim();
  if (trimmed === state.peek().filter) {
    filterError.value = null;
    return;
  }
  try {
    await whileBusy(ask('tracks', { filter: trimmed }));
    filterError.value = null;
    change({ filter: trimmed }, 'jump');
  } catch (e) {
    const error = reportFailure(e);
    if (error) filterError.value = { text, error: error.body };
  }
}
