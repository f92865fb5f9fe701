// Settings that a browser keeps for a user: theme, keys, sizes. They are shared by all windows of the page.
import { effect, signal } from '@preact/signals';
import { type Theme, themeOf } from '../draw/theme';

const PREFIX = 'tracemill.';

function stored(key: string): string | null {
  try {
    return localStorage.getItem(PREFIX + key);
  } catch {
    return null;
  }
}

function store(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(PREFIX + key);
    else localStorage.setItem(PREFIX + key, value);
  } catch {
    /* a browser that keeps nothing */
  }
}

export const tokenStore = {
  read: (): string | null => stored('token'),
  write: (token: string): void => store('token', token),
};

type Scheme = 'light' | 'dark';

const preferred = matchMedia('(prefers-color-scheme: dark)');
const systemScheme = (): Scheme => (preferred.matches ? 'dark' : 'light');
const chosen = signal<Scheme | null>(
  ((): Scheme | null => {
    const s = stored('theme');
    return s === 'light' || s === 'dark' ? s : null;
  })(),
);
const system = signal<Scheme>(systemScheme());
preferred.addEventListener('change', () => {
  system.value = systemScheme();
});

/** Windows' high contrast, and what is like it: the system has chosen the colours. */
const contrast = matchMedia('(forced-colors: active)');
const forced = signal(contrast.matches);
contrast.addEventListener('change', () => {
  forced.value = contrast.matches;
});

export const scheme = signal<Scheme>('light');
let wasForced = forced.peek();
/** The colours that canvases are drawn with. */
export const theme = signal<Theme>(applied(chosen.peek() ?? system.peek()));
effect(() => {
  const next = chosen.value ?? system.value;
  if (next !== scheme.peek() || forced.value !== wasForced) theme.value = applied(next);
  wasForced = forced.value;
  scheme.value = next;
});

function applied(next: Scheme): Theme {
  document.documentElement.dataset['theme'] = next;
  return themeOf(document.documentElement, next === 'dark', forced.peek());
}

export function turnTheme(): void {
  chosen.value = scheme.peek() === 'dark' ? 'light' : 'dark';
  store('theme', chosen.peek());
}

/** Whether single letters are keys. */
export const letterKeys = signal(stored('letters') !== 'off');
export function setLetterKeys(on: boolean): void {
  letterKeys.value = on;
  store('letters', on ? null : 'off');
}

export interface Sizes {
  readonly label: number;
  readonly side: number;
  readonly bottom: number;
}
const LEAST: Sizes = { label: 120, side: 200, bottom: 110 };
const MOST: Sizes = { label: 600, side: 700, bottom: 900 };
const USUAL: Sizes = { label: 232, side: 316, bottom: 292 };

export const sizes = signal<Sizes>(USUAL);
/** Whether the width of the labels is what a user chose, and not what their names need. */
export const labelIsChosen = signal(false);
try {
  const kept = JSON.parse(stored('sizes') ?? '{}') as Partial<Sizes>;
  labelIsChosen.value = kept.label !== undefined;
  sizes.value = {
    label: sane('label', kept.label),
    side: sane('side', kept.side),
    bottom: sane('bottom', kept.bottom),
  };
} catch {
  /* not ours */
}

function sane(key: keyof Sizes, value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value)
    ? Math.max(LEAST[key], Math.min(MOST[key], Math.round(value)))
    : USUAL[key];
}

export function setSize(key: keyof Sizes, value: number): void {
  if (key === 'label') labelIsChosen.value = true;
  sizes.value = { ...sizes.peek(), [key]: sane(key, value) };
  keepSizes();
}

/** Lets a size follow what is there again. */
export function freeSize(key: 'label'): void {
  labelIsChosen.value = false;
  sizes.value = { ...sizes.peek(), [key]: USUAL[key] };
  keepSizes();
}

function keepSizes(): void {
  const { label, ...others } = sizes.peek();
  store('sizes', JSON.stringify(labelIsChosen.peek() ? { label, ...others } : others));
}
export const sizeBounds = (key: keyof Sizes): { least: number; most: number } => ({
  least: LEAST[key],
  most: MOST[key],
});

addEventListener('storage', (e) => {
  if (e.key === `${PREFIX}theme`) chosen.value = e.newValue === 'light' || e.newValue === 'dark' ? e.newValue : null;
  if (e.key === `${PREFIX}letters`) letterKeys.value = e.newValue !== 'off';
});
