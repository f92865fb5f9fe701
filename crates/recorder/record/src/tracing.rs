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
//! recorded later is an event `NAME_record`, a span that it follows `NAME_follows`, and its end, when no handle is left,
//! `NAME_close`. All of these have its number, `span_id`, which no other span of the process has; `NAME_entry` also has that of
//! its parent, `parent_span_id`, which is 0 for a root. An event whose parent is given explicitly has `parent_span_id` as well;
//! others belong to the span that their thread is in. Classes have the level. `u64`, `i64`, `f64`, `bool` and texts are fields as such;
//! numbers of 128 bits, and what only `Debug` can show, are texts. Of a call site with more than 32 fields the first 32 are
//! recorded.

mod spans;

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing_core::field::{Field, Visit};
use tracing_core::span::Record;
use tracing_core::{Event, Metadata};

use crate::encoded::{Encoded, EncodedTwo};
use crate::field::{FieldClass, LONGEST_TEXT, cut};
use crate::inline_buf::InlineBuf;
use crate::local;
use crate::metadata::CallHalf;
use crate::ring::RingWriter;
use crate::ring::write::write;
use crate::rules::Level;
use crate::site::Site;

pub use spans::{Layer, Subscriber};

/// Most fields of one event, and of one call site: `tracing` allows more, but those beyond are left out.
const MAX_FIELDS: usize = 32;

/// A value's class, in three bits.
type ValueKind = u8;
const KINDS: [FieldClass; 5] =
    [FieldClass::Unsigned(64), FieldClass::Signed(64), FieldClass::Float(64), FieldClass::Bool, FieldClass::Text];

/// The fields of an event that have values, and of what kind those are: a byte of each, the last one lowest, and 0 above them.
/// The first number has eight of them, and is appended to the others when it is full: so two keys of few fields are
/// compared as one number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FieldsKey([u64; MAX_FIELDS / 8]);

/// The fields of an event: which ones have values, and those as the bytes of an event.
struct FieldValues {
    key: FieldsKey,
    bytes: SmallBytes,
    /// Was there one that only `Debug` can show?
    has_shown: bool,
}

/// Bytes that are few in nearly all events: those need no memory but the stack.
struct SmallBytes {
    few: [u8; FEW],
    /// How many of them there are; [`MANY_BYTES`] when all are elsewhere.
    len: usize,
    many: Option<Vec<u8>>,
}

const FEW: usize = 64;
/// More than any array has.
const MANY_BYTES: usize = usize::MAX;

thread_local! {
    /// Memory for the next event with many bytes. A signal handler that interrupts an event finds none, and takes its own.
    static MANY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl FieldsKey {
    const EMPTY: FieldsKey = FieldsKey([0; MAX_FIELDS / 8]);

    /// Is it that of few fields, whose first number this is?
    #[inline(always)]
    fn is_first(&self, first: u64) -> bool {
        self.0[0] == first && self.0[1] == 0
    }

    /// Notes a field. `false` when it stands after too many others, as a number or by its place: a byte has room for no more.
    #[inline(always)]
    fn add(&mut self, field: &Field, kind: ValueKind) -> bool {
        let index = field.index();
        if index >= MAX_FIELDS || self.0[0] >> 56 != 0 && !self.make_room() {
            return false;
        }
        self.0[0] = self.0[0] << 8 | (index as u64) << 3 | u64::from(kind + 1);
        true
    }

    #[cold]
    fn make_room(&mut self) -> bool {
        let has_room = self.0[self.0.len() - 1] == 0;
        if has_room {
            self.0.rotate_right(1);
        }
        has_room
    }

    #[inline(always)]
    fn is_same(&self, other: &FieldsKey) -> bool {
        self.0[0] == other.0[0] && (self.0[1] | other.0[1] == 0 || self == other)
    }

    /// The numbers of the fields, and their kinds.
    fn fields(&self) -> impl Iterator<Item = (usize, ValueKind)> {
        let bytes = self.0.into_iter().rev().flat_map(u64::to_be_bytes).filter(|byte| *byte != 0);
        bytes.map(|byte| (usize::from(byte >> 3), (byte & 7) - 1))
    }
}

impl SmallBytes {
    const fn new() -> SmallBytes {
        SmallBytes { few: [0; FEW], len: 0, many: None }
    }

    /// Appends bytes of a number.
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        match self.few.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut()) {
            Some(place) => {
                *place = bytes;
                self.len += N;
            }
            None => self.extend_many(&bytes),
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        match self.few.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len())) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.extend_many(bytes),
        }
    }

    /// Appends a text with its length before it, cut where that is wanted.
    fn put_text(&mut self, text: &str) {
        let text = cut(text);
        self.put((text.len() as u32).to_le_bytes());
        self.extend(text);
    }

    /// Appends the text that a value shows: in its place, as long as that has room.
    fn show(&mut self, value: &dyn fmt::Debug) {
        let room = self.few.get_mut(self.len..).and_then(|rest| rest.split_at_mut_checked(4));
        let (length, few) = room.unwrap_or_default();
        let mut shown = DebugText { few, len: 0, many: String::new() };
        // A value that cannot be shown ends where it failed.
        let _ = write!(shown, "{value:?}");
        let DebugText { few, len, many } = shown;
        if many.is_empty() && !length.is_empty() && len <= LONGEST_TEXT.load(Ordering::Relaxed) {
            length.copy_from_slice(&(len as u32).to_le_bytes());
            self.len += 4 + len;
            return;
        }
        let many = if many.is_empty() { String::from_utf8_lossy(&few[..len]).into_owned() } else { many };
        self.put_text(&many);
    }

    #[cold]
    #[inline(never)]
    fn extend_many(&mut self, bytes: &[u8]) {
        let (few, len) = (&self.few, &mut self.len);
        let many = self.many.get_or_insert_with(|| {
            let mut many = MANY.take();
            many.clear();
            many.extend_from_slice(&few[..*len]);
            *len = MANY_BYTES;
            many
        });
        many.extend_from_slice(bytes);
    }

    fn all(&self) -> &[u8] {
        self.many.as_deref().or_else(|| self.few.get(..self.len)).unwrap_or_default()
    }
}

/// The text of a value, while it is few bytes in their place.
struct DebugText<'a> {
    few: &'a mut [u8],
    len: usize,
    /// All of it, when it is more.
    many: String,
}

impl fmt::Write for DebugText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.many.is_empty() {
            if let Some(place) = self.few.get_mut(self.len..).and_then(|rest| rest.get_mut(..text.len())) {
                place.copy_from_slice(text.as_bytes());
                self.len += text.len();
                return Ok(());
            }
            self.many.push_str(&String::from_utf8_lossy(&self.few[..self.len]));
        }
        self.many.push_str(text);
        Ok(())
    }
}

impl FieldValues {
    const fn new() -> FieldValues {
        FieldValues { key: FieldsKey::EMPTY, bytes: SmallBytes::new(), has_shown: false }
    }

    /// Values that begin with these numbers of spans.
    #[inline(always)]
    fn with_numbers<const N: usize>(numbers: [u64; N]) -> FieldValues {
        let mut values = FieldValues::new();
        numbers.into_iter().for_each(|number| values.bytes.put(number.to_le_bytes()));
        values
    }

    /// Keeps memory for the next event of the thread.
    fn give_back(&mut self) {
        if let Some(many) = self.bytes.many.take() {
            MANY.set(many);
        }
    }

    #[inline(always)]
    fn add<const N: usize>(&mut self, field: &Field, kind: ValueKind, bytes: [u8; N]) {
        if self.key.add(field, kind) {
            self.bytes.put(bytes);
        }
    }
}

impl Visit for FieldValues {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, 0, value.to_le_bytes());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, 1, value.to_le_bytes());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, 2, value.to_le_bytes());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, 3, [value.into()]);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if self.key.add(field, 4) {
            self.bytes.put_text(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.has_shown = true;
        if self.key.add(field, 4) {
            self.bytes.show(value);
        }
    }
}

/// The values of an event that are numbers and short texts, of a place with few fields: nearly all of them are. What takes
/// them is small, since it is called for each.
struct Plain {
    /// The first number of a [`FieldsKey`].
    key: u64,
    /// Closed when there are other values among them.
    bytes: InlineBuf,
}

impl Plain {
    /// Most fields of a place whose events may be plain: a key of more is more than a number.
    const FIELDS: usize = 8;

    /// As [`FieldsKey::add`].
    #[inline(always)]
    fn add<const N: usize>(&mut self, field: &Field, kind: ValueKind, bytes: [u8; N]) {
        match self.bytes.put(bytes) {
            true => self.key = self.key << 8 | (field.index() as u64) << 3 | u64::from(kind + 1),
            false => self.bytes.close(),
        }
    }
}

impl Visit for Plain {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, 0, value.to_le_bytes());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, 1, value.to_le_bytes());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, 2, value.to_le_bytes());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, 3, [value.into()]);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text = cut(value);
        self.add(field, 4, (text.len() as u32).to_le_bytes());
        if !self.bytes.put_bytes(text) {
            self.bytes.close();
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {
        self.bytes.close();
    }
}

/// The kinds of events of a call site, which differ in their names and in the numbers of spans that they begin with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallSiteKind {
    Event,
    /// An event whose parent is given explicitly.
    EventOfSpan,
    Entry,
    Exit,
    Late,
    Follows,
    Close,
}

impl CallSiteKind {
    fn suffix(self) -> &'static str {
        match self {
            CallSiteKind::Event | CallSiteKind::EventOfSpan | CallSiteKind::Entry | CallSiteKind::Exit => "",
            CallSiteKind::Late => "_record",
            CallSiteKind::Follows => "_follows",
            CallSiteKind::Close => "_close",
        }
    }

    fn call(self) -> CallHalf {
        match self {
            CallSiteKind::Entry => CallHalf::Entry,
            CallSiteKind::Exit => CallHalf::Exit,
            _ => CallHalf::None,
        }
    }

    /// Names of the fields before those of the call site.
    fn numbers(self) -> &'static [&'static str] {
        match self {
            CallSiteKind::Event => &[],
            CallSiteKind::EventOfSpan => &["parent_span_id"],
            CallSiteKind::Entry => &["span_id", "parent_span_id"],
            CallSiteKind::Exit | CallSiteKind::Late | CallSiteKind::Close => &["span_id"],
            CallSiteKind::Follows => &["span_id", "follows_span_id"],
        }
    }
}

/// One way in which a call site fills its fields, and the class for it. Nearly all have one.
struct Variant {
    key: FieldsKey,
    /// Are there few fields, and no values that must be shown?
    is_plain: bool,
    site: Site,
    classes: &'static [FieldClass],
    next: Variants,
}

/// The first of a list that only grows.
#[derive(Default)]
struct Variants(OnceLock<Box<Variant>>);

impl Variants {
    /// Records an event of a class that fits its values.
    fn record(&'static self, place: &'static Metadata<'static>, part: CallSiteKind, values: &FieldValues) {
        let mut list = self;
        loop {
            let variant = list.0.get_or_init(|| Box::new(Variant::new(place, part, values)));
            if variant.key.is_same(&values.key) {
                return variant.site.record_encoded(variant.classes, values.bytes.all());
            }
            list = &variant.next;
        }
    }
}

impl Variant {
    fn new(place: &'static Metadata<'static>, part: CallSiteKind, values: &FieldValues) -> Variant {
        let names: Vec<&'static str> = place.fields().iter().map(|field| field.name()).collect();
        let own = values.key.fields().map(|(index, _)| names.get(index).copied().unwrap_or_default());
        let fields = part.numbers().iter().copied().chain(own);
        let numbers = part.numbers().iter().map(|_| FieldClass::Unsigned(64));
        let classes = numbers.chain(values.key.fields().map(|(_, kind)| KINDS[usize::from(kind)]));
        let classes = classes.collect::<Vec<_>>().leak();
        let name = format!("{}{}", place.name(), part.suffix()).leak();
        Variant {
            key: values.key,
            is_plain: !values.has_shown && place.fields().len() <= Plain::FIELDS,
            site: Site::new(place.target(), name, part.call(), fields.collect::<Vec<_>>().leak())
                .with_level(level(place)),
            classes,
            next: Variants::default(),
        }
    }
}

/// The recorder's levels, in the same order.
fn level(place: &Metadata<'_>) -> Level {
    match *place.level() {
        tracing_core::Level::ERROR => Level::Error,
        tracing_core::Level::WARN => Level::Warning,
        tracing_core::Level::INFO => Level::Info,
        tracing_core::Level::DEBUG => Level::Debug,
        tracing_core::Level::TRACE => Level::Trace,
    }
}

/// A place in the program, for ever.
struct CodePlace {
    metadata: &'static Metadata<'static>,
    parts: [Variants; 7],
}

impl CodePlace {
    fn new(metadata: &'static Metadata<'static>) -> CodePlace {
        CodePlace { metadata, parts: Default::default() }
    }

    fn part(&'static self, part: CallSiteKind) -> &'static Variants {
        &self.parts[part as usize]
    }

    /// Records an event whose values begin with the numbers that such events have.
    fn record(&'static self, part: CallSiteKind, values: &FieldValues) {
        self.part(part).record(self.metadata, part, values);
    }

    /// Records an event of nothing but numbers.
    fn record_numbers<const N: usize>(&'static self, part: CallSiteKind, numbers: [u64; N]) {
        self.record(part, &FieldValues::with_numbers(numbers));
    }

    fn record_late(&'static self, id: u64, record: &Record<'_>) {
        let mut values = FieldValues::with_numbers([id]);
        record.record(&mut values);
        self.record(CallSiteKind::Late, &values);
        values.give_back();
    }
}

/// Places by the address of their metadata: found without a lock.
static PLACES: [OnceLock<CodePlace>; 4096] = [const { OnceLock::new() }; 4096];
/// Places for which there is no room.
static MORE: Mutex<Option<HashMap<usize, &'static CodePlace>>> = Mutex::new(None);
/// Steps in search of a free place.
const STEPS: usize = 64;

#[inline(always)]
fn place(metadata: &'static Metadata<'static>) -> &'static CodePlace {
    match PLACES[first_step(metadata)].get() {
        Some(place) if std::ptr::eq(place.metadata, metadata) => place,
        _ => find_place(metadata),
    }
}

#[inline(always)]
fn first_step(metadata: &'static Metadata<'static>) -> usize {
    ((std::ptr::from_ref(metadata) as usize >> 3).wrapping_mul(0x9e37_79b9) >> 7) % PLACES.len()
}

#[cold]
#[inline(never)]
fn find_place(metadata: &'static Metadata<'static>) -> &'static CodePlace {
    let first = first_step(metadata);
    for step in 0..STEPS {
        let place = PLACES[(first + step) % PLACES.len()].get_or_init(|| CodePlace::new(metadata));
        if std::ptr::eq(place.metadata, metadata) {
            return place;
        }
    }
    let mut more = MORE.lock().unwrap_or_else(PoisonError::into_inner);
    let address = std::ptr::from_ref(metadata) as usize;
    more.get_or_insert_default().entry(address).or_insert_with(|| Box::leak(Box::new(CodePlace::new(metadata))))
}

/// Records an event of the span that it belongs to by the calls of its thread.
fn record_event(event: &Event<'_>) {
    let place = place(event.metadata());
    if let (Some(writer), Some(variant)) = (local::writer(), place.part(CallSiteKind::Event).0.get())
        && variant.is_plain
    {
        // Not moved: what was just written in small parts is slow to be read in larger ones.
        let mut plain = Plain { key: 0, bytes: InlineBuf::new() };
        event.record(&mut plain);
        if let Some(bytes) = plain.bytes.open()
            && variant.key.is_first(plain.key)
            && let Some(id) = variant.site.id_when_on()
        {
            let is_written = match <&[u8; 16]>::try_from(bytes) {
                // Two numbers: to know that saves more than a nanosecond.
                Ok(two) => write(writer, id, &EncodedTwo(two)),
                Err(_) => write_plain(writer, id, bytes),
            };
            if is_written {
                return;
            }
        }
    }
    record_values(place, event);
}

#[inline(never)]
fn write_plain(writer: &RingWriter, id: u32, bytes: &[u8]) -> bool {
    write(writer, id, &Encoded(bytes))
}

/// Records an event with values that must be shown or are many, or the first one of a thread, of a place, or of its kind.
#[inline(never)]
fn record_values(place: &'static CodePlace, event: &Event<'_>) {
    let mut values = FieldValues::new();
    event.record(&mut values);
    place.record(CallSiteKind::Event, &values);
    values.give_back();
}

/// Records an event whose parent was given explicitly; 0 when that is none.
#[cold]
fn record_event_of(span: u64, event: &Event<'_>) {
    let mut values = FieldValues::with_numbers([span]);
    event.record(&mut values);
    place(event.metadata()).record(CallSiteKind::EventOfSpan, &values);
    values.give_back();
}
