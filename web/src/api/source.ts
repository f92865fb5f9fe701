// Where answers come from: a server, or data inside the page. Both answer the same questions.
import type { ErrorBody, Progress } from './types';

export type Query = Readonly<Record<string, string | number | null | undefined>>;

export interface Source {
  /** The answer to `GET /api/PATH?QUERY`. Fails with an `ApiError`, or as an aborted `fetch` does. */
  get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T>;
  /** The answer to `POST /api/PATH`. */
  post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T>;
  /** Hears what changes, until the signal says to stop; comes back when the source has ended. */
  watch(onProgress: (progress: Progress) => void, signal: AbortSignal): Promise<void>;
}

/** An answer that says no. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly body: ErrorBody,
  ) {
    super(body.message);
  }
}

/** No answer at all: the source is not there any more. */
export class Unreachable extends Error {}

/** A query without what is null or empty. */
export function encodeQuery(query: Query): string {
  const parts = Object.entries(query)
    .filter(([, v]) => v !== null && v !== undefined && v !== '')
    .map(([k, v]) => `${k}=${encodeURIComponent(String(v))}`);
  return parts.length ? `?${parts.join('&')}` : '';
}
