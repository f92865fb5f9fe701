//! Conditions over events: as little as possible is decoded.

use std::sync::Arc;

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::plan::DecoderState;
use tracemill_model::schema::{EventClass, EventClassId, Schema, Scope};

use super::bind::{self, Bound};
use super::capture::{Capture, CapturedFields, CapturedValues, StoredValue};
use super::eval::{self, FilterValue, PathSource, PathValue, ValueLabels};
use super::keys::Wants;
use super::number::EventNumber;
use super::resolve::{Detail, PathPlace};
use super::rows::Lookup;
use super::syntax::{PathHead, Test};
use crate::event::Event;

/// Evaluates a filter in one thread. It prepares each event class when it meets it first.
pub struct Matcher {
    bound: Arc<Bound>,
    /// By trace and event class.
    programs: Vec<Vec<Option<Box<Program>>>>,
    /// By trace and stream: the values of its last packet.
    packets: Vec<Vec<Option<PacketValues>>>,
    /// By trace and stream class: what is wanted of its packet contexts.
    packet_wants: Vec<Vec<Option<CapturedFields>>>,
    fields: CapturedValues,
    state: DecoderState,
    indices: Vec<u64>,
    /// Name of an event whose class stands for many.
    name: Vec<u8>,
}

/// A packet and the values of its context. It is held so that its address stays its own.
type PacketValues = (Arc<PacketData>, CapturedValues);

/// A filter, prepared for one event class.
struct Program {
    /// The condition without the parts that the class decides.
    test: Test,
    places: Vec<PathPlace>,
    details: Vec<Detail>,
    /// The fields that are read of each event.
    wants: Wants,
    wants_packet: bool,
    /// Is there something to decide before fields are decoded?
    has_early: bool,
}

impl Matcher {
    pub(super) fn new(bound: Arc<Bound>) -> Self {
        let each = |count: fn(&bind::BoundTrace) -> usize| bound.traces.iter().map(count).collect::<Vec<_>>();
        fn empty<T>(counts: Vec<usize>) -> Vec<Vec<Option<T>>> {
            let vector = |count| std::iter::repeat_with(|| None).take(count).collect();
            counts.into_iter().map(vector).collect()
        }
        Matcher {
            programs: empty(each(|trace| trace.verdicts.len())),
            packets: empty(each(|trace| trace.streams.len())),
            packet_wants: empty(each(|trace| trace.packet_places.len())),
            bound,
            fields: CapturedValues::default(),
            state: DecoderState::default(),
            indices: Vec::new(),
            name: Vec::new(),
        }
    }

    /// Does the event match?
    ///
    /// Panics when `trace` or `stream` is not of the session that the filter was bound to.
    #[inline]
    pub fn matches(&mut self, event: &Event) -> bool {
        let class = event.raw.class();
        match self.bound.traces[event.trace].verdicts[class.0 as usize] {
            Some(verdict) => verdict,
            None => self.decide(event, class, None),
        }
    }

    /// Does the event match, with these values beside it? See [`Beside`](super::Beside).
    ///
    /// Panics as [`matches`](Self::matches) does.
    #[inline]
    pub fn matches_with(&mut self, event: &Event, beside: &dyn Lookup) -> bool {
        let class = event.raw.class();
        match self.bound.traces[event.trace].verdicts[class.0 as usize] {
            Some(verdict) => verdict,
            None => self.decide(event, class, Some(beside)),
        }
    }

    fn decide(&mut self, event: &Event, class: EventClassId, beside: Option<&dyn Lookup>) -> bool {
        let bound = &*self.bound;
        let program = self.programs[event.trace][class.0 as usize]
            .get_or_insert_with(|| Box::new(Program::new(bound, event.trace, event.raw)));
        let trace = &bound.traces[event.trace];
        let stream_name = trace.streams.get(event.stream).map_or("", |name| name);
        let mut scene = Scene::for_class(&trace.schema, class, &trace.name, &program.places);
        scene.details = &program.details;
        scene.beside = beside;
        self.name.clear();
        let own_id = scene.class.open_ids.as_ref().and_then(|_| event.raw.own_id(&mut self.name));
        let clock = trace.schema.stream(scene.class.stream).default_clock;
        scene.spine = Some(SpineValues {
            ns: event.ns,
            cycles: event.raw.cycles(),
            stream_name,
            own: own_id.map(|id| (id, &*self.name)),
            has_rateless_clock: clock.is_some_and(|clock| trace.schema.clock(clock).frequency == 0),
            cpu: event.raw.chunk.packet.cpu,
        });
        if program.wants_packet {
            let packet = &event.raw.chunk.packet;
            let cached = &mut self.packets[event.trace][event.stream];
            if cached.as_ref().is_none_or(|(known, _)| !PacketData::is_same(known, packet)) {
                let wanted = self.packet_wants[event.trace][packet.packet.class.0 as usize]
                    .get_or_insert_with(|| capture_packet(bound, event.trace, packet));
                let mut values = cached.take().map(|(_, values)| values).unwrap_or_default();
                values.clear(bound.paths.len());
                // Opening the packet has read its context without an error.
                let _ = packet.visit_context(&mut Capture::new(wanted, &mut values, &mut self.indices));
                *cached = Some((packet.clone(), values));
            }
            scene.packet = cached.as_ref().map(|(_, values)| values);
        }
        if program.has_early
            && let Some(decided) = eval::evaluate(&program.test, &scene)
        {
            return decided;
        }
        program.wants.capture(event.raw, bound.paths.len(), &mut self.fields, &mut self.state, &mut self.indices);
        scene.fields = Some(&self.fields);
        eval::evaluate(&program.test, &scene).unwrap_or(false)
    }
}

fn capture_packet(bound: &Bound, trace: usize, packet: &PacketData) -> CapturedFields {
    let trace = &bound.traces[trace];
    let class = packet.packet.class;
    let plan = packet.plans.packet_context_rows(class);
    let mut wanted = CapturedFields::default();
    for (path, place) in trace.packet_places[class.0 as usize].iter().enumerate() {
        if let Some(place) = place {
            wanted.add(plan, 0, path, place, place.detail(&trace.schema));
        }
    }
    wanted
}

impl Program {
    fn new(bound: &Bound, trace: usize, event: EventRef) -> Self {
        let trace = &bound.traces[trace];
        let (schema, class) = (&trace.schema, event.class());
        let places = bind::places(schema, class, &bound.paths);
        let test = eval::reduce(&bound.test, &Scene::for_class(schema, class, &trace.name, &places));
        let details: Vec<Detail> = places.iter().map(|place| place.detail(schema)).collect();
        let mut is_used = vec![false; places.len()];
        eval::each_path(&test, &mut |path| is_used[path] = true);
        let (mut wants, mut wants_packet, mut has_early) = (Wants::default(), false, false);
        for path in (0..is_used.len()).filter(|&path| is_used[path]) {
            match &places[path] {
                PathPlace::Field(place) if place.scope != Scope::PacketContext => {
                    wants.add(event, path, place, &details[path]);
                }
                place => {
                    has_early = true;
                    wants_packet |= matches!(place, PathPlace::Field(_));
                }
            }
        }
        Program { test, places, details, wants, wants_packet, has_early }
    }
}

/// Known values of an event at some point of a decision.
pub(super) struct Scene<'a> {
    class: &'a EventClass,
    stream_id: u64,
    trace: &'a str,
    places: &'a [PathPlace],
    details: &'a [Detail],
    spine: Option<SpineValues<'a>>,
    packet: Option<&'a CapturedValues>,
    fields: Option<&'a CapturedValues>,
    /// Values that are no part of the event.
    beside: Option<&'a dyn Lookup>,
}

struct SpineValues<'a> {
    ns: Option<i128>,
    cycles: u64,
    stream_name: &'a str,
    /// Id and name of an event whose class stands for many.
    own: Option<(u32, &'a [u8])>,
    /// Are there cycles of unknown length?
    has_rateless_clock: bool,
    cpu: Option<u32>,
}

impl<'a> Scene<'a> {
    /// Only the class is known.
    pub(super) fn for_class(schema: &'a Schema, class: EventClassId, trace: &'a str, places: &'a [PathPlace]) -> Self {
        let class = schema.event(class);
        let stream_id = schema.stream(class.stream).id;
        Scene { class, stream_id, trace, places, details: &[], spine: None, packet: None, fields: None, beside: None }
    }

    fn spine_value(&self, head: PathHead) -> PathValue<'_> {
        let integer = |value: i128| PathValue::Value(FilterValue::Number(EventNumber::Int(value)));
        if self.class.open_ids.is_some() && matches!(head, PathHead::Name | PathHead::Id) {
            return match (&self.spine, head) {
                (None, _) => PathValue::Unknown,
                (Some(SpineValues { own: Some((_, name)), .. }), PathHead::Name) => {
                    PathValue::Value(FilterValue::Text(name))
                }
                (Some(SpineValues { own: Some((id, _)), .. }), _) => integer(i128::from(*id)),
                _ => PathValue::Absent,
            };
        }
        match head {
            PathHead::Name => match &self.class.name {
                Some(name) => PathValue::Value(FilterValue::Text(name.as_bytes())),
                None => PathValue::Absent,
            },
            PathHead::Id => integer(i128::from(self.class.id)),
            PathHead::Stream => integer(i128::from(self.stream_id)),
            PathHead::Trace => PathValue::Value(FilterValue::Text(self.trace.as_bytes())),
            PathHead::Beside { member, .. } => match self.beside {
                None => PathValue::Unknown,
                Some(beside) => beside.value(member.into()).map_or(PathValue::Absent, PathValue::from),
            },
            head => {
                let Some(spine) = &self.spine else { return PathValue::Unknown };
                match (head, spine.ns) {
                    (PathHead::StreamName, _) => PathValue::Value(FilterValue::Text(spine.stream_name.as_bytes())),
                    (PathHead::Ns, Some(ns)) => integer(ns),
                    (PathHead::Time, Some(ns)) => PathValue::Value(FilterValue::Time(ns)),
                    (PathHead::Cycles, ns) if ns.is_some() || spine.has_rateless_clock => {
                        integer(i128::from(spine.cycles))
                    }
                    (PathHead::Cpu, _) => spine.cpu.map_or(PathValue::Absent, |cpu| integer(i128::from(cpu))),
                    _ => PathValue::Absent,
                }
            }
        }
    }
}

impl PathSource for Scene<'_> {
    fn find(&self, path: usize) -> PathValue<'_> {
        let place = match &self.places[path] {
            PathPlace::Absent => return PathValue::Absent,
            PathPlace::Spine(head) => return self.spine_value(*head),
            PathPlace::Field(place) => place,
        };
        let values = if place.scope == Scope::PacketContext { self.packet } else { self.fields };
        let Some(values) = values else { return PathValue::Unknown };
        let Some(stored) = values.get(path) else { return PathValue::Absent };
        PathValue::Value(match (stored, self.details.get(path)) {
            (StoredValue::Number(number), Some(Detail::Labels(mappings))) => {
                FilterValue::Labelled(number.borrowed(), ValueLabels::Enumeration(mappings))
            }
            (StoredValue::Number(number), Some(Detail::Flags(flags))) => {
                FilterValue::Labelled(number.borrowed(), ValueLabels::Flags(flags))
            }
            (StoredValue::Number(number), _) => FilterValue::Number(number.borrowed()),
            (StoredValue::Bool(value), _) => FilterValue::Bool(*value),
            (StoredValue::Text(begin, end), _) => FilterValue::Text(values.text(*begin, *end)),
            (StoredValue::Other(is_more_than_empty), _) => FilterValue::Other(*is_more_than_empty),
        })
    }
}
