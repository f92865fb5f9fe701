//! Random schemas and values, written in every format that a trace of them can be written in, and read back.
//!
//! The fields that a target counts as lost are left out of the comparison; where it counts nothing, contexts and
//! payload of every event must come back as they were. `TRACEMILL_SEED=17 cargo test` runs one seed only,
//! `TRACEMILL_SEEDS=100000` that many.
#![cfg(unix)]

mod folder;
#[path = "../../codec/tests/random/schemas.rs"]
mod schemas;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use folder::Folder;
use schemas::{Rng, random_bytes, random_schema};
use tracemill_codec::chunk::{Bytes, Chunk, ChunkSink, EventRef, PacketData};
use tracemill_codec::plan::{DecoderState, PlanInput};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_codec::value::Value;
use tracemill_engine::item::Item;
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::{Selection, cursors};
use tracemill_format::target::{Source, SourceStream, Target, WriteOptions};
use tracemill_formats as registry;
use tracemill_model::packet::Packet;
use tracemill_model::schema::{
    ByteOrder, ClockClass, EventClassId, FieldClassId, FieldKind, Origin, Schema, Scope, StreamClass, StreamClassId,
};

const SCOPES: [Scope; 3] = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
const STREAM: StreamClassId = StreamClassId(0);

/// A packet of random bytes, when its header and context can be read, and the events that can be.
fn random_chunk(schema: &Arc<Schema>, rng: &mut Rng) -> Option<Chunk> {
    let plans = Arc::new(TracePlans::new(schema.clone()));
    let (bytes, end_bits) = random_bytes(rng);
    let input = PlanInput::new(&bytes, end_bits);
    let (mut state, mut pos) = (DecoderState::new(rng.below(1 << 40)), 0);
    plans.read_packet_header(input, &mut pos, &mut state).ok()?;
    let context_bits = pos;
    plans.read_packet_context(STREAM, input, &mut pos, &mut state).ok()?;
    let file: Arc<dyn Bytes> = Arc::new(bytes.clone());
    let packet = Packet { content_bits: end_bits, ..Packet::new(STREAM, 0, bytes.len() as u64 * 8) };
    let packet = Arc::new(PacketData {
        plans: plans.clone(),
        bytes: file.clone(),
        base_bytes: 0,
        file,
        packet,
        cpu: None,
        spine: None,
        context_bits,
        events_bits: pos,
        state: state.clone(),
        copied: None,
    });
    let mut chunk = Chunk::new(packet.clone(), pos, 0);
    // Hostile lengths of nothing would take the test a long time.
    packet.scan(&mut pos, &mut state, &mut ChunkSink::new(&mut chunk, 64));
    (!chunk.is_empty()).then_some(chunk)
}

/// The parts of an event that are compared: its name, its time, its fields.
fn shown(event: EventRef<'_>, has_clock: bool) -> String {
    let schema = event.chunk.packet.plans.schema();
    let mut text = format!("{:?}", schema.event(event.class()).name);
    if has_clock {
        let _ = write!(text, " {}", event.cycles());
    }
    for scope in SCOPES {
        let value = event.values(scope).expect("it was read before").unwrap_or(Value::Null);
        text.push('\n');
        match (schema.scope_root(scope, event.class()), value) {
            // CTF 2 keeps lengths and choices that no field holds in `selectors`, which is not compared.
            (Some(root), Value::Struct(mut members)) => {
                members.retain(|(name, _)| scope != Scope::SpecificContext || &**name != "selectors");
                // A structure without members shows nothing by being there.
                if !members.is_empty() {
                    show(&mut text, schema, root, &Value::Struct(members));
                }
            }
            (Some(root), value) => show(&mut text, schema, root, &value),
            (None, _) => {}
        }
    }
    text
}

/// A value as text: strings in UTF-8, floating point numbers by their bits.
fn show(text: &mut String, schema: &Schema, class: FieldClassId, value: &Value) {
    let _ = match (&schema.field_class(class).kind, value) {
        (FieldKind::Optional(_), Value::Null) => write!(text, "absent"),
        (FieldKind::Optional(class), value) => return show(text, schema, class.content, value),
        (FieldKind::String(class), Value::Text(bytes)) => write!(text, "{:?}", class.encoding.to_utf8(bytes)),
        (FieldKind::Array(class), Value::List(values)) => {
            text.push('[');
            for value in values {
                show(text, schema, class.element, value);
                text.push(',');
            }
            write!(text, "]")
        }
        (FieldKind::Struct(class), Value::Struct(members)) => {
            text.push('{');
            for (name, value) in members {
                let _ = write!(text, "{name}: ");
                if let Some(member) = class.members.iter().find(|member| member.name == *name) {
                    show(text, schema, member.class, value);
                }
                text.push(',');
            }
            write!(text, "}}")
        }
        (FieldKind::Variant(class), Value::Option(at, name, value)) => {
            let _ = write!(text, "option {name:?} ");
            return show(text, schema, class.options[*at].class, value);
        }
        (FieldKind::Rendered(_), Value::Text(bytes)) => write!(text, "{:?}", String::from_utf8_lossy(bytes)),
        (_, Value::Real(real)) => write!(text, "real {:x}", real.to_bits()),
        (_, value) => write!(text, "{value:?}"),
    };
}

/// Writes the events; nothing when something is lost.
fn written(target: &Target, chunk: &Chunk, options: &WriteOptions, folder: &Folder) -> Option<()> {
    let schema = chunk.packet.plans.schema().clone();
    let stream = SourceStream { name: "s".into(), origin_name: "s".into(), class: STREAM, id: None, is_joined: false };
    let source = Source {
        name: "t".into(),
        own_name: String::new(),
        origin: Arc::new(Origin { format: schema.format.into(), version: schema.version, ..Origin::default() }),
        schema,
        correction_ns: 0,
        drift: None,
        parts: Vec::new(),
        streams: vec![stream],
        tasks: Vec::new(),
    };
    // A schema that the target has no place for at all is refused.
    let mut writer = (target.create)(&FileSystem.path(folder.path().join("out")), &[source], options).ok()?;
    for at in 0..chunk.len() {
        writer.event(0, chunk.event(at)).expect("the output can be written");
    }
    writer.end_stream(0).expect("the output can be written");
    let losses = writer.finish().expect("the output can be written");
    losses.is_empty().then_some(())
}

fn read_back(folder: &Folder, has_clock: bool) -> Result<Vec<String>, String> {
    let options = OpenOptions::new(tracemill_formats::FORMATS);
    let session = Session::open(&FileSystem, &[folder.path().join("out")], &options).map_err(|e| e.to_string())?;
    if let Some(failure) = session.failures.first() {
        return Err(failure.to_string());
    }
    if let Some(fault) = session.traces.iter().flat_map(|trace| &trace.faults).next() {
        return Err(fault.to_string());
    }
    let streams = streams(&session, &[]).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for mut cursor in cursors(&session, &streams, &Selection::default()) {
        while let Some(item) = cursor.next() {
            match item {
                Item::Chunk(ready) => {
                    found.extend((0..ready.chunk.len()).map(|at| shown(ready.chunk.event(at), has_clock)));
                }
                Item::Fault(error) => return Err(error.to_string()),
                _ => {}
            }
        }
    }
    Ok(found)
}

/// Class names, so that events can be told apart, and a clock for some.
fn named(mut schema: Schema, has_clock: bool) -> Schema {
    if has_clock {
        let clock = schema.add_clock(ClockClass::nanoseconds("c"));
        schema.stream_mut(STREAM).default_clock = Some(clock);
    }
    let mut out = Schema::new("random");
    for at in 0..schema.field_class_count() {
        out.add_field_class(schema.field_class(FieldClassId(at as u32)).clone());
    }
    out.packet_header = schema.packet_header;
    for clock in schema.clocks() {
        out.add_clock(clock.clone());
    }
    for stream in schema.streams() {
        let stream = StreamClass { events: Default::default(), ..stream.clone() };
        out.add_stream(stream);
    }
    for (at, event) in schema.events().iter().enumerate() {
        let mut event = event.clone();
        event.name = Some(format!("e{at}").into());
        let id: Option<EventClassId> = out.add_event(event);
        assert!(id.is_some(), "ids differ in the schema too");
    }
    out
}

#[test]
fn what_is_written_is_read_back() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("TRACEMILL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TRACEMILL_SEEDS").unwrap_or(1000),
    };
    let is_all = seeds.end - seeds.start >= 1000;
    // Times that events of this target were compared.
    let mut compared: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let has_clock = rng.chance(50);
        let schema = Arc::new(named(random_schema(&mut rng, 1), has_clock));
        let Some(chunk) = (0..8).find_map(|_| random_chunk(&schema, &mut rng)) else { continue };
        let want: Vec<String> = (0..chunk.len()).map(|at| shown(chunk.event(at), has_clock)).collect();
        for target in registry::TARGETS {
            let name = target.names[0];
            let order = rng.pick(&[None, Some(ByteOrder::Little), Some(ByteOrder::Big)]);
            let packet_bytes = rng.pick(&[None, None, Some(64), Some(4096)]);
            let options = WriteOptions { byte_order: order, packet_bytes, ..WriteOptions::default() };
            let folder = Folder::new("writing");
            if written(target, &chunk, &options, &folder).is_none() {
                continue;
            }
            let mut found =
                read_back(&folder, has_clock).unwrap_or_else(|error| panic!("seed {seed}, {name}: {error}"));
            let mut want = want.clone();
            if name == "lttng-legacy" {
                // Facilities are events too; contexts are members of the payload, and names those of facilities.
                if want.iter().any(|event| event.lines().nth(1) != Some("") || event.lines().nth(2) != Some("")) {
                    continue;
                }
                found.retain(|event| !event.starts_with("Some(\"core."));
                let without_name = |event: &mut String| *event = event.split_off(event.find(' ').unwrap_or(0));
                want.iter_mut().for_each(without_name);
                found.iter_mut().for_each(without_name);
            }
            if name == "cpel" || name == "elog" {
                // The payload of an event of a log is that of its format; the name says the event.
                let of = |event: &String| event.lines().next().unwrap_or("").to_string();
                (want, found) = (want.iter().map(of).collect(), found.iter().map(of).collect());
            }
            if name == "ftrace" {
                // Headers are the kernel's own; names have a system.
                let of = |event: &String| event.lines().next().unwrap_or("").to_string();
                (want, found) = (want.iter().map(of).collect(), found.iter().map(of).collect());
            }
            if name == "uftrace" {
                // An event of nothing but a name becomes a user event, and has its name in the payload.
                let of = |event: &str, name: &str| format!("{name} {}", event.split([' ', '\n']).nth(1).unwrap_or(""));
                want = want.iter().map(|event| of(event, event.split('"').nth(1).unwrap_or(""))).collect();
                let own =
                    |event: &str| event.split("random:").nth(1).unwrap_or("").split('"').next().map(str::to_string);
                found = found.iter().map(|event| of(event, &own(event).unwrap_or_default())).collect();
            }
            if name == "cpel" {
                // An event of nothing but a name has that of its code, and members that say which; no stream keeps an
                // order of its own.
                let of = |event: &String| event.lines().next().unwrap_or("").to_string();
                (want, found) = (want.iter().map(of).collect(), found.iter().map(of).collect());
                want.sort();
                found.sort();
            }
            let differs = want.iter().zip(&found).position(|(a, b)| a != b);
            if let Some(at) = differs {
                panic!("seed {seed}, {name}, event {at}:\n{}\nbecame\n{}", want[at], found[at]);
            }
            assert_eq!(want.len(), found.len(), "seed {seed}, {name}");
            *compared.entry(name).or_default() += 1;
        }
    }
    println!("{compared:?}");
    assert!(!is_all || compared.get("ctf2").is_some_and(|&times| times > 100), "{compared:?}");
    assert!(!is_all || compared.get("ctf1.8").is_some_and(|&times| times > 5), "{compared:?}");
}
