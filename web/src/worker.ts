// The worker of a page that holds its data.

import type { Said } from './api/embedded';
import { Answers } from './api/embedded-answers';
import { unpack } from './api/pack';
import { ApiError, type Query } from './api/source';

let answers: Promise<Answers> | null = null;

self.onmessage = ({
  data: asked,
}: MessageEvent<{ data: string } | { id: number; path: string; query: Query }>): void => {
  if ('data' in asked) {
    answers = unpack(asked.data).then((pack) => new Answers(pack));
    return;
  }
  void answer(asked).then((said) => self.postMessage(said));
};

async function answer({ id, path, query }: { id: number; path: string; query: Query }): Promise<Said> {
  try {
    return { id, value: (await answers)!.get(path, query) };
  } catch (e) {
    if (e instanceof ApiError) return { id, status: e.status, error: e.body };
    return { id, status: 500, error: { code: 'page', message: e instanceof Error ? e.message : String(e) } };
  }
}
