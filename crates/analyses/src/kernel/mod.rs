//! Analyses of kernel traces (`docs/kernel.md`): one reading of the events, one machine of states, and any number of
//! analyses that look on.
//!
//! | module | what |
//! |---|---|
//! | `analysis` | what an analysis is |
//! | `analyses` | the analyses, one file each, and their list; `files` and `lives` belong to `processes` and `io` |
//! | `periods`, `custom` | the analyses whose spans, or states and counters, the user defines |
//! | `question` | questions: options, forms, conditions on rows, options that nothing in the traces fits |
//! | `reading` | one reading of the events: from events to concepts, the CPUs that streams cover, several analyses as one |
//! | `aggregate` | sums by key, in few bytes each; statistics, lists and histograms of spans; what has begun and not ended |
//! | `rows` | columns with the functions that give their values; rows of tables in few bytes; the rows of `states`, and their lines |
//! | `table`, `value`, `columns` | answers, and what their columns mean |
//! | `matrix` | answers about pairs, one of them down the side and the other across |

mod aggregate;
mod analyses;
mod analysis;
mod columns;
mod custom;
mod matrix;
mod periods;
mod question;
mod reading;
mod rows;
mod table;
#[cfg(test)]
mod testing;
mod value;

pub use aggregate::spans::PERCENTS;
pub use analyses::{
    ANALYSES, CauseTotal, PartCause, PathCause, PathComparison, ThreadPath, ThreadPathPart, ThreadPaths,
};
pub use analysis::{Analysis, Descriptor, OverPeriods, ReportKind, ReportTimes};
pub use custom::{
    BoundCustom, CustomChange, CustomDefinitions, CustomFollower, CustomKey, CustomKind, Held, PassedEvents, SeenEvent,
};
pub use matrix::{Matrix, MatrixLine};
pub use periods::{BoundPeriods, Definition, Definitions};
pub use question::condition::Condition;
pub use question::forms::{ALWAYS_TAKEN, AnalysisForm, AnalysisOption, FormWord, RowNouns};
pub use question::query::{AnalysisQuery, MAX_STEPS, Numbers, PlaceNames, RowSink, RowTest, StateSink, View};
pub use question::unmatched::UnmatchedOption;
pub use question::written::Written;
pub use reading::{Input, Reading, UnmatchedOptions};
pub use rows::state_lines::{StateLines, state_widths};
pub use rows::state_row::{RowForm, STATE_KINDS, StateKey, StateOf, StateRow, state_kinds};
pub use rows::state_rows::StateRows;
pub use rows::store::Rows;
pub use table::{Column, MatrixForm, Order, PeriodOf, Remark, Table, Unit};
pub use value::{Cell, Counts, Value};
