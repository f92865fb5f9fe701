//! States of a machine: what its CPUs and threads do, as the events of its kernel say (`docs/kernel.md`, section 2).
//!
//! [`Machines`] take [`Happening`]s in the order of time, and tell an [`Observer`] of the pieces of time that CPUs and
//! threads spend in one state, and of the spans that end: waits to be run, interrupts, system calls. What is not known stays
//! unknown.
//!
//! ```
//! use std::borrow::Cow;
//! use tracemill_semantics::states::{Happening, Machines, Observer, ThreadPiece, ThreadState, ConceptValues};
//! use tracemill_semantics::{Concept, Field};
//!
//! struct Switch(i128, i128);
//! impl ConceptValues for Switch {
//!     fn integer(&self, field: Field) -> Option<i128> {
//!         match field {
//!             Field::Prev => Some(self.0),
//!             Field::Next => Some(self.1),
//!             Field::State => Some(1),
//!             _ => None,
//!         }
//!     }
//!     fn text(&self, _: Field) -> Option<Cow<'_, str>> {
//!         None
//!     }
//! }
//!
//! #[derive(Default)]
//! struct Runs(Vec<(i64, i128)>);
//! impl Observer for Runs {
//!     fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
//!         if matches!(piece.state, ThreadState::RunUnknown) {
//!             self.0.push((machines.thread(piece.thread).tid, piece.to - piece.from));
//!         }
//!     }
//! }
//!
//! let (mut machines, mut runs) = (Machines::new(1), Runs::default());
//! for (ns, switch) in [(100, Switch(0, 42)), (350, Switch(42, 0))] {
//!     let happening = Happening { concept: Concept::Switch, is_legacy: false, values: &switch };
//!     machines.apply_event(0, ns, Some(0), &happening, &mut runs);
//! }
//! machines.finish(&mut runs);
//! assert_eq!(runs.0, [(42, 250)]);
//! ```

mod calls;
mod coverage;
mod cpu;
mod machine;
mod newest;
mod observer;
mod rules;
mod suspend;
mod switch;
mod thread;
mod wake;

pub use coverage::{list_of_cpus, missing_events};
pub use cpu::{Cpu, CpuStatus, Current, InterruptKind};
pub use machine::{ConceptValues, Counts, CpuIndex, Happening, Machines, Map, Ns, ThreadIndex};
pub use observer::{CpuPiece, Credit, Interrupt, Observer, Reason, RunEnd, Scheduled, SystemCall, ThreadPiece, Woken};
pub use rules::returns;
pub use suspend::Suspensions;
pub use thread::{Comm, Thread, ThreadState, thread_title};
