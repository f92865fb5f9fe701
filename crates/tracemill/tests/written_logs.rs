//! Random schemas and bytes, written as CPEL logs, Gist logs and VPP's event logs and read back: what these can hold is the same.
//!
//! `TRACEMILL_SEED=17 cargo test` runs one seed only, `TRACEMILL_SEEDS=1000000` that many.

mod memory;
// The tests of codec use more of it.
#[path = "../../codec/tests/random/schemas.rs"]
#[allow(dead_code)]
mod schemas;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use tracemill::target;
use tracemill_codec::value::Value;
use tracemill_engine::convert::{Conversion, ConvertOptions, sources};
use tracemill_engine::events::{Events, Step};
use tracemill_engine::merge::Note;
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::Selection;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::WriteOptions;
use tracemill_model::schema::{
    ByteOrder, ClockClass, ClockOrigin, EventClass, FieldClass, FieldKind, FloatClass, IntegerClass, Mapping, Member,
    Schema, Scope, StreamClass, StringClass, StructClass,
};

use memory::{Folder, STREAM, in_memory};
use schemas::{Rng, random_bytes, random_schema};

/// An event: ns, name, payload.
type Event = (Option<i128>, Option<String>, Value);

/// All events in the order of time; the faults that came up.
fn events(session: &Session) -> (Vec<Event>, usize) {
    let streams = streams(session, &[]).expect("all streams");
    let mut steps = Events::new(session, &streams, &Selection::default(), None);
    let (mut events, mut faults) = (Vec::new(), 0);
    while let Some(step) = steps.next() {
        match step {
            Step::Event(_, event) => {
                let payload = event.raw.values(Scope::Payload).expect("it is decoded").unwrap_or(Value::Null);
                events.push((event.ns, event.class().name.as_deref().map(str::to_string), payload));
            }
            Step::Note(note) => faults += usize::from(matches!(note, Note::Fault(_))),
        }
    }
    (events, faults)
}

fn write(session: &Session, to: &str, path: &Path, options: &WriteOptions) -> Losses {
    let streams = streams(session, &[]).expect("all streams");
    let target = target(to, &[]).expect("it is written");
    let sources = sources(session, &streams).expect("parts can be read");
    let writer = (target.create)(&FileSystem.path(path), &sources, options).expect("it can be made");
    let known = writer.losses();
    let selection = Selection::default();
    let conversion = Conversion {
        session,
        streams: &streams,
        selection: &selection,
        options: &ConvertOptions::default(),
        in_order: target.wants_order,
    };
    let losses = conversion.run(writer, &mut |_| ControlFlow::Continue(())).expect("it is written").losses;
    for kind in known.kinds() {
        assert!(losses.count(kind) >= known.count(kind), "{kind} was known before");
    }
    losses
}

fn open(path: &Path) -> Session {
    let session = open_any(path);
    for trace in &session.traces {
        let remarks: Vec<String> = trace.remarks.iter().chain(&trace.faults).map(ToString::to_string).collect();
        assert!(remarks.is_empty(), "{remarks:?}");
    }
    session
}

fn open_any(path: &Path) -> Session {
    let paths = [path.to_path_buf()];
    let session =
        Session::open(&FileSystem, &paths, &OpenOptions::new(tracemill_formats::FORMATS)).expect("options are right");
    let failures: Vec<String> = session.failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{failures:?}");
    session
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("TRACEMILL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TRACEMILL_SEEDS").unwrap_or(count),
    }
}

/// Did the user say which seeds?
fn is_chosen() -> bool {
    ["TRACEMILL_SEED", "TRACEMILL_SEEDS"].iter().any(|name| std::env::var(name).is_ok())
}

fn number(value: &Value, name: &str) -> i128 {
    value.member(name).and_then(Value::integer).unwrap_or_else(|| panic!("{name} is a number in {value:?}"))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    let bytes = value.member(name).and_then(Value::bytes).unwrap_or_else(|| panic!("{name} is a text in {value:?}"));
    std::str::from_utf8(bytes).expect("texts are UTF-8")
}

#[test]
fn any_trace_becomes_a_log_with_all_its_events() {
    let folder = Folder(std::env::temp_dir().join(format!("tracemill-logs-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("a temporary folder can be made");
    let mut all = 0;
    for seed in seeds(300) {
        let mut rng = Rng::new(seed);
        let mut schema = random_schema(&mut rng, 1);
        if rng.chance(80) {
            let unix = rng.chance(50);
            let clock = ClockClass {
                frequency: rng.pick(&[1_000_000_000, 1_000_000_000, 3_000_000, 7, 5_000_000_000]),
                origin: if unix { ClockOrigin::Unix } else { ClockOrigin::Unknown },
                offset_seconds: if unix { 1_700_000_000 } else { 0 },
                ..ClockClass::nanoseconds("clock")
            };
            let clock = schema.add_clock(clock);
            schema.stream_mut(STREAM).default_clock = Some(clock);
        }
        let (bytes, content_bits) = random_bytes(&mut rng);
        let before = in_memory(schema, bytes, content_bits);
        let (want, _) = events(&before);
        all += want.len();
        for to in ["cpel", "gist", "elog"] {
            let order = ByteOrder::big_if(rng.chance(50));
            let options = WriteOptions { byte_order: Some(order), ..WriteOptions::default() };
            let path = folder.0.join(format!("{seed}.{to}"));
            write(&before, to, &path, &options);
            let after = open(&path);
            let (found, faults) = events(&after);
            assert_eq!((found.len(), faults), (want.len(), 0), "seed {seed} {to}");
            let times = |events: &[Event]| -> Vec<i128> {
                let mut times: Vec<i128> = events.iter().filter_map(|event| event.0).collect();
                times.sort_unstable();
                times
            };
            if to == "cpel" {
                let held = |times: Vec<i128>| -> Vec<i128> {
                    times.into_iter().map(|ns| ns.clamp(0, u64::MAX.into())).collect()
                };
                // Ticks reach farther than ns.
                let (want, found) = (times(&want), times(&found));
                assert!(found == want || found == held(want.clone()), "seed {seed}: {want:?} became {found:?}");
            }
            // Once more as itself: nothing changes.
            let again = folder.0.join(format!("{seed}.again"));
            let losses = write(&after, to, &again, &WriteOptions::default());
            assert!(losses.is_empty(), "seed {seed} {to}: {losses:?}");
            let (one, two) = (std::fs::read(&path).unwrap(), std::fs::read(&again).unwrap());
            // Events of one section come in the order of time.
            assert_eq!(one.len(), two.len(), "seed {seed} {to}");
            // As texts: a NaN equals no NaN.
            assert_eq!(format!("{:?}", events(&open(&again)).0), format!("{found:?}"), "seed {seed} {to}");
        }
        for entry in std::fs::read_dir(&folder.0).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            assert!(name.starts_with(&format!("{seed}.")) && !name.contains("events"), "{name} is left behind");
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    assert!(all > 100 || is_chosen(), "{all} events are too few");
}

/// Octets of a log, some of them changed.
fn damaged(rng: &mut Rng, log: &[u8]) -> Vec<u8> {
    let mut bytes = log.to_vec();
    for _ in 0..1 + rng.below(4) {
        // Damage before the events matters more.
        let end = if rng.chance(60) { bytes.len().min(600) } else { bytes.len() };
        let at = rng.below(end as u64) as usize;
        bytes[at] = if rng.chance(50) { rng.next() as u8 } else { bytes[at] ^ 1 << rng.below(8) };
    }
    if rng.chance(20) {
        bytes.truncate(rng.below(bytes.len() as u64) as usize);
    }
    bytes
}

#[test]
fn damaged_logs_are_written_as_they_are_read() {
    let folder = Folder(std::env::temp_dir().join(format!("tracemill-damaged-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("a temporary folder can be made");
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/logs");
    let logs = [("belt.cpel", "cpel"), ("dock.elog", "elog")];
    let logs = logs.map(|(name, to)| (std::fs::read(demo.join(name)).expect("the demo is there"), to));
    let mut compared = 0;
    for seed in seeds(400) {
        let mut rng = Rng::new(seed);
        let (log, to) = &logs[rng.below(2) as usize];
        let [path, out, ctf2, back] =
            ["log", "out", "ctf2", "back"].map(|name| folder.0.join(format!("{seed}.{name}")));
        std::fs::write(&path, damaged(&mut rng, log)).unwrap();
        let options = OpenOptions::new(tracemill_formats::FORMATS);
        let before = Session::open(&FileSystem, std::slice::from_ref(&path), &options).expect("options are right");
        let is_format = before.traces.iter().all(|trace| trace.schema.format == *to);
        if !before.failures.is_empty() || before.traces.len() != 1 || !is_format {
            continue;
        }
        let (want, _) = events(&before);
        let order = rng.chance(30).then_some(ByteOrder::Little);
        let options = WriteOptions { byte_order: order, ..WriteOptions::default() };
        let losses = write(&before, to, &out, &options);
        write(&before, "ctf2", &ctf2, &WriteOptions::default());
        let more = write(&open_any(&ctf2), to, &back, &options);
        let is_lossy = |losses: &Losses| losses.kinds().any(|kind| kind != Lost::OtherSections);
        if is_lossy(&losses) || is_lossy(&more) {
            continue;
        }
        for path in [&out, &back] {
            let (found, _) = events(&open_any(path));
            assert_eq!(found.len(), want.len(), "seed {seed} {to} {path:?}");
            for (want, found) in want.iter().zip(&found) {
                // Numbers that are none are not equal.
                assert_eq!(format!("{want:?}"), format!("{found:?}"), "seed {seed} {to} {path:?}");
            }
        }
        compared += 1;
        let _ = std::fs::remove_dir_all(&ctf2);
    }
    assert!(compared > 100 || is_chosen(), "{compared} are too few");
}

/// Kind of a field of a flat schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Unsigned(u32),
    Signed(u32),
    Enumeration(u32),
    Float(u32),
    Text,
}

fn flat_schema(kinds: &[Kind]) -> Schema {
    let mut schema = Schema::new("ctf2");
    let clock = schema.add_clock(ClockClass { origin: ClockOrigin::Unix, ..ClockClass::nanoseconds("clock") });
    let stream = StreamClass { default_clock: Some(clock), ..StreamClass::default() };
    let stream = schema.add_stream(stream).expect("it is the first");
    let mut members = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        let labels = ["zero", "", "two", "3%d"].iter().enumerate().filter(|(at, _)| *at != 1);
        let labels: Arc<[Mapping]> = labels
            .map(|(at, label)| Mapping { label: (*label).into(), ranges: vec![(at as i128, at as i128)] })
            .collect();
        let kind = match *kind {
            Kind::Unsigned(bits) => FieldKind::Integer(IntegerClass::unsigned(bits)),
            Kind::Signed(bits) => FieldKind::Integer(IntegerClass { signed: true, ..IntegerClass::unsigned(bits) }),
            Kind::Enumeration(bits) => {
                FieldKind::Integer(IntegerClass { mappings: Some(labels), ..IntegerClass::unsigned(bits) })
            }
            Kind::Float(len_bits) => {
                FieldKind::Float(FloatClass { len_bits, byte_order: ByteOrder::Little, reversed_bits: false })
            }
            Kind::Text => FieldKind::String(StringClass::utf8()),
        };
        let class = schema.add_field_class(FieldClass::new(kind, 8));
        let name: Arc<str> = format!("f%{at}").into();
        members.push(Member { name: name.clone(), raw_name: name, class });
    }
    let payload = schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8));
    let mut class = EventClass::new(0, stream);
    class.name = Some("a name (100%)".into());
    class.payload = Some(payload);
    schema.add_event(class);
    schema
}

fn flat_bytes(rng: &mut Rng, kinds: &[Kind]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + rng.below(20) {
        for kind in kinds {
            let value = if rng.chance(50) { rng.next() } else { rng.pick(&[0, 1, u64::MAX, 1 << 63, 0x8080_8080]) };
            match *kind {
                Kind::Enumeration(bits) => {
                    bytes.extend_from_slice(&rng.below(6).to_le_bytes()[..bits as usize / 8]);
                }
                Kind::Unsigned(bits) | Kind::Signed(bits) | Kind::Float(bits) => {
                    bytes.extend_from_slice(&value.to_le_bytes()[..bits as usize / 8]);
                }
                Kind::Text => {
                    let text =
                        rng.pick(&["", "x", "two words", "a\"b%s\\", "\u{e4}\u{20ac}", "a long text of more octets"]);
                    bytes.extend_from_slice(text.as_bytes());
                    bytes.push(0);
                }
            }
        }
    }
    bytes
}

fn size_of(kind: Kind) -> u32 {
    match kind {
        Kind::Text => 4,
        Kind::Signed(bits) => bits.max(32) / 8,
        Kind::Unsigned(bits) | Kind::Enumeration(bits) | Kind::Float(bits) => bits / 8,
    }
}

#[test]
fn fields_become_arguments_with_their_values() {
    let folder = Folder(std::env::temp_dir().join(format!("tracemill-arguments-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("a temporary folder can be made");
    for seed in seeds(200) {
        let mut rng = Rng::new(seed);
        let choices = [
            Kind::Unsigned(8),
            Kind::Unsigned(16),
            Kind::Unsigned(32),
            Kind::Unsigned(64),
            Kind::Signed(8),
            Kind::Signed(32),
            Kind::Signed(64),
            Kind::Enumeration(8),
            Kind::Enumeration(32),
            Kind::Float(32),
            Kind::Float(64),
            Kind::Text,
        ];
        let mut kinds: Vec<Kind> = Vec::new();
        for _ in 0..1 + rng.below(6) {
            let kind = rng.pick(&choices);
            let is_other =
                !matches!(kind, Kind::Enumeration(_)) || !kinds.iter().any(|of| matches!(of, Kind::Enumeration(_)));
            if is_other && kinds.iter().map(|&of| size_of(of)).sum::<u32>() + size_of(kind) <= 20 {
                kinds.push(kind);
            }
        }
        let bytes = flat_bytes(&mut rng, &kinds);
        let bits = bytes.len() as u64 * 8;
        let before = in_memory(flat_schema(&kinds), bytes, bits);
        let (want, _) = events(&before);
        assert!(!want.is_empty());

        let path = folder.0.join("out.elog");
        write(&before, "elog", &path, &WriteOptions::default());
        let (found, _) = events(&open(&path));
        assert_eq!(found.len(), want.len(), "seed {seed}");
        for ((_, _, want), (_, name, found)) in want.iter().zip(&found) {
            assert!(name.as_deref().is_some_and(|name| name.starts_with("a_x20_name_x20__x28_100_x25_) f_x25_0=")));
            for (at, kind) in kinds.iter().enumerate() {
                let (want, found) = (want.member(&format!("f%{at}")), found.member(&format!("arg{at}")));
                let (Some(want), Some(found)) = (want, found) else { panic!("seed {seed}: {at} is missing") };
                let is_same = match (kind, want, found) {
                    (Kind::Signed(64), Value::Signed(want), Value::Unsigned(found)) => *want as u64 == *found,
                    (Kind::Signed(_), Value::Signed(want), Value::Unsigned(found)) => u64::from(*want as u32) == *found,
                    (_, Value::Real(want), Value::Real(found)) => {
                        want.to_bits() == found.to_bits() || want.is_nan() && found.is_nan()
                    }
                    _ => want == found,
                };
                assert!(is_same, "seed {seed}: {kind:?} {want:?} became {found:?}");
            }
        }

        let path = folder.0.join("out.cpel");
        write(&before, "cpel", &path, &WriteOptions::default());
        let (found, _) = events(&open(&path));
        assert_eq!(found.len(), want.len(), "seed {seed}");
        for ((_, _, want), (_, name, found)) in want.iter().zip(&found) {
            assert_eq!(name.as_deref(), Some("a name (100%)"), "seed {seed}");
            let shown = text(found, "datum_text");
            let value = want.member("f%0").and_then(Value::integer);
            match kinds.as_slice() {
                [Kind::Unsigned(8 | 16 | 32)] => {
                    assert_eq!(Some(number(found, "datum")), value, "seed {seed}");
                    assert_eq!(shown, format!("f%0={}", value.unwrap()), "seed {seed}");
                }
                [Kind::Signed(8 | 32)] => {
                    assert_eq!(number(found, "datum") as u32 as i32, value.unwrap() as i32, "seed {seed}");
                    assert_eq!(shown, format!("f%0={}", value.unwrap()), "seed {seed}");
                }
                kinds => {
                    let parts = kinds.iter().enumerate().filter(|(_, kind)| matches!(kind, Kind::Unsigned(_)));
                    for (at, _) in parts {
                        let name = format!("f%{at}");
                        let part = format!("{name}={}", number(want, &name));
                        assert!(shown.contains(&part), "seed {seed}: {part} is not in {shown}");
                    }
                    assert_eq!(shown.matches("f%").count(), kinds.len(), "seed {seed}: {shown}");
                }
            }
        }
        for name in ["out.elog", "out.cpel"] {
            std::fs::remove_file(folder.0.join(name)).unwrap();
        }
    }
}
