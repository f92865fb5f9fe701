// Menus that open where they are asked for.
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

export interface MenuItem {
  readonly label: string;
  readonly key?: string;
  run(): void;
}
export interface OpenMenu {
  readonly x: number;
  readonly y: number;
  readonly label: string;
  readonly items: readonly (MenuItem | null)[];
}

export const menu = signal<OpenMenu | null>(null);
let before: HTMLElement | null = null;

export function openMenu(x: number, y: number, label: string, items: readonly (MenuItem | null)[]): void {
  before = document.activeElement instanceof HTMLElement ? document.activeElement : null;
  menu.value = { x, y, label, items };
}

/** Below a button. */
export function openMenuAt(element: Element, label: string, items: readonly (MenuItem | null)[]): void {
  const box = element.getBoundingClientRect();
  openMenu(box.left, box.bottom + 4, label, items);
}

export function closeMenu(): void {
  if (!menu.peek()) return;
  menu.value = null;
  before?.focus();
  before = null;
}

export function Menu(): JSX.Element | null {
  const open = menu.value;
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const box = ref.current;
    if (!open || !box) return undefined;
    const { width, height } = box.getBoundingClientRect();
    box.style.left = `${Math.max(4, Math.min(open.x, innerWidth - width - 6))}px`;
    box.style.top = `${Math.max(4, Math.min(open.y, innerHeight - height - 6))}px`;
    box.querySelector('button')?.focus();
    const away = (e: PointerEvent): void => {
      if (e.target instanceof Node && !box.contains(e.target)) closeMenu();
    };
    addEventListener('pointerdown', away, true);
    return () => removeEventListener('pointerdown', away, true);
  }, [open]);
  if (!open) return null;
  const onKeyDown = (e: KeyboardEvent): void => {
    const items = [...(ref.current?.querySelectorAll('button') ?? [])];
    const at = items.indexOf(document.activeElement as HTMLButtonElement);
    const go = (to: number): void => items[(to + items.length) % items.length]?.focus();
    switch (e.key) {
      case 'ArrowDown':
        go(at + 1);
        break;
      case 'ArrowUp':
        go(at - 1);
        break;
      case 'Home':
        go(0);
        break;
      case 'End':
        go(items.length - 1);
        break;
      case 'Escape':
      case 'Tab':
        closeMenu();
        break;
      default:
        return;
    }
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div ref={ref} class="menu" role="menu" aria-label={open.label} tabIndex={-1} onKeyDown={onKeyDown}>
      {open.items.map((item) =>
        item === null ? (
          <hr />
        ) : (
          <button
            type="button"
            role="menuitem"
            tabIndex={-1}
            onClick={() => {
              closeMenu();
              item.run();
            }}
          >
            {item.label}
            {item.key ? <kbd aria-hidden="true">{item.key}</kbd> : null}
          </button>
        ),
      )}
    </div>
  );
}
