//! An event of a session.

use tracemill_codec::chunk::EventRef;
use tracemill_model::schema::EventClass;

/// An event, with its place in the session and its time. Costs nothing until a field is read.
///
/// [`SelectedStream::event`](crate::selection::SelectedStream::event) makes it; [`Events`](crate::events::Events) lends those
/// of a session in the order of time.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// Index of its trace in the session.
    pub trace: usize,
    /// Index of its stream in the trace.
    pub stream: usize,
    /// The event as it is encoded: class, clock value, fields.
    pub raw: EventRef<'a>,
    /// Its time in ns since the origin, `None` when it has none.
    pub ns: Option<i128>,
}

impl<'a> Event<'a> {
    /// Its class.
    #[inline]
    pub fn class(&self) -> &'a EventClass {
        self.raw.chunk.packet.plans.schema().event(self.raw.class())
    }

    /// Its name; see [`EventRef::name`].
    pub fn name<'n>(&self, storage: &'n mut Vec<u8>) -> Option<&'n [u8]>
    where
        'a: 'n,
    {
        self.raw.name(storage)
    }

    /// Its numeric id: its own, when its class stands for many, or that of its class.
    pub fn id(&self) -> u64 {
        self.raw.id()
    }
}
