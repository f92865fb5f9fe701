//! Columns before the calls of a replay.

use tracemill_format::calls::event_id;

use super::{Replay, TaskOutput};
use crate::follow::StackFrame;
use crate::text::{put_blanks, put_padded, put_painted_time, put_time, time_text};

/// A column before the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayField {
    /// How long the call took.
    Duration,
    /// Id of the task.
    Tid,
    /// Address of the function.
    Address,
    /// Time of the record.
    Time,
    /// Time since the task's line before.
    Delta,
    /// Time since the first record.
    Elapsed,
    /// Name of the task.
    Task,
    /// Name of the module.
    Module,
}

impl ReplayField {
    /// All of them with the names that options use.
    pub const ALL: [(&'static str, ReplayField); 8] = [
        ("duration", ReplayField::Duration),
        ("tid", ReplayField::Tid),
        ("addr", ReplayField::Address),
        ("time", ReplayField::Time),
        ("delta", ReplayField::Delta),
        ("elapsed", ReplayField::Elapsed),
        ("task", ReplayField::Task),
        ("module", ReplayField::Module),
    ];

    /// Its header, as wide as its values.
    pub(super) fn header(self) -> &'static str {
        match self {
            ReplayField::Duration => " DURATION ",
            ReplayField::Tid => "   TID  ",
            ReplayField::Address => "   ADDRESS  ",
            ReplayField::Time => "     TIMESTAMP    ",
            ReplayField::Delta => " TIMEDELTA",
            ReplayField::Elapsed => "  ELAPSED ",
            ReplayField::Task => "      TASK NAME",
            ReplayField::Module => "     MODULE NAME",
        }
    }
}

impl Replay<'_> {
    #[inline]
    pub(super) fn fields(&mut self, at: usize, frame: Option<&StackFrame>, has_duration: bool) {
        if let Some(usual) = self.usual[at] {
            let mut text = usual;
            if let Some(frame) = frame.filter(|_| has_duration) {
                text[1..11].copy_from_slice(&time_text(frame.time));
            }
            return self.text.extend_from_slice(&text);
        }
        if self.options.fields.is_empty() {
            return;
        }
        for &field in &self.options.fields {
            self.text.push(b' ');
            self.field(field, at, frame, has_duration);
        }
        self.text.extend_from_slice(b" | ");
    }

    #[inline]
    pub(super) fn field(&mut self, field: ReplayField, at: usize, frame: Option<&StackFrame>, has_duration: bool) {
        match field {
            ReplayField::Duration => {
                self.time(frame.filter(|_| has_duration).map_or(0, |frame| frame.time));
            }
            ReplayField::Tid => {
                self.text.extend_from_slice(self.tids[at].as_bytes());
            }
            ReplayField::Address => match frame {
                Some(frame) => {
                    let address = frame.address & 0xffff_ffff_ffff;
                    self.text.extend_from_slice(format!("{address:12x}").as_bytes());
                }
                None => put_blanks(&mut self.text, 12),
            },
            ReplayField::Time => {
                let time = self.tasks[at].time;
                put_padded(&mut self.text, time / 1_000_000_000, 8, b' ');
                self.text.push(b'.');
                put_padded(&mut self.text, time % 1_000_000_000, 9, b'0');
            }
            ReplayField::Delta => {
                let TaskOutput { time, time_before, .. } = self.tasks[at];
                let delta = if time_before > 0 { time.wrapping_sub(time_before) } else { 0 };
                self.time(delta);
            }
            ReplayField::Elapsed => {
                self.time(self.tasks[at].time.wrapping_sub(self.follower.first_time));
            }
            ReplayField::Task => {
                let name = &self.names[at];
                put_blanks(&mut self.text, 15usize.saturating_sub(name.len()));
                self.text.extend_from_slice(&self.colors.escaped_bytes(name));
            }
            ReplayField::Module => match frame {
                Some(&StackFrame { symbol, address, .. }) => {
                    let known = self.follower.source.symbol(symbol, address);
                    // Before a program is known, nothing is.
                    let is_known = self.follower.source.program_at(at, self.tasks[at].time).0.is_some();
                    let is_event = symbol == 0 && matches!(address, event_id::SCHED_IN..=event_id::SCHED_BOTH)
                        || matches!(address, event_id::SCHED_OUT_PREEMPTED | event_id::SCHED_BOTH_PREEMPTED);
                    let unknown = if is_event && is_known { "[event]" } else { "[unknown]" };
                    let name = known.module.as_deref().unwrap_or(unknown);
                    self.text.extend_from_slice(format!("{:>16}", name.get(..16).unwrap_or(name)).as_bytes());
                }
                None => put_blanks(&mut self.text, 16),
            },
        }
    }

    pub(super) fn empty_fields(&mut self) {
        if self.options.fields.is_empty() {
            return;
        }
        for field in &self.options.fields {
            put_blanks(&mut self.text, field.header().len() + 1);
        }
        self.text.extend_from_slice(b" | ");
    }

    fn time(&mut self, ns: u64) {
        match self.colors.is_colored() {
            true => put_painted_time(&mut self.text, ns, self.colors),
            false => put_time(&mut self.text, ns),
        }
    }
}
