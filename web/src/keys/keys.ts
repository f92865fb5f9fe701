// Keys of the whole page. Fields, dialogs and tables have their own and come first.
import { menu } from '../panels/menu';
import { letterKeys } from '../panels/settings';
import { commandOf, keyOf } from './commands';
import { dialog, focusTimeline } from './focus';

const isField = (e: EventTarget | null): boolean =>
  e instanceof HTMLInputElement || e instanceof HTMLTextAreaElement || e instanceof HTMLSelectElement;

/** Keys that mean something to buttons and tabs themselves. */
const OF_CONTROLS = new Set([
  'Enter',
  ' ',
  'ArrowLeft',
  'ArrowRight',
  'ArrowUp',
  'ArrowDown',
  'Home',
  'End',
  'ContextMenu',
  'F10',
]);

export function listenToKeys(): void {
  document.addEventListener('keydown', (e) => {
    if (e.defaultPrevented || e.isComposing || dialog.peek() !== null || menu.peek() !== null) return;
    const key = keyOf(e);
    if (isField(e.target)) {
      if (e.key === 'Escape') {
        focusTimeline();
        e.preventDefault();
      } else if (key !== 'Ctrl+p' && key !== 'Ctrl+Shift+P') return;
    }
    if (
      e.target instanceof HTMLElement &&
      e.target.closest('button, [role=tab], [role=separator], [data-testid=minimap], [role=slider]') &&
      OF_CONTROLS.has(e.key)
    )
      return;
    if (!letterKeys.peek() && e.key.length === 1 && !e.ctrlKey && !e.metaKey && !e.altKey) return;
    const command = commandOf(key);
    if (!command || (e.key === 'Escape' && isField(e.target))) return;
    e.preventDefault();
    command.run();
  });
}
