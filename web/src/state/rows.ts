// Rows of the table that were received, in pages; what is in sight and missing is asked for.
import { signal } from '@preact/signals';
import type { Row, Rows } from '../api/types';
import { reportFailure } from './answers';
import { hold } from './busy';

export const PAGE_ROWS = 100;
const MOST_PAGES = 100;
const RETRY_MS = 150;

type AskRows = (query: Record<string, string | number | null>, abort: AbortSignal) => Promise<Rows>;

export class RowStore {
  /** How many rows there are; null until it is known. */
  readonly total = signal<number | null>(null);
  /** How many rows there are at least: what can be shown while the number is not known. */
  readonly reached = signal(0);
  /** Changes when rows arrive. */
  readonly arrived = signal(0);
  private readonly pages = new Map<number, readonly Row[]>();
  private readonly asked = new Map<number, AbortController>();
  private key = '';
  private filter = '';
  private json = false;
  private wanted: { from: number; to: number } = { from: 0, to: PAGE_ROWS };

  constructor(private readonly ask: AskRows) {}

  /** Begins again when the question is another one. */
  restart(key: string, filter: string, json: boolean): void {
    if (key === this.key) return;
    const other = filter !== this.filter;
    this.key = key;
    this.filter = filter;
    this.json = json;
    for (const abort of this.asked.values()) abort.abort();
    this.asked.clear();
    this.pages.clear();
    if (other) {
      this.total.value = null;
      this.reached.value = 0;
    }
    this.fetchWanted();
  }

  row(index: number): Row | null {
    return this.pages.get(Math.floor(index / PAGE_ROWS))?.[index % PAGE_ROWS] ?? null;
  }

  /** Names of the events that are there. */
  names(): Set<string> {
    const met = new Set<string>();
    for (const page of this.pages.values()) for (const row of page) met.add(row.name);
    return met;
  }

  /** The texts of the rows that are there. */
  *texts(): Iterable<string> {
    for (const page of this.pages.values()) for (const row of page) yield row.text;
  }

  /** Asks for the rows of a range that are not there. */
  request(from: number, to: number): void {
    this.wanted = { from: Math.max(0, from), to: Math.max(1, to) };
    this.fetchWanted();
  }

  private fetchWanted(): void {
    if (this.key === '') return;
    const first = Math.floor(this.wanted.from / PAGE_ROWS);
    const last = Math.floor((this.wanted.to - 1) / PAGE_ROWS);
    for (const [page, abort] of this.asked)
      if (page < first - 1 || page > last + 1) {
        abort.abort();
        this.asked.delete(page);
      }
    for (let page = first; page <= last; page++)
      if (!this.pages.has(page) && !this.asked.has(page)) void this.fetchPage(page);
  }

  private async fetchPage(page: number): Promise<void> {
    const { key } = this;
    const abort = new AbortController();
    this.asked.set(page, abort);
    const end = hold();
    try {
      for (;;) {
        const answer = await this.ask(
          { from: page * PAGE_ROWS, limit: PAGE_ROWS, filter: this.filter, json: this.json ? 1 : null },
          abort.signal,
        );
        if (key !== this.key || abort.signal.aborted) return;
        this.total.value = answer.total;
        if (answer.rows.length > 0 || answer.total !== null) this.keep(page, answer.rows);
        if (answer.total !== null || this.filter === '') break;
        // The filter is still looking through the events.
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        if (key !== this.key || abort.signal.aborted) return;
      }
    } catch (e) {
      if (!abort.signal.aborted) reportFailure(e);
    } finally {
      if (this.asked.get(page) === abort) this.asked.delete(page);
      end();
    }
  }

  private keep(page: number, rows: readonly Row[]): void {
    this.pages.delete(page);
    this.pages.set(page, rows);
    this.reached.value = Math.max(this.reached.peek(), page * PAGE_ROWS + rows.length);
    for (const old of this.pages.keys()) {
      if (this.pages.size <= MOST_PAGES) break;
      this.pages.delete(old);
    }
    this.arrived.value = this.arrived.peek() + 1;
  }
}
