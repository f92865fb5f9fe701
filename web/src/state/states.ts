// States of CPUs and threads: their words have colours and shapes of their own, after those of names.
import { COLOURS } from './names';

/** The things that have the states of a track, by its id: `custom` and `period` are what the user defines. */
export const subjectOf = (id: string): 'CPU' | 'thread' | 'custom' | 'period' => {
  const of = /^s\d+\.(cpu|x)/.exec(id)?.[1];
  if (of) return of === 'cpu' ? 'CPU' : 'custom';
  return id.startsWith('s') ? 'thread' : 'period';
};

/** The ways to draw states: filled, hollow, a thin line, dotted. */
export const SHAPES = ['full', 'hollow', 'line', 'dotted'] as const;
export type Shape = (typeof SHAPES)[number];

/** The order in which the colours of states follow those of names. */
const LOOKS: readonly (readonly [string, Shape])[] = [
  ['user', 'full'],
  ['system call', 'full'],
  ['interrupt', 'full'],
  ['softirq', 'full'],
  ['runnable', 'hollow'],
  ['blocked', 'line'],
  ['kernel', 'full'],
  ['unknown', 'dotted'],
  ['suspended', 'line'],
  // Of periods: within their deadline, and beyond it.
  ['met', 'hollow'],
  ['missed', 'full'],
];

/** States that look like another one. */
const LIKE: Readonly<Record<string, string>> = { trap: 'kernel', exiting: 'kernel', new: 'blocked', zombie: 'blocked' };

/** States of a critical path, as `analyze path` has them, that look like a state of threads. */
const ON_PATH: Readonly<Record<string, string>> = {
  running: 'user',
  wait_cpu: 'runnable',
  interrupted: 'interrupt',
  irq: 'interrupt',
  softirq: 'softirq',
  ended: 'blocked',
  blocked: 'blocked',
  unknown: 'unknown',
  suspended: 'suspended',
};

/** Colours of names and of states together. */
export const PALETTE = COLOURS + LOOKS.length;

const places = new Map(LOOKS.map(([word], i) => [word, COLOURS + i]));

/** The colour of a state; undefined for what is none, such as the name of a thread. */
export const stateColour = (word: string): number | undefined => places.get(LIKE[word] ?? word);

/** The colour of a part of a critical path: waits for what is not a thread, such as a disk, have one together. */
export const pathColour = (word: string): number => places.get(ON_PATH[word] ?? 'kernel') ?? 0;

/** By colour; looking for one in front of a list would be slow. */
const shapes: readonly Shape[] = [
  ...Array.from({ length: COLOURS }, (): Shape => 'full'),
  ...LOOKS.map(([, shape]) => shape),
];

/** The shape that a colour is drawn as. */
export const shapeOf = (colour: number): Shape => shapes[colour] ?? 'full';
