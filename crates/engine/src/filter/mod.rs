//! The filter language and the times of the command line (`docs/cli.md`, "Filters" and "Times").
//!
//! A text becomes an [`Expression`], which says what must be known of the timeline before it can be bound to a
//! session: then it is a [`Filter`], checked against every event class. Each thread takes a [`Matcher`] of it.
//!
//! ```no_run
//! # use tracemill_engine::event::Event;
//! # use tracemill_engine::filter::{Expression, TimeContext};
//! # use tracemill_engine::session::Session;
//! # fn run(session: &Session, event: Event) -> tracemill_model::error::Result<()> {
//! let expression = Expression::parse("name == \"sched_*\" and payload.prev_pid == 0")?;
//! // `expression.needs()` says whether the first or the last event of the timeline must be found.
//! let filter = expression.bind(session, &TimeContext::default())?;
//! let mut matcher = filter.matcher();
//! if matcher.matches(&event) { /* ... */ }
//! # Ok(())
//! # }
//! ```
//!
//! | file | from | to |
//! |---|---|---|
//! | `lexer` | text | tokens |
//! | `parser` | tokens | the tree of `syntax`, with the literals of `number`, `text` and `time` |
//! | `resolve` | a path | its place in an event class |
//! | `bind` | the tree and a session | what classes and times decide alone |
//! | `capture` | the fields of an event | the values of the paths |
//! | `eval` | values | true, false or unknown |
//! | `matcher` | an event | yes or no |
//! | `condition` | the tree | what a recorder evaluates where an event is recorded |
//! | `rows` | a row of a table, values beside an event | the same |
//! | `columns` | a list of paths and a session | what a CSV shows of them |
//! | `fields` | a path and an event | its value |
//! | `keys` | the same | what groups events |
//! | `unknown` | the tree and a session | names that nothing has |

mod bind;
mod capture;
mod columns;
mod condition;
mod eval;
mod fields;
mod keys;
mod lexer;
mod matcher;
mod number;
mod parser;
mod resolve;
mod rows;
mod syntax;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod unknown;

use std::sync::Arc;

use tracemill_model::error::Result;

use crate::selection::ClassSet;
use crate::session::Session;
use bind::Bound;
use syntax::{Path, Right, Test};

pub use capture::CapturedFields;
pub use resolve::{Detail, PathPlace};
pub use syntax::PathHead;

pub use columns::{ColumnList, ColumnPart, PathColumns};
pub use fields::{Access, Captured, CapturedValue, FieldReader, THREAD, check_path, damage};
pub use keys::{ClassFields, KeyBy, KeyReader, KeyValue};
pub use matcher::Matcher;
pub use rows::{Beside, ColumnKind, Lookup, RowFilter};
pub use time::{Needs, Time, TimeContext, parse_duration, parse_time};
pub use unknown::{NameKind, UnknownName};

/// A filter as it is written: its syntax is right, its paths are not looked up yet.
#[derive(Clone, Debug)]
pub struct Expression {
    source: Arc<str>,
    test: Test,
    paths: Vec<Path>,
}

/// A filter for the events of a session. Cheap to clone; shared by all threads.
#[derive(Clone)]
pub struct Filter(Arc<Bound>);

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// When the text is no expression, with the place in it and what was expected there.
    pub fn parse(text: &str) -> Result<Expression> {
        let (test, paths) = parser::parse(text)?;
        Ok(Expression { source: text.into(), test, paths })
    }

    /// Which events must be found before it can be bound, for times in it that are relative to them.
    pub fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        self.test.each_leaf(&mut |leaf| {
            if let Test::Compare(compare) = leaf
                && let Right::Time(time) = &compare.right
            {
                needs = needs.or(time.needs());
            }
        });
        needs
    }

    /// Does it compare the time of events?
    pub(crate) fn has_times(&self) -> bool {
        self.paths.iter().any(|path| matches!(path.head, PathHead::Time | PathHead::Ns | PathHead::Cycles))
    }

    /// Looks up every path in every event class of the session. Takes time in the product of both. See
    /// [`Expression::needs`] for the times.
    ///
    /// # Errors
    /// When no event class has a path, when a comparison can never be true because the kinds of its values do not
    /// fit, or when a time cannot be resolved; all with the place in the expression. A session without any
    /// event class accepts every expression.
    pub fn bind(&self, session: &Session, times: &TimeContext) -> Result<Filter> {
        Ok(Filter(Arc::new(bind::bind(self, session, times)?)))
    }
}

impl Filter {
    /// Reads an expression and binds it to a session.
    ///
    /// # Errors
    /// Errors of [`Expression::parse`] and [`Expression::bind`].
    pub fn compile(text: &str, session: &Session, times: &TimeContext) -> Result<Filter> {
        Expression::parse(text)?.bind(session, times)
    }

    /// The event classes of a trace whose events can match at all; `None` for all of them.
    pub fn classes(&self, trace: usize) -> Option<ClassSet> {
        let verdicts = &self.0.traces[trace].verdicts;
        let can_match = |at: usize| verdicts[at] != Some(false);
        (!(0..verdicts.len()).all(can_match)).then(|| ClassSet::new(verdicts.len(), can_match))
    }

    /// First and last ns outside of which no event matches; `None` for all times, and for events without time too.
    /// The first is after the last when nothing can match.
    pub fn time_range(&self) -> Option<(i128, i128)> {
        self.0.time_range
    }

    /// Does every event match whose class is in [`classes`](Self::classes) and whose time is in
    /// [`time_range`](Self::time_range)? Then no event has to be looked at.
    pub fn is_decided_by_spine(&self) -> bool {
        self.0.is_decided
    }

    /// An evaluator of the filter for one thread.
    pub fn matcher(&self) -> Matcher {
        Matcher::new(self.0.clone())
    }
}
