//! The classes of events: by phase, name, and the shape of what they hold.

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_codec::text::marks::{MarkMap, mix, mix_bytes};
use tracemill_format::json::{Refused, TapeToken, TokenKind, TokenWalk, ValueShape};
use tracemill_model::schema::{
    CallHalf, ClockClass, EventClass, EventClassId, FieldClass, FieldClassId, FieldKind, IntegerClass, Member, Render,
    RenderedClass, Schema, StreamClass, StreamClassId, StringClass, StructClass,
};

use super::event::EventObject;

/// Classes of a file; events of others are kept as text.
const MAX_CLASSES: usize = 1 << 14;
/// Fields of all classes.
const MAX_FIELDS: usize = 1 << 19;

/// The beginning and the end of a slice whose name stands in a field.
pub(super) const SLICE: (&str, &str) = ("slice_entry", "slice_exit");
/// The member with that name.
pub(super) const SYMBOL: &str = "symbol";

/// The part that an event plays, by its phase.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum PhasePart {
    /// `B`, `X`: a slice begins.
    Entry,
    /// `E`, the end of an `X`.
    Exit,
    /// `b`, `S`: a span begins, which may end on another thread.
    SpanEntry,
    /// `e`, `F`.
    SpanClose,
    /// `C`: values of counters.
    Counter,
    /// `s`, `t`, `f`: a step of a flow.
    Flow,
    /// All others.
    Instant,
}

impl PhasePart {
    /// The part of a phase.
    pub(super) fn from_phase(phase: u8) -> PhasePart {
        match phase {
            b'B' | b'X' => PhasePart::Entry,
            b'E' => PhasePart::Exit,
            b'b' | b'S' => PhasePart::SpanEntry,
            b'e' | b'F' => PhasePart::SpanClose,
            b'C' => PhasePart::Counter,
            b's' | b't' | b'f' => PhasePart::Flow,
            _ => PhasePart::Instant,
        }
    }

    /// The name of the class of events of a name.
    fn class_name(self, name: &str) -> String {
        match self {
            PhasePart::Exit if name.is_empty() => return SLICE.1.into(),
            PhasePart::SpanClose if name.is_empty() => return "span_close".into(),
            _ => {}
        }
        let name = if name.is_empty() { "unnamed" } else { name };
        match self {
            PhasePart::Entry | PhasePart::SpanEntry => format!("{name}_entry"),
            PhasePart::Exit => format!("{name}_exit"),
            PhasePart::SpanClose => format!("{name}_close"),
            PhasePart::Counter => format!("{name}_counter"),
            PhasePart::Flow | PhasePart::Instant => name.into(),
        }
    }
}

/// An event that was read, with the buffers that it refers to.
#[derive(Default)]
pub(super) struct ReadEvent {
    pub(super) object: EventObject,
    pub(super) tokens: Vec<TapeToken>,
    pub(super) rest: Vec<(usize, usize)>,
}

/// A class.
#[derive(Debug)]
pub(super) struct ChromeClass {
    name: String,
    part: PhasePart,
    /// Is it for events beyond the limits, which are kept as text?
    is_text: bool,
    rest: Vec<(String, ValueShape)>,
    args: Option<ValueShape>,
    has_flow: bool,
    has_span: bool,
    pub(super) id: EventClassId,
}

/// The classes of a file.
#[derive(Debug, Default)]
pub(super) struct ChromeClasses {
    by_mark: MarkMap<usize>,
    classes: Vec<ChromeClass>,
    fields: usize,
    /// Did tracemill write the file? Arguments have members for scopes then.
    pub(super) is_own: bool,
}

/// The scopes that stand in arguments of files that tracemill wrote.
const SCOPES: [&str; 3] = ["stream_context", "event_context", "payload"];

impl ChromeClasses {
    fn mark(event: &ReadEvent, bytes: &[u8], part: PhasePart) -> u64 {
        let object = &event.object;
        let mark = mix(mix_bytes(part as u64, &object.name(bytes)), u64::from(object.phase));
        // The end of an `X` has nothing of its own.
        if object.phase == b'X' && part == PhasePart::Exit {
            return mark;
        }
        let has =
            u64::from(object.args.is_some()) | u64::from(object.bind_mark != 0) << 1 | u64::from(object.has_id) << 2;
        mix(mix(mix(mark, object.rest_mark), object.args_mark), has)
    }

    /// Takes in an event as this part.
    pub(super) fn take_in(&mut self, event: &ReadEvent, bytes: &[u8], part: PhasePart) -> Result<(), Refused> {
        let mark = ChromeClasses::mark(event, bytes, part);
        match self.by_mark.get(&mark) {
            Some(&class) => self.classes[class].add(event, bytes),
            None => {
                let class = self.new_class(event, bytes, part)?;
                self.by_mark.insert(mark, class);
                Ok(())
            }
        }
    }

    fn new_class(&mut self, event: &ReadEvent, bytes: &[u8], part: PhasePart) -> Result<usize, Refused> {
        if self.classes.len() >= MAX_CLASSES || self.fields >= MAX_FIELDS {
            let known = self.classes.iter().position(|class| class.is_text && class.part == part);
            if let Some(known) = known {
                return Ok(known);
            }
            let name = match part {
                PhasePart::Entry => SLICE.0.to_string(),
                PhasePart::Exit => SLICE.1.to_string(),
                part => part.class_name("event"),
            };
            let class = ChromeClass {
                name,
                part,
                is_text: true,
                rest: Vec::new(),
                args: None,
                has_flow: false,
                has_span: false,
                id: EventClassId(0),
            };
            self.classes.push(class);
            return Ok(self.classes.len() - 1);
        }
        let object = &event.object;
        let is_end_of_x = object.phase == b'X' && part == PhasePart::Exit;
        let mut shape =
            |at: usize| ValueShape::infer(&mut TokenWalk { line: bytes, tokens: &event.tokens, at }, &mut self.fields);
        let mut rest = Vec::new();
        for &(key, value) in event.rest.iter().filter(|_| !is_end_of_x) {
            let key = String::from_utf8_lossy(&event.tokens[key].text(bytes)).into_owned();
            rest.push((key, shape(value)?));
        }
        let args = object.args.filter(|_| !is_end_of_x).map(&mut shape).transpose()?;
        let name = String::from_utf8_lossy(&object.name(bytes)).into_owned();
        self.classes.push(ChromeClass {
            name: part.class_name(&name),
            part,
            is_text: false,
            rest,
            args,
            has_flow: part == PhasePart::Flow || object.bind_mark != 0 && part == PhasePart::Entry,
            has_span: matches!(part, PhasePart::SpanEntry | PhasePart::SpanClose),
            id: EventClassId(0),
        });
        Ok(self.classes.len() - 1)
    }

    /// The class of an event that was taken in before.
    pub(super) fn find(&self, event: &ReadEvent, bytes: &[u8], part: PhasePart) -> Option<&ChromeClass> {
        self.classes.get(*self.by_mark.get(&ChromeClasses::mark(event, bytes, part))?)
    }

    /// The schema, and its one stream class.
    pub(super) fn schema(&mut self, clock: ClockClass, names: &TrackNames) -> (Schema, StreamClassId) {
        let mut schema = Schema::new("chrome");
        let clock = schema.add_clock(clock);
        let mut number = |signed| {
            let class = IntegerClass { signed, ..IntegerClass::unsigned(64) };
            schema.add_field_class(FieldClass::new(FieldKind::Integer(class), 8))
        };
        let (signed, unsigned) = (number(true), number(false));
        let text = schema.add_field_class(FieldClass::new(FieldKind::String(StringClass::utf8()), 8));
        let mut members = vec![Member::new("pid", signed), Member::new("tid", signed)];
        for (name, of, is_thread) in [("comm", &names.threads, true), ("process_name", &names.processes, false)] {
            if !of.is_empty() {
                let render: Arc<dyn Render> = Arc::new(NameOf { names: of.clone(), is_thread });
                let kind = FieldKind::Rendered(RenderedClass { len_bytes: 0, render });
                members.push(Member::new(name, schema.add_field_class(FieldClass::new(kind, 8))));
            }
        }
        let common = structure(&mut schema, members);
        let class = StreamClass {
            has_no_id: true,
            default_clock: Some(clock),
            common_context: Some(common),
            ..StreamClass::default()
        };
        let stream = schema.add_twin_stream(class);
        for (at, class) in self.classes.iter_mut().enumerate() {
            class.rest.iter_mut().for_each(|(_, shape)| shape.finish());
            class.args.iter_mut().for_each(ValueShape::finish);
            let (mut context, mut payload) = (vec![Member::new("ph", text)], Vec::new());
            if class.is_text {
                payload.extend([Member::new(SYMBOL, text), Member::new("event", text)]);
            }
            for (name, shape) in &class.rest {
                context.push(Member::new(name.as_str(), shape.class(&mut schema)));
            }
            if class.has_flow {
                context.push(Member::new("flow_id", unsigned));
            }
            match &class.args {
                Some(ValueShape::Struct(members)) => {
                    let is_scoped = |(name, shape): &(Arc<str>, ValueShape)| {
                        SCOPES.contains(&&**name) && matches!(shape, ValueShape::Struct(_))
                    };
                    let is_scoped = self.is_own && members.iter().all(is_scoped) && !members.is_empty();
                    for (name, shape) in members {
                        match shape {
                            ValueShape::Struct(inner) if is_scoped => {
                                let to = if **name == *SCOPES[2] { &mut payload } else { &mut context };
                                to.extend(
                                    inner
                                        .iter()
                                        .map(|(name, shape)| Member::new(name.clone(), shape.class(&mut schema))),
                                );
                            }
                            _ => payload.push(Member::new(name.clone(), shape.class(&mut schema))),
                        }
                    }
                }
                Some(shape) => payload.push(Member::new("args", shape.class(&mut schema))),
                None => {}
            }
            if class.has_span {
                payload.push(Member::new("span_id", unsigned));
            }
            let call = match class.part {
                // Names of these stand in a field, or nowhere.
                PhasePart::Entry | PhasePart::Exit if class.is_text || class.name == SLICE.1 => None,
                PhasePart::Entry => Some(CallHalf::Entry),
                PhasePart::Exit => Some(CallHalf::Exit),
                _ => None,
            };
            let context = structure(&mut schema, context);
            let payload = (!payload.is_empty()).then(|| structure(&mut schema, payload));
            class.id = schema.add_twin_event(EventClass {
                name: Some(class.name.as_str().into()),
                specific_context: Some(context),
                payload,
                call,
                ..EventClass::new(at as u64, stream)
            });
        }
        (schema, stream)
    }
}

impl ChromeClass {
    fn add(&mut self, event: &ReadEvent, bytes: &[u8]) -> Result<(), Refused> {
        let walk = |at| TokenWalk { line: bytes, tokens: &event.tokens, at };
        // Classes of text, and ends of `X`, have no shapes.
        for ((_, shape), (_, value)) in self.rest.iter_mut().zip(&event.rest) {
            shape.add(&mut walk(*value))?;
        }
        match (&mut self.args, event.object.args) {
            (Some(shape), Some(at)) => shape.add(&mut walk(at)),
            _ => Ok(()),
        }
    }

    /// Appends an event: its contexts and payload.
    pub(super) fn write(&self, event: &ReadEvent, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
        let object = &event.object;
        out.extend_from_slice(&object.pid.to_le_bytes());
        out.extend_from_slice(&object.tid.to_le_bytes());
        out.extend_from_slice(&[object.phase, 0]);
        if self.is_text {
            put_text(&object.name(bytes), out);
            put_text(&bytes[..object.len.min(bytes.len())], out);
            return Ok(());
        }
        let walk = |at| TokenWalk { line: bytes, tokens: &event.tokens, at };
        for ((_, shape), (_, value)) in self.rest.iter().zip(&event.rest) {
            shape.encode(&mut walk(*value), out)?;
        }
        if self.has_flow {
            let mark = if self.part == PhasePart::Flow { object.id_mark } else { object.bind_mark };
            out.extend_from_slice(&(mark >> 1).to_le_bytes());
        }
        if let (Some(shape), Some(at)) = (&self.args, object.args) {
            shape.encode(&mut walk(at), out)?;
        }
        if self.has_span {
            // A span is known by its name, ids and category.
            let process = if object.is_local { object.pid as u64 } else { 0 };
            let mark = mix(mix_bytes(object.id_mark, &object.name(bytes)), process);
            out.extend_from_slice(&(mark >> 1).to_le_bytes());
        }
        Ok(())
    }
}

/// Appends a text, which ends at its first zero.
fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend(text.iter().take_while(|byte| **byte != 0));
    out.push(0);
}

fn structure(schema: &mut Schema, members: Vec<Member>) -> FieldClassId {
    schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8))
}

/// Names of threads and processes, as events of the phase `M` say them; the last one counts.
#[derive(Debug, Default)]
pub(super) struct TrackNames {
    pub(super) threads: Arc<HashMap<(i64, i64), Arc<str>>>,
    pub(super) processes: Arc<HashMap<(i64, i64), Arc<str>>>,
}

/// The name of the thread or the process of an event.
#[derive(Debug)]
struct NameOf {
    names: Arc<HashMap<(i64, i64), Arc<str>>>,
    is_thread: bool,
}

impl NameOf {
    fn name_of(&self, event: &[u8]) -> Option<&str> {
        let number = |at: usize| Some(i64::from_le_bytes(*event.get(at..)?.first_chunk()?));
        let (pid, tid) = (number(0)?, number(8)?);
        self.names.get(&(pid, if self.is_thread { tid } else { 0 })).map(|name| &**name)
    }
}

impl Render for NameOf {
    fn render(&self, event: &[u8], _own: &[u8], out: &mut Vec<u8>) -> bool {
        let name = self.name_of(event);
        out.extend_from_slice(name.unwrap_or_default().as_bytes());
        name.is_some()
    }
}

/// The first argument of an event, when it is a text or a number.
pub(super) fn first_argument(event: &ReadEvent, bytes: &[u8]) -> Option<(String, String)> {
    let at = event.object.args?;
    let (key, value) = (event.tokens.get(at + 1)?, event.tokens.get(at + 2)?);
    let is_plain = matches!(
        value.kind,
        TokenKind::Text | TokenKind::Escaped | TokenKind::Special | TokenKind::Int | TokenKind::Float
    );
    let text = |token: &TapeToken| String::from_utf8_lossy(&token.text(bytes)).into_owned();
    (key.kind == TokenKind::Key && is_plain).then(|| (text(key), text(value)))
}
