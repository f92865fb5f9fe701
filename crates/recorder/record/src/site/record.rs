//! Events that a site records.

use std::sync::atomic::Ordering;

use super::{FIRST, OFF, Site, UNKNOWN};
use crate::field::{FieldClass, Fields};
use crate::ring::write;
use crate::{local, recorder};

impl Site {
    /// Records an event whose fields are encoded, with these classes at every event.
    #[cfg(feature = "tracing")]
    pub(crate) fn record_encoded(&'static self, classes: &'static [FieldClass], bytes: &[u8]) {
        let values = crate::field::Encoded(bytes);
        loop {
            let state = self.state.load(Ordering::Relaxed);
            let state = if state == UNKNOWN { self.register(classes, 0) } else { state };
            if state <= OFF || write(state - FIRST, &values) {
                return;
            }
        }
    }

    /// Records an event, unless it is off. The values are not made then.
    #[inline(always)]
    pub fn record<V: Fields>(&'static self, values: impl FnOnce() -> V) {
        let state = self.state.load(Ordering::Relaxed);
        if state != OFF {
            // An event that is off should cost least.
            seldom();
            self.record_on(state, values);
        }
    }

    #[inline(always)]
    fn record_on<V: Fields>(&'static self, state: u32, values: impl FnOnce() -> V) {
        let Some(id) = self.id_of::<V>(state) else { return };
        let values = values();
        if !write(id, &values) {
            self.record_again(&values);
        }
    }

    /// Records an event whose class had its id of an earlier recording.
    #[cold]
    #[inline(never)]
    fn record_again<V: Fields>(&'static self, values: &V) {
        while let Some(id) = self.id_of::<V>(self.state.load(Ordering::Relaxed)) {
            if write(id, values) {
                return;
            }
        }
    }

    /// The id of the class of these values, unless they are not recorded.
    #[inline(always)]
    fn id_of<V: Fields>(&'static self, state: u32) -> Option<u32> {
        let state = if state == UNKNOWN { self.register(V::CLASSES, V::SHAPE) } else { state };
        if state <= OFF {
            return None;
        }
        // A place in a generic function has values of several types: its state is about those of the first one only.
        match self.shape.load(Ordering::Relaxed) == V::SHAPE {
            true => Some(state - FIRST),
            false => self.other_class(V::CLASSES),
        }
    }

    #[cold]
    #[inline(never)]
    fn other_class(&'static self, classes: &'static [FieldClass]) -> Option<u32> {
        recorder::class_of(self, classes)
    }

    #[cold]
    #[inline(never)]
    fn register(&'static self, classes: &'static [FieldClass], shape: u64) -> u32 {
        recorder::register(self, classes, shape).unwrap_or(UNKNOWN)
    }
}

/// Writes an event of the calling thread, unless its class may have the id of an earlier recording.
#[inline(always)]
fn write<V: Fields>(id: u32, values: &V) -> bool {
    match local::writer() {
        Some(writer) => write::write(writer, id, values),
        None => write::write_first(id, values),
    }
}

/// Tells the compiler that the way to here is not the usual one.
#[cold]
#[inline(always)]
fn seldom() {}

/// A span that was entered; dropping it records that it is left.
#[must_use = "a span ends when it is dropped"]
pub struct Span {
    exit: &'static Site,
}

impl Span {
    /// A span that ends with an event of this site.
    #[doc(hidden)]
    pub fn new(exit: &'static Site) -> Span {
        Span { exit }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.exit.record(|| ());
    }
}

/// Records an event: `event!("name", field = value, ..)`.
///
/// The class of each field comes from the type of its value. The full name of the event is `target:name`; the target is
/// the path of the module, unless it is given: `event!(target: "app", "name", ..)`. Values are not evaluated while the event
/// is off.
#[macro_export]
macro_rules! event {
    (target: $target:expr, $name:literal $(, $field:ident = $value:expr)* $(,)?) => {{
        static SITE: $crate::Site =
            $crate::Site::new($target, $name, $crate::CallHalf::None, &[$(stringify!($field)),*]);
        SITE.record(|| ($($value,)*));
    }};
    ($name:literal $($rest:tt)*) => {
        $crate::event!(target: module_path!(), $name $($rest)*)
    };
}

/// Enters a span: `let _span = span!("name", field = value, ..)` records `name_entry` with the fields at once, and
/// `name_exit` when it is dropped. Commands that follow calls show spans as calls.
#[macro_export]
macro_rules! span {
    (target: $target:expr, $name:literal $(, $field:ident = $value:expr)* $(,)?) => {{
        static ENTRY: $crate::Site =
            $crate::Site::new($target, $name, $crate::CallHalf::Entry, &[$(stringify!($field)),*]);
        static EXIT: $crate::Site = $crate::Site::new($target, $name, $crate::CallHalf::Exit, &[]);
        ENTRY.record(|| ($($value,)*));
        $crate::Span::new(&EXIT)
    }};
    ($name:literal $($rest:tt)*) => {
        $crate::span!(target: module_path!(), $name $($rest)*)
    };
}
