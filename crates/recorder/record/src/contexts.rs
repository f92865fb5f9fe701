//! Facts about the moment of an event that are recorded with it, where that is asked for: the processor, the thread, counters,
//! the calls that led there.

use tracemill_ring::condition::PlainValue;

use crate::field::{FieldClass, Fields, sealed};
use crate::local::{counters, frames, system};
use crate::ring::event_buf::EventBuf;

/// Calls of a stack, at most.
pub(crate) const MAX_FRAMES: usize = 64;

/// A kind of context, in the order in which an event has them.
struct ContextKind {
    /// The name for the user.
    name: &'static str,
    /// The name in the trace, as LTTng has it.
    field: &'static str,
    class: FieldClass,
    /// The counter that it reads.
    counter: Option<counters::PerfCounter>,
}

const fn of_counter(name: &'static str, field: &'static str, kind: u32, config: u64) -> ContextKind {
    ContextKind { name, field, class: FieldClass::Unsigned(64), counter: Some(counters::PerfCounter { kind, config }) }
}

/// Numbers of `perf_event_open(2)`.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;

const KINDS: [ContextKind; 10] = [
    ContextKind { name: "cpu", field: "cpu_id", class: FieldClass::Unsigned(32), counter: None },
    ContextKind { name: "tid", field: "vtid", class: FieldClass::Signed(32), counter: None },
    of_counter("perf:cycles", "perf_thread_cycles", HARDWARE, 0),
    of_counter("perf:instructions", "perf_thread_instructions", HARDWARE, 1),
    of_counter("perf:cache-misses", "perf_thread_cache_misses", HARDWARE, 3),
    of_counter("perf:branch-misses", "perf_thread_branch_misses", HARDWARE, 5),
    of_counter("perf:task-clock", "perf_thread_task_clock", SOFTWARE, 1),
    of_counter("perf:page-faults", "perf_thread_page_faults", SOFTWARE, 2),
    of_counter("perf:context-switches", "perf_thread_context_switches", SOFTWARE, 3),
    ContextKind {
        name: "callstack",
        field: "callstack_user",
        class: FieldClass::Slice(&FieldClass::Unsigned(64)),
        counter: None,
    },
];

const CPU: usize = 0;
const TID: usize = 1;

/// A set of contexts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Contexts(u32);

impl Contexts {
    /// Contexts by their names: `cpu,tid,perf:cycles,callstack`; `-` is none.
    ///
    /// # Errors
    /// When a name is none of those, which the message lists.
    pub fn parse(names: &str) -> Result<Contexts, String> {
        let mut contexts = 0;
        for name in names.split(',').filter(|name| !["", "-"].contains(name)) {
            let Some(at) = KINDS.iter().position(|kind| kind.name == name) else {
                let known: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
                return Err(format!("`{name}` is no context; there are {}", known.join(", ")));
            };
            contexts |= 1 << at;
        }
        Ok(Contexts(contexts))
    }

    /// Its names.
    pub fn names(self) -> String {
        let names: Vec<_> = self.kinds().map(|(_, kind)| kind.name).collect();
        names.join(",")
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn from_bits(bits: u32) -> Option<Contexts> {
        (bits >> KINDS.len() == 0).then_some(Contexts(bits))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn kinds(self) -> impl Iterator<Item = (usize, &'static ContextKind)> {
        KINDS.iter().enumerate().filter(move |(at, _)| self.0 >> at & 1 == 1)
    }

    /// Names and classes of its fields in a trace.
    pub(crate) fn fields(self) -> Vec<(String, FieldClass)> {
        self.kinds().map(|(_, kind)| (kind.field.to_string(), kind.class)).collect()
    }

    /// Remarks about counters, or the reason why one cannot be had here.
    pub(crate) fn try_counters(self) -> Result<Vec<String>, String> {
        let mut notes = Vec::new();
        for (_, kind) in self.kinds() {
            let Some(counter) = kind.counter else { continue };
            match counters::can_read(counter) {
                Ok(true) => {}
                Ok(false) if counter.kind == SOFTWARE => {
                    notes.push(format!("`{}` is read by a system call for each event", kind.name));
                }
                Ok(false) => notes.push(format!(
                    "`{}` is read by a system call for each event: programs cannot read the counter of this processor by themselves",
                    kind.name
                )),
                Err(error) => {
                    return Err(format!(
                        "`{}` cannot be had here: {error} (the processor may have no such counter, as in most virtual machines; \
                         kernel.perf_event_paranoid above 2 forbids it)",
                        kind.name
                    ));
                }
            }
        }
        Ok(notes)
    }

    /// The contexts at this moment. `frame` is the frame pointer of the function that records.
    pub(crate) fn take(self, frame: usize) -> TakenContexts {
        let mut taken = TakenContexts { bytes: [0; TakenContexts::LEN], len: 0 };
        for (at, kind) in self.kinds() {
            match (at, kind.counter) {
                (_, Some(counter)) => taken.put(&counters::read(at, counter).to_le_bytes()),
                (CPU, _) => taken.put(&system::cpu().to_le_bytes()),
                (TID, _) => taken.put(&system::tid().to_le_bytes()),
                _ => {
                    let mut calls = [0; MAX_FRAMES];
                    let calls = frames::walk(frame, &mut calls);
                    taken.put(&(calls.len() as u32).to_le_bytes());
                    calls.iter().for_each(|call| taken.put(&call.to_le_bytes()));
                }
            }
        }
        taken
    }
}

/// The number of kinds, for whoever keeps something for each.
pub(crate) const KIND_COUNT: usize = KINDS.len();

/// The bytes of the contexts of one event.
pub(crate) struct TakenContexts {
    bytes: [u8; TakenContexts::LEN],
    len: usize,
}

impl TakenContexts {
    const LEN: usize = KINDS.len() * 8 + 4 + MAX_FRAMES * 8;

    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }
}

/// Values of an event after its contexts.
pub(crate) struct WithContexts<'a, V> {
    pub(crate) contexts: TakenContexts,
    pub(crate) values: &'a V,
}

impl<V> sealed::Sealed for WithContexts<'_, V> {}

impl<V: Fields> Fields for WithContexts<'_, V> {
    const CLASSES: &'static [FieldClass] = &[];
    const SHAPE: u64 = 0;

    fn encoded_len(&self) -> usize {
        self.contexts.len + self.values.encoded_len()
    }

    fn put(&self, place: &mut EventBuf<'_>) {
        place.put_bytes(&self.contexts.bytes[..self.contexts.len]);
        self.values.put(place);
    }

    fn value(&self, at: usize) -> PlainValue<'_> {
        self.values.value(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_in_order() {
        let contexts = Contexts::parse("callstack,cpu,perf:page-faults").expect("contexts");
        assert_eq!(contexts.names(), "cpu,perf:page-faults,callstack");
        assert_eq!(Contexts::from_bits(contexts.bits()), Some(contexts));
        assert_eq!(Contexts::from_bits(1 << KINDS.len()), None);
        assert!(Contexts::parse("cpu,pid").expect_err("there is none").contains("tid"));
        assert!(Contexts::parse("-").is_ok_and(Contexts::is_empty));
    }
}
