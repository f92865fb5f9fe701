// The viewer: takes the token out of the address, or its data out of the page, and begins.
import { render } from 'preact';
import { EmbeddedSource } from './api/embedded';
import { login, Server } from './api/server';
import { listenToKeys } from './keys/keys';
import { App } from './panels/app';
import { tokenStore } from './panels/settings';
import { undrawn } from './state/busy';
import { takeKey } from './state/fragment';
import { phase } from './state/session';
import { followLink } from './state/store';
import { start } from './state/watch';

/** The token of the address, of a ticket, or of an earlier visit. */
async function findToken(): Promise<string | null> {
  const first = takeKey(location.hash, 'token');
  const ticket = takeKey(first.rest, 'ticket');
  if (first.value !== null || ticket.value !== null) {
    history.replaceState(null, '', `${location.pathname}${location.search}${ticket.rest ? `#${ticket.rest}` : ''}`);
  }
  const token = first.value ?? (ticket.value === null ? null : await login(ticket.value).catch(() => null));
  if (token !== null) tokenStore.write(token);
  return token ?? tokenStore.read();
}

/** The data of a page that is a file: the text of its worker, and its data. */
function embeddedData(): { worker: string; data: string } | null {
  const text = (id: string): string | null => document.getElementById(id)?.textContent ?? null;
  const [worker, data] = [text('worker'), text('data')];
  return worker !== null && data !== null ? { worker, data } : null;
}

const SOON_MS = 80;

async function main(): Promise<void> {
  const file = embeddedData();
  const token = file ? '' : await findToken();
  followLink();
  const root = document.getElementById('root');
  if (!root) return;
  // A source that answers soon has its tracks in the first picture: what is drawn twice is there later.
  if (token === null) phase.value = 'token';
  else
    await Promise.race([
      start(file ? new EmbeddedSource(file.worker, file.data) : new Server(token)),
      new Promise((resolve) => setTimeout(resolve, SOON_MS)),
    ]);
  render(<App />, root);
  listenToKeys();
  if (token === null) undrawn.value = false;
}

void main();
