//! Places in programs where events are recorded.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::metadata::{CallHalf, EventLevel};

pub(crate) mod record;

/// Not known to the recorder.
const UNKNOWN: u32 = 0;
/// Off.
const OFF: u32 = 1;
/// Added to the id of the class.
const FIRST: u32 = 2;

/// A place in a program where an event of one class is recorded. Made by the macros [`event!`](crate::event) and
/// [`span!`](crate::span).
pub struct Site {
    state: AtomicU32,
    /// The classes of the fields that it was first registered with, as [`Fields::SHAPE`](crate::Fields::SHAPE) has them. Never another one.
    shape: AtomicU64,
    target: &'static str,
    name: &'static str,
    call: CallHalf,
    fields: &'static [&'static str],
    level: Option<EventLevel>,
}

impl Site {
    /// A place for events of this name, with fields of these names.
    pub const fn new(
        target: &'static str,
        name: &'static str,
        call: CallHalf,
        fields: &'static [&'static str],
    ) -> Site {
        let (state, shape) = (AtomicU32::new(UNKNOWN), AtomicU64::new(0));
        Site { state, shape, target, name, call, fields, level: None }
    }

    /// The site with a level.
    #[cfg(any(feature = "tracing", feature = "c"))]
    pub(crate) fn with_level(self, level: Option<EventLevel>) -> Site {
        Site { level, ..self }
    }

    /// The id of its class, when it is known to be on.
    #[cfg(feature = "tracing")]
    #[inline(always)]
    pub(crate) fn id_when_on(&self) -> Option<u32> {
        let state = self.state.load(Ordering::Relaxed);
        state.checked_sub(FIRST)
    }

    /// Is it on, as far as that is known?
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.state.load(Ordering::Relaxed) != OFF
    }

    /// Full name of its events.
    pub(crate) fn full_name(&self) -> String {
        let half = match self.call {
            CallHalf::None => "",
            CallHalf::Entry => "_entry",
            CallHalf::Exit => "_exit",
        };
        format!("{}:{}{half}", self.target, self.name)
    }

    /// Its name and target.
    #[cfg(feature = "c")]
    pub(crate) fn names(&self) -> (&'static str, &'static str) {
        (self.target, self.name)
    }

    /// Its state: 0 when the recorder must be asked, 1 when it is off.
    pub(crate) fn state(&self) -> u32 {
        self.state.load(Ordering::Relaxed)
    }

    pub(crate) fn level(&self) -> Option<EventLevel> {
        self.level
    }

    pub(crate) fn call(&self) -> CallHalf {
        self.call
    }

    pub(crate) fn fields(&self) -> &'static [&'static str] {
        self.fields
    }

    pub(crate) fn turn_on(&self, id: u32, shape: u64) {
        self.shape.store(shape, Ordering::Relaxed);
        self.state.store(id + FIRST, Ordering::Release);
    }

    pub(crate) fn turn_off(&self) {
        self.state.store(OFF, Ordering::Relaxed);
    }

    /// Lets the next event ask the recorder.
    pub(crate) fn recheck(&self) {
        self.state.store(UNKNOWN, Ordering::Relaxed);
    }

    /// The id of its class, when it is on.
    pub(crate) fn id(&self) -> Option<u32> {
        self.state.load(Ordering::Relaxed).checked_sub(FIRST)
    }
}
