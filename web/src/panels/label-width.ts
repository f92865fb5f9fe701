// How wide the labels of the tracks are: as their names need, within bounds, until a user says otherwise.
import { computed, signal } from '@preact/signals';
import { layout } from '../state/tracks';
import { labelIsChosen, sizeBounds, sizes } from './settings';

/** The space next to a name: the boxes before it, the number after it, and the menu. */
const BESIDE_PX = 48;
const INDENT_PX = 12;
const NUMBER_PX = 6.6;
/** The part of the window that labels take at most unless more is asked for. */
const MOST_SHARE = 0.3;
const MOST_PX = 420;

const windowWidth = signal(innerWidth);
addEventListener('resize', () => {
  windowWidth.value = innerWidth;
});

const known = new Map<string, number>();
const MOST_KNOWN = 20_000;
let context: CanvasRenderingContext2D | null | undefined;

function widthOf(text: string, bold: boolean): number {
  const key = `${bold ? 1 : 0}${text}`;
  let width = known.get(key);
  if (width === undefined) {
    if (context === undefined) context = document.createElement('canvas').getContext('2d');
    if (known.size >= MOST_KNOWN) known.clear();
    const family = getComputedStyle(document.documentElement).getPropertyValue('--ui').trim();
    if (context) context.font = `${bold ? 600 : 500} ${bold ? 12 : 13}px ${family}`;
    width = Math.ceil(context?.measureText(text.slice(0, 200)).width ?? text.length * NUMBER_PX);
    known.set(key, width);
  }
  return width;
}

/** The width at which no name of a row is cut. */
const needed = computed(() => {
  let most = 0;
  for (const { track, level } of layout.value.rows) {
    const group = track.kind === 'group';
    const name = group ? track.name.slice(track.name.replace(/\/+$/, '').lastIndexOf('/') + 1) : track.name;
    const count =
      track.kind === 'state'
        ? 5
        : String(track.calls ?? track.events ?? '').length * 1.4 + (group || track.kind === 'calls' ? 7 : 0);
    const indent = group ? 0 : Math.min(4, Math.max(0, level - 2)) * INDENT_PX;
    most = Math.max(most, BESIDE_PX + indent + widthOf(name, group) + count * NUMBER_PX);
  }
  return Math.ceil(most);
});

export const labelWidth = computed(() => {
  const { label } = sizes.value;
  if (labelIsChosen.value) return label;
  const most = Math.max(label, Math.min(MOST_PX, Math.round(windowWidth.value * MOST_SHARE)));
  return Math.max(label, Math.min(most, sizeBounds('label').most, needed.value));
});
