//! Whole packets: the pass that finds events, and the visits of their fields.

use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, Chunk, ChunkSink, PacketData};
use tracemill_codec::plan::{DecoderState, FaultKind, PlanInput};
use tracemill_codec::spine::{EventFault, ScanEnd, SpineSink};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::packet::Packet;
use tracemill_model::schema::{EventClassId, Schema, Scope, StreamClassId};
use tracemill_referee::{DecodedValue, Interpreter, NaiveFault};

use crate::Tally;
use crate::leaves::Leaves;
use crate::schemas::{Rng, random_bytes};
use crate::tree::Tree;

const STREAM: StreamClassId = StreamClassId(0);

/// Scopes of an event.
const EVENT_SCOPES: [Scope; 4] = [Scope::EventHeader, Scope::CommonContext, Scope::SpecificContext, Scope::Payload];

/// Class, clock, first bit, first bit after the header.
type Place = (EventClassId, u64, u64, u64);

/// Takes a random number of events at a time.
struct Sink<'r> {
    rng: &'r mut Rng,
    places: Vec<Place>,
}

impl SpineSink for Sink<'_> {
    fn event(&mut self, class: EventClassId, cycles: u64, start_bits: u64, body_bits: u64) -> bool {
        self.places.push((class, cycles, start_bits, body_bits));
        self.rng.chance(70)
    }
}

/// How a packet ends for the naive reader.
#[derive(Debug)]
enum NaiveEnd {
    Complete,
    Field(Scope, Option<EventClassId>, NaiveFault),
    UnknownId { id: u64, at_bits: u64 },
    Empty { at_bits: u64 },
}

struct NaivePacket {
    events: Vec<(Place, [Option<DecodedValue>; 4])>,
    end: NaiveEnd,
    pos: u64,
    clock: u64,
}

/// Reads the events of a packet with the interpreter, by the rules of CTF.
fn read_events(schema: &Schema, packet: &Interpreter<'_>, end_bits: u64) -> NaivePacket {
    let stream = schema.stream(STREAM);
    let align = stream.event_header.map_or(1, |root| u64::from(schema.field_class(root).align_bits));
    let mut result =
        NaivePacket { events: Vec::new(), end: NaiveEnd::Complete, pos: packet.pos_bits, clock: packet.clock };
    let mut order = packet.order;
    loop {
        let start = result.pos.div_ceil(align) * align;
        if start >= end_bits {
            return result;
        }
        let mut reader = packet.clone();
        (reader.pos_bits, reader.clock, reader.order) = (start, result.clock, order);
        reader.roles.event_id = None;
        let mut values = [const { None }; 4];
        match reader.scope(Scope::EventHeader) {
            Ok(value) => values[0] = value,
            Err(fault) => {
                result.end = NaiveEnd::Field(Scope::EventHeader, None, fault);
                return result;
            }
        }
        let known = match reader.roles.event_id {
            Some(id) => stream.events.get(&id),
            None if stream.events.len() == 1 => stream.events.values().next(),
            None => stream.events.get(&0),
        };
        let Some(&class) = known else {
            result.end = NaiveEnd::UnknownId { id: reader.roles.event_id.unwrap_or(0), at_bits: start };
            return result;
        };
        let place = (class, reader.clock, start, reader.pos_bits);
        reader.set_roots(Scope::ALL.map(|scope| schema.scope_root(scope, class)));
        for (at, scope) in EVENT_SCOPES.into_iter().enumerate().skip(1) {
            match reader.scope(scope) {
                Ok(value) => values[at] = value,
                Err(fault) => {
                    result.end = NaiveEnd::Field(scope, Some(class), fault);
                    return result;
                }
            }
        }
        if reader.pos_bits == result.pos {
            result.end = NaiveEnd::Empty { at_bits: start };
            return result;
        }
        (result.pos, result.clock, order) = (reader.pos_bits, reader.clock, reader.order);
        result.events.push((place, values));
    }
}

fn same_fault(scope: Scope, class: Option<EventClassId>, want: &NaiveFault, found: &EventFault) -> bool {
    let path = format!("{}{}", scope.key(), want.path);
    matches!(found, EventFault::Field { fault, class: found_class, path: found_path }
        if (fault.kind, fault.at_bits) == (want.kind, want.at_bits) && *found_class == class && *found_path == path)
}

fn same_end(want: &NaiveEnd, found: &ScanEnd) -> bool {
    match (want, found) {
        (NaiveEnd::Complete, ScanEnd::Complete) => true,
        (NaiveEnd::Field(scope, class, want), ScanEnd::Fault(found)) => same_fault(*scope, *class, want, found),
        (NaiveEnd::UnknownId { id, at_bits }, ScanEnd::Fault(found)) => {
            *found == EventFault::UnknownId { id: *id, at_bits: *at_bits }
        }
        (NaiveEnd::Empty { at_bits }, ScanEnd::Fault(found)) => *found == EventFault::Empty { at_bits: *at_bits },
        _ => false,
    }
}

/// One packet of random bytes.
pub(crate) fn packet(schema: &Schema, rng: &mut Rng, tally: &mut Tally) -> Result<(), String> {
    tally.cases += 1;
    let plans = Arc::new(TracePlans::new(Arc::new(schema.clone())));
    let (bytes, mut end_bits) = random_bytes(rng);
    if rng.chance(40) {
        end_bits = end_of_some_event(schema, &bytes, end_bits, rng);
    }
    let input = PlanInput::new(&bytes, end_bits);
    let context = || format!("end {end_bits}, bytes {bytes:x?}");
    let clock = rng.next() >> rng.below(64);
    let (mut state, mut pos) = (DecoderState::new(clock), 0);
    let mut naive = packet_reader(schema, &bytes, end_bits);
    naive.clock = clock;

    let mut values = None;
    let mut context_bits = 0;
    for scope in [Scope::PacketHeader, Scope::PacketContext] {
        context_bits = pos;
        let found = match scope {
            Scope::PacketHeader => plans.read_packet_header(input, &mut pos, &mut state),
            _ => plans.read_packet_context(STREAM, input, &mut pos, &mut state),
        };
        match (naive.scope(scope), found) {
            (Ok(value), Ok(())) => values = value,
            (Err(want), Err(found)) if same_fault(scope, None, &want, &found) => {
                tally.fault(want.kind);
                return Ok(());
            }
            (want, found) => return Err(format!("{scope:?}: want {want:?}\nfound {found:?}\n{}", context())),
        }
        let want = (naive.pos_bits, naive.clock, naive.clock_is_set, naive.roles);
        let found = (pos, state.clock, state.clock_is_set, state.roles);
        if want != found {
            return Err(format!("{scope:?}: want {want:?}\nfound {found:?}\n{}", context()));
        }
    }
    tally.packets += 1;

    let want = read_events(schema, &naive, end_bits);
    let file: Arc<dyn Bytes> = Arc::new(bytes.clone());
    let packet = Arc::new(PacketData {
        plans: plans.clone(),
        bytes: file.clone(),
        base_bytes: 0,
        file,
        packet: packet_of(&bytes, end_bits),
        cpu: None,
        spine: None,
        context_bits,
        events_bits: pos,
        state: state.clone(),
        copied: None,
    });
    let scanner = plans.scanner(STREAM);
    let mut sink = Sink { rng, places: Vec::new() };
    let end = loop {
        match scanner.scan(input, &mut pos, &mut state, &mut sink) {
            ScanEnd::Full => {}
            end => break end,
        }
    };
    let want_places: Vec<_> = want.events.iter().map(|(place, _)| *place).collect();
    let found = (&sink.places, pos, state.clock);
    if !same_end(&want.end, &end) || found != (&want_places, want.pos, want.clock) {
        let want = (&want_places, want.pos, want.clock, &want.end);
        return Err(format!("want {want:?}\nfound {found:?} {end:?}\n{}", context()));
    }
    match &want.end {
        NaiveEnd::Field(_, _, fault) => tally.fault(fault.kind),
        NaiveEnd::Complete => tally.whole_packets += 1,
        _ => {}
    }
    visits(&packet, &values, &want).map_err(|message| format!("{message}\n{}", context()))?;
    copies(&packet, &want, sink.rng).map_err(|message| format!("copied: {message}\n{}", context()))?;
    tally.events += want.events.len() as u64;
    Ok(())
}

fn packet_reader<'a>(schema: &'a Schema, bytes: &'a [u8], end_bits: u64) -> Interpreter<'a> {
    let class = schema.stream(STREAM);
    let roots = [schema.packet_header, class.packet_context, class.event_header, class.common_context, None, None];
    Interpreter::new(schema, roots, bytes, end_bits)
}

/// An end of the content for which no event is cut.
fn end_of_some_event(schema: &Schema, bytes: &[u8], end_bits: u64, rng: &mut Rng) -> u64 {
    let mut reader = packet_reader(schema, bytes, end_bits);
    if reader.scope(Scope::PacketHeader).is_err() || reader.scope(Scope::PacketContext).is_err() {
        return end_bits;
    }
    let events = read_events(schema, &reader, end_bits).events;
    if events.is_empty() { end_bits } else { events[rng.below(events.len() as u64) as usize].0.2.max(reader.pos_bits) }
}

fn packet_of(bytes: &[u8], content_bits: u64) -> Packet {
    Packet { content_bits, ..Packet::new(STREAM, 0, bytes.len() as u64 * 8) }
}

/// Bytes that may vanish.
struct Vanishing(Vec<u8>);

impl Bytes for Vanishing {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn can_vanish(&self) -> bool {
        true
    }
}

/// Copies some of the events, all in one and one by one: they show the same.
fn copies(packet: &PacketData, want: &NaivePacket, rng: &mut Rng) -> Result<(), String> {
    let file: Arc<dyn Bytes> = Arc::new(Vanishing(packet.bytes.bytes().to_vec()));
    let packet = Arc::new(PacketData {
        plans: packet.plans.clone(),
        bytes: file.clone(),
        file,
        packet: packet.packet.clone(),
        spine: None,
        state: packet.state.clone(),
        copied: None,
        ..*packet
    });
    for near_bytes in [0, u64::MAX] {
        let mut chunk = Chunk::new(packet.clone(), packet.events_bits, 0);
        let (mut pos, mut state) = (packet.events_bits, packet.state.clone());
        let mut sink = ChunkSink::new(&mut chunk, usize::MAX);
        packet.plans.scanner(STREAM).scan(packet.input(), &mut pos, &mut state, &mut sink);
        let kept: Vec<bool> = want.events.iter().map(|_| rng.chance(70)).collect();
        chunk.retain(|_, at| kept[at]);
        let copied = chunk.copied(pos, near_bytes);
        let is_copy = copied.packet.copied.is_some();
        assert!(is_copy || copied.is_empty() || copied.packet.plans.step_bytes() > 64 << 10);
        assert!(PacketData::is_same(&packet, &copied.packet));
        let (mut tree, mut state) = (Tree::default(), DecoderState::default());
        let of_kept = want.events.iter().zip(&kept).filter(|(_, kept)| **kept);
        for (at, ((place, values), _)) in of_kept.enumerate() {
            let event = copied.event(at);
            let found = (event.class(), event.cycles(), copied.recorded_bits(at));
            assert_eq!(found, (place.0, place.1, place.2));
            let fault = event.visit_header(&mut state, &mut tree).err();
            check("header", fault.map(|fault| fault.kind), &values[0], &tree.finish())?;
            let mut fields = event.fields(&mut state);
            for (at, scope) in EVENT_SCOPES.into_iter().enumerate().skip(1) {
                let fault = fields.visit(scope, &mut state, &mut tree).err();
                check(scope.key(), fault.map(|fault| fault.kind), &values[at], &tree.finish())?;
            }
        }
    }
    Ok(())
}

/// Shows the fields of all events to a visitor, the last event first.
fn visits(packet: &Arc<PacketData>, context: &Option<DecodedValue>, want: &NaivePacket) -> Result<(), String> {
    let mut tree = Tree::default();
    packet.visit_context(&mut tree).map_err(|fault| format!("context: {fault:?}"))?;
    let found = tree.finish();
    if found != *context {
        return Err(format!("context: want {context:?}\nfound {found:?}"));
    }
    let mut chunk = Chunk::new(packet.clone(), packet.events_bits, 0);
    let (mut pos, mut state) = (packet.events_bits, packet.state.clone());
    let mut sink = ChunkSink::new(&mut chunk, usize::MAX);
    packet.plans.scanner(STREAM).scan(packet.input(), &mut pos, &mut state, &mut sink);
    assert_eq!(chunk.len(), want.events.len());
    let mut state = DecoderState::default();
    for (at, (place, values)) in want.events.iter().enumerate().rev() {
        let event = chunk.event(at);
        assert_eq!((event.class(), event.cycles(), chunk.start_bits(at), chunk.body_bits(at)), *place);
        for scope in [0, 1] {
            // The fields after the header was shown, and without it.
            if scope == 0 {
                let fault = event.visit_header(&mut state, &mut tree).err();
                check("header", fault.map(|fault| fault.kind), &values[0], &tree.finish())?;
            }
            let mut fields = event.fields(&mut state);
            for (at, scope) in EVENT_SCOPES.into_iter().enumerate().skip(1) {
                let fault = fields.visit(scope, &mut state, &mut tree).err();
                check(scope.key(), fault.map(|fault| fault.kind), &values[at], &tree.finish())?;
            }
            // Scopes may be asked for in any order.
            let mut backwards = event.fields(&mut state);
            for (at, scope) in EVENT_SCOPES.into_iter().enumerate().skip(1).rev() {
                let fault = backwards.visit(scope, &mut state, &mut tree).err();
                check(scope.key(), fault.map(|fault| fault.kind), &values[at], &tree.finish())?;
            }
            let (mut marked, mut flat) = (Leaves::default(), Leaves::default());
            let mut fields_again = event.fields(&mut state);
            for scope in EVENT_SCOPES.into_iter().skip(1) {
                fields_again.visit(scope, &mut state, &mut marked).map_err(|fault| format!("again: {fault:?}"))?;
            }
            event.visit_flat(&mut DecoderState::default(), &mut flat).map_err(|fault| format!("flat: {fault:?}"))?;
            if marked != flat {
                return Err(format!("flat: want {marked:?}\nfound {flat:?}"));
            }
            // As the pass that found the event ends it.
            let end = event.end_bits(&mut state).map_err(|fault| format!("end: {fault:?}"))?;
            assert_eq!(end, fields.position_bits());
        }
    }
    Ok(())
}

fn check(
    what: &str,
    fault: Option<FaultKind>,
    want: &Option<DecodedValue>,
    found: &Option<DecodedValue>,
) -> Result<(), String> {
    if fault.is_none() && want == found {
        Ok(())
    } else {
        Err(format!("{what}: want {want:?}\nfound {found:?} {fault:?}"))
    }
}
