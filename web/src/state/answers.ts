// Answers to questions that follow from the state. A question has a key: when it changes the one before is given up, and an
// answer that comes late is dropped.
import { effect, type ReadonlySignal, signal } from '@preact/signals';
import { ApiError, Unreachable } from '../api/source';
import { hold } from './busy';

export interface Question<T> {
  readonly key: string;
  ask(signal: AbortSignal): Promise<T>;
  /** Asked again after this long while the answer is not final; the page is busy until then when `busy` is set. */
  again?(value: T): { afterMs: number; busy: boolean } | null;
}

export interface Answer<T> {
  /** The question that the value answers; null when there is none. */
  readonly key: string | null;
  readonly value: T | null;
  readonly error: ApiError | null;
  readonly pending: boolean;
}

const NONE: Answer<never> = { key: null, value: null, error: null, pending: false };

/** Called when a question is not answered, or the token is not known. */
let lost: (why: 'gone' | 'token') => void = () => {};
export const onLost = (then: typeof lost): void => {
  lost = then;
};

export function reportFailure(e: unknown): ApiError | null {
  if (e instanceof Unreachable) {
    lost('gone');
    return null;
  }
  if (!(e instanceof ApiError)) throw e;
  if (e.status === 401) lost('token');
  return e;
}

/** The answer to a question that is a function of signals. The last value stays until the next one is there. */
export function answer<T>(question: () => Question<T> | null): ReadonlySignal<Answer<T>> {
  const result = signal<Answer<T>>(NONE);
  let running: {
    key: string;
    abort: AbortController;
    timer: ReturnType<typeof setTimeout> | null;
    end: () => void;
  } | null = null;
  const stop = (): void => {
    running?.abort.abort();
    if (running?.timer != null) clearTimeout(running.timer);
    running?.end();
    running = null;
  };
  effect(() => {
    const next = question();
    if (next === null) {
      stop();
      if (result.peek().key !== null || result.peek().pending) result.value = NONE;
      return;
    }
    if (running?.key === next.key) return;
    stop();
    if (result.peek().key === next.key) return;
    const mine = {
      key: next.key,
      abort: new AbortController(),
      timer: null as ReturnType<typeof setTimeout> | null,
      end: hold(),
    };
    running = mine;
    result.value = { ...result.peek(), pending: true };
    const ask = async (): Promise<void> => {
      let value: T;
      try {
        value = await next.ask(mine.abort.signal);
      } catch (e) {
        if (running !== mine || mine.abort.signal.aborted) return;
        running = null;
        const error = reportFailure(e);
        result.value = { key: next.key, value: null, error, pending: false };
        mine.end();
        return;
      }
      if (running !== mine) return;
      const again = next.again?.(value) ?? null;
      result.value = { key: next.key, value, error: null, pending: again?.busy ?? false };
      if (again) mine.timer = setTimeout(() => void ask(), again.afterMs);
      if (!again?.busy) mine.end();
    };
    void ask();
  });
  return result;
}
