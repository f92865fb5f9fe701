// Answers from data inside the page: a worker has it, so that the page stays quick.
import { ApiError, type Query, type Source } from './source';
import type { ErrorBody, Progress } from './types';

/** An answer of the worker, or why there is none. */
export type Said = { id: number; value: unknown } | { id: number; status: number; error: ErrorBody };

export class EmbeddedSource implements Source {
  private readonly worker: Worker;
  private readonly waiting = new Map<number, { resolve: (value: never) => void; reject: (why: unknown) => void }>();
  private last = 0;

  /** `program` is the text of the worker, `data` what the page holds. */
  constructor(program: string, data: string) {
    const address = URL.createObjectURL(new Blob([program], { type: 'text/javascript' }));
    this.worker = new Worker(address);
    URL.revokeObjectURL(address);
    this.worker.onmessage = ({ data: said }: MessageEvent<Said>) => {
      const asked = this.waiting.get(said.id);
      this.waiting.delete(said.id);
      if ('error' in said) asked?.reject(new ApiError(said.status, said.error));
      else asked?.resolve(said.value as never);
    };
    this.worker.onerror = (event) => {
      const why = new ApiError(500, { code: 'page', message: event.message || 'the data of this page cannot be read' });
      for (const asked of this.waiting.values()) asked.reject(why);
      this.waiting.clear();
    };
    this.worker.postMessage({ data });
  }

  get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
    const id = ++this.last;
    return new Promise<T>((resolve, reject) => {
      signal?.throwIfAborted();
      this.waiting.set(id, { resolve, reject });
      signal?.addEventListener(
        'abort',
        () => {
          if (this.waiting.delete(id)) reject(signal.reason);
        },
        { once: true },
      );
      this.worker.postMessage({ id, path, query });
    });
  }

  post<T>(path: string): Promise<T> {
    return Promise.reject<T>(new ApiError(404, { code: 'path', message: `a page in a file cannot do this (${path})` }));
  }

  /** The data never change. */
  watch(_: (progress: Progress) => void, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  }
}
