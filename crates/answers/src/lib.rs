//! Answers to questions about traces that are shown: those of the page in the browser (`docs/view.md`), of the terminal
//! (`docs/tui.md`), and of the page in one file (`convert --to html`). It knows nothing of how a question arrives.
//!
//! The knowledge of traces is [`TraceState`]; one thread reads, others ask meanwhile.
//!
//! A part of the program `tracemill`: this API may change at any time.
#![forbid(unsafe_code)]

mod analyses;
mod answer;
mod cache;
mod caches;
mod counters;
mod critical_path;
mod csv;
mod current;
mod custom_tracks;
mod error;
mod events;
mod export;
mod fields;
mod functions;
mod groups;
mod html;
mod ids;
pub mod index_cache;
mod input;
mod kernel;
mod latencies;
mod locate;
mod measures;
mod pack;
mod page_paths;
mod period_track;
mod periods;
mod plots;
mod points;
mod query;
mod random;
mod readings;
mod rows;
mod samples;
mod scatter;
mod selection;
mod session;
mod sql;
mod state;
mod states;
mod status;
mod system_calls;
mod tiles;
mod titles;
mod traces;
mod tracks;
mod watched_files;
mod why;

pub use answer::{Reply, answer};
pub use cache::{Cache, Limits};
pub use critical_path::{CriticalPath, PathPart, PathThread};
pub use csv::{TextSink, Write as WriteTable};
pub use current::Current;
pub use error::{Answer, ApiError};
pub use export::{Exported, export};
pub use fields::FieldAnswer;
pub use html::{Page, page};
pub use input::{AnswerInput, Cut, Cutter, Querier, QueryColumn, QueryRows, Refused, Reopener};
pub use latencies::{FunctionStatistics, SystemCallLatencies, SystemCallStatistics};
pub use plots::ShownCounter;
pub use query::{Asker, Query, ns};
pub use random::random_name;
pub use rows::{Row, RowPlace, read as read_rows};
pub use samples::{SampleChoice, SampleStack, SampleStacks, SampleTracks};
pub use scatter::{DurationPoint, Scatter, ScatterSeries};
pub use session::progress;
pub use sql::{MOST, answer as answer_sql};
pub use state::{TraceState, give_way};
pub use states::StateTracks;
pub use status::{FilterProgress, Stage, Status, StatusUpdate};
pub use tracemill_lod::growth::{Growth, can_grow};
pub use traces::{ShownCustom, ShownTraces};
pub use watched_files::Files;
