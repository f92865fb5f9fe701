//! Schemas: the description that a trace gives of its own layout.
//!
//! A [`Schema`] is an append-only arena. Field classes form trees inside it and are named by [`FieldClassId`];
//! an id stays valid for the life of the trace. References from one field to another (a sequence to its length, a
//! variant to its selector) are *absolute*: a [`FieldPath`] starts at a [`Scope`] and goes down by member index, so
//! a class with such a reference is rebuilt for every place where it is used.

use std::collections::HashMap;
use std::sync::Arc;

mod fields;

pub use fields::*;

/// Names one [`FieldClass`] of a [`Schema`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FieldClassId(pub u32);

/// Names one [`StreamClass`] of a [`Schema`]; not the numeric id that the trace itself uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct StreamClassId(pub u32);

/// Names one [`EventClass`] of a [`Schema`]; not the numeric id that the trace itself uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EventClassId(pub u32);

/// Names one [`ClockClass`] of a [`Schema`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ClockId(pub u32);

/// Order of the bytes of a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ByteOrder {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// Big-endian if so, little-endian if not: for formats that say it in a bit.
    #[inline]
    pub fn big_if(is_big: bool) -> Self {
        if is_big { ByteOrder::Big } else { ByteOrder::Little }
    }
}

/// The six roots under which the fields of an event live (CTF 1.8.3, 7.3.2; CTF 2, "field location").
///
/// ```
/// use tracemill_model::schema::Scope;
/// assert!(Scope::EventHeader < Scope::Payload, "in the order in which they are decoded");
/// assert_eq!(Scope::ALL.map(Scope::key)[3..], ["stream_context", "event_context", "payload"]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// `trace.packet.header`, `packet-header`.
    PacketHeader,
    /// `stream.packet.context`, `packet-context`.
    PacketContext,
    /// `stream.event.header`, `event-record-header`.
    EventHeader,
    /// `stream.event.context`, `event-record-common-context`.
    CommonContext,
    /// `event.context`, `event-record-specific-context`.
    SpecificContext,
    /// `event.fields`, `event-record-payload`.
    Payload,
}

impl Scope {
    /// All scopes, in the order in which they are decoded.
    pub const ALL: [Scope; 6] = [
        Scope::PacketHeader,
        Scope::PacketContext,
        Scope::EventHeader,
        Scope::CommonContext,
        Scope::SpecificContext,
        Scope::Payload,
    ];

    /// The first word of a path in filters and JSON lines: `payload`, `event_context`, ...
    pub fn key(self) -> &'static str {
        match self {
            Scope::PacketHeader => "packet_header",
            Scope::PacketContext => "packet_context",
            Scope::EventHeader => "header",
            Scope::CommonContext => "stream_context",
            Scope::SpecificContext => "event_context",
            Scope::Payload => "payload",
        }
    }
}

/// One step of a [`FieldPath`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum PathStep {
    /// Member of a structure, by index.
    Member(u32),
    /// The element of an array that is being decoded.
    Element,
    /// Option of a variant, by index.
    Option(u32),
    /// The option of a variant that was selected, for a user outside of the variant. The steps after it go down this
    /// option, and stand for those which go by the same member names down the others.
    Selected(u32),
    /// The content of an optional field.
    Content,
}

/// Path of a field: a scope, and the steps down from the scope's root structure.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FieldPath {
    /// The root.
    pub scope: Scope,
    /// The steps from the root structure down to the field.
    pub steps: Vec<PathStep>,
}

/// Meaning of a field to the reader of packets and events. A set of these is a [`Roles`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum Role {
    /// The magic number 0xC1FC1FC1 at the start of a packet.
    PacketMagic = 1 << 0,
    /// The 16 bytes of the trace's UUID.
    TraceUuid = 1 << 1,
    /// Numeric id of the stream class.
    StreamClassId = 1 << 2,
    /// Numeric id of the stream (instance).
    StreamId = 1 << 3,
    /// Total size of the packet in bits.
    PacketTotalSize = 1 << 4,
    /// Size of the packet's content in bits.
    PacketContentSize = 1 << 5,
    /// Clock value when the packet begins.
    PacketBegin = 1 << 6,
    /// Clock value when the packet ends; does not update the clock.
    PacketEnd = 1 << 7,
    /// Free-running counter of discarded events.
    DiscardedEvents = 1 << 8,
    /// Sequence number of the packet in its stream.
    PacketSequence = 1 << 9,
    /// Numeric id of the event class.
    EventClassId = 1 << 10,
    /// Reading this field updates the stream's default clock. `PacketBegin` fields have it too.
    Timestamp = 1 << 11,
}

/// A set of [`Role`]s.
///
/// ```
/// use tracemill_model::schema::{Role, Roles};
/// let roles = Roles::NONE.with(Role::Timestamp).with(Role::PacketBegin);
/// assert!(roles.has(Role::Timestamp) && !roles.has(Role::EventClassId));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Roles(u16);

impl Roles {
    /// The empty set.
    pub const NONE: Roles = Roles(0);

    /// This set and one role more.
    #[must_use]
    pub fn with(self, role: Role) -> Roles {
        Roles(self.0 | role as u16)
    }

    /// Is the role in the set?
    pub fn has(self, role: Role) -> bool {
        self.0 & role as u16 != 0
    }

    /// Is the set empty?
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Origin of a clock: the meaning of its zero.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ClockOrigin {
    /// The Unix epoch, 1970-01-01T00:00:00Z.
    Unix,
    /// Unknown.
    #[default]
    Unknown,
    /// Named by the producer: two clocks of one custom origin can be compared.
    Custom {
        /// Namespace of the origin.
        namespace: Option<Arc<str>>,
        /// Name of the origin.
        name: Arc<str>,
        /// Unique id of the origin.
        uid: Arc<str>,
    },
}

impl ClockOrigin {
    /// The origin that times of text look like, by the first of them in ns: the Unix epoch when it is after 2001, since no
    /// system runs for so long.
    pub fn of_first_ns(first_ns: i128) -> Self {
        if first_ns >= 1_000_000_000_000_000_000 { ClockOrigin::Unix } else { ClockOrigin::Unknown }
    }
}

/// A clock class.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClockClass {
    /// The id by which the metadata refers to it (CTF 1.8: its name).
    pub id: Arc<str>,
    /// Name.
    pub name: Option<Arc<str>>,
    /// Namespace (CTF 2).
    pub namespace: Option<Arc<str>>,
    /// UUID (CTF 1.8) or unique id (CTF 2) as text.
    pub uid: Option<Arc<str>>,
    /// Description.
    pub description: Option<Arc<str>>,
    /// Ticks per second (or per [`ClockClass::seconds`]); 0 when it is unknown: events then have cycles and no time.
    pub frequency: u64,
    /// Seconds in which that many ticks pass: more than 1 only for clocks whose ticks per second are no whole number.
    pub seconds: u32,
    /// Uncertainty of the measurement, in cycles.
    pub precision: Option<u64>,
    /// Accuracy, in cycles (CTF 2).
    pub accuracy: Option<u64>,
    /// Seconds from the origin to the clock's zero.
    pub offset_seconds: i64,
    /// Cycles to add to that; may be any signed number in CTF 1.8, below the frequency in CTF 2.
    pub offset_cycles: i128,
    /// Nanoseconds to add to the time, for a zero that does not fall on a cycle.
    pub offset_ns: i64,
    /// Meaning of the zero.
    pub origin: ClockOrigin,
    /// Its counts are synthesized from times that the trace stores, and not shown.
    pub has_made_cycles: bool,
}

impl ClockClass {
    /// A clock of 1 GHz without offset or origin.
    pub fn nanoseconds(id: &str) -> Self {
        ClockClass {
            id: id.into(),
            name: Some(id.into()),
            frequency: 1_000_000_000,
            seconds: 1,
            ..ClockClass::default()
        }
    }
}

/// A value of the trace's environment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EnvValue {
    /// An integer.
    Integer(i128),
    /// A string.
    String(Arc<str>),
}

impl From<i64> for EnvValue {
    fn from(value: i64) -> Self {
        EnvValue::Integer(value.into())
    }
}

impl From<&str> for EnvValue {
    fn from(text: &str) -> Self {
        EnvValue::String(text.into())
    }
}

/// A stream class.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StreamClass {
    /// Numeric id in the trace.
    pub id: u64,
    /// Has the trace no such id, so that `id` only counts its classes?
    pub has_no_id: bool,
    /// Name.
    pub name: Option<Arc<str>>,
    /// Namespace (CTF 2).
    pub namespace: Option<Arc<str>>,
    /// Unique id (CTF 2).
    pub uid: Option<Arc<str>>,
    /// The clock that its time stamps are in.
    pub default_clock: Option<ClockId>,
    /// Does the format tie each of its packets to a CPU?
    pub has_cpu: bool,
    /// Root structure of [`Scope::PacketContext`].
    pub packet_context: Option<FieldClassId>,
    /// Root structure of [`Scope::EventHeader`].
    pub event_header: Option<FieldClassId>,
    /// Root structure of [`Scope::CommonContext`].
    pub common_context: Option<FieldClassId>,
    /// Its event classes by their numeric id.
    pub events: HashMap<u64, EventClassId>,
}

/// An event class.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventClass {
    /// Numeric id in its stream class.
    pub id: u64,
    /// The stream class it belongs to.
    pub stream: StreamClassId,
    /// Name.
    pub name: Option<Arc<str>>,
    /// Namespace (CTF 2).
    pub namespace: Option<Arc<str>>,
    /// Unique id (CTF 2).
    pub uid: Option<Arc<str>>,
    /// Log level (CTF 1.8 `loglevel`).
    pub log_level: Option<i64>,
    /// CTF 1.8 `model.emf.uri`.
    pub emf_uri: Option<Arc<str>>,
    /// Root structure of [`Scope::SpecificContext`].
    pub specific_context: Option<FieldClassId>,
    /// Root structure of [`Scope::Payload`].
    pub payload: Option<FieldClassId>,
    /// Events of the class have no time: each follows its predecessor in the stream.
    pub is_untimed: bool,
    /// Half of a call that the trace says its events are.
    pub call: Option<CallHalf>,
    /// The class stands for many ids, each with a name of its own.
    pub open_ids: Option<OpenIds>,
}

/// Half of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallHalf {
    /// It begins.
    Entry,
    /// It ends.
    Exit,
}

/// Ids and names of a class of events that no definition describes: each event holds its own id.
#[derive(Clone, Debug)]
pub struct OpenIds {
    /// Offset of the id in bytes after the header: a little-endian integer of 32 bits.
    pub offset_bytes: u32,
    /// Makes the name of an event.
    pub name: Arc<dyn Render>,
}

impl PartialEq for OpenIds {
    fn eq(&self, other: &Self) -> bool {
        self.offset_bytes == other.offset_bytes && Arc::ptr_eq(&self.name, &other.name)
    }
}

impl Eq for OpenIds {}

/// How the text line of a format sums an event up, instead of showing its fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Member of the payload that stands before the name of the event.
    pub before: Arc<str>,
    /// Does the name of the event stand in the line?
    pub has_name: bool,
    /// Member of the payload that stands after it, after `before`.
    pub after: Arc<str>,
}

impl EventClass {
    /// An event class without name, context or payload.
    pub fn new(id: u64, stream: StreamClassId) -> Self {
        EventClass { id, stream, ..EventClass::default() }
    }
}

/// A piece of a trace that is neither an event nor a packet: a table, a definition, a file of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TracePart {
    /// Its name: what the format calls it.
    pub name: String,
    /// Its bytes, as they are.
    pub bytes: Arc<[u8]>,
}

/// Origin of a converted trace: the data that a writer of its former format needs to write it again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// Name of its format.
    pub format: String,
    /// Version of that.
    pub version: (u32, u32),
    /// Its parts, in the order of the format.
    pub parts: Vec<TracePart>,
    /// Names that its streams had, by the names of the files that they are in.
    pub streams: Vec<(String, String)>,
    /// Have the packets of the streams still the bytes that they had?
    pub has_same_packets: bool,
    /// Ns that were added to its times since then. Those of the clocks that are read now have them.
    pub moved_ns: i64,
}

impl Origin {
    /// The bytes of the part of this name.
    pub fn part(&self, name: &str) -> Option<&[u8]> {
        self.parts.iter().find(|part| part.name == name).map(|part| &*part.bytes)
    }

    /// The name that the stream in this file had.
    pub fn stream_name(&self, file: &str) -> Option<&str> {
        self.streams.iter().find(|(of, _)| of == file).map(|(_, name)| name.as_str())
    }
}

/// Description that a trace gives of its own layout.
///
/// ```
/// use tracemill_model::schema::{
///     ClockClass, EventClass, FieldClass, FieldKind, IntegerClass, Member, Schema, Scope, StreamClass, StructClass,
/// };
///
/// let mut schema = Schema::new("ctf2");
/// let clock = schema.add_clock(ClockClass::nanoseconds("monotonic"));
/// let stream = StreamClass { default_clock: Some(clock), ..StreamClass::default() };
/// let stream = schema.add_stream(stream).expect("the first of its id");
/// let fd = schema.add_field_class(FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(32)), 8));
/// let members = vec![Member::new("fd", fd)];
/// let payload = schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8));
/// let open = EventClass { name: Some("open".into()), payload: Some(payload), ..EventClass::new(1, stream) };
/// let open = schema.add_event(open).expect("the first of its id in the stream");
/// assert_eq!(schema.scope_root(Scope::Payload, open), Some(payload));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Name of the format, as in `--input-format`: `ctf1.8`, `ctf2`.
    pub format: &'static str,
    /// Version as the metadata states it: (1, 8).
    pub version: (u32, u32),
    /// UUID of the trace.
    pub uuid: Option<[u8; 16]>,
    /// Name of the trace.
    pub name: Option<Arc<str>>,
    /// Namespace of the trace (CTF 2).
    pub namespace: Option<Arc<str>>,
    /// Unique id of the trace (CTF 2).
    pub uid: Option<Arc<str>>,
    /// Native byte order (CTF 1.8).
    pub byte_order: ByteOrder,
    /// The environment, in the order of the metadata.
    pub environment: Vec<(Arc<str>, EnvValue)>,
    /// Root structure of [`Scope::PacketHeader`].
    pub packet_header: Option<FieldClassId>,
    /// Fields that sum the payload up in a text line, when it does not show all of them.
    pub summary: Option<Summary>,
    /// Are text lines those of babeltrace2 (CTF 1.8 and CTF 2)? They name the host and the process, and show all times as
    /// those of a wall clock. Others name the trace, where there are several, and show times of a clock without origin as
    /// seconds since its zero.
    pub has_peer_text: bool,
    /// Former format of a converted trace, when the trace holds it.
    pub origin: Option<Arc<Origin>>,
    /// Do the names of members as the metadata write them stand for others, which the format has no place for? Text lines
    /// show those of the metadata then.
    pub has_coded_names: bool,
    field_classes: Vec<FieldClass>,
    clocks: Vec<ClockClass>,
    streams: Vec<StreamClass>,
    stream_ids: HashMap<u64, StreamClassId>,
    events: Vec<EventClass>,
}

impl Schema {
    /// An empty schema of a format.
    pub fn new(format: &'static str) -> Self {
        Schema { format, ..Schema::default() }
    }

    /// This schema with text lines in the form of babeltrace2.
    pub fn with_peer_text(mut self) -> Self {
        self.has_peer_text = true;
        self
    }

    /// Adds a field class to the arena.
    pub fn add_field_class(&mut self, class: FieldClass) -> FieldClassId {
        debug_assert!(class.align_bits.is_power_of_two());
        self.field_classes.push(class);
        FieldClassId(self.field_classes.len() as u32 - 1)
    }

    /// A field class by id. Panics when the id is of another schema.
    pub fn field_class(&self, id: FieldClassId) -> &FieldClass {
        &self.field_classes[id.0 as usize]
    }

    /// The members of a scope whose root is a structure.
    pub fn members(&self, root: Option<FieldClassId>) -> &[Member] {
        match root.map(|root| &self.field_class(root).kind) {
            Some(FieldKind::Struct(structure)) => &structure.members,
            _ => &[],
        }
    }

    /// Puts another class in the place of one, for all who use it.
    pub fn set_field_class(&mut self, id: FieldClassId, class: FieldClass) {
        self.field_classes[id.0 as usize] = class;
    }

    /// Number of field classes in the arena.
    pub fn field_class_count(&self) -> usize {
        self.field_classes.len()
    }

    /// Adds a clock class.
    pub fn add_clock(&mut self, clock: ClockClass) -> ClockId {
        self.clocks.push(clock);
        ClockId(self.clocks.len() as u32 - 1)
    }

    /// A clock class by id.
    pub fn clock(&self, id: ClockId) -> &ClockClass {
        &self.clocks[id.0 as usize]
    }

    /// A clock class for correction by its front end (LTTng origins, user offsets).
    pub fn clock_mut(&mut self, id: ClockId) -> &mut ClockClass {
        &mut self.clocks[id.0 as usize]
    }

    /// All clock classes.
    pub fn clocks(&self) -> &[ClockClass] {
        &self.clocks
    }

    /// The clock that the metadata calls `id`.
    pub fn clock_by_id(&self, id: &str) -> Option<ClockId> {
        self.clocks.iter().position(|clock| &*clock.id == id).map(|at| ClockId(at as u32))
    }

    /// Adds a stream class; `None` when its numeric id is taken.
    pub fn add_stream(&mut self, stream: StreamClass) -> Option<StreamClassId> {
        (!self.stream_ids.contains_key(&stream.id)).then(|| self.add_twin_stream(stream))
    }

    /// Adds a stream class that may have the numeric id of another one: [`Schema::stream_by_id`] finds the first. Only
    /// for formats whose readers say the class of each packet.
    pub fn add_twin_stream(&mut self, stream: StreamClass) -> StreamClassId {
        let id = StreamClassId(self.streams.len() as u32);
        self.stream_ids.entry(stream.id).or_insert(id);
        self.streams.push(stream);
        id
    }

    /// A stream class by id.
    pub fn stream(&self, id: StreamClassId) -> &StreamClass {
        &self.streams[id.0 as usize]
    }

    /// A stream class, to complete it while a schema is built.
    pub fn stream_mut(&mut self, id: StreamClassId) -> &mut StreamClass {
        &mut self.streams[id.0 as usize]
    }

    /// All stream classes.
    pub fn streams(&self) -> &[StreamClass] {
        &self.streams
    }

    /// The stream class with this numeric id.
    pub fn stream_by_id(&self, id: u64) -> Option<StreamClassId> {
        self.stream_ids.get(&id).copied()
    }

    /// Adds an event class to its stream class; `None` when its numeric id is taken there.
    pub fn add_event(&mut self, event: EventClass) -> Option<EventClassId> {
        (!self.stream(event.stream).events.contains_key(&event.id)).then(|| self.add_twin_event(event))
    }

    /// Adds an event class that may have the numeric id of another one in its stream class; it stands under the next
    /// free number among [`StreamClass::events`]. Only for formats whose readers say the class of each event.
    pub fn add_twin_event(&mut self, event: EventClass) -> EventClassId {
        let id = EventClassId(self.events.len() as u32);
        let events = &mut self.streams[event.stream.0 as usize].events;
        let mut number = event.id;
        if events.contains_key(&number) {
            number = events.len() as u64;
            while events.contains_key(&number) {
                number = number.wrapping_add(1);
            }
        }
        events.insert(number, id);
        self.events.push(event);
        id
    }

    /// An event class by id.
    pub fn event(&self, id: EventClassId) -> &EventClass {
        &self.events[id.0 as usize]
    }

    /// An event class by id, to be changed. Its numeric id and its stream class stay what they are.
    pub fn event_mut(&mut self, id: EventClassId) -> &mut EventClass {
        &mut self.events[id.0 as usize]
    }

    /// All event classes, in the order of the metadata.
    pub fn events(&self) -> &[EventClass] {
        &self.events
    }

    /// For each stream class a numeric id that no other has: its own, unless it is a twin.
    pub fn distinct_stream_ids(&self) -> Vec<u64> {
        let mut free = self.streams.len() as u64..;
        let own = |(at, stream): (usize, &StreamClass)| {
            let is_first = self.stream_ids.get(&stream.id) == Some(&StreamClassId(at as u32));
            let mut next = || free.find(|id| !self.stream_ids.contains_key(id)).unwrap_or(u64::MAX);
            if is_first { stream.id } else { next() }
        };
        self.streams.iter().enumerate().map(own).collect()
    }

    /// For each event class a numeric id that no other of its stream class has: its own, unless it is a twin.
    pub fn distinct_event_ids(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.events.iter().map(|event| event.id).collect();
        for (number, event) in self.streams.iter().flat_map(|stream| &stream.events) {
            if let Some(id) = ids.get_mut(event.0 as usize) {
                *id = *number;
            }
        }
        ids
    }

    /// Are the clock values of an event class what the trace stores?
    pub fn has_cycles(&self, event: EventClassId) -> bool {
        let class = self.event(event);
        let clock = self.stream(class.stream).default_clock;
        clock.is_some_and(|clock| !self.clock(clock).has_made_cycles) && !class.is_untimed
    }

    /// Root class of a scope for an event class, `None` when the scope is not declared.
    pub fn scope_root(&self, scope: Scope, event: EventClassId) -> Option<FieldClassId> {
        let class = self.event(event);
        let stream = self.stream(class.stream);
        match scope {
            Scope::PacketHeader => self.packet_header,
            Scope::PacketContext => stream.packet_context,
            Scope::EventHeader => stream.event_header,
            Scope::CommonContext => stream.common_context,
            Scope::SpecificContext => class.specific_context,
            Scope::Payload => class.payload,
        }
    }

    /// Root classes of the scopes of a stream class, in the order of [`Scope::ALL`], without those of its event classes.
    pub fn stream_roots(&self, class: &StreamClass) -> [Option<FieldClassId>; 6] {
        [self.packet_header, class.packet_context, class.event_header, class.common_context, None, None]
    }

    /// Root classes of the scopes of an event class, in the order of [`Scope::ALL`].
    pub fn event_roots(&self, class: &EventClass) -> [Option<FieldClassId>; 6] {
        let mut roots = self.stream_roots(self.stream(class.stream));
        (roots[4], roots[5]) = (class.specific_context, class.payload);
        roots
    }

    /// Has a header or a packet context of this class fields without a meaning to the reader: others than the id and the
    /// time of an event, or sizes, times and counters of a packet?
    pub fn says_more(&self, id: FieldClassId) -> bool {
        let class = self.field_class(id);
        match &class.kind {
            FieldKind::Struct(of) => of.members.iter().any(|member| self.says_more(member.class)),
            FieldKind::Variant(of) => of.options.iter().any(|option| self.says_more(option.class)),
            FieldKind::Optional(of) => self.says_more(of.content),
            _ => class.roles.is_empty(),
        }
    }

    /// The name of a member as `babeltrace2` shows it, which knows no others than those of the metadata.
    pub fn peer_name<'a>(&self, member: &'a Member) -> &'a str {
        let raw = || member.raw_name.strip_prefix('_').unwrap_or(&member.raw_name);
        if self.has_coded_names { raw() } else { &member.name }
    }

    /// A value of the environment.
    pub fn env(&self, name: &str) -> Option<&EnvValue> {
        self.environment.iter().find(|(key, _)| &**key == name).map(|(_, value)| value)
    }

    /// Alignment of a structure: the largest of `minimum_bits` and of its members'.
    pub fn struct_align_bits(&self, members: &[Member], minimum_bits: u32) -> u32 {
        members.iter().map(|member| self.field_class(member.class).align_bits).fold(minimum_bits.max(1), u32::max)
    }
}
