//! Events that a site records.

use std::sync::atomic::Ordering;

use super::special::{Special, Way};
use super::{OFF, Site, UNKNOWN};
use crate::contexts::WithContexts;
use crate::field::{FieldClass, Fields};
use crate::local::frames;
use crate::ring::write;
use crate::{local, recorder};

impl Way {
    /// Records an event, of a function with this frame pointer. `false` when nothing was done, since the class may be of an
    /// earlier recording.
    #[inline(always)]
    pub(crate) fn write<V: Fields>(self, values: &V, frame: usize) -> bool {
        match self {
            Way::Plain(id) => write(id, values),
            Way::Special(special) => special.write(values, frame),
        }
    }
}

impl Special {
    /// Does to an event what is needed. `false` when nothing was done, since the class may be of an earlier recording. `frame` is the
    /// frame pointer of the function that records.
    pub(crate) fn write<V: Fields>(&self, values: &V, frame: usize) -> bool {
        if !self.condition.is_true(&self.name, |at| values.value(at)) {
            return true;
        }
        let is_done = match self.contexts.is_empty() {
            true => write(self.id, values),
            false => write(self.id, &WithContexts { contexts: self.contexts.take(frame), values }),
        };
        if is_done {
            self.triggers.iter().for_each(|trigger| trigger.look(&self.name, |at| values.value(at)));
        }
        is_done
    }
}

impl Site {
    /// Records an event whose fields are encoded, with these classes at every event.
    #[cfg(feature = "tracing")]
    pub(crate) fn record_encoded(&'static self, classes: &'static [FieldClass], bytes: &[u8]) {
        use crate::encoded::{DecodedFields, Encoded};

        loop {
            let state = self.state.load(Ordering::Relaxed);
            let state = if state == UNKNOWN { self.register(classes, 0) } else { state };
            let is_done = match Way::of_state(state) {
                None => return,
                Some(Way::Plain(id)) => write(id, &Encoded(bytes)),
                Some(Way::Special(special)) => special.write(&DecodedFields { classes, bytes }, frames::pointer()),
            };
            if is_done {
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
            self.record_on(values);
        }
    }

    #[inline(always)]
    fn record_on<V: Fields>(&'static self, values: impl FnOnce() -> V) {
        // A place in a generic function has values of several types: its state is about those of the first one only.
        match self.id_when_on().filter(|_| self.shape.load(Ordering::Relaxed) == V::SHAPE) {
            Some(id) => {
                let values = values();
                if !write(id, &values) {
                    self.record_again(&values, frames::pointer());
                }
            }
            None => self.record_slowly(values),
        }
    }

    /// Records an event of a class that is not known yet, or that needs more than to be written.
    #[cold]
    #[inline(never)]
    fn record_slowly<V: Fields>(&'static self, values: impl FnOnce() -> V) {
        // Without the values: what is off does not make them.
        if self.way::<V>().is_some() {
            self.record_again(&values(), frames::pointer());
        }
    }

    /// Records an event whose class had its id of an earlier recording.
    #[cold]
    #[inline(never)]
    fn record_again<V: Fields>(&'static self, values: &V, frame: usize) {
        while let Some(way) = self.way::<V>() {
            if way.write(values, frame) {
                return;
            }
        }
    }

    /// The way of these values, unless they are not recorded.
    fn way<V: Fields>(&'static self) -> Option<Way> {
        let state = self.state.load(Ordering::Relaxed);
        let state = if state == UNKNOWN { self.register(V::CLASSES, V::SHAPE) } else { state };
        if state <= OFF {
            return None;
        }
        match self.shape.load(Ordering::Relaxed) == V::SHAPE {
            true => Way::of_state(state),
            false => recorder::way_of(self, V::CLASSES),
        }
    }

    #[cold]
    #[inline(never)]
    fn register(&'static self, classes: &'static [FieldClass], shape: u64) -> u32 {
        recorder::register(self, classes, shape).unwrap_or(UNKNOWN)
    }
}

/// Writes an event of the calling thread, unless its class may have the id of an earlier recording.
#[inline(always)]
pub(crate) fn write<V: Fields>(id: u32, values: &V) -> bool {
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
/// the path of the module, unless it is given: `event!(target: "app", "name", ..)`. Before that, the event may have a [`Level`](crate::Level):
/// `event!(level: Level::Warning, "name", ..)`. Values are not evaluated while the event
/// is off.
#[macro_export]
macro_rules! event {
    (level: $level:expr, target: $target:expr, $name:literal $(, $field:ident = $value:expr)* $(,)?) => {{
        static SITE: $crate::Site =
            $crate::Site::new($target, $name, $crate::CallHalf::None, &[$(stringify!($field)),*]).with_level($level);
        SITE.record(|| ($($value,)*));
    }};
    (level: $level:expr, $name:literal $($rest:tt)*) => {
        $crate::event!(level: $level, target: module_path!(), $name $($rest)*)
    };
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
