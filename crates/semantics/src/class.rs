//! Actions of the events of a class: halves of pairs, calls, switches, counters, flows.

use std::sync::Arc;

use tracemill_model::schema::{EventClassId, FieldKind, FieldPath, Scope};

use crate::fields::{find, is_integer, is_text, member};
use crate::{Concept, Concepts, Field, Semantics, names};

/// Action of an event on the thread that it is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventShape {
    /// Something begins.
    Begin,
    /// End of the last open beginning of the same title; of the last one at all when ends do not state a title.
    End {
        /// Does it say?
        says_title: bool,
    },
    /// It just happens.
    Instant,
}

/// The entry to a function, or the exit from one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Is it the exit?
    pub is_exit: bool,
    /// Address of the function.
    pub address: Option<FieldPath>,
    /// Name of the function.
    pub symbol: Option<FieldPath>,
    /// Its depth among the calls of its thread, or of the kernel for its thread.
    pub depth: Option<FieldPath>,
    /// Is it one of the kernel's calls, among those of programs?
    pub is_of_kernel: bool,
}

/// A CPU turns to another thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switch {
    /// That thread.
    pub next: FieldPath,
    /// Its name.
    pub next_name: Option<FieldPath>,
}

/// A number that is counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counter {
    /// Its name.
    pub name: Arc<str>,
    /// Where it is.
    pub field: FieldPath,
    /// Does it belong to the CPU, not to the thread?
    pub is_of_cpu: bool,
    /// Its unit, when its name says one.
    pub unit: Option<&'static str>,
}

/// Most counters of a class; arrays of numbers that are members by themselves are no counters that anybody looks at.
const MAX_COUNTERS: usize = 1000;

impl Semantics {
    /// Action of the events of a class, and its title: both halves of a pair have the same one.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tracemill_model::schema::{EventClass, Schema, StreamClass};
    /// use tracemill_semantics::{Semantics, EventShape};
    ///
    /// let mut schema = Schema::new("example");
    /// let stream = schema.add_stream(StreamClass::default()).unwrap();
    /// let mut class = |id, name: &str| {
    ///     schema.add_event(EventClass { name: Some(name.into()), ..EventClass::new(id, stream) }).unwrap()
    /// };
    /// let (entry, _exit, lone) = (class(0, "irq_handler_entry"), class(1, "irq_handler_exit"), class(2, "week_end"));
    /// let semantics = Semantics::new(&Arc::new(schema));
    /// assert_eq!(semantics.shape(entry), (EventShape::Begin, "irq_handler".to_string()));
    /// assert_eq!(semantics.shape(lone), (EventShape::Instant, "week_end".to_string()));
    /// ```
    pub fn shape(&self, class: EventClassId) -> (EventShape, String) {
        let name = self.schema.event(class).name.as_deref().unwrap_or("(no name)");
        shape(name, |other| self.class_names.contains(other))
    }

    /// Does any class begin something?
    pub fn has_pairs(&self) -> bool {
        let exists = |name: &str| self.class_names.contains(name);
        self.class_names.iter().any(|name| shape(name, exists).0 == EventShape::Begin)
    }

    /// Do its events tell what CPUs and threads do? What begins and ends there changes their states.
    pub fn has_states(&self) -> bool {
        let tells = |class: u32| {
            let tie = Concepts::built_in().tie(&self.schema, EventClassId(class));
            tie.is_some_and(|tie| matches!(tie.concept, Concept::Switch | Concept::IrqEntry | Concept::SoftEntry))
        };
        (0..self.schema.events().len() as u32).any(tells)
    }

    /// The call that the events of a class are.
    pub fn call(&self, class: EventClassId) -> Option<Call> {
        self.call_named(class, self.schema.event(class).name.as_deref()?)
    }

    /// As [`Semantics::call`], of an event that has a name of its own.
    pub fn call_named(&self, class: EventClassId, name: &str) -> Option<Call> {
        let short = names::short(name);
        let at = names::CALLS.iter().position(|(entry, exit)| short == *entry || short == *exit)?;
        let address = names::ADDRESS.iter().find_map(|name| self.payload(class, name, is_integer));
        let is_certain = at + 1 < names::CALLS.len();
        (is_certain || address.is_some()).then(|| Call {
            is_exit: short == names::CALLS[at].1,
            address,
            symbol: self.payload(class, names::SYMBOL, is_text),
            depth: self.payload(class, names::DEPTH, is_integer),
            is_of_kernel: self.payload(class, names::SOURCE, |_| true).is_some(),
        })
    }

    /// The field whose text is the title of an event, in place of that of its class.
    pub fn title(&self, class: EventClassId) -> Option<FieldPath> {
        let name = self.schema.event(class).name.as_deref().unwrap_or_default();
        match self.shape(class).0 {
            // Events of tasks are of one class, which says nothing.
            EventShape::Instant if self.is_of_tasks && name == names::EVENT => {
                self.payload(class, names::EVENT, |_| true)
            }
            EventShape::Instant => None,
            EventShape::Begin | EventShape::End { .. } => self.payload(class, names::SYMBOL, |_| true),
        }
    }

    /// The thread that a CPU turns to by the events of a class.
    pub fn switch(&self, class: EventClassId) -> Option<Switch> {
        let tie = Concepts::built_in().tie(&self.schema, class).filter(|tie| tie.concept == Concept::Switch)?;
        let field = |field| tie.field(field).cloned();
        Some(Switch { next: field(Field::Next)?, next_name: field(Field::NextComm) })
    }

    /// The CPU that the payload of a class speaks of, whose counters the event has.
    pub fn counted_cpu(&self, class: EventClassId) -> Option<FieldPath> {
        let name = names::short(self.schema.event(class).name.as_deref()?);
        names::CPU_COUNTERS.contains(&name).then(|| self.payload(class, names::CPU, is_integer))?
    }

    /// Fields whose equal values link events, and their names.
    pub fn flows(&self, class: EventClassId) -> Vec<(&'static str, FieldPath)> {
        let find = |name: &&'static str| {
            let of = |scope| member(&self.schema, scope, self.schema.scope_root(scope, class), name);
            Some((*name, EVENT_SCOPES.into_iter().find_map(of)?))
        };
        names::FLOWS.iter().filter_map(find).collect()
    }

    /// The numbers that the events of a class count, in the order of their fields.
    pub fn counters(&self, class: EventClassId) -> Vec<Counter> {
        let schema = &*self.schema;
        let short = names::short(schema.event(class).name.as_deref().unwrap_or("(no name)"));
        let last_word = short.rsplit('_').next().unwrap_or_default().to_ascii_lowercase();
        let (is_counted, is_of_cpu) = (names::COUNTED.contains(&&*last_word), names::CPU_COUNTERS.contains(&short));
        let is_number = |kind: &FieldKind| match kind {
            FieldKind::Integer(integer) => integer.mappings.is_none(),
            kind => matches!(kind, FieldKind::Float(_)),
        };
        let mut taken: Vec<FieldPath> = self.flows(class).into_iter().map(|(_, path)| path).collect();
        taken.extend(self.who(class).id.into_iter().chain(self.counted_cpu(class)));
        let mut counters = Vec::new();
        for scope in EVENT_SCOPES {
            let root = schema.scope_root(scope, class);
            for member in schema.members(root) {
                let own = &*member.name;
                let is_wanted = match scope {
                    Scope::Payload => is_counted || is_of_cpu && own == "state",
                    _ => own.starts_with(names::PERF_COUNTERS.0),
                };
                let field = if is_wanted { find(schema, scope, root, own, is_number) } else { None };
                let Some(field) = field.filter(|field| !taken.contains(field)) else { continue };
                let name = match scope {
                    Scope::Payload if names::COUNTED_FIELDS.contains(&own) => short.into(),
                    Scope::Payload => format!("{short}.{own}").into(),
                    _ => own.into(),
                };
                let is_of_cpu = is_of_cpu || scope != Scope::Payload && own.starts_with(names::PERF_COUNTERS.1);
                let of_class = names::CPU_UNITS.iter().find(|(class, _)| *class == short);
                let unit = of_class.map(|(_, unit)| *unit).or_else(|| names::unit(own));
                counters.push(Counter { name, field, is_of_cpu, unit });
            }
        }
        counters.truncate(MAX_COUNTERS);
        counters
    }

    pub(crate) fn payload(
        &self,
        class: EventClassId,
        name: &str,
        is_wanted: fn(&FieldKind) -> bool,
    ) -> Option<FieldPath> {
        find(&self.schema, Scope::Payload, self.schema.event(class).payload, name, is_wanted)
    }
}

/// The scopes of what an event says itself.
const EVENT_SCOPES: [Scope; 3] = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];

/// Action of a class, by its name and by which other names there are.
fn shape(name: &str, exists: impl Fn(&str) -> bool) -> (EventShape, String) {
    let short = names::short(name);
    let (prefix, end) = names::SYSTEM_CALLS;
    if short == end {
        return (EventShape::End { says_title: false }, name.into());
    }
    if short.starts_with(prefix) && exists(end) {
        return (EventShape::Begin, short.into());
    }
    for &(begin, end) in names::PAIRS {
        if let Some((title, other)) = swap(name, begin, end)
            && exists(&other)
        {
            return (EventShape::Begin, title);
        }
        if let Some((title, other)) = swap(name, end, begin)
            && exists(&other)
        {
            return (EventShape::End { says_title: true }, title);
        }
    }
    (EventShape::Instant, name.into())
}

/// The name without a word of it, and with another one for it.
fn swap(name: &str, word: &str, other: &str) -> Option<(String, String)> {
    let is_edge = |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric());
    let bytes = name.as_bytes();
    let (at, _) = name.rmatch_indices(word).find(|&(at, _)| {
        is_edge(at.checked_sub(1).and_then(|before| bytes.get(before))) && is_edge(bytes.get(at + word.len()))
    })?;
    let (before, behind) = (&name[..at], &name[at + word.len()..]);
    let title = match before.strip_suffix('_') {
        Some(before) => format!("{before}{behind}"),
        None => format!("{before}{}", behind.strip_prefix('_').unwrap_or(behind)),
    };
    Some((title, format!("{before}{other}{behind}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found_by_their_names() {
        let names = [
            "syscall_entry_read",
            "syscall_exit_read",
            "irq_handler_entry",
            "irq_handler_exit",
            "x:frame_begin",
            "x:frame_end",
            "entry",
            "exit",
            "sentry_exit",
            "week_end",
        ];
        let of = |name: &str| shape(name, |other| names.contains(&other));
        let end = EventShape::End { says_title: true };
        assert_eq!(of("syscall_entry_read"), (EventShape::Begin, "syscall_read".into()));
        assert_eq!(of("syscall_exit_read"), (end, "syscall_read".into()));
        assert_eq!(of("irq_handler_exit"), (end, "irq_handler".into()));
        assert_eq!(of("x:frame_begin"), (EventShape::Begin, "x:frame".into()));
        assert_eq!(of("entry"), (EventShape::Begin, "".into()));
        assert_eq!(of("sentry_exit"), (EventShape::Instant, "sentry_exit".into()));
        assert_eq!(of("week_end"), (EventShape::Instant, "week_end".into()));
        assert_eq!(of("sys_open"), (EventShape::Instant, "sys_open".into()));
        let old = |name: &str| shape(name, |other| other == "exit_syscall");
        assert_eq!(old("sys_open"), (EventShape::Begin, "sys_open".into()));
        assert_eq!(old("exit_syscall").0, EventShape::End { says_title: false });
    }
}
