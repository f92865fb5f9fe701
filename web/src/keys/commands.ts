// Every command once: its keys, its words, what it does. Keys, the help and the palette are made of this table.

import { copyCommand, copyLink, exportMenu } from '../panels/export';
import { turnTheme } from '../panels/settings';
import { openTrackMenu } from '../panels/tracks';
import * as act from '../state/actions';
import { toggleFollowing } from '../state/follow';
import { inValues } from '../state/search';
import { change, isFile, state } from '../state/store';
import { layout } from '../state/tracks';
import { togglePath } from '../state/why';
import { dialog, focusFilter, focusSearch } from './focus';

export type Group = 'Move' | 'Cursor and selection' | 'Choose' | 'Tracks' | 'Find' | 'Page';
export const GROUPS: readonly Group[] = ['Move', 'Cursor and selection', 'Choose', 'Tracks', 'Find', 'Page'];

export interface Command {
  readonly id: string;
  readonly label: string;
  readonly group: Group;
  /** As `keyOf` writes them. */
  readonly keys: readonly string[];
  run(): unknown;
}

const rowBy = (by: number): void => {
  const rows = layout.peek().rows;
  const at = rows.findIndex((r) => r.track.id === act.currentTrack.peek());
  const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))];
  if (!next) return;
  act.currentTrack.value = next.track.id;
  act.scrollTo(next.track.id);
};
const onCurrent = (then: (id: string) => void): void => {
  const id = act.currentTrack.peek();
  if (id !== null) then(id);
};

export const COMMANDS: readonly Command[] = [
  { id: 'zoom-in', label: 'Zoom in', group: 'Move', keys: ['w', '+', '='], run: act.zoomIn },
  { id: 'zoom-out', label: 'Zoom out', group: 'Move', keys: ['s', '-'], run: act.zoomOut },
  { id: 'left', label: 'Move left by a quarter', group: 'Move', keys: ['a'], run: () => act.pan(-1n, 4n) },
  { id: 'right', label: 'Move right by a quarter', group: 'Move', keys: ['d'], run: () => act.pan(1n, 4n) },
  { id: 'page-left', label: 'Move left by a view', group: 'Move', keys: ['Shift+A'], run: () => act.pan(-1n, 1n) },
  { id: 'page-right', label: 'Move right by a view', group: 'Move', keys: ['Shift+D'], run: () => act.pan(1n, 1n) },
  { id: 'fit', label: 'Fit the selection, or what is chosen', group: 'Move', keys: ['f'], run: act.fit },
  { id: 'all', label: 'Show all', group: 'Move', keys: ['0'], run: act.showAll },
  {
    id: 'go',
    label: 'Go to a time or an event',
    group: 'Move',
    keys: ['g'],
    run: () => {
      dialog.value = 'goto';
    },
  },
  { id: 'follow', label: 'Follow the newest event', group: 'Move', keys: [], run: toggleFollowing },
  { id: 'format', label: 'Next time format', group: 'Move', keys: ['t'], run: act.nextFormat },

  {
    id: 'cursor-left',
    label: 'Cursor left',
    group: 'Cursor and selection',
    keys: ['ArrowLeft'],
    run: () => act.moveCursor(-1n),
  },
  {
    id: 'cursor-right',
    label: 'Cursor right',
    group: 'Cursor and selection',
    keys: ['ArrowRight'],
    run: () => act.moveCursor(1n),
  },
  {
    id: 'boundary-left',
    label: 'Cursor to the boundary before',
    group: 'Cursor and selection',
    keys: ['Ctrl+ArrowLeft'],
    run: () => act.cursorToBoundary('previous'),
  },
  {
    id: 'boundary-right',
    label: 'Cursor to the boundary behind',
    group: 'Cursor and selection',
    keys: ['Ctrl+ArrowRight'],
    run: () => act.cursorToBoundary('next'),
  },
  {
    id: 'cursor-begin',
    label: 'Cursor to the begin of the view',
    group: 'Cursor and selection',
    keys: ['Home'],
    run: () => act.cursorToEdge('begin'),
  },
  {
    id: 'cursor-end',
    label: 'Cursor to the end of the view',
    group: 'Cursor and selection',
    keys: ['End'],
    run: () => act.cursorToEdge('end'),
  },
  {
    id: 'cursor-first',
    label: 'Cursor to the begin of the trace',
    group: 'Cursor and selection',
    keys: ['Ctrl+Home'],
    run: () => act.cursorToEnd('begin'),
  },
  {
    id: 'cursor-last',
    label: 'Cursor to the end of the trace',
    group: 'Cursor and selection',
    keys: ['Ctrl+End'],
    run: () => act.cursorToEnd('end'),
  },
  {
    id: 'select-from',
    label: 'Selection begins at the cursor',
    group: 'Cursor and selection',
    keys: ['i'],
    run: act.selectFrom,
  },
  {
    id: 'select-to',
    label: 'Selection ends at the cursor',
    group: 'Cursor and selection',
    keys: ['o'],
    run: act.selectTo,
  },
  {
    id: 'select-chosen',
    label: 'Select the chosen call, or since the event before',
    group: 'Cursor and selection',
    keys: ['r'],
    run: act.selectChosen,
  },
  {
    id: 'bookmark',
    label: 'Bookmark at the cursor',
    group: 'Cursor and selection',
    keys: ['m'],
    run: () => {
      act.addBookmark();
      dialog.value = 'bookmark';
    },
  },
  { id: 'next-bookmark', label: 'Next bookmark', group: 'Cursor and selection', keys: ['b'], run: act.nextBookmark },

  {
    id: 'previous',
    label: 'Event or slice before, on its track',
    group: 'Choose',
    keys: [','],
    run: () => act.step('previous'),
  },
  {
    id: 'next',
    label: 'Event or slice behind, on its track',
    group: 'Choose',
    keys: ['.'],
    run: () => act.step('next'),
  },
  { id: 'caller', label: 'Caller', group: 'Choose', keys: ['['], run: act.toCaller },
  { id: 'callee', label: 'First call that it makes', group: 'Choose', keys: [']'], run: act.toCallee },

  { id: 'row-up', label: 'Track above', group: 'Tracks', keys: ['ArrowUp'], run: () => rowBy(-1) },
  { id: 'row-down', label: 'Track below', group: 'Tracks', keys: ['ArrowDown'], run: () => rowBy(1) },
  {
    id: 'fold',
    label: 'Fold or unfold the track',
    group: 'Tracks',
    keys: ['Enter'],
    run: () => onCurrent(act.toggleFold),
  },
  {
    id: 'select-track',
    label: 'Select the track',
    group: 'Tracks',
    keys: ['x'],
    run: () => onCurrent(act.toggleTrack),
  },
  { id: 'pin', label: 'Pin or unpin the track', group: 'Tracks', keys: ['p'], run: () => onCurrent(act.togglePin) },
  {
    id: 'move-up',
    label: 'Move the track up',
    group: 'Tracks',
    keys: ['Alt+ArrowUp'],
    run: () => onCurrent((id) => act.moveTrack(id, -1)),
  },
  {
    id: 'move-down',
    label: 'Move the track down',
    group: 'Tracks',
    keys: ['Alt+ArrowDown'],
    run: () => onCurrent((id) => act.moveTrack(id, 1)),
  },
  {
    id: 'track-menu',
    label: 'Menu of the track: group by, chase, move its clock',
    group: 'Tracks',
    keys: ['Shift+F10', 'ContextMenu'],
    run: () => openTrackMenu(),
  },
  {
    id: 'lanes-up',
    label: 'Lanes above, of a deep track',
    group: 'Tracks',
    keys: ['Shift+ArrowUp'],
    run: () => onCurrent((id) => act.scrollLanes(id, -1)),
  },
  {
    id: 'lanes-down',
    label: 'Lanes below, of a deep track',
    group: 'Tracks',
    keys: ['Shift+ArrowDown'],
    run: () => onCurrent((id) => act.scrollLanes(id, 1)),
  },
  {
    id: 'path',
    label: 'Critical path of the thread, over the selection or the view',
    group: 'Tracks',
    keys: ['k'],
    run: () => togglePath(),
  },
  { id: 'pull-up', label: 'Pull up the track', group: 'Tracks', keys: [], run: () => onCurrent(act.pullUp) },
  { id: 'bury', label: 'Bury the track', group: 'Tracks', keys: [], run: () => onCurrent(act.bury) },
  { id: 'hide', label: 'Hide the track', group: 'Tracks', keys: [], run: () => onCurrent(act.hide) },
  {
    id: 'chase',
    label: 'Chase: order tracks by their first event like the chosen one',
    group: 'Tracks',
    keys: ['c'],
    run: act.orderByChosenName,
  },
  { id: 'show-hidden', label: 'Show hidden tracks', group: 'Tracks', keys: [], run: act.showHidden },
  {
    id: 'find-track',
    label: 'Find a track',
    group: 'Tracks',
    keys: ['Ctrl+p'],
    run: () => {
      dialog.value = 'tracks';
    },
  },

  { id: 'search', label: 'Search', group: 'Find', keys: ['/'], run: focusSearch },
  { id: 'search-next', label: 'Next match', group: 'Find', keys: ['n'], run: () => act.searchFor('next') },
  {
    id: 'search-previous',
    label: 'Previous match',
    group: 'Find',
    keys: ['Shift+N'],
    run: () => act.searchFor('previous'),
  },
  { id: 'filter', label: 'Filter', group: 'Find', keys: ['Shift+F'], run: focusFilter },

  { id: 'next-tab', label: 'Next tab of the panel', group: 'Page', keys: ['e'], run: act.nextTab },
  {
    id: 'panel',
    label: 'Hide or show the panel',
    group: 'Page',
    keys: ['q'],
    run: () => {
      act.panelShown.value = !act.panelShown.peek();
    },
  },
  { id: 'export', label: 'Export', group: 'Page', keys: [], run: exportMenu },
  {
    id: 'end-server',
    label: 'End server',
    group: 'Page',
    keys: [],
    run: () => {
      if (!isFile.peek()) void act.endServer();
    },
  },
  { id: 'copy-link', label: 'Copy link', group: 'Page', keys: [], run: () => void copyLink() },
  { id: 'copy-command', label: 'Copy as command', group: 'Page', keys: [], run: () => void copyCommand() },
  {
    id: 'in-values',
    label: 'Search in values too',
    group: 'Find',
    keys: [],
    run: () => {
      inValues.value = !inValues.peek();
    },
  },
  { id: 'theme', label: 'Turn between light and dark', group: 'Page', keys: [], run: turnTheme },
  {
    id: 'clear-filter',
    label: 'Clear the filter',
    group: 'Find',
    keys: [],
    run: () => {
      if (state.peek().filter) change({ filter: '' }, 'jump');
    },
  },
  {
    id: 'commands',
    label: 'Find a command',
    group: 'Page',
    keys: ['Ctrl+Shift+P'],
    run: () => {
      dialog.value = 'commands';
    },
  },
  {
    id: 'help',
    label: 'Keys and help',
    group: 'Page',
    keys: ['?'],
    run: () => {
      dialog.value = 'help';
    },
  },
  {
    id: 'escape',
    label: 'End the field, dialog, selection or choice',
    group: 'Page',
    keys: ['Escape'],
    run: act.onEscape,
  },
];

const BY_KEY = new Map(COMMANDS.flatMap((c) => c.keys.map((k): [string, Command] => [k, c])));

/** The name of a key with what is held beside it; letters show Shift by themselves only in words. */
export function keyOf(e: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>): string {
  const letter = /^[a-z]$/i.test(e.key);
  const shift = e.shiftKey && (letter || e.key.length > 1);
  const ctrl = e.ctrlKey || e.metaKey;
  const key = letter ? (shift ? e.key.toUpperCase() : e.key.toLowerCase()) : e.key;
  return `${ctrl ? 'Ctrl+' : ''}${e.altKey ? 'Alt+' : ''}${shift ? 'Shift+' : ''}${key}`;
}

export const commandOf = (key: string): Command | undefined => BY_KEY.get(key);

const KEY_WORDS: Record<string, string> = {
  ArrowLeft: '←',
  ArrowRight: '→',
  ArrowUp: '↑',
  ArrowDown: '↓',
  Escape: 'Esc',
};

/** A key as it is printed on a keyboard. */
export const keyLabel = (key: string): string =>
  key
    .split('+')
    .map((p, i, all) =>
      p === ''
        ? i === all.length - 1
          ? '+'
          : ''
        : (KEY_WORDS[p] ?? (/^[a-z]$/.test(p) && all.length > 1 ? p.toUpperCase() : p)),
    )
    .filter((p) => p !== '')
    .join('+') || '+';
