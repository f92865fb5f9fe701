//! Several traces as one: stream classes and clocks get ids of their own, and everything else stands side by side.
//!
//! Every source keeps a mapping of its own; what they describe is put together when all events are there. What a trace
//! has once stays when all sources agree on it: its UUID, name, namespace and the members of its packet header.

use std::collections::HashSet;
use std::sync::Arc;

use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{
    ClockClass, ClockId, EnvValue, EventClass, FieldClass, FieldClassId, FieldKind, Schema, StreamClass, StreamClassId,
};

use super::mapping::{Mapping, has_own_ids};
use super::marks::Marks;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::Source;

/// The sources as parts of one trace: what is reported once of a trace is that of all, or nothing.
pub(super) fn parts_of_one(sources: &[Source], losses: &mut Losses) -> Vec<Source> {
    let shared = |of: fn(&Schema) -> bool, is_same: fn(&Schema, &Schema) -> bool| {
        sources.windows(2).all(|pair| is_same(&pair[0].schema, &pair[1].schema))
            || !sources.iter().any(|source| of(&source.schema))
    };
    let keeps_uuid = shared(|of| of.uuid.is_some(), |a, b| a.uuid == b.uuid);
    let is_named_alike = |a: &Schema, b: &Schema| (&a.name, &a.namespace, &a.uid) == (&b.name, &b.namespace, &b.uid);
    let keeps_names = shared(|of| of.name.is_some() || of.namespace.is_some() || of.uid.is_some(), is_named_alike);
    let keeps_summary = shared(|of| of.summary.is_some(), |a, b| a.summary == b.summary);
    let own_names: HashSet<&str> = sources.iter().map(|source| source.own_name.as_str()).collect();
    let one = |source: &Source| {
        let mut source = source.clone();
        let schema = Arc::make_mut(&mut source.schema);
        if !keeps_uuid && schema.uuid.take().is_some() {
            losses.add(Lost::MergedUuids, 1);
        }
        if !keeps_names {
            let names = [schema.name.take(), schema.namespace.take(), schema.uid.take()];
            losses.add(Lost::MergedNames, names.iter().flatten().count() as u64);
        }
        if !keeps_summary && schema.summary.take().is_some() {
            losses.add(Lost::TextForm, 1);
        }
        if own_names.len() > 1 {
            source.own_name = String::new();
        }
        source
    };
    sources.iter().map(one).collect()
}

/// Do the ids of its streams differ in every source?
pub(super) fn have_own_ids(sources: &[Source]) -> bool {
    sources.iter().all(has_own_ids)
}

/// Refuses a packet header that the others do not have, but that events cannot be read without.
pub(super) fn check_header(mapping: &Mapping, source: &Source) -> Result<()> {
    if !mapping.keeps_header.contains(&true) {
        return Ok(());
    }
    let message = format!("a field in the packet headers of `{}` says the length or the kind of others", source.name);
    Err(Error::unsupported(message).with_help("without --merge it becomes a trace of its own"))
}

/// Gives stream classes numeric ids that no other trace has: their own, where it is free.
pub(super) fn number(mapping: &mut Mapping, taken: &mut HashSet<u64>) {
    for stream in &mut mapping.streams {
        if !taken.insert(stream.id) {
            let behind = taken.iter().max().and_then(|max| max.checked_add(1));
            // After the largest number there is none.
            let free = behind.or_else(|| (0..u64::MAX).find(|id| !taken.contains(id)));
            stream.id = free.unwrap_or(stream.id);
            taken.insert(stream.id);
        }
    }
}

/// One schema for all, with the names by which the environments differ.
pub(super) fn schema(parts: &[(&Mapping, &str)]) -> (Schema, Marks) {
    let (first, _) = parts[0];
    let mut to = Schema::new(first.to.format);
    to.version = first.to.version;
    to.byte_order = first.to.byte_order;
    to.uuid = first.to.uuid;
    to.name.clone_from(&first.to.name);
    to.namespace.clone_from(&first.to.namespace);
    to.uid.clone_from(&first.to.uid);
    to.summary.clone_from(&first.to.summary);
    to.environment = environment(parts);
    // All packet headers are alike.
    to.packet_header = first.to.packet_header;
    let mut marks = Marks::new();
    for (mapping, _) in parts {
        add(&mut to, &mut marks, mapping);
    }
    (to, marks)
}

fn add(to: &mut Schema, marks: &mut Marks, mapping: &Mapping) {
    let (from, base) = (&mapping.to, to.field_class_count() as u32);
    let moved = |id: FieldClassId| FieldClassId(id.0 + base);
    let clocks: Vec<ClockId> = from.clocks().iter().map(|clock| add_clock(to, clock)).collect();
    for at in 0..from.field_class_count() {
        to.add_field_class(moved_class(from.field_class(FieldClassId(at as u32)), base, &clocks));
    }
    marks.extend(mapping.marks.iter().map(|(id, mark)| (moved(*id), mark.clone())));
    let first_stream = to.streams().len() as u32;
    for (stream, own) in from.streams().iter().zip(&mapping.streams) {
        to.add_stream(StreamClass {
            id: own.id,
            default_clock: stream.default_clock.and_then(|clock| clocks.get(clock.0 as usize).copied()),
            packet_context: stream.packet_context.map(moved),
            event_header: stream.event_header.map(moved),
            common_context: stream.common_context.map(moved),
            events: Default::default(),
            ..stream.clone()
        });
    }
    for event in from.events() {
        to.add_event(EventClass {
            stream: StreamClassId(event.stream.0 + first_stream),
            specific_context: event.specific_context.map(moved),
            payload: event.payload.map(moved),
            ..event.clone()
        });
    }
}

/// A class as it stands among the classes of all.
fn moved_class(class: &FieldClass, base: u32, clocks: &[ClockId]) -> FieldClass {
    let mut class = class.clone();
    if let FieldKind::Integer(integer) = &mut class.kind {
        integer.clock = integer.clock.and_then(|clock| clocks.get(clock.0 as usize).copied());
    }
    let parts: Vec<&mut FieldClassId> = match &mut class.kind {
        FieldKind::Struct(class) => class.members.iter_mut().map(|member| &mut member.class).collect(),
        FieldKind::Array(class) => vec![&mut class.element],
        FieldKind::Optional(class) => vec![&mut class.content],
        FieldKind::Variant(class) => class.options.iter_mut().map(|option| &mut option.class).collect(),
        _ => Vec::new(),
    };
    for part in parts {
        part.0 += base;
    }
    class
}

/// A clock that two traces have is one; another one of the same id gets a number after it.
fn add_clock(to: &mut Schema, clock: &ClockClass) -> ClockId {
    if let Some(same) = to.clocks().iter().position(|other| other == clock) {
        return ClockId(same as u32);
    }
    let mut clock = clock.clone();
    let mut number = 1;
    let id = clock.id.clone();
    while to.clock_by_id(&clock.id).is_some() {
        number += 1;
        clock.id = format!("{id}_{number}").into();
    }
    to.add_clock(clock)
}

/// The environment of all. A value that all traces share keeps its name, any other has the name of its trace in front.
fn environment(parts: &[(&Mapping, &str)]) -> Vec<(Arc<str>, EnvValue)> {
    let mut environment: Vec<(Arc<str>, EnvValue)> = Vec::new();
    for (mapping, name) in parts {
        for (key, value) in &mapping.to.environment {
            let is_shared = parts.iter().all(|(other, _)| other.to.env(key) == Some(value));
            let key = if is_shared { key.clone() } else { format!("{name}_{key}").into() };
            if !environment.iter().any(|(other, _)| *other == key) {
                environment.push((key, value.clone()));
            }
        }
    }
    environment
}
