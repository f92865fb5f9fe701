//! Events and spans of the crate `tracing`, recorded: with the feature `tracing`.
//!
//! [`Layer`] stands in a registry of `tracing-subscriber` beside others, [`Subscriber`] alone, without what a registry costs.
//!
//! ```
//! use tracemill_record::{Recorder, tracing::Subscriber};
//!
//! # let folder = std::env::temp_dir().join(format!("tracemill-record-tracing-{}", std::process::id()));
//! # let path = folder.join("run.ctf");
//! let recorder = Recorder::options(&path).start()?;
//! tracing::subscriber::with_default(Subscriber::new(), || {
//!     let _span = tracing::info_span!("request", id = 7).entered();
//!     tracing::debug!(path = "/x", "found");
//! });
//! recorder.finish()?;
//! # std::fs::remove_dir_all(folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A span is a call: `NAME_entry` with its fields each time it is entered, `NAME_exit` when it is left; a value that is
//! recorded later is an event `NAME_record`. Classes have the level. `u64`, `i64`, `f64`, `bool` and texts are fields as such;
//! numbers of 128 bits, and what only `Debug` can show, are texts.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::{Event, Interest, LevelFilter, Metadata};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::field::{FieldClass, cut};
use crate::metadata::{Call, Level};
use crate::site::Site;

/// Most fields of one event; `tracing` has no more.
const MAX_FIELDS: usize = 32;

/// A value's class, in one byte.
type Kind = u8;
const KINDS: [FieldClass; 5] =
    [FieldClass::Unsigned(64), FieldClass::Signed(64), FieldClass::Float(64), FieldClass::Bool, FieldClass::Text];

/// The fields of an event: which ones have values, of what kind, and those as the bytes of an event.
#[derive(Clone)]
struct Values {
    kinds: [(u8, Kind); MAX_FIELDS],
    count: usize,
    bytes: Bytes,
}

/// Bytes that are few in nearly all events: those need no memory but the stack.
#[derive(Clone)]
struct Bytes {
    few: [u8; FEW],
    len: usize,
    /// All of them, where they are more.
    many: Vec<u8>,
}

const FEW: usize = 64;

thread_local! {
    /// Memory for the next event with many bytes. A signal handler that interrupts an event finds none, and takes its own.
    static MANY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Bytes {
    const fn new() -> Bytes {
        Bytes { few: [0; FEW], len: 0, many: Vec::new() }
    }

    #[inline(always)]
    fn extend(&mut self, bytes: &[u8]) {
        match self.few.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len())) {
            Some(place) if self.many.is_empty() => place.copy_from_slice(bytes),
            _ => self.extend_many(bytes),
        }
        self.len += bytes.len();
    }

    #[cold]
    fn extend_many(&mut self, bytes: &[u8]) {
        if self.many.is_empty() {
            self.many = MANY.take();
            self.many.clear();
            self.many.extend_from_slice(&self.few[..self.len]);
        }
        self.many.extend_from_slice(bytes);
    }

    #[inline(always)]
    fn all(&self) -> &[u8] {
        if self.many.is_empty() { &self.few[..self.len] } else { &self.many }
    }

    /// Changes bytes that are there.
    fn put(&mut self, at: usize, bytes: [u8; 4]) {
        let all = if self.many.is_empty() { &mut self.few[..self.len] } else { self.many.as_mut_slice() };
        all[at..at + 4].copy_from_slice(&bytes);
    }
}

impl Values {
    const fn new() -> Values {
        Values { kinds: [(0, 0); MAX_FIELDS], count: 0, bytes: Bytes::new() }
    }

    fn kinds(&self) -> &[(u8, Kind)] {
        &self.kinds[..self.count]
    }

    /// Keeps memory for the next event of the thread.
    fn give_back(&mut self) {
        if !self.bytes.many.is_empty() {
            MANY.set(std::mem::take(&mut self.bytes.many));
        }
    }

    #[inline(always)]
    fn add(&mut self, field: &Field, kind: Kind, bytes: &[u8]) {
        if let Some(place) = self.kinds.get_mut(self.count) {
            *place = (field.index() as u8, kind);
            self.count += 1;
            self.bytes.extend(bytes);
        }
    }

    fn add_text(&mut self, field: &Field, text: &str) {
        if self.count == MAX_FIELDS {
            return;
        }
        self.add(field, 4, &[0; 4]);
        let (at, text) = (self.bytes.len - 4, cut(text));
        self.bytes.put(at, (text.len() as u32).to_le_bytes());
        self.bytes.extend(text);
    }
}

impl Visit for Values {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, 0, &value.to_le_bytes());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, 1, &value.to_le_bytes());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, 2, &value.to_le_bytes());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, 3, &[value.into()]);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // What cannot be shown ends where it failed.
        let _ = write!(text, "{value:?}");
        self.add_text(field, &text);
    }
}

/// One way in which a call site fills its fields, and the class for it. Nearly all have one.
struct Variant {
    kinds: Box<[(u8, Kind)]>,
    site: Site,
    classes: &'static [FieldClass],
    next: Variants,
}

/// The first of a list that only grows.
#[derive(Default)]
struct Variants(OnceLock<Box<Variant>>);

impl Variants {
    /// Records an event of a class that fits its values.
    fn record(&'static self, place: &'static Metadata<'static>, suffix: &str, call: Call, values: &Values) {
        let mut list = self;
        loop {
            let variant = list.0.get_or_init(|| Box::new(Variant::new(place, suffix, call, values)));
            if *variant.kinds == *values.kinds() {
                return variant.site.record_encoded(variant.classes, values.bytes.all());
            }
            list = &variant.next;
        }
    }
}

impl Variant {
    fn new(place: &'static Metadata<'static>, suffix: &str, call: Call, values: &Values) -> Variant {
        let names: Vec<&'static str> = place.fields().iter().map(|field| field.name()).collect();
        let fields =
            values.kinds().iter().map(|(index, _)| names.get(usize::from(*index)).copied().unwrap_or_default());
        let classes = values.kinds().iter().map(|(_, kind)| KINDS[usize::from(*kind)]).collect::<Vec<_>>().leak();
        let name = format!("{}{suffix}", place.name()).leak();
        Variant {
            kinds: values.kinds().into(),
            site: Site::new(place.target(), name, call, fields.collect::<Vec<_>>().leak()).with_level(level(place)),
            classes,
            next: Variants::default(),
        }
    }
}

/// LTTng's levels, in the same order.
fn level(place: &Metadata<'_>) -> Level {
    let (number, name) = match *place.level() {
        tracing_core::Level::ERROR => (3, "error"),
        tracing_core::Level::WARN => (4, "warning"),
        tracing_core::Level::INFO => (6, "info"),
        tracing_core::Level::DEBUG => (7, "debug:system"),
        tracing_core::Level::TRACE => (14, "debug"),
    };
    Level { number, name }
}

/// A place in the program, for ever.
struct Place {
    metadata: &'static Metadata<'static>,
    event: Variants,
    exit: Variants,
    late: Variants,
}

impl Place {
    fn new(metadata: &'static Metadata<'static>) -> Place {
        Place { metadata, event: Variants::default(), exit: Variants::default(), late: Variants::default() }
    }

    fn enter(&'static self, values: &Values) {
        self.event.record(self.metadata, "", Call::Entry, values);
    }

    fn exit(&'static self) {
        static NONE: Values = Values::new();
        self.exit.record(self.metadata, "", Call::Exit, &NONE);
    }

    fn record_late(&'static self, record: &Record<'_>) {
        let mut values = Values::new();
        record.record(&mut values);
        self.late.record(self.metadata, "_record", Call::None, &values);
        values.give_back();
    }
}

/// Places by the address of their metadata: found without a lock.
static PLACES: [OnceLock<Place>; 4096] = [const { OnceLock::new() }; 4096];
/// Places for which there is no room.
static MORE: Mutex<Option<HashMap<usize, &'static Place>>> = Mutex::new(None);
/// Steps in search of a free place.
const STEPS: usize = 64;

fn place(metadata: &'static Metadata<'static>) -> &'static Place {
    let address = std::ptr::from_ref(metadata) as usize;
    let first = (address >> 3).wrapping_mul(0x9e37_79b9) >> 7;
    for step in 0..STEPS {
        let place = PLACES[(first + step) % PLACES.len()].get_or_init(|| Place::new(metadata));
        if std::ptr::eq(place.metadata, metadata) {
            return place;
        }
    }
    let mut more = MORE.lock().unwrap_or_else(PoisonError::into_inner);
    more.get_or_insert_default().entry(address).or_insert_with(|| Box::leak(Box::new(Place::new(metadata))))
}

fn record_event(event: &Event<'_>) {
    let place = place(event.metadata());
    // Never moved: that would cost as much as the clock.
    let mut values = Values::new();
    event.record(&mut values);
    place.event.record(place.metadata, "", Call::None, &values);
    values.give_back();
}

/// A span as it was created.
struct Opened {
    place: &'static Place,
    values: Values,
}

impl Opened {
    fn new(attributes: &Attributes<'_>) -> Opened {
        let mut values = Values::new();
        attributes.record(&mut values);
        // It has its bytes for as long as it lives; the next event gets others.
        Opened { place: place(attributes.metadata()), values }
    }
}

/// A layer of `tracing-subscriber` that records all events and spans it is given. Levels are chosen by its `with_filter`,
/// events also by [`Options::filter`](crate::Options::filter).
#[derive(Clone, Copy, Default, Debug)]
pub struct Layer;

impl Layer {
    /// A layer that records.
    pub fn new() -> Layer {
        Layer
    }
}

impl<S: tracing_core::Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Layer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        record_event(event);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(Opened::new(attributes));
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            place(span.metadata()).record_late(record);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(opened) = span.extensions().get::<Opened>()
        {
            opened.place.enter(&opened.values);
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            place(span.metadata()).exit();
        }
    }
}

/// A span of [`Subscriber`], and how many handles it has.
struct Counted {
    opened: Opened,
    handles: AtomicUsize,
}

/// Numbers of parts that [`Subscriber`] keeps its spans in, so that threads seldom wait for each other.
const PARTS: u64 = 16;

/// A subscriber that records all events and spans, up to a level, and does nothing else.
///
/// Spans have no parents and no current one here: which is inside of which follows from the calls of each thread.
#[derive(Debug)]
pub struct Subscriber {
    level: LevelFilter,
    next: AtomicU64,
    spans: [Mutex<Spans>; PARTS as usize],
}

#[derive(Default)]
struct Spans(HashMap<u64, Arc<Counted>>);

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} spans", self.0.len())
    }
}

impl Default for Subscriber {
    fn default() -> Self {
        Subscriber { level: LevelFilter::TRACE, next: AtomicU64::new(1), spans: Default::default() }
    }
}

impl Subscriber {
    /// A subscriber for all levels.
    pub fn new() -> Subscriber {
        Subscriber::default()
    }

    /// Up to this level. What is beyond costs what `tracing` takes.
    pub fn with_max_level(mut self, level: impl Into<LevelFilter>) -> Subscriber {
        self.level = level.into();
        self
    }

    fn spans(&self, id: &Id) -> MutexGuard<'_, Spans> {
        let part = &self.spans[(id.into_u64() % PARTS) as usize];
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn span(&self, id: &Id) -> Option<Arc<Counted>> {
        self.spans(id).0.get(&id.into_u64()).cloned()
    }
}

impl tracing_core::Subscriber for Subscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if *metadata.level() <= self.level { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed).max(1));
        let counted = Counted { opened: Opened::new(attributes), handles: AtomicUsize::new(1) };
        self.spans(&id).0.insert(id.into_u64(), Arc::new(counted));
        id
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        if let Some(span) = self.span(span) {
            span.opened.place.record_late(values);
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        record_event(event);
    }

    fn enter(&self, span: &Id) {
        if let Some(span) = self.span(span) {
            span.opened.place.enter(&span.opened.values);
        }
    }

    fn exit(&self, span: &Id) {
        if let Some(span) = self.span(span) {
            span.opened.place.exit();
        }
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = self.span(id) {
            span.handles.fetch_add(1, Ordering::Relaxed);
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let Some(span) = self.span(&id) else { return false };
        let is_last = span.handles.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            self.spans(&id).0.remove(&id.into_u64());
        }
        is_last
    }

    fn current_span(&self) -> Current {
        Current::none()
    }
}
