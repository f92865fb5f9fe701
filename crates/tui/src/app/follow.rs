//! Traces that grow while they are shown: what was the last line stays the last one, and otherwise nothing moves.

use std::sync::Arc;

use tracemill_answers::{Current, TraceState};

use super::{App, Screen};
use crate::cursor::CursorMove;
use crate::events::{FilterResult, filtered};
use crate::range::Range;
use crate::work::Work;

/// Where traces that grow come from.
pub(super) struct Following {
    current: Arc<Current>,
    /// Traces that have grown, while it is found out what the filter leaves of them.
    next: Option<(Arc<TraceState>, Work<FilterResult>)>,
    /// The last report of files that have gone.
    gone: Option<String>,
}

impl App {
    /// Shows traces as they are from now on, from the last event.
    pub fn follow(&mut self, current: Arc<Current>) {
        self.following = Some(Following { current, next: None, gone: None });
        self.follow_end([true; 2]);
    }

    /// Takes traces that have grown. Says whether something is new.
    pub(super) fn take_grown(&mut self) -> bool {
        let Some(following) = &mut self.following else { return false };
        let gone = following.current.status.gone();
        let is_told = following.gone != gone;
        if is_told {
            following.gone.clone_from(&gone);
            self.message = gone;
        }
        let Some((now, set)) = following.next(&self.state, self.events.filter()) else { return is_told };
        let range = self.grown_range(&now);
        let at_end = [self.events.is_at_end(&self.state, self.range), self.replay.is_at_end(&self.state, self.range)];
        self.events.grow([(&self.state, self.range), (&now, range)], set);
        self.replay.grow(&self.state, &now);
        self.report.grow();
        self.graph.grow();
        (self.state, self.range) = (now, range);
        self.follow_end(at_end);
        true
    }

    /// A range that ends with the traces goes on with them.
    fn grown_range(&self, now: &TraceState) -> Option<Range> {
        let last = |state: &TraceState| state.index().map(|index| index.end);
        self.range.map(|(begin, end)| match (last(&self.state), last(now)) {
            (Some(before), Some(now)) if end >= before => (begin, end.max(now)),
            _ => (begin, end),
        })
    }

    /// Goes to the last event and to the last call, as far as they are wanted.
    pub(super) fn follow_end(&mut self, [events, calls]: [bool; 2]) {
        if events {
            self.events.step(&self.state, self.range, CursorMove::End);
        }
        if calls {
            self.replay.step(&self.state, self.range, CursorMove::End);
        }
    }

    /// Does the screen go on with the newest line?
    pub(super) fn goes_on(&self) -> bool {
        self.following.is_some()
            && match self.screen {
                Screen::Events => self.events.is_at_end(&self.state, self.range),
                Screen::Replay => self.replay.is_at_end(&self.state, self.range),
                Screen::Report | Screen::Graph | Screen::States => false,
            }
    }
}

impl Following {
    /// Traces that have grown and are read, with what a filter leaves of them.
    fn next(&mut self, shown: &TraceState, filter: Option<&str>) -> Option<(Arc<TraceState>, Option<FilterResult>)> {
        if self.next.is_none() {
            let now = self.current.state();
            if now.version == shown.version || !now.is_complete() {
                return None;
            }
            self.next = Some((now, Work::default()));
        }
        let (now, set) = self.next.as_mut()?;
        if let Some(filter) = filter {
            if set.needs(false) {
                let (now, filter) = (now.clone(), filter.to_string());
                set.begin(move || filtered(&now, &filter));
            }
            set.poll();
            set.get()?;
        }
        let (now, set) = self.next.take()?;
        Some((now, set.get().cloned()))
    }
}
