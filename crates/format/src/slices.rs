//! Events that name themselves and hold values of any shape: slices, spans, counters, flows and instants. Their classes are
//! by phase, name, and the shape of what they hold.
//!
//! For formats of timelines, whose phases are letters as in trace JSON of Chrome: `B` and `E` begin and end a slice, `X` is
//! both, `b` and `e` are the ends of a span, `C` is a counter, `s`, `t` and `f` are steps of a flow.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use tracemill_semantics::names as usual;

use crate::json::{Refused, TapeToken, TokenKind, TokenWalk, ValueShape, put_json};
use tracemill_codec::text::marks::{MarkMap, mix, mix_bytes};
use tracemill_model::schema::{
    CallHalf, ClockId, EventClass, EventClassId, FieldClass, FieldClassId, FieldKind, IntegerClass, Member, Render,
    RenderedClass, Schema, StreamClass, StreamClassId, StringClass, StructClass,
};

/// Fields of the context of all events.
const PID: &str = usual::PROCESS[0];
const TID: &str = usual::THREAD[0];
const COMM: &str = usual::THREAD_NAME[1];

/// Classes of a file; events of others are kept as text.
const MAX_CLASSES: usize = 1 << 14;
/// Classes of a name with which another one of the name is compared.
const MAX_JOINED: usize = 64;
/// Fields of all classes.
const MAX_FIELDS: usize = 1 << 19;

/// The beginning and the end of a slice whose name stands in a field.
pub const SLICE: (&str, &str) = ("slice_entry", "slice_exit");
/// The member with that name.
pub const SYMBOL: &str = "symbol";

/// The part that an event plays, by its phase.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PhasePart {
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
    pub fn from_phase(phase: u8) -> PhasePart {
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

/// Members of an event; texts and values as numbers of tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct SliceMembers {
    /// Its phase.
    pub phase: u8,
    /// Its name.
    pub name: Option<TapeToken>,
    /// Its process; 0 when it is not known.
    pub pid: i64,
    /// Its thread.
    pub tid: i64,
    /// Token of the arguments.
    pub args: Option<usize>,
    /// Mark of the shape of the arguments.
    pub args_mark: u64,
    /// Mark of the shapes of the members that are not among those above.
    pub rest_mark: u64,
    /// Mark of the ids of an asynchronous event, by their values.
    pub id_mark: u64,
    /// Does it have such an id?
    pub has_id: bool,
    /// Is the id one of its process?
    pub is_local: bool,
    /// Mark of the flow that a slice is of.
    pub bind_mark: u64,
    /// Bytes that the text of the whole event has; 0 when it is not text.
    pub len: usize,
}

impl SliceMembers {
    /// Its name; empty without one.
    pub fn name<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.name.map_or(Cow::Borrowed(&[]), |token| token.text(bytes))
    }
}

/// An event that was read, with the buffers that it refers to.
#[derive(Default)]
pub struct SliceEvent {
    /// Its members.
    pub members: SliceMembers,
    /// All its tokens.
    pub tokens: Vec<TapeToken>,
    /// Tokens of key and value of the members that are not among its own.
    pub rest: Vec<(usize, usize)>,
}

/// The ids that events of a stream have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum SliceIds {
    /// Thread and process.
    #[default]
    Thread,
    /// Process.
    Process,
    /// Neither.
    None,
}

/// The order of what happens at one time. Slices that end come first, the inner ones before the outer; then all that has
/// no length, as the file has it; then slices that begin, the outer ones before the inner. A slice of no length ends
/// after it began.
pub fn order_of(part: PhasePart, length: Option<u64>) -> u64 {
    const STEP: u64 = 1 << 62;
    match (part, length) {
        (PhasePart::Exit, Some(length)) if length > 0 => length.min(STEP - 1),
        (_, Some(length)) => STEP * 3 - length.min(STEP - 1),
        (_, None) => STEP,
    }
}

/// A member with the shape of its values.
type NamedShape = (String, ValueShape);

/// A class.
#[derive(Debug)]
pub struct SliceClass {
    name: String,
    part: PhasePart,
    /// Is it for events beyond the limits, which are kept as text?
    is_text: bool,
    ids: SliceIds,
    hides_phase: bool,
    rest: Vec<NamedShape>,
    args: Option<ValueShape>,
    has_flow: bool,
    has_span: bool,
    /// Its class in the schema.
    pub id: EventClassId,
}

/// The classes of a file.
#[derive(Debug, Default)]
pub struct SliceClasses {
    by_mark: MarkMap<usize>,
    classes: Vec<SliceClass>,
    fields: usize,
    /// The ids that its events have.
    pub ids: SliceIds,
    /// Are the phases of events no fields of them?
    pub hides_phases: bool,
    /// Did tracemill write the file? Arguments have members for scopes then.
    pub is_own: bool,
}

/// The scopes that stand in arguments of files that tracemill wrote.
const SCOPES: [&str; 3] = ["stream_context", "event_context", "payload"];

impl SliceClasses {
    fn mark(event: &SliceEvent, bytes: &[u8], part: PhasePart) -> u64 {
        let members = &event.members;
        let mark = mix(mix_bytes(part as u64, &members.name(bytes)), u64::from(members.phase));
        // The end of an `X` has nothing of its own.
        if members.phase == b'X' && part == PhasePart::Exit {
            return mark;
        }
        let has =
            u64::from(members.args.is_some()) | u64::from(members.bind_mark != 0) << 1 | u64::from(members.has_id) << 2;
        mix(mix(mix(mark, members.rest_mark), members.args_mark), has)
    }

    /// Takes in an event as this part.
    ///
    /// # Errors
    /// A value of it cannot be a field.
    pub fn take_in(&mut self, event: &SliceEvent, bytes: &[u8], part: PhasePart) -> Result<(), Refused> {
        let mark = SliceClasses::mark(event, bytes, part);
        match self.by_mark.get(&mark) {
            Some(&class) => self.classes[class].add(event, bytes),
            None => {
                let class = self.new_class(event, bytes, part)?;
                self.by_mark.insert(mark, class);
                Ok(())
            }
        }
    }

    fn new_class(&mut self, event: &SliceEvent, bytes: &[u8], part: PhasePart) -> Result<usize, Refused> {
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
            let class = SliceClass {
                name,
                part,
                is_text: true,
                ids: self.ids,
                hides_phase: self.hides_phases,
                rest: Vec::new(),
                args: None,
                has_flow: false,
                has_span: false,
                id: EventClassId(0),
            };
            self.classes.push(class);
            return Ok(self.classes.len() - 1);
        }
        let members = &event.members;
        let is_end_of_x = members.phase == b'X' && part == PhasePart::Exit;
        let mut shape =
            |at: usize| ValueShape::infer(&mut TokenWalk { line: bytes, tokens: &event.tokens, at }, &mut self.fields);
        let mut rest = Vec::new();
        for &(key, value) in event.rest.iter().filter(|_| !is_end_of_x) {
            let key = String::from_utf8_lossy(&event.tokens[key].text(bytes)).into_owned();
            rest.push((key, shape(value)?));
        }
        let args = members.args.filter(|_| !is_end_of_x).map(&mut shape).transpose()?;
        let name = String::from_utf8_lossy(&members.name(bytes)).into_owned();
        self.classes.push(SliceClass {
            name: part.class_name(&name),
            part,
            is_text: false,
            ids: self.ids,
            hides_phase: self.hides_phases,
            rest,
            args,
            has_flow: part == PhasePart::Flow || members.bind_mark != 0 && part == PhasePart::Entry,
            has_span: matches!(part, PhasePart::SpanEntry | PhasePart::SpanClose),
            id: EventClassId(0),
        });
        Ok(self.classes.len() - 1)
    }

    /// Were there more classes than are kept?
    pub fn is_full(&self) -> bool {
        self.classes.iter().any(|class| class.is_text)
    }

    /// The class of an event that was taken in before.
    pub fn find(&self, event: &SliceEvent, bytes: &[u8], part: PhasePart) -> Option<&SliceClass> {
        self.classes.get(*self.by_mark.get(&SliceClasses::mark(event, bytes, part))?)
    }

    /// Makes one class of those of a name whose values one shape holds.
    fn join(&mut self) {
        let mut of_names: HashMap<(String, PhasePart), Vec<usize>> = HashMap::new();
        let mut joined: Vec<usize> = Vec::with_capacity(self.classes.len());
        for at in 0..self.classes.len() {
            let class = &self.classes[at];
            let others = of_names.entry((class.name.clone(), class.part)).or_default();
            let fits = |other: &&usize| self.classes[**other].joined(class).is_some();
            let found = others.iter().take(MAX_JOINED).find(fits).copied();
            joined.push(found.unwrap_or(at));
            match found {
                None => others.push(at),
                Some(found) => {
                    if let Some((rest, args)) = self.classes[found].joined(&self.classes[at]) {
                        (self.classes[found].rest, self.classes[found].args) = (rest, args);
                    }
                }
            }
        }
        self.by_mark.values_mut().for_each(|class| *class = joined[*class]);
        let mut kept = joined.iter().enumerate().map(|(at, to)| at == *to);
        let mut numbers = vec![0; joined.len()];
        let mut count = 0;
        self.classes.retain(|_| kept.next().unwrap_or(true));
        for (at, to) in joined.iter().enumerate() {
            if at == *to {
                numbers[at] = count;
                count += 1;
            }
        }
        self.by_mark.values_mut().for_each(|class| *class = numbers[*class]);
    }

    /// Adds the classes to a schema: those of events, in a stream class of their own.
    pub fn add_to(&mut self, schema: &mut Schema, clock: ClockId, names: &TrackNames) -> StreamClassId {
        self.join();
        let mut number = |signed| {
            let class = IntegerClass { signed, ..IntegerClass::unsigned(64) };
            schema.add_field_class(FieldClass::new(FieldKind::Integer(class), 8))
        };
        let (signed, unsigned) = (number(true), number(false));
        let text = schema.add_field_class(FieldClass::new(FieldKind::String(StringClass::utf8()), 8));
        let ids = [(PID, self.ids != SliceIds::None), (TID, self.ids == SliceIds::Thread)];
        let mut members: Vec<Member> =
            ids.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| Member::new(*name, signed)).collect();
        let rendered = [(COMM, &names.threads, ids[1].1), ("process_name", &names.processes, ids[0].1)];
        for (name, of, has_id) in rendered {
            if has_id && !of.is_empty() {
                let render: Arc<dyn Render> = Arc::new(NameOf { names: of.clone(), is_thread: name == COMM });
                let kind = FieldKind::Rendered(RenderedClass { len_bytes: 0, render });
                members.push(Member::new(name, schema.add_field_class(FieldClass::new(kind, 8))));
            }
        }
        let common = (!members.is_empty()).then(|| structure(schema, members));
        let class = StreamClass {
            has_no_id: true,
            default_clock: Some(clock),
            common_context: common,
            ..StreamClass::default()
        };
        let stream = schema.add_twin_stream(class);
        for (at, class) in self.classes.iter_mut().enumerate() {
            class.rest.iter_mut().for_each(|(_, shape)| shape.finish());
            class.args.iter_mut().for_each(ValueShape::finish);
            let (mut context, mut payload) = (Vec::new(), Vec::new());
            if !self.hides_phases {
                context.push(Member::new("ph", text));
            }
            if class.is_text {
                payload.extend([Member::new(SYMBOL, text), Member::new("event", text)]);
            }
            for (name, shape) in &class.rest {
                context.push(Member::new(name.as_str(), shape.class(schema)));
            }
            if class.has_flow {
                context.push(Member::new(usual::FLOWS[0], unsigned));
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
                                    inner.iter().map(|(name, shape)| Member::new(name.clone(), shape.class(schema))),
                                );
                            }
                            _ => payload.push(Member::new(name.clone(), shape.class(schema))),
                        }
                    }
                }
                Some(shape) => payload.push(Member::new("args", shape.class(schema))),
                None => {}
            }
            if class.has_span {
                payload.push(Member::new(usual::SPAN, unsigned));
            }
            let call = match class.part {
                // Names of these stand in a field, or nowhere.
                PhasePart::Entry | PhasePart::Exit if class.is_text || class.name == SLICE.1 => None,
                PhasePart::Entry => Some(CallHalf::Entry),
                PhasePart::Exit => Some(CallHalf::Exit),
                _ => None,
            };
            let context = (!context.is_empty()).then(|| structure(schema, context));
            let payload = (!payload.is_empty()).then(|| structure(schema, payload));
            class.id = schema.add_twin_event(EventClass {
                name: Some(class.name.as_str().into()),
                specific_context: context,
                payload,
                call,
                ..EventClass::new(at as u64, stream)
            });
        }
        stream
    }
}

impl SliceClass {
    /// Shapes of the values of both, when there is one for each.
    fn joined(&self, other: &SliceClass) -> Option<(Vec<NamedShape>, Option<ValueShape>)> {
        if self.is_text != other.is_text || self.has_flow != other.has_flow || self.rest.len() != other.rest.len() {
            return None;
        }
        let member = |(a, b): (&(String, ValueShape), &(String, ValueShape))| {
            (a.0 == b.0).then(|| Some((a.0.clone(), a.1.join(&b.1)?))).flatten()
        };
        let rest = self.rest.iter().zip(&other.rest).map(member).collect::<Option<_>>()?;
        let args = match (&self.args, &other.args) {
            (None, None) => None,
            (Some(a), Some(b)) => Some(a.join(b)?),
            _ => return None,
        };
        Some((rest, args))
    }

    fn add(&mut self, event: &SliceEvent, bytes: &[u8]) -> Result<(), Refused> {
        let walk = |at| TokenWalk { line: bytes, tokens: &event.tokens, at };
        // Classes of text, and ends of `X`, have no shapes.
        for ((_, shape), (_, value)) in self.rest.iter_mut().zip(&event.rest) {
            shape.add(&mut walk(*value))?;
        }
        match (&mut self.args, event.members.args) {
            (Some(shape), Some(at)) => shape.add(&mut walk(at)),
            _ => Ok(()),
        }
    }

    /// Appends an event: its contexts and payload.
    ///
    /// # Errors
    /// A value of it is not one that was taken in before.
    pub fn write(&self, event: &SliceEvent, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
        let members = &event.members;
        if self.ids != SliceIds::None {
            out.extend_from_slice(&members.pid.to_le_bytes());
        }
        if self.ids == SliceIds::Thread {
            out.extend_from_slice(&members.tid.to_le_bytes());
        }
        if !self.hides_phase {
            out.extend_from_slice(&[members.phase, 0]);
        }
        if self.is_text {
            put_text(&members.name(bytes), out);
            match members.len {
                0 => put_values(event, bytes, out),
                len => put_text(&bytes[..len.min(bytes.len())], out),
            }
            return Ok(());
        }
        let walk = |at| TokenWalk { line: bytes, tokens: &event.tokens, at };
        for ((_, shape), (_, value)) in self.rest.iter().zip(&event.rest) {
            shape.encode(&mut walk(*value), out)?;
        }
        if self.has_flow {
            let mark = if self.part == PhasePart::Flow { members.id_mark } else { members.bind_mark };
            out.extend_from_slice(&(mark >> 1).to_le_bytes());
        }
        if let (Some(shape), Some(at)) = (&self.args, members.args) {
            shape.encode(&mut walk(at), out)?;
        }
        if self.has_span {
            // A span is known by its name, ids and category.
            let process = if members.is_local { members.pid as u64 } else { 0 };
            let mark = mix(mix_bytes(members.id_mark, &members.name(bytes)), process);
            out.extend_from_slice(&(mark >> 1).to_le_bytes());
        }
        Ok(())
    }
}

/// Appends all values of an event as a text.
fn put_values(event: &SliceEvent, bytes: &[u8], out: &mut Vec<u8>) {
    let mut text = Vec::new();
    let args = event.members.args.map(|at| (None, at));
    for (key, value) in event.rest.iter().map(|(key, value)| (Some(*key), *value)).chain(args) {
        text.extend_from_slice(if text.is_empty() { b"{" } else { b"," });
        let mut walk = TokenWalk { line: bytes, tokens: &event.tokens, at: key.unwrap_or(value) };
        match key {
            Some(_) => put_json(&mut walk, &mut text),
            None => text.extend_from_slice(b"\"args\""),
        }
        text.push(b':');
        walk.at = value;
        put_json(&mut walk, &mut text);
    }
    if !text.is_empty() {
        text.push(b'}');
    }
    put_text(&text, out);
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
pub struct TrackNames {
    /// By process and thread.
    pub threads: Arc<HashMap<(i64, i64), Arc<str>>>,
    /// By process and 0.
    pub processes: Arc<HashMap<(i64, i64), Arc<str>>>,
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
        let (pid, tid) = (number(0)?, if self.is_thread { number(8)? } else { 0 });
        self.names.get(&(pid, tid)).map(|name| &**name)
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
pub fn first_argument(event: &SliceEvent, bytes: &[u8]) -> Option<(String, String)> {
    let at = event.members.args?;
    let (key, value) = (event.tokens.get(at + 1)?, event.tokens.get(at + 2)?);
    let is_plain = matches!(
        value.kind,
        TokenKind::Text | TokenKind::Escaped | TokenKind::Special | TokenKind::Int | TokenKind::Float
    );
    let text = |token: &TapeToken| String::from_utf8_lossy(&token.text(bytes)).into_owned();
    (key.kind == TokenKind::Key && is_plain).then(|| (text(key), text(value)))
}
