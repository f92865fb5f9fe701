// Durations that were measured one by one, and the way from them to their events.
import { notice, reveal, setCursor } from '../state/actions';
import { applyFilter } from '../state/filter';
import { andConditions, isNamedAt, MOST_TIMES } from '../state/filters';
import { state } from '../state/store';
import { grouped } from '../time/format';

/** A duration, when it began, and the time of the event that it belongs to. */
export interface Measured {
  readonly begin: bigint;
  readonly duration: bigint;
  readonly event: bigint;
}

/** The filter that a bar made, and the one that was there before it. */
let made: { text: string; before: string } | null = null;

/** Leaves the events of some durations. */
export function pickPoints(name: string | null, points: readonly Measured[], n: number): void {
  const { filter } = state.peek();
  const before = made?.text === filter ? made.before : filter;
  const condition =
    points.length < n
      ? null
      : isNamedAt(
          name,
          points.map((p) => p.event),
        );
  if (condition === null) {
    notice.value = `A filter has room for ${MOST_TIMES} events, and these are ${grouped(n)}: select less time first`;
    return;
  }
  made = { text: andConditions(before, condition), before };
  void applyFilter(made.text);
}

/** Shows a duration on the timeline. */
export function goToPoint({ begin }: Measured): void {
  reveal(begin, 'jump');
  setCursor(begin);
}
