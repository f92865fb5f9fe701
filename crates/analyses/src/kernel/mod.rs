//! Analyses of kernel traces (`docs/kernel.md`): one reading of the events, one machine of states, and any number of
//! analyses that look on.
//!
//! | file | what |
//! |---|---|
//! | `reader` | from events to concepts |
//! | `coverage` | which CPUs the streams cover, and when |
//! | `analysis`, `list` | what an analysis is, and all that there are |
//! | `reading`, `all` | one reading of the events; several analyses as one, and once for each period |
//! | `states`, `cpu`, `sched`, `irq`, `syscalls`, `io`, `memory`, `locks`, `processes`, `stats`, `path` | the analyses |
//! | `periods` | the analysis whose spans the user names |
//! | `files`, `latest` | open files; what has begun and not ended |
//! | `spans` | statistics, lists and histograms of spans |
//! | `account`, `keys`, `ledger`, `rows` | sums by key, and rows of tables, in few bytes each |
//! | `state_row`, `state_rows` | the rows of `states`: one of them, and all as they are found |
//! | `query`, `condition`, `table`, `value` | questions and answers |
//! | `forms` | the forms of analyses, and the options that each of them takes |
//! | `columns` | what columns mean |
//! | `unmatched` | options that nothing in the traces fits |
//! | [`text`] | rows as text |

mod account;
mod all;
mod analysis;
mod columns;
mod condition;
mod coverage;
mod cpu;
mod files;
mod forms;
mod io;
mod irq;
mod keys;
mod latest;
mod ledger;
mod list;
mod lives;
mod locks;
mod memory;
mod path;
mod periods;
#[cfg(test)]
mod played;
mod processes;
mod query;
#[cfg(test)]
mod random;
mod reader;
mod reading;
mod rows;
mod sched;
mod spans;
mod state_row;
mod state_rows;
mod states;
mod stats;
mod syscalls;
mod table;
pub mod text;
mod unmatched;
mod value;

pub use analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
pub use condition::Condition;
pub use forms::{ALWAYS_TAKEN, AnalysisOption, Form, FormWord};
pub use list::ANALYSES;
pub use periods::{BoundPeriods, Definition, Definitions, Written};
pub use query::{AnalysisQuery, MAX_STEPS, Numbers, RowSink, RowTest, StateSink, View};
pub use reading::{Input, Reading, UnmatchedOptions};
pub use rows::Rows;
pub use spans::PERCENTS;
pub use state_row::{RowForm, STATE_KINDS, StateKey, StateOf, StateRow, StateValue, state_kinds};
pub use state_rows::StateRows;
pub use table::{Column, Order, PeriodOf, Table, Unit};
pub use unmatched::UnmatchedOption;
pub use value::{Cell, Counts, Value};
