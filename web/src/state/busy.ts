// Whether the page is still on its way to what it should show: answers are awaited, or not yet drawn.
import { computed, signal } from '@preact/signals';

const held = signal(0);
/** A drawing that was asked for and is not done. */
export const undrawn = signal(false);

export const busy = computed(() => held.value > 0 || undrawn.value);

/** Keeps the page busy until the function that it gives is called. */
export function hold(): () => void {
  held.value = held.peek() + 1;
  let over = false;
  return () => {
    if (over) return;
    over = true;
    held.value = held.peek() - 1;
  };
}

/** Keeps the page busy until a promise is settled. */
export async function whileBusy<T>(work: Promise<T>): Promise<T> {
  const end = hold();
  try {
    return await work;
  } finally {
    end();
  }
}
