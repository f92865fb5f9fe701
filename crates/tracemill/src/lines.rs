//! Events as lines of text.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use tracemill_engine::merge::Note;
use tracemill_engine::request::SelectedEvents;
use tracemill_engine::timeline::merger;
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_render::lines::{LineFormat, LinePlan};
use tracemill_render::print::{PrintOutput, print};

use crate::events::Events;

/// A form of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Lines {
    /// As `babeltrace2` prints.
    Text,
    /// Canonical JSON lines (`docs/jsonl.md`).
    Jsonl,
    /// A row for each event, its fields as JSON; without the header line.
    Csv,
}

impl Events<'_> {
    /// Writes the events as lines, rendered by several threads; their number does not change a byte. Gives the number of
    /// lines, and the damage that was met on the way.
    ///
    /// ```
    /// use tracemill::Lines;
    /// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/orders");
    ///
    /// let traces = tracemill::open([demo])?;
    /// let mut text = Vec::new();
    /// let (lines, damage) = traces.events().filter("payload.id > 100")?.write_lines(Lines::Jsonl, &mut text)?;
    /// assert!(lines > 0 && damage.is_empty());
    /// assert_eq!(text.iter().filter(|&&byte| byte == b'\n').count() as u64, lines);
    /// # Ok::<(), tracemill::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a choice does not fit the traces, and when `out` takes no more.
    pub fn write_lines(&self, lines: Lines, out: &mut impl Write) -> Result<(u64, Vec<Error>)> {
        let session = &self.traces.session;
        let SelectedEvents { streams, selection, filter } = self.select()?;
        let mut merger = merger(session, &streams, &selection);
        let many_traces = session.traces.len() > 1;
        let format = match lines {
            Lines::Text => LineFormat::Text(Arc::default()),
            Lines::Jsonl => LineFormat::Jsonl,
            Lines::Csv => LineFormat::Csv(None),
        };
        let plan = Arc::new(LinePlan { format, streams, filter, many_traces, with_ends: false });
        let (mut count, mut damage, mut failed) = (0, Vec::new(), None);
        print(session, &mut merger, &plan, self.traces.jobs, |output| {
            match output {
                PrintOutput::Lines(rendered) => {
                    count += rendered.lines;
                    failed = out.write_all(rendered.out.written()).err();
                }
                PrintOutput::Fault(error) | PrintOutput::Note(Note::Fault(error)) => damage.push(error),
                PrintOutput::Note(Note::Gap(..) | Note::Warning(_)) => {}
            }
            if failed.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        match failed {
            Some(error) => Err(Error::new(ErrorKind::Io, format!("cannot write the lines: {error}"))),
            None => Ok((count, damage)),
        }
    }
}
