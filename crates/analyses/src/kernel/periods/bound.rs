//! Definitions of periods, bound to the events of a session.

use std::cell::RefCell;
use std::rc::Rc;

use tracemill_engine::event::Event;
use tracemill_engine::filter::KeyValue;
use tracemill_engine::session::Session;

use super::definitions::{Definitions, Periods};
use crate::kernel::question::event_paths::{PathReader, StateOf};

/// Definitions that are bound to a session, and what reads the values of its events.
pub struct BoundPeriods {
    pub(super) periods: Periods,
    /// For each definition the readers of its begin and of its end.
    readers: RefCell<Vec<[PathReader; 2]>>,
}

impl BoundPeriods {
    /// Prepares definitions for the events of a session.
    ///
    /// # Errors
    /// When no event class has a path, when a comparison can never be true, or when a time cannot be resolved.
    pub fn new(definitions: &Definitions, session: &Session, gmt: bool) -> tracemill_model::error::Result<Self> {
        let (periods, readers) = definitions.bind(session, gmt)?;
        Ok(BoundPeriods { periods, readers: RefCell::new(readers) })
    }

    /// The matched values of an event; `None` when one is not known.
    pub(super) fn values(
        &self,
        at: usize,
        side: usize,
        event: &Event<'_>,
        state: &StateOf<'_>,
    ) -> Option<Rc<[KeyValue]>> {
        self.readers.borrow_mut()[at][side].values(event, state)
    }
}
