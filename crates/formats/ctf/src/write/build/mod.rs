//! Traces that a program makes itself: definitions become a schema and its metadata, values become packets.
//!
//! [`Definitions`] hold what the metadata say, a [`PacketWriter`] makes the bytes of one stream. Neither touches a file:
//! the library's builder does, and so may anybody else.

mod field;
mod packet;

use tracemill_codec::field_writer::FieldLayout;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{
    ClockClass, ClockId, EnvValue, EventClass, FieldClass, FieldClassId, FieldKind, IntegerClass, Member, Role, Roles,
    Schema, Scope, StreamClass, StreamClassId, StructClass,
};

pub use self::field::{
    Field, array, blob, blob_of, boolean, f32, f64, i8, i16, i32, i64, list, optional, signed, string, structure, u8,
    u16, u32, u64, unsigned, variant,
};
use self::field::{FieldAdder, lower};
pub use self::packet::PacketWriter;
use super::Dialect;
use super::convert::text_of;
use super::mapping::context_members;
use super::marks::Marks;
use crate::names::is_identifier;

/// Event classes that a stream class can have: their ids have 16 bits.
const MAX_EVENT_CLASSES: usize = 1 << 16;

/// Contents of the metadata of a trace.
#[derive(Clone, Debug)]
pub struct Definitions {
    dialect: Dialect,
    schema: Schema,
}

/// A stream class that is wanted.
#[derive(Clone, Debug)]
pub struct StreamDefinition {
    /// Its name.
    pub name: String,
    /// The clock of its events.
    pub clock: ClockClass,
    /// Fields that each packet has.
    pub packet_context: Vec<(String, Field)>,
    /// Fields that each event has before its own.
    pub context: Vec<(String, Field)>,
}

/// A stream class that a trace has.
#[derive(Clone, Debug)]
pub struct StreamLayout {
    /// Its place in the schema.
    pub class: StreamClassId,
    /// Numeric id, in each packet.
    pub id: u64,
    /// Fields that each packet has.
    pub packet_context: FieldLayout,
    /// Fields that each event has before its own.
    pub context: FieldLayout,
}

/// An event class that is wanted.
#[derive(Clone, Debug, Default)]
pub struct EventDefinition {
    /// Its name.
    pub name: String,
    /// Log level, 0 (emergency) to 14 (debug), as LTTng numbers them.
    pub log_level: Option<i64>,
    /// Fields of the event's own context.
    pub context: Vec<(String, Field)>,
    /// Fields of its payload.
    pub payload: Vec<(String, Field)>,
}

/// An event class that a trace has.
#[derive(Clone, Debug)]
pub struct EventLayout {
    /// Numeric id, in each event.
    pub id: u16,
    /// Its own context, then its payload.
    pub fields: FieldLayout,
}

impl Definitions {
    /// Definitions of a trace in CTF 2.
    pub fn ctf2() -> Self {
        Definitions::new(Dialect::Ctf2)
    }

    /// Definitions of a trace in CTF 1.8.
    pub fn ctf18() -> Self {
        Definitions::new(Dialect::Ctf18)
    }

    fn new(dialect: Dialect) -> Self {
        let mut schema = Schema::new(dialect.format());
        schema.version = dialect.version();
        let mut members = Vec::new();
        for (name, len_bits, role) in [
            ("magic", 32, Role::PacketMagic),
            ("stream_id", 64, Role::StreamClassId),
            ("stream_instance_id", 64, Role::StreamId),
        ] {
            members.push(with_roles(&mut schema, name, len_bits, Roles::NONE.with(role)));
        }
        schema.packet_header = Some(add_struct(&mut schema, members));
        Definitions { dialect, schema }
    }

    /// Sets a value of the environment.
    ///
    /// # Errors
    /// When the name is none that the dialect has: an identifier in CTF 1.8.
    pub fn set_environment(&mut self, name: &str, value: EnvValue) -> Result<()> {
        if name.is_empty() || self.dialect == Dialect::Ctf18 && !is_identifier(name) {
            let error = Error::misuse(format!("`{name}` is not a name of a value of the environment"));
            return Err(error.with_help("use an identifier of C"));
        }
        let environment = &mut self.schema.environment;
        environment.retain(|(other, _)| **other != *name);
        environment.push((name.into(), value));
        Ok(())
    }

    /// Adds a stream class.
    ///
    /// # Errors
    /// When its name is taken, when another clock has the name of its clock, or one of its fields makes no sense.
    pub fn add_stream_class(&mut self, of: &StreamDefinition) -> Result<StreamLayout> {
        if self.schema.streams().iter().any(|other| other.name.as_deref() == Some(&of.name)) {
            return Err(Error::misuse(format!("there is a stream class `{}` already", of.name)));
        }
        let clock = self.clock(&of.clock)?;
        let first = self.schema.field_class_count();
        let mut members = Vec::new();
        for (name, len_bits, roles) in context_members(true, false) {
            members.push(with_roles(&mut self.schema, name, len_bits, roles));
        }
        let own = members.len();
        let packet_context = self.fields(Scope::PacketContext, members, &of.packet_context)?;
        let header = [("id", 16, Role::EventClassId), ("timestamp", 64, Role::Timestamp)];
        let header =
            header.map(|(name, len_bits, role)| with_roles(&mut self.schema, name, len_bits, Roles::NONE.with(role)));
        let header = add_struct(&mut self.schema, header.into());
        let has_context = !of.context.is_empty();
        let context = self.fields(Scope::CommonContext, Vec::new(), &of.context)?;
        let packet_layout = FieldLayout::from_members(&self.schema, Scope::PacketContext, packet_context, own)?;
        let layout = FieldLayout::new(&self.schema, &[(Scope::CommonContext, context)])?;
        self.lower_from(first);
        let id = self.schema.streams().len() as u64;
        let class = self.schema.add_stream(StreamClass {
            id,
            name: Some(of.name.as_str().into()),
            default_clock: Some(clock),
            packet_context: Some(packet_context),
            event_header: Some(header),
            common_context: has_context.then_some(context),
            ..StreamClass::default()
        });
        let class = class.unwrap_or(StreamClassId(id as u32));
        Ok(StreamLayout { class, id, packet_context: packet_layout, context: layout })
    }

    /// Adds an event class to a stream class.
    ///
    /// # Errors
    /// When its name is taken, the stream class has 65,536 of them, or one of its fields makes no sense.
    pub fn add_event_class(&mut self, stream: StreamClassId, of: &EventDefinition) -> Result<EventLayout> {
        let known = &self.schema.stream(stream).events;
        if known.values().any(|&other| self.schema.event(other).name.as_deref() == Some(&of.name)) {
            return Err(Error::misuse("its stream class has an event class of this name already").in_event(&*of.name));
        }
        let id = known.len();
        if id >= MAX_EVENT_CLASSES {
            return Err(Error::misuse("a stream class has at most 65,536 event classes").in_event(&*of.name));
        }
        let first = self.schema.field_class_count();
        let in_event = |error: Error| error.in_event(&*of.name);
        let mut roots = Vec::new();
        for (scope, fields) in [(Scope::SpecificContext, &of.context), (Scope::Payload, &of.payload)] {
            if !fields.is_empty() {
                roots.push((scope, self.fields(scope, Vec::new(), fields).map_err(in_event)?));
            }
        }
        let fields = FieldLayout::new(&self.schema, &roots).map_err(in_event)?;
        self.lower_from(first);
        let root = |scope| roots.iter().find(|(of, _)| *of == scope).map(|(_, root)| *root);
        self.schema.add_event(EventClass {
            name: Some(of.name.as_str().into()),
            log_level: of.log_level,
            specific_context: root(Scope::SpecificContext),
            payload: root(Scope::Payload),
            ..EventClass::new(id as u64, stream)
        });
        Ok(EventLayout { id: id as u16, fields })
    }

    /// The metadata, in the form of the dialect.
    pub fn metadata(&self) -> Vec<u8> {
        text_of(self.dialect, &self.schema, &Marks::new(), "written with tracemill")
    }

    /// A clock that is there already, or a new one.
    fn clock(&mut self, clock: &ClockClass) -> Result<ClockId> {
        if clock.frequency == 0 {
            return Err(Error::misuse(format!("the clock `{}` has a frequency of 0", clock.id)));
        }
        match self.schema.clock_by_id(&clock.id) {
            Some(known) if self.schema.clock(known) == clock => Ok(known),
            Some(_) => Err(Error::misuse(format!("two different clocks are named `{}`", clock.id))),
            None => Ok(self.schema.add_clock(clock.clone())),
        }
    }

    fn fields(&mut self, scope: Scope, own: Vec<Member>, fields: &[(String, Field)]) -> Result<FieldClassId> {
        FieldAdder::new(self.dialect, &mut self.schema, scope).root(own, fields)
    }

    fn lower_from(&mut self, first: usize) {
        if self.dialect == Dialect::Ctf18 {
            lower(&mut self.schema, first);
        }
    }
}

/// An unsigned integer with roles, as a member.
fn with_roles(schema: &mut Schema, name: &str, len_bits: u32, roles: Roles) -> Member {
    let class = FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(len_bits)), 8).with_roles(roles);
    Member::new(name, schema.add_field_class(class))
}

fn add_struct(schema: &mut Schema, members: Vec<Member>) -> FieldClassId {
    schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8))
}
