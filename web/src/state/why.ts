// Why threads waited: the critical path of a chosen state, and of a thread over a range.
import { computed } from '@preact/signals';
import type { PathPart, WhyAnswer } from '../api/types';
import { currentTrack, notice, said, sliceOf } from './actions';
import { isThread } from './active';
import { answer } from './answers';
import { ask, epoch, phase } from './session';
import { change, isElsewhere, session, state, view } from './store';
import { trackById } from './tracks';

/** States that nobody asks the reason of: the thread does what it does. */
const RUNNING: ReadonlySet<string> = new Set(['user', 'system call', 'kernel', 'trap', 'exiting', 'zombie', 'unknown']);

const knowsWhy = computed(() => session.value?.features.includes('why') ?? false);
const isThreadTrack = (id: string): boolean => {
  const track = trackById.value.get(id);
  return track !== undefined && isThread(track);
};

const REST_MS = 80;
const question = (track: string, begin: string, end: string) => ({
  key: `${track} ${begin} ${end}\n${epoch.value}`,
  async ask(abort: AbortSignal): Promise<WhyAnswer> {
    // The events are read once more for an answer: not for each state that a key passes.
    await new Promise((resolve) => setTimeout(resolve, REST_MS));
    abort.throwIfAborted();
    return ask<WhyAnswer>('why', { track, begin, end }, abort);
  },
});

/** Why the chosen state of a thread was: of a wait, not of what runs. */
export const whyAnswer = answer<WhyAnswer>(() => {
  const { slice } = state.value;
  const chosen = sliceOf();
  if (!knowsWhy.value || phase.value === 'ended' || slice === null || chosen === null) return null;
  if (chosen.begin === null || chosen.end === null || RUNNING.has(chosen.name ?? '')) return null;
  return isThreadTrack(slice.track) ? question(slice.track, chosen.begin, chosen.end) : null;
});

/** Whether the chosen state waits for a reason that this page in a file does not have, and its trace does. */
export const whyElsewhere = computed(() => {
  const { slice } = state.value;
  const waits = !RUNNING.has(sliceOf()?.name ?? 'unknown');
  return slice !== null && waits && isThreadTrack(slice.track) && isElsewhere('why');
});

/** The critical path that was asked for. */
export const pathAnswer = answer<WhyAnswer>(() => {
  const { path } = state.value;
  if (!knowsWhy.value || phase.value === 'ended' || path === null) return null;
  return question(path.track, String(path.range.begin), String(path.range.end));
});

/** The parts that are drawn over the tracks: the path that was asked for, else that of the chosen state. */
export const pathShown = computed<readonly PathPart[]>(() => {
  const { value, pending } = state.value.path ? pathAnswer.value : whyAnswer.value;
  // An answer may take seconds: the one before is that of another state.
  return pending ? [] : (value?.parts ?? []);
});

/** The thread that a path would be of: that of the chosen state, else the only chosen or the current track. */
function threadForPath(): string | null {
  const { slice, chosen } = state.peek();
  const ids = [slice?.track, chosen.length === 1 ? chosen[0] : undefined, currentTrack.peek() ?? undefined];
  return ids.find((id) => id !== undefined && isThreadTrack(id)) ?? null;
}

/** Whether a critical path can be shown of a track. */
export const canShowPath = (id: string): boolean => knowsWhy.value && isThreadTrack(id);

/** Draws the critical path of a thread over the selection, else over what is in view; once more ends that. */
export function togglePath(id: string | null = threadForPath()): void {
  if (id === null || !canShowPath(id)) {
    notice.value = knowsWhy.peek()
      ? 'A critical path is that of a thread: choose its track or one of its states first'
      : isElsewhere('why')
        ? 'A page in a file has no critical paths: tracemill view draws them where the trace is'
        : 'The traces do not say why threads waited';
    return;
  }
  const range = state.peek().selection ?? view.peek();
  const { path } = state.peek();
  if (path?.track === id && path.range.begin === range.begin && path.range.end === range.end) {
    change({ path: null });
    said.value = 'No critical path';
    return;
  }
  change({ path: { track: id, range } }, 'jump');
}

/** Pins the threads that a path goes through, so that all of it is in sight. */
export function pinThreads(parts: readonly PathPart[]): void {
  const ids = parts.map((p) => p.track).filter((id) => id !== null);
  change({ pins: [...new Set([...state.peek().pins, ...ids])] });
}
