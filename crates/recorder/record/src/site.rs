//! Places in programs where events are recorded.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::metadata::CallHalf;
use crate::rules::Level;

pub(crate) mod record;
pub(crate) mod special;

/// Not known to the recorder.
const UNKNOWN: u32 = 0;
/// Off.
const OFF: u32 = 1;
/// Added to the id of the class.
const FIRST: u32 = 2;
/// Ids that classes can have.
pub(crate) const MAX_CLASSES: u32 = 65_533;
/// In states of sites whose events need more than to be written; the rest is a number of the [table](special) of needs.
pub(crate) const SPECIAL: u32 = 1 << 31;

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
    level: Option<Level>,
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
    #[must_use]
    pub const fn with_level(mut self, level: Level) -> Site {
        self.level = Some(level);
        self
    }

    /// The id of its class, when it is known to be on, and its events are only to be written.
    #[inline(always)]
    pub(crate) fn id_when_on(&self) -> Option<u32> {
        let id = self.state.load(Ordering::Relaxed).wrapping_sub(FIRST);
        (id < MAX_CLASSES).then_some(id)
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

    pub(crate) fn level(&self) -> Option<Level> {
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

    /// Turns it on with a state of the table of needs.
    pub(crate) fn turn_special(&self, state: u32, shape: u64) {
        self.shape.store(shape, Ordering::Relaxed);
        self.state.store(state, Ordering::Release);
    }

    pub(crate) fn turn_off(&self) {
        self.state.store(OFF, Ordering::Relaxed);
    }

    /// Lets the next event ask the recorder.
    pub(crate) fn recheck(&self) {
        self.state.store(UNKNOWN, Ordering::Relaxed);
    }

    /// Has the recorder turned it on, and not changed its mind since?
    pub(crate) fn is_known_on(&self) -> bool {
        self.state.load(Ordering::Relaxed) > OFF
    }
}
