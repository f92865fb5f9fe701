// The columns of the table of events. The table, its CSV and answers inside of a page are made of this list; CSV that the
// server writes is held to it by crates/cli/tests/view.rs.

/** The values of a row of the table by column; times are whole ns as text. */
export interface EventCells {
  event: number;
  ns: string | null;
  since: string | null;
  name: string;
  cpu: number | null;
  trace: number | string | null;
  track: string;
  text: string;
}

export type EventColumn = keyof EventCells;

/** All columns in their order: a value for each, so that none is forgotten. */
const ORDER: Record<EventColumn, true> = {
  event: true,
  ns: true,
  since: true,
  name: true,
  cpu: true,
  trace: true,
  track: true,
  text: true,
};

export const EVENT_COLUMNS = Object.keys(ORDER) as readonly EventColumn[];
