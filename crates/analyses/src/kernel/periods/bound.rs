//! Definitions of periods, bound to the events of a session.

use std::cell::RefCell;
use std::rc::Rc;

use tracemill_engine::event::Event;
use tracemill_engine::filter::{CapturedValue, KeyBy, KeyReader, KeyValue, Lookup};
use tracemill_engine::session::Session;
use tracemill_semantics::states::{CpuIndex, Current, Machines};

use super::definitions::{BESIDE, Definitions, End, Part, Periods};

/// Definitions that are bound to a session, and what reads the values of its events.
pub struct BoundPeriods {
    pub(super) periods: Periods,
    /// For each definition the readers of its begin and of its end.
    readers: RefCell<Vec<[Option<KeyReader>; 2]>>,
}

impl BoundPeriods {
    /// Prepares definitions for the events of a session.
    ///
    /// # Errors
    /// Errors of [`Definitions::bind`].
    pub fn new(definitions: &Definitions, session: &Session, gmt: bool) -> tracemill_model::error::Result<Self> {
        let periods = definitions.bind(session, gmt)?;
        let reader = |end: &End| Some(KeyReader::new(session, &KeyBy::Paths(end.columns.clone()?)));
        let readers = periods.definitions.iter().map(|of| [reader(&of.begin), reader(&of.end)]).collect();
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
        let definition = &self.periods.definitions[at];
        let end = if side == 0 { &definition.begin } else { &definition.end };
        let mut of_event = Vec::new();
        if let Some(reader) = &mut self.readers.borrow_mut()[at][side] {
            of_event = reader.values(event, &mut Vec::new());
        }
        let value = |part: &Part| match part {
            Part::Event(at) => of_event.get(*at).map(|(_, value)| value.clone()),
            Part::Beside(member) => match state.value(*member)? {
                CapturedValue::Integer(value) => Some(KeyValue::Integer(value)),
                CapturedValue::Text(text) => Some(KeyValue::Text(text.to_vec())),
                _ => None,
            },
        };
        end.parts.iter().map(|part| value(part).filter(|value| *value != KeyValue::Absent)).collect()
    }
}

/// State of the CPU of an event.
pub(super) struct StateOf<'a> {
    pub(super) machines: &'a Machines,
    pub(super) cpu: Option<CpuIndex>,
}

impl Lookup for StateOf<'_> {
    fn value(&self, index: usize) -> Option<CapturedValue<'_>> {
        let cpu = self.machines.cpu(self.cpu?);
        let integer = |value: Option<i64>| value.map(|value| CapturedValue::Integer(value.into()));
        let thread = cpu.current().thread().map(|thread| self.machines.thread(thread));
        let is_idle = cpu.current() == Current::Idle;
        match BESIDE.members[index].0 {
            "tid" => integer(if is_idle { Some(0) } else { thread.map(|thread| thread.tid) }),
            "pid" => integer(if is_idle { Some(0) } else { thread.and_then(|thread| thread.pid()) }),
            "comm" => thread.and_then(|thread| Some(CapturedValue::Text(thread.comm.as_deref()?.as_bytes()))),
            "status" => Some(CapturedValue::Text(cpu.status().name().as_bytes())),
            _ => integer(thread.and_then(|thread| thread.prio())),
        }
    }
}
