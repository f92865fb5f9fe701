// The attention of the user: a dialog, or a field has it.
import { signal } from '@preact/signals';

export type DialogName =
  | 'help'
  | 'goto'
  | 'tracks'
  | 'commands'
  | 'bookmark'
  | 'columns'
  | 'clock'
  | 'group'
  | 'export-trace';

/** The dialog that is open. */
export const dialog = signal<DialogName | null>(null);

/** The element of a part of the page. */
export const part = (name: string): HTMLElement | null => document.querySelector(`[data-testid="${name}"]`);

function focusField(name: string): void {
  const field = part(name);
  field?.focus();
  if (field instanceof HTMLInputElement) field.select();
}

export const focusSearch = (): void => focusField('search');
export const focusFilter = (): void => focusField('filter');
export const focusTimeline = (): void => part('timeline')?.focus();
