//! Events of a session as events of concepts: what each class means is decided once, then fields are read by their places.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use tracemill_codec::chunk::{Chunk, PacketData};
use tracemill_codec::plan::{FixedInteger, FixedText, PlanInput};
use tracemill_codec::value::Value;
use tracemill_engine::event::Event;
use tracemill_engine::filter::{Access, Captured, CapturedValue, FieldReader};
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_model::schema::{EventClassId, FieldClassId, FieldKind, LabelList, PathStep, Schema, StreamClassId};
use tracemill_semantics::states::{ConceptValues, CpuIndex, returns};
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
pub(crate) struct Class {
    /// Its stream class.
    stream: StreamClassId,
    /// The concept.
    pub(crate) tie: Option<Box<Bound>>,
    /// The thread that a context names.
    pub(crate) running: Option<Box<Bound>>,
    /// Is it the entry of a system call whose exit the trace has no class for?
    pub(crate) has_no_exit: bool,
    /// Was an event of it met, if it means anything?
    is_met: Cell<bool>,
}

/// A line of the table, and where its fields are.
pub(crate) struct Bound {
    pub(crate) tie: Tie,
    places: OnceCell<Places>,
}

/// The fields of a line.
struct Places {
    /// For each field one more than its place in the list, or 0.
    at: [u8; Field::ALL.len()],
    list: Vec<Place>,
}

enum Place {
    Text(Arc<str>),
    Number(FixedInteger, Labels),
    FixedText(FixedText),
    /// A field that is captured, by its index.
    Captured(usize, Labels),
}

/// Labels of the numbers of a field; most have none.
type Labels = Option<Box<LabelList>>;

/// Things that all events of a chunk share.
pub(crate) struct Shared<'b> {
    pub(crate) of: &'b SelectedStream,
    pub(crate) chunk: &'b Chunk,
    /// Index of the stream.
    pub(crate) stream: usize,
    pub(crate) classes: Rc<[Class]>,
    pub(crate) machine: u32,
    /// The bytes of the packet.
    pub(crate) input: PlanInput<'b>,
    /// The CPU of the packet, and what the machine knows it by since its first event.
    pub(crate) cpu: Option<u64>,
    pub(crate) known_cpu: Cell<Option<CpuIndex>>,
}

/// The values of the event that the reader is at.
pub(crate) struct EventValues<'r> {
    shared: &'r Shared<'r>,
    /// The event in its chunk.
    at: usize,
    reader: &'r Reader,
    places: Option<&'r Places>,
    /// The bytes from its first field on; none where it does not begin on a byte.
    body: &'r [u8],
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
    pub(crate) fn next_event(&mut self) {
        if self.captured.get().is_some() {
            self.drop_captured();
        }
    }

    #[cold]
    #[inline(never)]
    fn drop_captured(&mut self) {
        if let Some(before) = self.captured.take() {
            self.pool.set(Some(before));
        }
    }

    /// The CPU of a packet of a stream.
    pub(crate) fn cpu_of(&mut self, of: &SelectedStream, packet: &Arc<PacketData>) -> Option<u64> {
        self.cpus.cpu(self.first_streams[of.trace] + of.index, packet)
    }

    /// The meaning of the classes of a trace.
    pub(crate) fn classes(&self, trace: usize) -> Rc<[Class]> {
        self.classes[trace].clone()
    }

    /// Can a trace have events of a concept?
    pub(crate) fn has(&self, trace: usize, concept: Concept) -> bool {
        self.classes[trace].iter().filter_map(|class| class.tie.as_ref()).any(|bound| bound.tie.concept == concept)
    }

    /// The concepts that a trace can have events of.
    pub(crate) fn concepts_of(&self, trace: usize) -> HashSet<Concept> {
        self.classes[trace].iter().filter_map(|class| Some(class.tie.as_ref()?.tie.concept)).collect()
    }

    /// Can a trace have events of a concept with a field?
    pub(crate) fn has_field(&self, trace: usize, concept: Concept, field: Field) -> bool {
        let ties = self.classes[trace].iter().filter_map(|class| class.tie.as_ref());
        ties.filter(|bound| bound.tie.concept == concept).any(|bound| bound.tie.origin(field).is_some())
    }

    /// Can contexts of events of a trace name their CPU?
    pub(crate) fn contexts_name_cpus(&self, trace: usize) -> bool {
        let running = self.classes[trace].iter().filter_map(|class| class.running.as_ref());
        running.into_iter().any(|bound| bound.tie.origin(Field::Cpu).is_some())
    }

    /// Can the streams of a class have events of a concept?
    pub(crate) fn stream_has(&self, trace: usize, stream: StreamClassId, concept: Concept) -> bool {
        let own = self.classes[trace].iter().filter(|class| class.stream == stream);
        own.filter_map(|class| class.tie.as_ref()).any(|bound| bound.tie.concept == concept)
    }

    /// The concepts that the traces can have events of.
    pub(crate) fn concepts(&self) -> HashSet<Concept> {
        let classes = || self.classes.iter().flat_map(|of| &**of);
        let ties = classes().filter_map(|class| class.tie.as_deref());
        // Names of a namespace say nothing by themselves.
        let is_plain = |bound: &&Bound| bound.tie.origin(Field::Tid).is_some();
        let contexts = || classes().filter_map(|class| class.running.as_deref());
        let running = contexts().filter(is_plain);
        let names = |bound: &Bound, field: Field| bound.tie.origin(field).is_some();
        let has_namespaces = contexts().any(|bound| names(bound, Field::CgroupNs) || names(bound, Field::PidNs));
        let namespace = has_namespaces.then_some(Concept::Namespace);
        let mut concepts: HashSet<Concept> =
            ties.chain(running).map(|bound| bound.tie.concept).chain(namespace).collect();
        if concepts.contains(&Concept::CallValues) {
            // Functions that allocate and free may be among them.
            concepts.extend([Concept::HeapAlloc, Concept::HeapRealloc, Concept::HeapFree]);
        }
        concepts
    }

    /// Makes a class ready for its events, of which this is one.
    #[inline]
    pub(crate) fn prepare_class(&self, shared: &Shared<'_>, at: usize, class: &Class) {
        if !class.is_met.get() {
            self.prepare(&shared.event(at), class);
        }
    }

    /// Finds all places of a class before the first value is read: fields are captured together.
    #[cold]
    #[inline(never)]
    fn prepare(&self, event: &Event<'_>, class: &Class) {
        for bound in [&class.tie, &class.running].into_iter().flatten() {
            bound.places.get_or_init(|| self.places(event, &bound.tie));
        }
        class.is_met.set(true);
    }

    /// The values of the event that the reader has turned to. They are read when they are asked for.
    #[inline(always)]
    pub(crate) fn values<'r>(&'r self, shared: &'r Shared<'r>, at: usize, bound: &'r Bound) -> EventValues<'r> {
        let body = shared.input.from_byte(shared.chunk.body_bits(at)).unwrap_or_default();
        EventValues { shared, at, reader: self, places: bound.places.get(), body }
    }

    #[cold]
    fn places(&self, event: &Event<'_>, tie: &Tie) -> Places {
        let schema = event.raw.chunk.packet.plans.schema();
        let mut fields = self.fields.borrow_mut();
        let mut places = Places { at: [0; Field::ALL.len()], list: Vec::new() };
        // The first one of a field counts.
        for (field, origin) in tie.fields.iter().rev() {
            let place = match origin {
                Origin::Text(text) => Place::Text(text.clone()),
                Origin::Field(path) => match fields.find_field(event, path) {
                    Access::Fixed(integer, class) => Place::Number(integer, labels(schema, class)),
                    Access::FixedText(text, _) => Place::FixedText(text),
                    Access::Field(index, class) => Place::Captured(index, labels(schema, class)),
                    Access::Absent | Access::Head(_) => continue,
                },
            };
            places.list.push(place);
            places.at[*field as usize] = places.list.len() as u8;
        }
        places
    }
}

fn labels(schema: &Schema, class: FieldClassId) -> Labels {
    match &schema.field_class(class).kind {
        FieldKind::Integer(integer) => Some(Box::new(integer.label_list())),
        _ => None,
    }
}

impl<'b> Shared<'b> {
    /// An event of the chunk.
    #[inline]
    pub(crate) fn event(&self, at: usize) -> Event<'b> {
        self.of.event(self.chunk.event(at))
    }
}

fn classes_of(schema: &Schema, concepts: &Concepts) -> Vec<Class> {
    let bound = |tie: Option<Tie>| tie.map(|tie| Box::new(Bound { tie, places: OnceCell::new() }));
    let class = |at: usize| {
        let id = EventClassId(at as u32);
        let tie = concepts.tie(schema, id).map(|tie| with_arguments(schema, id, tie));
        let (tie, running) = (bound(tie), bound(concepts.running(schema, id)));
        let is_met = Cell::new(tie.is_none() && running.is_none());
        Class { stream: schema.event(id).stream, tie, running, has_no_exit: false, is_met }
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

/// Arguments of calls are in an array or a tuple: another field of this name says that they cannot be read.
fn with_arguments(schema: &Schema, id: EventClassId, tie: Tie) -> Tie {
    if tie.concept != Concept::CallValues {
        return tie;
    }
    let step = tie.field(Field::Args).and_then(|path| path.steps.first());
    let member = match step {
        Some(PathStep::Member(at)) => schema.members(schema.event(id).payload).get(*at as usize),
        _ => None,
    };
    let kind = member.map(|member| &schema.field_class(member.class).kind);
    let has_values = matches!(kind, Some(FieldKind::Struct(_) | FieldKind::Array(_)));
    Tie { concept: if has_values { Concept::CallValues } else { Concept::CallEntry }, ..tie }
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
        let host = Recording::from_schema(&trace.schema).host.map(str::to_string);
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
            self.reader.fields.borrow_mut().capture(&self.shared.event(self.at), &mut captured);
            captured
        })
    }

    #[inline]
    fn place(&self, field: Field) -> Option<&'r Place> {
        let places = self.places?;
        places.list.get(usize::from(places.at[field as usize]).wrapping_sub(1))
    }

    /// The elements of an array, or the members of a tuple.
    fn elements(&self, field: Field) -> Option<Vec<Value>> {
        let Place::Captured(index, _) = self.place(field)? else { return None };
        match self.reader.fields.borrow().tree(&self.shared.event(self.at), *index).ok()?? {
            Value::List(elements) => Some(elements),
            _ => None,
        }
    }

    /// An integer that is no number of 64 bits at a fixed place.
    #[cold]
    fn other_integer(&self, place: &Place) -> Option<i128> {
        match place {
            Place::Text(text) => text.parse().ok(),
            Place::Captured(index, _) => match self.captured().get(*index)? {
                CapturedValue::Integer(value) => Some(value),
                CapturedValue::Boolean(value) => Some(value.into()),
                _ => None,
            },
            Place::Number(..) | Place::FixedText(_) => None,
        }
    }
}

fn label<'t>(labels: &Labels, value: i128) -> Option<Cow<'t, str>> {
    labels.as_ref()?.labels_for(value).next().map(|label| Cow::Owned(label.to_string()))
}

impl ConceptValues for EventValues<'_> {
    fn integer(&self, field: Field) -> Option<i128> {
        match self.place(field)? {
            Place::Number(integer, _) => {
                let bits = integer.read_in(self.body)?;
                Some(if integer.is_signed() { i128::from(bits as i64) } else { i128::from(bits) })
            }
            other => self.other_integer(other),
        }
    }

    #[inline]
    fn number(&self, field: Field) -> Option<i64> {
        let place = self.place(field)?;
        let Place::Number(integer, _) = place else {
            return self.other_integer(place).and_then(|value| i64::try_from(value).ok());
        };
        let bits = integer.read_in(self.body)?;
        if integer.is_signed() { Some(bits as i64) } else { i64::try_from(bits).ok() }
    }

    fn has(&self, field: Field) -> bool {
        self.place(field).is_some()
    }

    #[inline]
    fn is_text(&self, field: Field, text: &str) -> bool {
        let Some(Place::FixedText(fixed)) = self.place(field) else { return false };
        // Bytes that are not UTF-8 never equal the text with replacement characters.
        fixed.is_in(self.body, text.as_bytes())
    }

    #[inline]
    fn constant(&self, field: Field) -> Option<&Arc<str>> {
        match self.place(field)? {
            Place::Text(text) => Some(text),
            _ => None,
        }
    }

    fn text(&self, field: Field) -> Option<Cow<'_, str>> {
        match self.place(field)? {
            Place::Text(text) => Some(Cow::Borrowed(&**text)),
            Place::FixedText(text) => Some(String::from_utf8_lossy(text.read_in(self.body)?)),
            Place::Captured(index, labels) => match self.captured().get(*index)? {
                CapturedValue::Text(text) => Some(String::from_utf8_lossy(text)),
                CapturedValue::Integer(value) => label(labels, value),
                CapturedValue::Tree => {
                    let bytes = self.bytes(field)?;
                    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
                    Some(Cow::Owned(String::from_utf8_lossy(text).into_owned()))
                }
                _ => None,
            },
            Place::Number(_, labels) => label(labels, self.integer(field)?),
        }
    }

    fn integers(&self, field: Field) -> Option<Vec<Option<i128>>> {
        Some(self.elements(field)?.iter().map(Value::integer).collect())
    }

    fn bytes(&self, field: Field) -> Option<Vec<u8>> {
        let elements = self.elements(field)?;
        elements.iter().map(|element| u8::try_from(element.integer()?).ok()).collect()
    }
}
