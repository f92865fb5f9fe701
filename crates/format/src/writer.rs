//! Mechanisms that the writers of all formats share.
//!
//! An output of several traces has a writer for each ([`writer_of_each`]): one that rewrites a trace as what it is or was
//! ([`Source::origin`]), or one that converts it from another format. Both are [`TraceWriter`]s that know one trace only.

use std::borrow::Cow;
use std::sync::Arc;

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::plan::Fault;
use tracemill_codec::value::Value;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Gap;
use tracemill_model::schema::{EventClassId, Schema, Scope};

use crate::lost::{Losses, Lost};
use crate::samples::Sample;
use crate::target::{Needs, Source, StreamTarget, TraceWriter};

/// A writer of traces that are kept apart: `make` chooses the one of each source, by its place and origin.
///
/// # Errors
/// Errors of `make`.
pub fn writer_of_each<'a>(
    sources: &'a [Source],
    mut make: impl FnMut(usize, &'a Source) -> Result<Box<dyn TraceWriter>>,
) -> Result<Box<dyn TraceWriter>> {
    if let [source] = sources {
        return make(0, source);
    }
    let places =
        sources.iter().enumerate().flat_map(|(at, source)| (0..source.streams.len()).map(move |one| (at, one)));
    let place_of = places.collect();
    let writers = sources.iter().enumerate().map(|(at, source)| make(at, source)).collect::<Result<_>>()?;
    Ok(Box::new(Writers { writers, place_of }))
}

struct Writers {
    writers: Vec<Box<dyn TraceWriter>>,
    /// For each stream of all sources its writer, and its place there.
    place_of: Vec<(usize, usize)>,
}

impl TraceWriter for Writers {
    fn needs(&self) -> Needs {
        let of = |need: fn(&Needs) -> bool| self.writers.iter().map(move |writer| need(&writer.needs()));
        Needs {
            joined_traces: of(|needs| needs.joined_traces).all(|has| has),
            whole_packets: of(|needs| needs.whole_packets).all(|has| has),
            samples: of(|needs| needs.samples).any(|has| has),
        }
    }

    fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        self.writers.iter().for_each(|writer| losses.extend(&writer.losses()));
        losses
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let (writer, stream) = self.place_of[stream];
        self.writers[writer].event(stream, event)
    }

    fn sample(&mut self, stream: usize, event: EventRef<'_>, sample: &Sample<'_>) -> Result<()> {
        let (writer, stream) = self.place_of[stream];
        self.writers[writer].sample(stream, event, sample)
    }

    fn packet(&mut self, stream: usize, packet: &PacketData) -> Result<()> {
        let (writer, stream) = self.place_of[stream];
        self.writers[writer].packet(stream, packet)
    }

    fn empty_packet(&mut self, stream: usize, packet: &PacketData) -> Result<()> {
        let (writer, stream) = self.place_of[stream];
        self.writers[writer].empty_packet(stream, packet)
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        let (writer, stream) = self.place_of[stream];
        self.writers[writer].gap(stream, gap)
    }

    fn end_stream(&mut self, stream: usize) -> Result<()> {
        let (writer, stream) = self.place_of[stream];
        self.writers[writer].end_stream(stream)
    }

    fn streams(&mut self) -> Option<Vec<Box<dyn StreamTarget + Send + '_>>> {
        let of_each: Option<Vec<_>> = self.writers.iter_mut().map(|writer| writer.streams()).collect();
        Some(of_each?.into_iter().flatten().collect())
    }

    fn finish(self: Box<Self>) -> Result<Losses> {
        let mut losses = Losses::default();
        for writer in self.writers {
            losses.extend(&writer.finish()?);
        }
        Ok(losses)
    }
}

/// Identity of a definition in an output: an event class of a source, and of a class for many ids each of its names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClassKey {
    source: usize,
    class: EventClassId,
    own_name: Option<Vec<u8>>,
}

impl ClassKey {
    /// The key of an event of a source, which is given by its place.
    pub fn from_event(source: usize, event: EventRef<'_>) -> ClassKey {
        let mut name = Vec::new();
        let own_name = event.own_id(&mut name).map(|_| name);
        ClassKey { source, class: event.class(), own_name }
    }

    /// The name of the events: their own, else that of their class, else one of its id.
    pub fn name<'a>(&'a self, schema: &'a Schema) -> Cow<'a, str> {
        let class = schema.event(self.class);
        match (&self.own_name, class.name.as_deref()) {
            (Some(name), _) => String::from_utf8_lossy(name),
            (None, Some(name)) => name.into(),
            (None, None) => format!("event_{}", class.id).into(),
        }
    }
}

pub use tracemill_semantics::names::STORED;

/// Notes the packet that an event is in. Is it another one than that of the event before?
pub fn enters(packet: &mut Option<Arc<PacketData>>, event: EventRef<'_>) -> bool {
    let own = &event.chunk.packet;
    let is_known = packet.as_ref().is_some_and(|known| PacketData::is_same(known, own));
    if !is_known {
        *packet = Some(own.clone());
    }
    !is_known
}

/// The members of the payload, without their names; `None` without payload.
///
/// # Errors
/// When the payload cannot be decoded.
pub fn payload_members(event: EventRef<'_>) -> Result<Option<Vec<Value>>> {
    let values = event.values(Scope::Payload).map_err(|fault| Error::malformed(fault.kind.to_string()))?;
    Ok(match values {
        Some(Value::Struct(members)) => Some(members.into_iter().map(|(_, value)| value).collect()),
        _ => None,
    })
}

/// The event header as the format has it that the trace is of, or was: CTF 2 keeps it as a member of its own.
///
/// # Errors
/// When the header cannot be decoded.
pub fn stored_header(event: EventRef<'_>) -> std::result::Result<Option<Value>, Fault> {
    let header = event.values(Scope::EventHeader)?;
    Ok(header.map(|header| match header.member(STORED) {
        Some(stored) => stored.clone(),
        None => header,
    }))
}

/// Counts the streams whose packet contexts and event headers say more than a target keeps: more than the members of
/// these names, and than what only describes the packet or is the id or the time of an event.
pub fn count_headers(losses: &mut Losses, source: &Source, of_context: &[&str], of_header: &[&str]) {
    let schema = &source.schema;
    let has_more = |root, known: &[&str]| {
        schema.members(root).iter().any(|member| !known.contains(&&*member.name) && schema.says_more(member.class))
    };
    for class in source.streams.iter().map(|stream| schema.stream(stream.class)) {
        losses.add(Lost::PacketContexts, has_more(class.packet_context, of_context).into());
        losses.add(Lost::EventHeaders, has_more(class.event_header, of_header).into());
    }
}
