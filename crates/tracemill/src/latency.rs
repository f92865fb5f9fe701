//! Durations between events.

use std::ops::ControlFlow;

use tracemill_analyses::pairs::{PairsQuery, report};
use tracemill_analyses::run::Input;
use tracemill_analyses::target::Target;
use tracemill_engine::filter::{ColumnList, KeyBy};
use tracemill_engine::merge::Note;
use tracemill_engine::parsed_query::misuse_of;
use tracemill_engine::request::SelectedEvents;
use tracemill_model::error::{Error, Result};
use tracemill_semantics::names;

use crate::events::Events;

pub use tracemill_analyses::durations::{Durations, Moments};
pub use tracemill_analyses::line::{Fit, Line};
pub use tracemill_analyses::report::{LeftOut, Report, Row, Sort};

/// Durations from each event of one name to the next event of another, in groups.
///
/// Names may have `*` and `?`; a number is the id of an event. What two events have in common is said by
/// [`Latency::by`]; without it, it is their stream, or their track where a trace has tracks.
///
/// ```
/// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/orders");
/// let traces = tracemill::open([demo])?;
/// let report = traces.latency("orders:taken", "orders:sent").by("payload.id").run()?;
/// let slowest = report.rows.iter().max_by_key(|row| row.durations.moments.max_ns).expect("orders were sent");
/// println!("{:?} took {} ns", slowest.key, slowest.durations.moments.max_ns);
/// assert_eq!(report.all().count, report.rows.iter().map(|row| row.durations.moments.count).sum::<u64>());
/// # Ok::<(), tracemill::Error>(())
/// ```
#[derive(Clone)]
pub struct Latency<'t> {
    events: Events<'t>,
    from: Target,
    to: Target,
    by: Vec<String>,
    regress: bool,
}

impl<'t> Latency<'t> {
    pub(crate) fn new(events: Events<'t>, from: &str, to: &str) -> Self {
        let (from, to) = (Target::parse(from), Target::parse(to));
        Latency { events, from, to, by: Vec::new(), regress: false }
    }

    /// Both events have the same value of this field; may be called for several.
    #[must_use]
    pub fn by(mut self, path: &str) -> Self {
        self.by.push(path.to_string());
        self
    }

    /// Also fits a line through the durations of each group: do they grow?
    #[must_use]
    pub fn regress(mut self) -> Self {
        self.regress = true;
        self
    }

    /// Reads the events. The groups come in the order of their keys.
    ///
    /// # Errors
    /// When no event has one of the names or a path, when a choice does not fit the traces, and when a part of them cannot
    /// be read.
    pub fn run(&self) -> Result<Report> {
        let session = &self.events.traces.session;
        let SelectedEvents { streams, selection, filter } = self.events.select()?;
        let by = match self.by.is_empty() {
            true => KeyBy::First(&[names::TRACK.0]),
            false => {
                let columns = ColumnList::parse(&self.by.join(",")).and_then(|list| list.bind(session));
                KeyBy::Paths(columns.map_err(|error| misuse_of("by", error))?)
            }
        };
        let input = Input { session, streams: &streams, selection, filter };
        let question = PairsQuery { from: &self.from, to: &self.to, by: &by, regress: self.regress };
        let mut damage: Option<Error> = None;
        let mut report = report(&input, &question, &mut |note| match note {
            Note::Fault(error) => {
                damage = Some(error);
                ControlFlow::Break(())
            }
            Note::Gap(..) | Note::Warning(_) => ControlFlow::Continue(()),
        })?;
        match damage {
            Some(error) => Err(error),
            None => {
                report.sort(Sort::Key);
                Ok(report)
            }
        }
    }
}
