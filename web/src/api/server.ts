// Answers from the server that gave the page.
import { ApiError, encodeQuery, type Query, type Source, Unreachable } from './source';
import type { ErrorBody, Progress } from './types';

/** Signs of an address that a server takes. */
const MOST_ADDRESS = 16_000;
const BUSY_WAIT_MS = 150;
const BUSY_TRIES = 100;

export class Server implements Source {
  constructor(private readonly token: string) {}

  get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
    return this.ask<T>(`/api/${path}${encodeQuery(query)}`, { signal: signal ?? null });
  }

  post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
    return this.ask<T>(`/api/${path}`, {
      signal: signal ?? null,
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'Content-Type': 'application/json' },
    });
  }

  async watch(onProgress: (progress: Progress) => void, signal: AbortSignal): Promise<void> {
    const answer = await this.fetch('/api/progress', {
      signal,
      headers: { Accept: 'text/event-stream' },
      cache: 'no-store',
    });
    if (!answer.ok || !answer.body) throw await errorOf(answer);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ''; ; ) {
      const { done, value } = await reader.read().catch(() => {
        throw new Unreachable('the stream of progress broke off');
      });
      if (done) return;
      const blocks = (rest + value).replaceAll('\r\n', '\n').split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) {
        const progress = readEvent(block);
        if (progress) onProgress(progress);
      }
    }
  }

  private async ask<T>(address: string, init: RequestInit): Promise<T> {
    // The server would refuse it, and the browser would note that on the console.
    if (address.length > MOST_ADDRESS)
      throw new ApiError(414, {
        code: 'size',
        message: 'the question is too long: names or filters in it take more than 16 KiB',
      });
    for (let tries = 0; ; tries++) {
      const answer = await this.fetch(address, init);
      if (answer.ok) return (await answer.json()) as T;
      if (answer.status !== 503 || tries >= BUSY_TRIES) throw await errorOf(answer);
      await new Promise((resolve) => setTimeout(resolve, BUSY_WAIT_MS));
      init.signal?.throwIfAborted();
    }
  }

  private async fetch(address: string, init: RequestInit): Promise<Response> {
    try {
      return await fetch(address, {
        ...init,
        headers: { ...init.headers, Authorization: `Bearer ${this.token}` },
        credentials: 'omit',
        redirect: 'error',
      });
    } catch (e) {
      if (init.signal?.aborted) throw e;
      throw new Unreachable('the server does not answer');
    }
  }
}

/** The token for a ticket, which is good once. */
export async function login(ticket: string): Promise<string | null> {
  const answer = await fetch('/api/login', {
    method: 'POST',
    body: JSON.stringify({ ticket }),
    headers: { 'Content-Type': 'application/json' },
    credentials: 'omit',
  });
  return answer.ok ? ((await answer.json()) as { token: string }).token : null;
}

async function errorOf(answer: Response): Promise<ApiError> {
  const other: ErrorBody = { code: String(answer.status), message: `the server answers with status ${answer.status}` };
  const body = (await answer.json().catch(() => null)) as { error?: ErrorBody } | null;
  return new ApiError(answer.status, body?.error ?? other);
}

/** One block of server-sent events; null for comments and what is not known. */
export function readEvent(block: string): Progress | null {
  let kind = '';
  const data: string[] = [];
  for (const line of block.split('\n')) {
    if (line.startsWith('event:')) kind = line.slice(6).trim();
    else if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''));
  }
  if (!kind) return null;
  const body = data.length ? (JSON.parse(data.join('\n')) as Record<string, unknown>) : {};
  switch (kind) {
    case 'index':
      return { kind, index: (body['index'] ?? body) as never, generation: body['generation'] as never };
    case 'filter':
      return { kind, ...(body as { filter: string; done: number; matches: number }) };
    case 'grown':
      return { kind, ...(body as { generation: string; begin: string; end: string }) };
    case 'gone':
      return { kind, message: (body['message'] ?? null) as string | null };
    case 'end':
      return { kind };
    default:
      return null;
  }
}
