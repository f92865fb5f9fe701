//! The Python module `tracemill._native`: what `tracemill/__init__.py` shows to programs.
//!
//! [`Opened`](opened::Opened) holds the traces, [`Answer`](answer::Answer) a planned query and
//! [`Stream`](answer::Stream) its rows, [`Events`](events::Events) iterates over [`Event`](event::Event)s,
//! [`CompatMessages`](compat::messages::CompatMessages) over what babeltrace's modules show. The interpreter's lock
//! is not held while traces are read. No function of this module may wait for that lock while it holds a lock of its own.
#![forbid(unsafe_code)]

#[cfg(feature = "sql")]
mod answer;
#[cfg(feature = "sql")]
mod cells;
#[cfg(feature = "distributed")]
mod cluster;
mod compat;
mod errors;
mod event;
mod events;
mod opened;
mod values;

/// The module that Python imports.
#[pyo3::pymodule]
mod _native {
    #[cfg(feature = "sql")]
    #[pymodule_export]
    use super::answer::{Answer, Stream};
    #[pymodule_export]
    use super::compat::events::{ClockSnapshot, EventConst, EventMessage, OldEvent};
    #[pymodule_export]
    use super::compat::messages::{CompatMessages, CompatTraces, PacketPlace};
    #[pymodule_export]
    use super::event::Event;
    #[pymodule_export]
    use super::events::Events;
    #[pymodule_export]
    use super::opened::Opened;
}
