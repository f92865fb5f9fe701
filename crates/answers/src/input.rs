//! The traces that are shown, and the program's ways to open them again, to write parts of them, and to answer queries.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use tracemill_engine::samples::Symbolizer;
use tracemill_engine::session::ClockMove;
use tracemill_model::error::{Error, Result};

use crate::index_cache::IndexCache;
use crate::traces::ShownTraces;

/// The traces that are shown, and what can be done with them.
pub struct AnswerInput {
    /// The traces.
    pub traces: ShownTraces,
    /// Errors and warnings of opening them.
    pub problems: (Vec<Error>, Vec<String>),
    /// Name and version of the program.
    pub program: String,
    /// The line that began it.
    pub command: String,
    /// Writes parts of the traces, where the program can do that.
    pub cut: Option<Cutter>,
    /// Answers queries, where the program can do that.
    pub query: Option<Querier>,
    /// Names the functions of samples, where the program can do that.
    pub symbolizer: Option<Arc<dyn Symbolizer>>,
    /// Opens the traces again, where that can be done.
    pub reopen: Option<Reopener>,
    /// Do they still grow? Then they are opened again and again.
    pub follows: bool,
    /// A time before they were opened.
    pub opened: SystemTime,
    /// Where their index is kept, when it may be.
    pub cache: Option<IndexCache>,
}

impl AnswerInput {
    /// Traces that are only looked at.
    pub fn new(traces: ShownTraces) -> AnswerInput {
        AnswerInput {
            traces,
            problems: (Vec::new(), Vec::new()),
            program: String::new(),
            command: String::new(),
            cut: None,
            query: None,
            symbolizer: None,
            reopen: None,
            follows: false,
            opened: SystemTime::now(),
            cache: None,
        }
    }
}

/// Opens the traces again, with clocks that were moved.
pub type Reopener = Arc<dyn Fn(&[ClockMove]) -> Result<AnswerInput> + Send + Sync>;

/// A part of the traces.
#[derive(Clone, Default, Debug)]
pub struct Cut {
    /// First wanted ns.
    pub begin: Option<i128>,
    /// Last wanted ns.
    pub end: Option<i128>,
    /// A condition beside that of the traces.
    pub filter: Option<String>,
    /// The streams, by index among [those that are shown](ShownTraces::streams); `None` for all.
    pub streams: Option<Vec<usize>>,
    /// Set once it is not wanted any more.
    pub stop: Arc<AtomicBool>,
}

/// Writes a part of the traces as a trace at a path where nothing is. It gives up soon when it is not wanted any more,
/// with any error.
pub type Cutter = Box<dyn Fn(&Cut, &Path) -> Result<()> + Send + Sync>;

/// A column of an answer.
#[derive(Clone, Debug)]
pub struct QueryColumn {
    /// Its name.
    pub name: String,
    /// The kind of its values: `integer`, `real`, `text`, `boolean` or `other`.
    pub kind: &'static str,
}

/// The first rows of an answer.
#[derive(Clone, Default, Debug)]
pub struct QueryRows {
    /// Its columns.
    pub columns: Vec<QueryColumn>,
    /// Values as texts; `None` for NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// Are there more?
    pub is_cut: bool,
}

/// Why a query has no answer.
#[derive(Clone, Default, Debug)]
pub struct Refused {
    /// The mistake.
    pub message: String,
    /// A way out of it.
    pub help: Option<String>,
    /// The part of the text that is meant, in characters.
    pub span: Option<(usize, usize)>,
}

/// Answers queries about the traces: a text, and whether the answer is not wanted any more, which is asked on the way;
/// `None` then.
pub type Querier = Box<dyn Fn(&str, &dyn Fn() -> bool) -> Result<Option<QueryRows>, Refused> + Send + Sync>;
