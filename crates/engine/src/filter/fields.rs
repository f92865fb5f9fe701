//! Fields of events by path, for those who read a few of each event: a path is looked up once for each event class, and
//! an event is visited once for all of its paths. Integers and texts at fixed places are read without a visit.

use tracemill_codec::bits::Wide;
use tracemill_codec::plan::{DecoderState, Fault, FixedInteger, FixedText};
use tracemill_codec::value::Value;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{Encoding, FieldClassId, FieldKind, FieldPath, Schema};
use tracemill_semantics::Semantics;

use super::capture::{CapturedValues, StoredValue};
use super::keys::Wants;
use super::number::EventNumber;
use super::parser;
use super::resolve::{self, Detail, FieldPlace, PathPlace};
use super::syntax::{Path, PathHead};
use crate::event::Event;
use crate::session::Session;

/// Reads fields of the events of a session by path; for one thread.
pub struct FieldReader {
    /// By trace and event class.
    classes: Vec<Vec<Option<Box<ClassFields>>>>,
    /// By trace.
    semantics: Vec<Option<Semantics>>,
    state: DecoderState,
    indices: Vec<u64>,
}

/// The paths that were asked of an event class.
#[derive(Default)]
struct ClassFields {
    paths: Vec<(Box<str>, Access)>,
    /// Fields that are captured together.
    places: Vec<(PathPlace, Detail)>,
    wants: Wants,
}

/// Where a path leads in the events of a class.
#[derive(Clone, Copy)]
pub enum Access {
    /// Nowhere.
    Absent,
    /// To something that is no field.
    Head(PathHead),
    /// To an integer at a fixed place.
    Fixed(FixedInteger, FieldClassId),
    /// To a text at a fixed place, in UTF-8 or what a trace wrongly says is that.
    FixedText(FixedText, FieldClassId),
    /// To a field that is captured; its index in [`Captured`].
    Field(usize, FieldClassId),
}

/// Stands for a path to the number of the thread that an event is of, as [`tracemill_semantics`] answers it.
pub const THREAD: &str = "(thread)";

/// Values of an event that were read in one go.
#[derive(Default)]
pub struct Captured(CapturedValues);

/// A value of [`Captured`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CapturedValue<'a> {
    /// An integer.
    Integer(i128),
    /// An integer that does not fit 128 bits.
    Wide(&'a Wide),
    /// A floating point number.
    Real(f64),
    /// A boolean.
    Boolean(bool),
    /// A text; UTF-8, or the bytes as they are where a trace says so wrongly.
    Text(&'a [u8]),
    /// Bytes, an array, a structure or a variant: [`FieldReader::tree`] reads it.
    Tree,
}

impl FieldReader {
    /// A reader that has not been asked yet.
    pub fn new(session: &Session) -> Self {
        let classes = |count: usize| std::iter::repeat_with(|| None).take(count).collect();
        FieldReader {
            classes: session.traces.iter().map(|trace| classes(trace.schema.events().len())).collect(),
            semantics: vec![None; session.traces.len()],
            state: DecoderState::default(),
            indices: Vec::new(),
        }
    }

    /// Where a path leads in the events of this class. What is no path leads nowhere.
    #[inline]
    pub fn find(&mut self, event: &Event<'_>, path: &str) -> Access {
        let class = &mut self.classes[event.trace][event.raw.class().0 as usize];
        let known = class.as_ref().and_then(|class| class.paths.iter().find(|(known, _)| **known == *path));
        match known {
            Some((_, access)) => *access,
            None => class.get_or_insert_default().add(event, path, &mut self.semantics[event.trace]),
        }
    }

    /// The field of a path in the events of this class, found by its structure instead of its text. Each call counts as
    /// one more path.
    pub fn find_field(&mut self, event: &Event<'_>, path: &FieldPath) -> Access {
        let schema = event.raw.chunk.packet.plans.schema();
        let Some(place) = FieldPlace::resolve(schema, event.raw.class(), path) else { return Access::Absent };
        self.classes[event.trace][event.raw.class().0 as usize].get_or_insert_default().add_field(event, place)
    }

    /// Reads all fields that were asked of events of this class so far.
    pub fn capture(&mut self, event: &Event<'_>, captured: &mut Captured) {
        let FieldReader { classes, state, indices, .. } = self;
        let Some(class) = &classes[event.trace][event.raw.class().0 as usize] else { return };
        class.wants.capture(event.raw, class.places.len(), &mut captured.0, state, indices);
    }

    /// Reads one captured field as a tree of values; `None` when the event does not have it.
    ///
    /// # Errors
    /// When the event cannot be decoded.
    pub fn tree(&self, event: &Event<'_>, index: usize) -> Result<Option<Value>> {
        let class = &self.classes[event.trace][event.raw.class().0 as usize];
        let place = class.as_ref().and_then(|class| class.places.get(index));
        let Some((PathPlace::Field(place), _)) = place else { return Ok(None) };
        let schema = event.raw.chunk.packet.plans.schema();
        let values = event.raw.values(place.scope).map_err(|fault| damage(event, fault))?;
        let root = schema.scope_root(place.scope, event.raw.class());
        Ok(values.zip(root).and_then(|(values, root)| place.value(schema, root, values)))
    }
}

/// The error that a field is which can no longer be read.
pub fn damage(event: &Event<'_>, fault: Fault) -> Error {
    let data = &event.raw.chunk.packet;
    let error = Error::from(fault).in_event(event.class().name.as_deref().unwrap_or("(no name)"));
    error.at_bit(data.file_bit(fault.at_bits)).in_packet(data.packet.index)
}

impl ClassFields {
    #[cold]
    fn add(&mut self, event: &Event<'_>, text: &str, semantics: &mut Option<Semantics>) -> Access {
        let schema = event.raw.chunk.packet.plans.schema();
        let class = event.raw.class();
        let place = match text {
            THREAD => semantics
                .get_or_insert_with(|| Semantics::new(schema))
                .who(class)
                .id
                .and_then(|path| FieldPlace::resolve(schema, class, &path)),
            _ => None,
        };
        let place = place.map(PathPlace::Field);
        let access = match place.or_else(|| resolve::resolve(schema, class, &one_path(text)?).ok()) {
            None | Some(PathPlace::Absent) => Access::Absent,
            Some(PathPlace::Spine(head)) => Access::Head(head),
            Some(PathPlace::Field(place)) => self.add_field(event, place),
        };
        self.paths.push((text.into(), access));
        access
    }

    fn add_field(&mut self, event: &Event<'_>, place: FieldPlace) -> Access {
        let (class, index) = (place.class, self.places.len());
        let detail = place.detail(event.raw.chunk.packet.plans.schema());
        self.places.push((PathPlace::Field(place), detail));
        let all = Wants::new(event.raw, self.places.iter().map(|(place, detail)| (place, detail)));
        // Events over a spine may end before their last field.
        let is_whole = event.raw.chunk.packet.spine.is_none();
        let is_plain = matches!(self.places[index].1, Detail::Text(Encoding::Utf8));
        let integer = all.fixed(event.raw, index).map(|fixed| Access::Fixed(fixed, class));
        let text = || all.fixed_text(event.raw, index).map(|fixed| Access::FixedText(fixed, class));
        if let Some(fixed) = integer.or_else(|| text().filter(|_| is_plain)).filter(|_| is_whole) {
            self.places.pop();
            return fixed;
        }
        self.wants = all;
        Access::Field(index, class)
    }
}

fn one_path(text: &str) -> Option<Path> {
    match parser::parse_paths(text).ok()?.as_slice() {
        [path] => Some(path.clone()),
        _ => None,
    }
}

/// Checks that some event class of a session has a field of this path.
///
/// # Errors
/// When the text is no path, or no event class has it; with the place in the text, and the paths that come near.
pub fn check_path(session: &Session, text: &str) -> Result<()> {
    let paths = super::ColumnList::parse(text)?.bind(session)?;
    match paths.names().count() {
        1 => Ok(()),
        _ => Err(Error::misuse(format!("`{text}` is not a path of one field"))),
    }
}

impl Captured {
    /// The value at an index, `None` when the event does not have it.
    #[inline]
    pub fn get(&self, index: usize) -> Option<CapturedValue<'_>> {
        Some(match self.0.get(index)? {
            StoredValue::Number(EventNumber::Int(value)) => CapturedValue::Integer(*value),
            StoredValue::Number(EventNumber::Real(value)) => CapturedValue::Real(*value),
            StoredValue::Number(EventNumber::Wide(value)) => CapturedValue::Wide(value),
            StoredValue::Bool(value) => CapturedValue::Boolean(*value),
            StoredValue::Text(begin, end) => CapturedValue::Text(self.0.text(*begin, *end)),
            StoredValue::Other(_) => CapturedValue::Tree,
        })
    }

    /// Was it captured before the path of this index was asked for?
    pub fn lacks(&self, index: usize) -> bool {
        index >= self.0.len()
    }
}

impl FieldPlace {
    /// The value at this place of the tree of values of its scope.
    fn value(&self, schema: &Schema, root: FieldClassId, mut value: Value) -> Option<Value> {
        let mut class = root;
        for (child, element) in self.steps() {
            (class, value) = match (&schema.field_class(class).kind, value) {
                (FieldKind::Optional(optional), value) => (optional.content, value),
                (FieldKind::Struct(of), Value::Struct(mut members)) if child < members.len() => {
                    (of.members.get(child)?.class, members.swap_remove(child).1)
                }
                (FieldKind::Struct(of), Value::List(mut members)) if child < members.len() => {
                    (of.members.get(child)?.class, members.swap_remove(child))
                }
                (FieldKind::Variant(of), Value::Option(chosen, _, value)) if chosen == child => {
                    (of.options.get(child)?.class, *value)
                }
                (FieldKind::Array(of), Value::List(mut elements)) => {
                    let at = usize::try_from(element?).ok().filter(|&at| at < elements.len())?;
                    (of.element, elements.swap_remove(at))
                }
                _ => return None,
            };
        }
        (!value.is_null()).then_some(value)
    }
}
