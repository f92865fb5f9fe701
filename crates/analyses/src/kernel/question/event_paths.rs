//! Paths whose values the user names: fields of an event, and the state of its CPU.

use std::rc::Rc;

use tracemill_engine::event::Event;
use tracemill_engine::filter::{Beside, CapturedValue, ColumnList, KeyBy, KeyReader, KeyValue, Lookup, PathColumns};
use tracemill_engine::session::Session;
use tracemill_model::error::Result;
use tracemill_semantics::states::{CpuIndex, Current, Machines};

use crate::kernel::question::written::Written;
use crate::kernel::value::Cell;

/// States that conditions and paths may name.
pub(crate) const BESIDE: Beside = Beside {
    word: "state",
    members: &[("tid", false), ("pid", false), ("comm", true), ("status", true), ("prio", false)],
};

/// A path as it is written.
#[derive(Clone, Debug)]
pub(crate) struct WrittenPath {
    pub(crate) written: Written,
    /// The value next to the event that it names.
    pub(crate) beside: Option<usize>,
}

impl WrittenPath {
    /// Reads a path; gives its name, too.
    pub(crate) fn parse(written: Written) -> Result<(String, WrittenPath)> {
        let (name, beside) = BESIDE.find(written.text()).map_err(|error| written.placed(error))?;
        Ok((name, WrittenPath { written, beside }))
    }
}

/// Checks that a path can be a column: tables have other ones, and each of its paths once.
pub(crate) fn check_column(written: &Written, name: &str, own: &[&str], is_known: bool) -> Result<()> {
    if own.contains(&name) {
        let error = written.error(format!("`{name}` is a column of its own"));
        return Err(error.with_help(format!("a field of this name is `payload.{name}` or `$ctx.{name}`")));
    }
    if is_known {
        return Err(written.error(format!("`{name}` is given twice")));
    }
    Ok(())
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug)]
enum PathSource {
    /// One of the paths of the event.
    Event(usize),
    /// One of the values beside the event.
    Beside(usize),
}

/// Reads the values of some paths, in one thread.
pub(crate) struct PathReader {
    parts: Vec<PathSource>,
    /// Reads those of the event.
    fields: Option<KeyReader>,
    key: Vec<u8>,
}

impl PathReader {
    /// Looks up paths in the event classes of a session.
    ///
    /// # Errors
    /// When no event class has one of them.
    pub(crate) fn bind<'p>(paths: impl IntoIterator<Item = &'p WrittenPath>, session: &Session) -> Result<PathReader> {
        let (mut parts, mut of_event) = (Vec::new(), Vec::new());
        for WrittenPath { written, beside } in paths {
            parts.push(match beside {
                Some(member) => PathSource::Beside(*member),
                None => {
                    let list = ColumnList::parse(written.text()).and_then(|list| list.bind(session));
                    list.map_err(|error| written.placed(error))?;
                    of_event.push(written.text());
                    PathSource::Event(of_event.len() - 1)
                }
            });
        }
        let columns = |texts: &[&str]| -> Result<PathColumns> { ColumnList::parse(&texts.join(","))?.bind(session) };
        let columns = if of_event.is_empty() { None } else { Some(columns(&of_event)?) };
        let fields = columns.map(|columns| KeyReader::new(session, &KeyBy::Paths(columns)));
        Ok(PathReader { parts, fields, key: Vec::new() })
    }

    /// The values of an event; `None` when one is not known.
    pub(crate) fn values(&mut self, event: &Event<'_>, state: &StateOf<'_>) -> Option<Rc<[KeyValue]>> {
        let PathReader { parts, fields, key } = self;
        let of_event = fields.as_mut().map_or(Vec::new(), |fields| fields.values(event, key));
        let value = |part: &PathSource| match part {
            PathSource::Event(at) => of_event.get(*at).map(|(_, value)| value.clone()),
            PathSource::Beside(member) => match state.value(*member)? {
                CapturedValue::Integer(value) => Some(KeyValue::Integer(value)),
                CapturedValue::Text(text) => Some(KeyValue::Text(text.to_vec())),
                _ => None,
            },
        };
        parts.iter().map(|part| value(part).filter(|value| *value != KeyValue::Absent)).collect()
    }

    /// The words that the event has for the values of its fields, such as labels of enumerations.
    pub(crate) fn word(&mut self, event: &Event<'_>) -> Option<String> {
        self.fields.as_mut()?.label(event)
    }
}

/// State of the CPU of an event.
pub(crate) struct StateOf<'a> {
    pub(crate) machines: &'a Machines,
    pub(crate) cpu: Option<CpuIndex>,
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

/// The value of a path as tables show it.
pub(crate) fn cell_of(value: &KeyValue) -> Cell {
    match value {
        KeyValue::Absent => Cell::Null,
        KeyValue::Integer(value) => Cell::Integer(*value),
        KeyValue::Bool(value) => Cell::Bool(*value),
        text => Cell::Text(text.to_string().into()),
    }
}
