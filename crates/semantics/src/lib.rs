//! Meaning of events: who did it and on which CPU, calls, halves of pairs, counters, flows, switches of threads.
//!
//! Traces say such things by names: a context `vtid`, a class `irq_handler_entry`. Those names stand here once, as data
//! ([`names`], and `concepts.txt` for the events of kernels), and every output asks the same questions, so that an event
//! is on the same thread in all of them. Answers are [`FieldPath`]s, found once for each event class; reading an event
//! then looks at no name.
//!
//! | question | answer |
//! |---|---|
//! | thread, process, name of the thread; or a track that the trace numbers itself | [`Semantics::who`] |
//! | CPU | [`cpu()`], [`CpuOf`]: one for each packet |
//! | place on a timeline: thread, track, CPU or stream | [`Running::place`] |
//! | half of a pair, and the title of both halves | [`Semantics::shape`] |
//! | function call: entry or exit, address, symbol | [`Semantics::call`] |
//! | sample of what a thread executes: its stack, its weight | [`Semantics::sample`] |
//! | thread that leaves a CPU or gets one | [`Semantics::turn`] |
//! | thread that a CPU turns to | [`Semantics::switch`] |
//! | counted numbers | [`Semantics::counters`] |
//! | texts of programs that are calls and counters | [`Semantics::mark`], [`Mark`] |
//! | spans with a number, from their first entry to their close | [`Semantics::span`] |
//! | links between events | [`Semantics::flows`] |
//! | a known event of a kernel, whatever the tracer calls it | [`Concepts`] |
//!
//! Knowledge of one format alone, from its own specification, stays in that format's crate: the names of its call
//! events, for instance.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod built_in;
mod class;
mod code;
mod concepts;
mod cpu;
mod enum_names;
mod fields;
mod marks;
pub mod names;
mod place;
mod recording;
mod samples;
mod spans;
pub mod states;
mod syscalls;
mod vocabulary;
mod who;

use std::collections::HashSet;
use std::sync::Arc;

use tracemill_model::schema::{EventClassId, Schema};

pub use class::{Call, Counter, EventShape, Switch};
pub use code::CodeFields;
pub use concepts::{Concepts, NamedPath, Origin, TEXT as CONCEPTS, Tie};
pub use cpu::{CpuOf, cpu, cpu_field};
pub use fields::{member, node_of, value_of};
pub use marks::Mark;
pub use place::{EventPlace, Running, StatedPlace};
pub use recording::Recording;
pub use samples::{SampleFields, TurnFields, WakeFields};
pub use spans::{SpanEvent, SpanStep};
pub use syscalls::syscall_name;
pub use tracemill_model::schema::FieldPath;
pub use vocabulary::{Concept, Field};
pub use who::Who;

/// Answers for the event classes of a trace.
///
/// Each answer searches the members of a class by name: ask once for a class and keep it.
#[derive(Clone, Debug)]
pub struct Semantics {
    schema: Arc<Schema>,
    class_names: HashSet<Arc<str>>,
    /// Do payloads say whose events they are?
    is_of_tasks: bool,
}

impl Semantics {
    /// The answers for a schema.
    pub fn new(schema: &Arc<Schema>) -> Self {
        let class_names = schema.events().iter().filter_map(|class| class.name.clone()).collect();
        let mut semantics = Semantics { schema: schema.clone(), class_names, is_of_tasks: false };
        // Calls are made by the thread that they name. A trace whose calls do has payloads that speak of the event itself.
        semantics.is_of_tasks = (0..schema.events().len()).any(|at| {
            let class = EventClassId(at as u32);
            semantics.call(class).is_some() && semantics.payload_thread(class).is_some()
        });
        semantics
    }
}
