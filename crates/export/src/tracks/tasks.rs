//! Names and processes of threads: what the state machine of kernel events says, then what the format or the trace's
//! environment knows.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use tracemill_format::target::Source;
use tracemill_model::schema::Schema;
use tracemill_semantics::states::{ConceptValues, Happening, Machines, Ns, Observer, Thread, ThreadIndex};
use tracemill_semantics::{Concept, Field, Origin, Recording, Tie};

use super::watch::{FieldValue, WatchedFields};

/// Concepts that say which threads there are, and what they are called.
const NAMING: [Concept; 7] =
    [Concept::Switch, Concept::Wake, Concept::Fork, Concept::Exec, Concept::Exit, Concept::Free, Concept::DumpTask];

/// Does a concept say which threads there are, or what they are called?
pub(super) fn is_naming(concept: Concept) -> bool {
    NAMING.contains(&concept)
}

/// The threads of some traces.
pub(super) struct Tasks {
    machines: Machines,
    /// Threads that the formats know, by trace: process and name.
    of_formats: Vec<HashMap<i64, (i64, String)>>,
    /// The only process of each trace, where its environment names one.
    of_environment: Vec<Option<(i64, Option<String>)>>,
    /// All lives of threads, when all events were taken.
    lives: OnceCell<HashMap<(u32, i64, u32), ThreadIndex>>,
}

/// Observes no states.
struct NoObserver;

impl Observer for NoObserver {}

impl Tasks {
    /// Of these traces, which are of so many machines.
    pub(super) fn new(sources: &[Source], machines: u32) -> Tasks {
        let of_format = |source: &Source| {
            let tasks = source.tasks.iter();
            tasks.map(|task| (task.tid, (task.pid, String::from_utf8_lossy(&task.name).into_owned()))).collect()
        };
        Tasks {
            machines: Machines::new(machines),
            of_formats: sources.iter().map(of_format).collect(),
            of_environment: sources.iter().map(|source| only_process(&source.schema)).collect(),
            lives: OnceCell::new(),
        }
    }

    /// Takes an event of a class with a tie whose fields were seen.
    pub(super) fn apply(&mut self, machine: u32, ns: Ns, cpu: Option<u64>, tie: &Tie, seen: &WatchedFields) {
        let values = SeenValues { tie, seen };
        let happening = Happening { concept: tie.concept, is_legacy: tie.is_legacy, values: &values };
        self.machines.apply_event(machine, ns, cpu, &happening, &mut NoObserver);
    }

    /// Does any event so far say what threads do?
    pub(super) fn has_states(&self) -> bool {
        self.machines.begin().is_some()
    }

    /// How many threads of this number there were before.
    pub(super) fn life(&self, machine: u32, thread: i64) -> u32 {
        self.machines.find_thread(machine, thread).map_or(0, |thread| self.machines.thread(thread).life())
    }

    /// The name of a thread, of the life of its number that is now.
    pub(super) fn name(&self, trace: usize, machine: u32, thread: i64) -> Option<&str> {
        let own = self.machines.find_thread(machine, thread).and_then(|at| self.machines.thread(at).comm.as_deref());
        own.or_else(|| Some(&*self.of_formats[trace].get(&thread)?.1))
    }

    /// The process of a thread.
    pub(super) fn process(&self, trace: usize, machine: u32, thread: i64) -> Option<i64> {
        let own = self.machines.find_thread(machine, thread).and_then(|at| self.machines.thread(at).pid());
        let of_format = || Some(self.of_formats[trace].get(&thread)?.0);
        own.or_else(of_format).or_else(|| Some(self.of_environment[trace].as_ref()?.0))
    }

    /// The parent of a process, whose first thread has its number.
    pub(super) fn parent(&self, machine: u32, process: i64) -> Option<i64> {
        self.machines.thread(self.machines.find_thread(machine, process)?).ppid()
    }

    /// The name of a process: that of its first thread, or of the program that the trace is of.
    pub(super) fn process_name(&self, trace: usize, machine: u32, process: i64) -> Option<&str> {
        let of_environment = || match &self.of_environment[trace] {
            Some((own, name)) if *own == process => name.as_deref(),
            _ => None,
        };
        self.name(trace, machine, process).or_else(of_environment)
    }

    /// How a life of a thread ended, when all events were taken; `None` when nothing says whether it lives.
    pub(super) fn end(&self, machine: u32, thread: i64, life: u32) -> Option<LifeEnd> {
        let newest = self.machines.find_thread(machine, thread)?;
        if self.machines.thread(newest).life() == life && self.machines.died(newest).is_none() {
            return Some(LifeEnd::Lives);
        }
        let lives = self.lives.get_or_init(|| {
            let key = |of: &Thread| (of.machine, of.tid, of.life());
            self.machines.threads().map(|(at, of)| (key(of), at)).collect()
        });
        self.machines.died(*lives.get(&(machine, thread, life))?).map(LifeEnd::Died)
    }
}

/// How a thread ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LifeEnd {
    /// It is alive at the end of the trace.
    Lives,
    /// It died at this time.
    Died(Ns),
}

/// The only process of a trace, and the name of its program.
fn only_process(schema: &Schema) -> Option<(i64, Option<String>)> {
    let recording = Recording::from_schema(schema);
    Some((i64::try_from(recording.process?).ok()?, recording.process_name.map(str::to_string)))
}

/// Fields of an event, by its tie.
struct SeenValues<'a> {
    tie: &'a Tie,
    seen: &'a WatchedFields,
}

impl SeenValues<'_> {
    fn value(&self, field: Field) -> Option<&FieldValue> {
        self.seen.fields.iter().find(|(own, _)| *own == field).map(|(_, value)| value)
    }
}

impl ConceptValues for SeenValues<'_> {
    fn integer(&self, field: Field) -> Option<i128> {
        match (self.value(field), self.tie.origin(field)) {
            (Some(FieldValue::Integer(value)), _) => Some(*value),
            (None, Some(Origin::Text(text))) => text.parse().ok(),
            _ => None,
        }
    }

    fn text(&self, field: Field) -> Option<Cow<'_, str>> {
        match (self.value(field), self.tie.origin(field)) {
            (Some(FieldValue::Text(text)), _) => Some(String::from_utf8_lossy(text)),
            (None, Some(Origin::Text(text))) => Some(Cow::Borrowed(text)),
            _ => None,
        }
    }
}
