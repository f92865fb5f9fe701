//! Traces as the interfaces of babeltrace show them: what `tracemill.bt2` and `tracemill.babeltrace` are made of.
//!
//! What happens for each event is here; what happens once for each class, stream or packet is in Python.

mod describe;
pub(crate) mod events;
mod fields;
pub(crate) mod messages;
mod order;
