//! Events of a session as events of concepts: what each class means is decided once, then fields are read by their places.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use tracemill_codec::chunk::PacketData;
use tracemill_codec::plan::Input;
use tracemill_codec::value::Value;
use tracemill_engine::event::Event;
use tracemill_engine::filter::{Access, Captured, CapturedValue, FieldReader};
use tracemill_engine::selection::StreamOf;
use tracemill_engine::session::Session;
use tracemill_model::schema::{EventClassId, FieldKind, LabelList, Schema};
use tracemill_semantics::states::{Values, returns};
use tracemill_semantics::{Concept, Concepts, CpuOf, Field, Origin, Recording, Tie};

/// Reads the events of a session as events of concepts.
pub(crate) struct Reader {
    classes: Vec<Rc<[Class]>>,
    fields: RefCell<FieldReader>,
    /// Values read of the present event, and storage of an earlier one for the next.
    captured: OnceCell<Box<Captured>>,
    pool: Cell<Option<Box<Captured>>>,
    cpus: CpuOf,
    /// The number of its first stream, for each trace.
    first_streams: Vec<usize>,
    /// The machine of each trace.
    machines: Vec<u32>,
}

/// Meaning of the events of a class.
#[derive(Default)]
pub(crate) struct Class {
    /// The concept.
    pub(crate) tie: Option<Bound>,
    /// The thread that a context names.
    pub(crate) running: Option<Bound>,
    /// Is it the entry of a system call whose exit the trace has no class for?
    pub(crate) has_no_exit: bool,
}

impl Class {
    /// Was no event of it met?
    #[inline]
    fn is_new(&self) -> bool {
        self.tie.as_ref().or(self.running.as_ref()).is_some_and(|bound| bound.places.get().is_none())
    }
}

/// A line of the table, and where its fields are.
pub(crate) struct Bound {
    pub(crate) tie: Tie,
    places: OnceCell<Places>,
}

/// The fields of a line, each at its number.
struct Places([Option<Box<Place>>; Field::ALL.len()]);

enum Place {
    Text(Arc<str>),
    Field(Access, LabelList),
}

/// The values of the event that the reader is at.
pub(crate) struct EventValues<'r> {
    event: &'r Event<'r>,
    reader: &'r Reader,
    places: Option<&'r Places>,
    /// The bytes of its packet, and where its fields begin.
    input: Input<'r>,
    body_bits: u64,
}

impl Reader {
    /// A reader, and the name of each machine: that of its first trace.
    pub(crate) fn new(session: &Session, concepts: &Concepts, same_host: bool) -> (Reader, Vec<String>) {
        let (machines, names) = machines_of(session, same_host);
        let mut first_streams = Vec::new();
        let mut streams = 0;
        for trace in &session.traces {
            first_streams.push(streams);
            streams += trace.streams.len();
        }
        let classes = session.traces.iter().map(|trace| classes_of(&trace.schema, concepts).into()).collect();
        let fields = RefCell::new(FieldReader::new(session));
        let (captured, pool, cpus) = (OnceCell::new(), Cell::default(), CpuOf::default());
        (Reader { classes, fields, captured, pool, cpus, first_streams, machines }, names)
    }

    /// The machine of a trace.
    pub(crate) fn machine(&self, trace: usize) -> u32 {
        self.machines[trace]
    }

    /// Turns to another event.
    #[inline]
    pub(crate) fn turn(&mut self) {
        if let Some(before) = self.captured.take() {
            self.pool.set(Some(before));
        }
    }

    /// The CPU of a packet of a stream.
    pub(crate) fn cpu_of(&mut self, of: &StreamOf, packet: &Arc<PacketData>) -> Option<u64> {
        self.cpus.of(self.first_streams[of.trace] + of.index, packet)
    }

    /// The meaning of the classes of a trace.
    pub(crate) fn classes(&self, trace: usize) -> Rc<[Class]> {
        self.classes[trace].clone()
    }

    /// Can a trace have events of a concept?
    pub(crate) fn has(&self, trace: usize, concept: Concept) -> bool {
        self.classes[trace].iter().filter_map(|class| class.tie.as_ref()).any(|bound| bound.tie.concept == concept)
    }

    /// The concepts that the traces can have events of.
    pub(crate) fn concepts(&self) -> HashSet<Concept> {
        let classes = || self.classes.iter().flat_map(|of| &**of);
        let ties = classes().filter_map(|class| class.tie.as_ref());
        // Names of a namespace say nothing by themselves.
        let is_plain = |bound: &&Bound| bound.tie.origin(Field::Tid).is_some();
        let running = classes().filter_map(|class| class.running.as_ref()).filter(is_plain);
        ties.chain(running).map(|bound| bound.tie.concept).collect()
    }

    /// Makes a class ready for its events, of which this is one.
    #[inline]
    pub(crate) fn meet(&self, event: &Event<'_>, class: &Class) {
        if class.is_new() {
            self.prepare(event, class);
        }
    }

    /// Finds all places of a class before the first value is read: fields are captured together.
    #[cold]
    fn prepare(&self, event: &Event<'_>, class: &Class) {
        for bound in [&class.tie, &class.running].into_iter().flatten() {
            bound.places.get_or_init(|| self.places(event, &bound.tie));
        }
    }

    /// The values of the event that the reader has turned to. They are read when they are asked for. `input` is that of
    /// its packet.
    #[inline(always)]
    pub(crate) fn values<'r>(&'r self, event: &'r Event<'r>, bound: &'r Bound, input: Input<'r>) -> EventValues<'r> {
        let body_bits = event.raw.chunk.body_bits(event.raw.at);
        EventValues { event, reader: self, places: bound.places.get(), input, body_bits }
    }

    #[cold]
    fn places(&self, event: &Event<'_>, tie: &Tie) -> Places {
        let schema = event.raw.chunk.packet.plans.schema();
        let mut fields = self.fields.borrow_mut();
        let mut places = Places(std::array::from_fn(|_| None));
        // The first one of a field counts.
        for (field, origin) in tie.fields.iter().rev() {
            let place = match origin {
                Origin::Text(text) => Place::Text(text.clone()),
                Origin::Field(path) => {
                    let access = fields.find_field(event, path);
                    Place::Field(access, labels(schema, access))
                }
            };
            places.0[*field as usize] = Some(Box::new(place));
        }
        places
    }
}

fn labels(schema: &Schema, access: Access) -> LabelList {
    let (Access::Fixed(_, class) | Access::Field(_, class)) = access else { return LabelList::new(Arc::new([])) };
    match &schema.field_class(class).kind {
        FieldKind::Integer(integer) => integer.label_list(),
        _ => LabelList::new(Arc::new([])),
    }
}

fn classes_of(schema: &Schema, concepts: &Concepts) -> Vec<Class> {
    let bound = |tie: Option<Tie>| tie.map(|tie| Bound { tie, places: OnceCell::new() });
    let class = |at: usize| {
        let id = EventClassId(at as u32);
        Class { tie: bound(concepts.tie(schema, id)), running: bound(concepts.running(schema, id)), has_no_exit: false }
    };
    let mut classes: Vec<Class> = (0..schema.events().len()).map(class).collect();
    // Exits that the trace can have: all when one of them says no name.
    let ties = || classes.iter().filter_map(|class| Some(&class.tie.as_ref()?.tie));
    let exits = || ties().filter(|tie| tie.concept == Concept::SysExit).map(name_of);
    let has_nameless = exits().any(|name| name.is_none());
    let known: HashSet<Arc<str>> = exits().flatten().collect();
    for class in &mut classes {
        let tie = class.tie.as_ref().map(|bound| &bound.tie).filter(|tie| tie.concept == Concept::SysEntry);
        class.has_no_exit = tie.is_some_and(|tie| {
            let name = name_of(tie);
            let may_return = name.as_ref().is_none_or(|name| returns(name));
            may_return && !has_nameless && name.is_none_or(|name| !known.contains(&name))
        });
    }
    classes
}

fn name_of(tie: &Tie) -> Option<Arc<str>> {
    match tie.origin(Field::Name)? {
        Origin::Text(name) => Some(name.clone()),
        Origin::Field(_) => None,
    }
}

/// Machines of the traces, and their names: traces of one host whose clocks are on one timeline are of one machine.
fn machines_of(session: &Session, same_host: bool) -> (Vec<u32>, Vec<String>) {
    let mut known: HashMap<(Option<String>, String), u32> = HashMap::new();
    let mut names = Vec::new();
    let of = |(at, trace): (usize, &tracemill_format::OpenTrace)| {
        let host = Recording::of(&trace.schema).host.map(str::to_string);
        let clock = trace.schema.clocks().first().map_or(String::new(), |clock| format!("{:?}", clock.name));
        let key = match (same_host, &host) {
            (true, _) => (None, String::new()),
            (false, Some(_)) => (host, clock),
            (false, None) => (None, format!("{at}")),
        };
        let next = names.len() as u32;
        *known.entry(key).or_insert_with(|| {
            names.push(trace.name.clone());
            next
        })
    };
    let machines = session.traces.iter().enumerate().map(of).collect();
    (machines, names)
}

impl<'r> EventValues<'r> {
    #[cold]
    fn captured(&self) -> &'r Captured {
        self.reader.captured.get_or_init(|| {
            let mut captured = self.reader.pool.take().unwrap_or_default();
            self.reader.fields.borrow_mut().capture(self.event, &mut captured);
            captured
        })
    }

    #[inline]
    fn place(&self, field: Field) -> Option<&'r Place> {
        self.places?.0[field as usize].as_deref()
    }
}

impl Values for EventValues<'_> {
    fn integer(&self, field: Field) -> Option<i128> {
        match self.place(field)? {
            Place::Text(text) => text.parse().ok(),
            Place::Field(Access::Fixed(integer, _), _) => {
                let bits = integer.read(self.input, self.body_bits)?;
                Some(if integer.is_signed() { i128::from(bits as i64) } else { i128::from(bits) })
            }
            Place::Field(Access::Field(index, _), _) => match self.captured().get(*index)? {
                CapturedValue::Integer(value) => Some(value),
                CapturedValue::Boolean(value) => Some(value.into()),
                _ => None,
            },
            Place::Field(..) => None,
        }
    }

    #[inline]
    fn number(&self, field: Field) -> Option<i64> {
        let Place::Field(Access::Fixed(integer, _), _) = self.place(field)? else {
            return self.integer(field).and_then(|value| i64::try_from(value).ok());
        };
        let bits = integer.read(self.input, self.body_bits)?;
        if integer.is_signed() { Some(bits as i64) } else { i64::try_from(bits).ok() }
    }

    fn is_text(&self, field: Field, text: &str) -> bool {
        let Some(Place::Field(Access::FixedText(fixed, _), _)) = self.place(field) else { return false };
        // What is no UTF-8 is not equal to a text that replaces it.
        fixed.is(self.input, self.body_bits, text.as_bytes())
    }

    fn constant(&self, field: Field) -> Option<&Arc<str>> {
        match self.place(field)? {
            Place::Text(text) => Some(text),
            Place::Field(..) => None,
        }
    }

    fn text(&self, field: Field) -> Option<Cow<'_, str>> {
        match self.place(field)? {
            Place::Text(text) => Some(Cow::Borrowed(&**text)),
            Place::Field(Access::FixedText(text, _), _) => {
                Some(String::from_utf8_lossy(text.read(self.input, self.body_bits)?))
            }
            Place::Field(Access::Field(index, _), labels) => match self.captured().get(*index)? {
                CapturedValue::Text(text) => Some(String::from_utf8_lossy(text)),
                CapturedValue::Integer(value) => labels.of(value).next().map(|label| Cow::Owned(label.to_string())),
                CapturedValue::Tree => {
                    let bytes = self.bytes(field)?;
                    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
                    Some(Cow::Owned(String::from_utf8_lossy(text).into_owned()))
                }
                _ => None,
            },
            Place::Field(Access::Fixed(..), labels) => {
                let value = self.integer(field)?;
                labels.of(value).next().map(|label| Cow::Owned(label.to_string()))
            }
            Place::Field(..) => None,
        }
    }

    fn bytes(&self, field: Field) -> Option<Vec<u8>> {
        let Place::Field(Access::Field(index, _), _) = self.place(field)? else { return None };
        let tree = self.reader.fields.borrow().tree(self.event, *index).ok()??;
        let Value::List(elements) = tree else { return None };
        elements.iter().map(|element| u8::try_from(element.integer()?).ok()).collect()
    }
}
