// Small parts that panels share.
import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { colourOf } from '../state/names';
import { inOrder } from '../time/format';

export const Chip = ({ name, small }: { name: string; small?: boolean }): JSX.Element => (
  <span class={`chip f${colourOf(name)}${small ? ' s' : ''}`} />
);

/** A text with the places marked that hold another one. */
export function Marked({ text, query }: { text: string; query: string }): JSX.Element {
  if (!query) return <>{text}</>;
  const low = text.toLowerCase();
  const sought = query.toLowerCase();
  const parts: ComponentChildren[] = [];
  let from = 0;
  for (let at = low.indexOf(sought); at >= 0 && parts.length < 40; at = low.indexOf(sought, from)) {
    parts.push(text.slice(from, at), <mark>{text.slice(at, at + sought.length)}</mark>);
    from = at + sought.length;
  }
  return (
    <>
      {parts}
      {text.slice(from)}
    </>
  );
}

/** A text cut to a length that a page can hold. */
export const clipped = (text: string, most = 2000): string =>
  inOrder(text.length > most ? `${text.slice(0, most)}…` : text);

/** A modal dialog, which gives the focus back when it ends. */
export function Dialog({
  id,
  title,
  close,
  children,
  extra,
}: {
  id: string;
  title: string;
  close: () => void;
  children: ComponentChildren;
  extra?: string;
}): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null);
  // Not after the next frame: whoever presses a key at once finds the focus where it belongs.
  useLayoutEffect(() => {
    const before = document.activeElement instanceof HTMLElement ? document.activeElement : null;
    const own = ref.current;
    own?.showModal();
    return () => {
      // While it is open nothing behind it can have the focus.
      own?.close();
      if (before && before !== document.body) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      data-testid={id}
      aria-label={title}
      class={extra ?? ''}
      onClose={close}
      onCancel={(e) => {
        e.preventDefault();
        close();
      }}
      onClick={(e) => {
        if (e.target === ref.current) close();
      }}
    >
      <header>
        <h2>{title}</h2>
        <button type="button" class="ib small" aria-label="Close" onClick={close}>
          ✕
        </button>
      </header>
      <div class="body">{children}</div>
    </dialog>
  );
}

const ROW_PX = 20;

/** Keys of a table of which one row is chosen: where they lead to, or null when they are of no use to it. */
export function rowOfKey(e: KeyboardEvent, at: number, rows: number): number | null {
  const box = e.currentTarget instanceof HTMLElement ? e.currentTarget.closest('.scrolls') : null;
  const page = Math.max(1, Math.floor((box?.clientHeight ?? 200) / ROW_PX) - 2);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows - 1 }[
    e.key
  ];
  return to === undefined || e.altKey || rows === 0 ? null : Math.max(0, Math.min(rows - 1, to));
}

/** Calls `move` as the pointer that went down on an element moves, until it goes up. */
export function followPointer(target: HTMLElement, down: PointerEvent, move: (e: PointerEvent) => void): void {
  target.setPointerCapture(down.pointerId);
  const up = (): void => {
    target.removeEventListener('pointermove', move);
    target.removeEventListener('pointerup', up);
  };
  target.addEventListener('pointermove', move);
  target.addEventListener('pointerup', up);
  down.preventDefault();
}

/** Keeps a row in sight that a key went to. */
export const keepInSight = (id: string): void =>
  queueMicrotask(() => requestAnimationFrame(() => document.getElementById(id)?.scrollIntoView({ block: 'nearest' })));

/** In a list of buttons the arrows go from one to the next. */
export function onListKey(e: KeyboardEvent): void {
  if (!(e.currentTarget instanceof HTMLElement) || e.altKey) return;
  const buttons = [...e.currentTarget.querySelectorAll<HTMLElement>('button')];
  const to = rowOfKey(e, buttons.indexOf(document.activeElement as HTMLElement), buttons.length);
  if (to === null) return;
  buttons[to]?.focus();
  e.preventDefault();
  e.stopPropagation();
}

/** Gives text to the clipboard; older browsers and plain http get it by a hidden field. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    return;
  } catch {
    /* not allowed here */
  }
  const field = document.createElement('textarea');
  field.value = text;
  field.className = 'sr';
  document.body.append(field);
  field.select();
  document.execCommand('copy');
  field.remove();
}

/** Gives a file to the browser. */
export function saveFile(name: string, parts: BlobPart[], type: string): void {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const a = document.createElement('a');
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A cell of CSV. */
export const csvCell = (value: string | number | null | undefined): string => {
  const text = value == null ? '' : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

const FORMATS: Record<string, string> = {
  'ctf1.1': 'CTF 1.1',
  'ctf1.6': 'CTF 1.6',
  'ctf1.8': 'CTF 1.8',
  ctf2: 'CTF 2',
  uftrace: 'uftrace',
  cpel: 'CPEL',
  elog: 'elog',
  'lttng-legacy': 'LTTng 0.x',
  ftrace: 'trace.dat',
};
export const formatName = (format: string): string => FORMATS[format] ?? format;
