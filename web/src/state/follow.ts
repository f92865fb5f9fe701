// Following a trace that grows: the right edge of the view is its newest event, and the view keeps its length.
import { computed, effect, signal, untracked } from '@preact/signals';
import { max, type Range, sameRange, spanOf } from '../time/range';
import { change, fullRange, session, state, view } from './store';

/** Does the trace grow while it is shown? */
export const growing = computed(() => session.value?.follows ?? false);

/** Does the view follow the newest event? */
export const following = signal(false);

/** The view as it was moved here; any other one is a user's. */
let own: Range | null = null;

function toNewest(): void {
  const { end } = fullRange.peek();
  own = { begin: end - max(spanOf(view.peek()), 1n), end };
  // Back goes to where the user was, not to where the newest event was.
  change({ view: own });
}

export function toggleFollowing(): void {
  if (!growing.peek()) return;
  if (!following.peek()) toNewest();
  following.value = !following.peek();
}

effect(() => {
  void fullRange.value;
  if (following.peek() && growing.peek()) untracked(toNewest);
});

// A user who moves or zooms the view wants to look at something.
effect(() => {
  if (!sameRange(state.value.view, own)) following.value = false;
});
