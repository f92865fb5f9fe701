// The beginning, and what changes later.
import { ApiError, type Source, Unreachable } from '../api/source';
import type { IndexProgress, Progress, Session } from '../api/types';
import { onLost, reportFailure } from './answers';
import { hold } from './busy';
import { filterDone } from './filter';
import { answerFrom, ask, currentSource, epoch, failure, phase } from './session';
import { session, state } from './store';
import { awaitTilesBriefly, filteredTiles, markTiles, plainTiles, refreshTiles } from './tiles-fetch';
import { withTracksOf } from './tracks';

const stopped = new AbortController();

export async function start(from: Source): Promise<void> {
  answerFrom(from);
  onLost((why) => {
    if (phase.peek() !== 'ended') phase.value = why === 'token' ? 'token' : 'ended';
  });
  const end = hold();
  try {
    const now = await requestSession();
    withTracksOf(now, () => {
      session.value = now;
    });
    awaitTilesBriefly();
  } catch (e) {
    fail(e);
    return;
  } finally {
    end();
  }
  void watch();
}

/** The traces as they are known, with their tracks as no filter leaves them: a question less on the way to what is drawn. */
const requestSession = (): Promise<Session> =>
  ask<Session>('session', { tracks: state.peek().filter === '' ? 1 : null });

function fail(e: unknown): void {
  if (e instanceof ApiError && e.status === 401) {
    phase.value = 'token';
    return;
  }
  failure.value =
    e instanceof ApiError ? e.body : { code: 'gone', message: e instanceof Error ? e.message : String(e) };
  phase.value = 'error';
}

/** Begins again after an error. */
export async function tryAgain(): Promise<void> {
  failure.value = null;
  phase.value = 'loading';
  await start(currentSource());
}

const RECONNECT_MS = 400;

async function watch(): Promise<void> {
  for (let failures = 0; !stopped.signal.aborted && phase.peek() !== 'token'; ) {
    try {
      await currentSource().watch((progress) => {
        failures = 0;
        onProgress(progress);
      }, stopped.signal);
    } catch (e) {
      if (e instanceof ApiError && e.status === 401) {
        phase.value = 'token';
        return;
      }
    }
    if (phase.peek() === 'ended') return;
    // The stream is over: either the server is, or only the connection was.
    await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
    try {
      await refresh();
    } catch (e) {
      if (!(e instanceof Unreachable) || ++failures > 2) {
        phase.value = 'ended';
        return;
      }
    }
  }
}

/** How often an index that is being made makes the page ask again. */
const INDEX_MS = 400;
let indexTimer: ReturnType<typeof setTimeout> | null = null;

function onProgress(progress: Progress): void {
  switch (progress.kind) {
    case 'index':
      onIndex(progress.index);
      break;
    case 'filter':
      if (progress.filter === state.peek().filter) {
        filterDone.value = progress.done;
        if (progress.done >= 1) {
          refreshTiles(filteredTiles);
        }
      }
      break;
    case 'grown':
      refresh(BigInt(progress.begin)).catch(reportFailure);
      break;
    case 'gone':
      if (session.peek()) session.value = { ...session.peek()!, gone: progress.message };
      break;
    case 'end':
      phase.value = 'ended';
      break;
  }
}

function onIndex(index: IndexProgress): void {
  const before = session.peek();
  if (!before) return;
  if (index.state !== before.index.state || before.begin === null) {
    refresh().catch(reportFailure);
    return;
  }
  if (index.state === 'complete') return;
  session.value = { ...before, index };
  if (indexTimer !== null) return;
  indexTimer = setTimeout(() => {
    indexTimer = null;
    refreshTiles(plainTiles);
  }, INDEX_MS);
}

/** Asks what is known now; everything else follows. When only what is not before a time changed, the rest is kept. */
export async function refresh(since: bigint | null = null): Promise<void> {
  const before = session.peek();
  const now = await requestSession();
  const sameGeneration = before !== null && String(before.generation) === String(now.generation);
  if (sameGeneration && before.index.state === now.index.state && before.begin === now.begin) return;
  withTracksOf(now, () => {
    session.value = now;
    markTiles(before, now, since);
    epoch.value = epoch.peek() + 1;
  });
}
