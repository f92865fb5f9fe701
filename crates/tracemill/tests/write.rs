//! Traces that a program writes itself: what is written reads back, however large its packets are and whatever its fields.
//!
//! `TRACEMILL_SEEDS=10000 cargo test` tries that many random traces; `TRACEMILL_KEEP=FOLDER` leaves those in CTF 1.8 there,
//! for other readers.

mod folder;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use folder::Folder;
use tracemill::schema::Scope;
use tracemill::write::{self, Clock, Ctf2, Ctf18, Field, Trace, Value};
use tracemill::{GapKind, Result, Severity};
use tracemill_engine::check::check;
use tracemill_engine::merge::Note;
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::{Selection, merger};
use tracemill_formats::FORMATS;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A field with what is needed to make values of it.
enum Shape {
    Unsigned(u32),
    Signed(u32),
    Boolean,
    Float32,
    Float64,
    Text,
    Blob(Option<u64>),
    Array(Box<Shape>, Option<u64>),
    Struct(Vec<(String, Shape)>),
    Optional(Box<Shape>),
    Variant(Vec<(String, Shape)>),
}

impl Shape {
    /// Only a member of a structure may be one that another field comes with.
    fn random(rng: &mut Rng, is_member: bool, is_ctf18: bool, depth: u32) -> Shape {
        let len = |rng: &mut Rng| (!is_member || rng.below(2) == 0).then(|| 1 + rng.below(3));
        match rng.below(if depth > 3 { 7 } else { 12 }) {
            0 => Shape::Unsigned([8, 16, 32, 64][rng.below(4) as usize]),
            1 => Shape::Unsigned(1 + rng.below(64) as u32),
            2 => Shape::Signed(1 + rng.below(64) as u32),
            3 => Shape::Boolean,
            4 => Shape::Float32,
            5 => Shape::Float64,
            6 => Shape::Text,
            7 => Shape::Blob(len(rng)),
            8 => Shape::Array(Box::new(Shape::random(rng, false, is_ctf18, depth + 1)), len(rng)),
            9 if is_member && !is_ctf18 => Shape::Optional(Box::new(Shape::random(rng, false, is_ctf18, depth + 1))),
            10 if is_member => {
                let count = 1 + rng.below(3);
                Shape::Variant(
                    (0..count)
                        .map(|at| (format!("option{at}"), Shape::random(rng, false, is_ctf18, depth + 1)))
                        .collect(),
                )
            }
            _ => Shape::Struct(Shape::members(rng, is_ctf18, depth + 1)),
        }
    }

    fn members(rng: &mut Rng, is_ctf18: bool, depth: u32) -> Vec<(String, Shape)> {
        let names = ["id", "event", "a b", "x_length", "int", "é", "9"];
        let count = rng.below(5) as usize;
        names[..count].iter().map(|name| (name.to_string(), Shape::random(rng, true, is_ctf18, depth))).collect()
    }

    fn field(&self, rng: &mut Rng) -> Field {
        let fields = |members: &[(String, Shape)], rng: &mut Rng| {
            members.iter().map(|(name, shape)| (name.clone(), shape.field(rng))).collect::<Vec<_>>()
        };
        let field = match self {
            Shape::Unsigned(bits) => write::unsigned(*bits).label("zero", 0).labels("low bit", 0..=1),
            // babeltrace2 shows negative numbers of 61 to 63 bits as 0x0.
            Shape::Signed(bits @ 61..=63) => write::signed(*bits),
            Shape::Signed(bits) => write::signed(*bits).label("minus", -1).hex(),
            Shape::Boolean => return write::boolean(),
            Shape::Float32 => write::f32(),
            Shape::Float64 => write::f64(),
            Shape::Text => return write::string(),
            Shape::Blob(None) => return write::blob(),
            Shape::Blob(Some(len)) => return write::blob_of(*len),
            Shape::Array(element, None) => return write::list(element.field(rng)),
            Shape::Array(element, Some(len)) => return write::array(*len, element.field(rng)),
            Shape::Struct(members) => return write::structure(fields(members, rng)),
            Shape::Optional(content) => return write::optional(content.field(rng)),
            Shape::Variant(options) => return write::variant(fields(options, rng)),
        };
        if rng.below(2) == 0 { field.big_endian() } else { field }
    }

    fn value(&self, rng: &mut Rng) -> Value {
        let number = |rng: &mut Rng| rng.next() >> (rng.below(64));
        match self {
            Shape::Unsigned(bits) => Value::Unsigned(number(rng) & u64::MAX >> (64 - bits)),
            Shape::Signed(bits) => Value::Signed((rng.next() as i64) >> (64 - bits)),
            Shape::Boolean => Value::Boolean(rng.below(2) == 0),
            Shape::Float32 => Value::Real(f64::from(rng.next() as i32 as f32 / 1024.0)),
            Shape::Float64 => Value::Real(rng.next() as i64 as f64 / 1e3),
            Shape::Text => Value::from(&"äbcdefghi jklmnopqrst"[2 * rng.below(10) as usize..]),
            Shape::Blob(len) => {
                let len = len.unwrap_or_else(|| rng.below(20));
                Value::Blob((0..len).map(|_| rng.next() as u8).collect())
            }
            Shape::Array(element, len) => {
                let len = len.unwrap_or_else(|| rng.below(5));
                Value::List((0..len).map(|_| element.value(rng)).collect())
            }
            Shape::Struct(members) => Value::Struct(values(members, rng)),
            Shape::Optional(content) => {
                if rng.below(2) == 0 {
                    Value::Null
                } else {
                    content.value(rng)
                }
            }
            Shape::Variant(options) => {
                let index = rng.below(options.len() as u64) as usize;
                let (name, shape) = &options[index];
                Value::Option(index, Some(name.as_str().into()), Box::new(shape.value(rng)))
            }
        }
    }
}

fn values(members: &[(String, Shape)], rng: &mut Rng) -> Vec<(Arc<str>, Value)> {
    members.iter().map(|(name, shape)| (name.as_str().into(), shape.value(rng))).collect()
}

/// The value as CTF 1.8 has it.
fn lowered(value: &Value) -> Value {
    match value {
        Value::Boolean(value) => Value::Unsigned((*value).into()),
        Value::Blob(bytes) => Value::List(bytes.iter().map(|&byte| Value::Unsigned(byte.into())).collect()),
        Value::List(elements) => Value::List(elements.iter().map(lowered).collect()),
        Value::Struct(members) => {
            Value::Struct(members.iter().map(|(name, value)| (name.clone(), lowered(value))).collect())
        }
        Value::Option(index, name, value) => Value::Option(*index, name.clone(), Box::new(lowered(value))),
        other => other.clone(),
    }
}

/// A value that was read without the lengths, flags and tags that the writer put there itself.
fn without_own(value: &Value) -> Value {
    match value {
        Value::List(elements) => Value::List(elements.iter().map(without_own).collect()),
        Value::Struct(members) => {
            let given = members.iter().filter(|(name, _)| !name.starts_with('_'));
            Value::Struct(given.map(|(name, value)| (name.clone(), without_own(value))).collect())
        }
        Value::Option(index, name, value) => Value::Option(*index, name.clone(), Box::new(without_own(value))),
        other => other.clone(),
    }
}

/// An event as a reader sees it.
#[derive(Debug, PartialEq)]
struct Seen {
    stream: String,
    name: String,
    ns: i128,
    scopes: [Option<Value>; 3],
}

/// All events in the order of time, and the numbers of events that were discarded; there is nothing else to say.
fn read(path: &Path) -> (Vec<Seen>, Vec<u64>) {
    let session = open(path);
    let mut found = Vec::new();
    check(&session, 2, |finding| {
        found.extend((finding.severity != Severity::Loss).then(|| finding.error.to_string()));
        true
    });
    assert!(found.is_empty(), "{found:?}");
    let streams = streams(&session, &[]).expect("all streams are wanted");
    let mut merger = merger(&session, &streams, &Selection::default());
    let (mut events, mut lost) = (Vec::new(), Vec::new());
    while let Some(batch) = merger.next_batch(64) {
        for run in &batch.runs {
            let (stream, ready) = &batch.chunks[run.chunk as usize];
            let of = &streams[stream.0 as usize];
            let schema = &session.traces[of.trace].schema;
            for at in run.from as usize..run.to as usize {
                let event = ready.chunk.event(at);
                let scopes = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
                events.push(Seen {
                    stream: of.stream.name.clone(),
                    name: schema.event(event.class()).name.as_deref().unwrap_or("").into(),
                    ns: of.clock.expect("a clock").ns(event.cycles()),
                    scopes: scopes.map(|scope| event.values(scope).expect("fields").map(|value| without_own(&value))),
                });
            }
        }
        for note in &batch.notes {
            match note {
                Note::Gap(_, gap) => {
                    assert_eq!(gap.kind, GapKind::DiscardedEvents);
                    lost.push(gap.count.expect("it is counted"));
                }
                Note::Fault(error) | Note::Warning(error) => panic!("{error}"),
            }
        }
    }
    (events, lost)
}

fn open(path: &Path) -> Session {
    let session = Session::open(&FileSystem, &[path.to_path_buf()], &OpenOptions::new(FORMATS)).expect("options");
    assert!(session.failures.is_empty(), "{:?}", session.failures);
    session
}

fn create(path: &Path, is_ctf18: bool) -> Trace {
    if is_ctf18 { Ctf18::create(path) } else { Ctf2::create(path) }.expect("a new trace")
}

fn message<T>(result: Result<T>) -> String {
    result.err().expect("it is refused").to_string()
}

#[test]
fn what_is_written_reads_back() {
    let folder = Folder::new("write-random");
    let seeds = std::env::var("TRACEMILL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(120);
    let mut events = 0;
    for seed in 0..seeds {
        let (rng, is_ctf18) = (&mut Rng(seed), seed % 2 == 0);
        let kept = std::env::var_os("TRACEMILL_KEEP").filter(|_| is_ctf18).map(PathBuf::from);
        let path = kept.unwrap_or_else(|| folder.path()).join(seed.to_string()).join("trace");
        let trace = create(&path, is_ctf18);
        let context = Shape::members(rng, is_ctf18, 2);
        let packet_bytes = [1, 200, 1000, 1 << 20][rng.below(4) as usize];
        let class = trace.stream_class("class").packet_bytes(packet_bytes);
        let class = context.iter().fold(class, |class, (name, shape)| class.context(name, shape.field(rng)));
        let class = class.build().expect("a stream class");
        let mut classes = Vec::new();
        for at in 0..1 + rng.below(4) {
            let (own, payload) = (Shape::members(rng, is_ctf18, 2), Shape::members(rng, is_ctf18, 0));
            let event = class.event_class(&format!("event {at}"));
            let event = own.iter().fold(event, |event, (name, shape)| event.context(name, shape.field(rng)));
            let event = payload.iter().fold(event, |event, (name, shape)| event.field(name, shape.field(rng)));
            classes.push((event.build().expect("an event class"), own, payload));
        }
        let mut out = class.stream("stream").expect("a stream");
        let (mut want, mut time, mut discarded, mut common) = (Vec::new(), 0, 0, Vec::new());
        for at in 0..rng.below(60) {
            if at == 0 || rng.below(20) == 0 {
                common = values(&context, rng);
                let values: Vec<Value> = common.iter().map(|(_, value)| value.clone()).collect();
                out.set_context(|c| c.values(&values)).expect("a context");
            }
            time += rng.below(3);
            let index = rng.below(classes.len() as u64) as usize;
            let (event, own, payload) = &classes[index];
            let (own, payload) = (values(own, rng), values(payload, rng));
            let given: Vec<Value> = own.iter().chain(&payload).map(|(_, value)| value.clone()).collect();
            out.event_values(event, time, &given).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let scope = |members: &[(Arc<str>, Value)]| {
                let value = Value::Struct(members.to_vec());
                (!members.is_empty()).then(|| if is_ctf18 { lowered(&value) } else { value })
            };
            want.push(Seen {
                stream: "stream".into(),
                name: format!("event {index}"),
                ns: time.into(),
                scopes: [scope(&common), scope(&own), scope(&payload)],
            });
            match rng.below(20) {
                0 => {
                    out.add_discarded(at);
                    discarded += at;
                }
                1 => out.end_packet().expect("the disk has room"),
                _ => {}
            }
        }
        out.finish().expect("the stream ends");
        trace.finish().expect("the trace ends");
        let (found, lost) = read(&path);
        for (want, found) in want.iter().zip(&found) {
            assert_eq!(want, found, "seed {seed}");
        }
        assert_eq!((want.len(), discarded), (found.len(), lost.iter().sum()), "seed {seed}");
        events += want.len();
    }
    assert!(events as u64 > seeds * 20, "{events}");
}

#[test]
fn threads_write_streams_of_their_own() {
    let folder = Folder::new("write-threads");
    for is_ctf18 in [false, true] {
        let path = folder.path().join(format!("made-{is_ctf18}"));
        let mut trace = create(&path, is_ctf18);
        trace.set_environment("hostname", "here").expect("a name");
        trace.set_environment("cores", 2).expect("a name");
        let class = trace.stream_class("app").packet_bytes(300).packet_context("cpu_id", write::u32());
        let class = class.context("vtid", write::u32()).build().expect("a stream class");
        let tick = class.event_class("tick").field("number", write::u64()).build().expect("an event class");
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                let (class, tick) = (class.clone(), &tick);
                scope.spawn(move || -> Result<()> {
                    let mut out = class.stream(&format!("thread-{thread}"))?;
                    out.set_packet_context(|p| p.u32(thread % 2))?;
                    out.set_context(|c| c.u32(1000 + thread))?;
                    // Classes come while others write.
                    let own = class.event_class(&format!("own-{thread}")).field("text", write::string()).build()?;
                    for at in 0..500 {
                        out.event(tick, at * 10 + u64::from(thread), |e| e.u64(at))?;
                    }
                    out.add_discarded(thread.into());
                    out.event(&own, 5000, |e| e.str("last"))?;
                    out.add_discarded(1);
                    out.finish()
                });
            }
        });
        trace.finish().expect("all streams are finished");
        let (events, lost) = read(&path);
        assert_eq!((events.len(), lost.iter().sum::<u64>()), (8 * 501, 8 + 28));
        assert!(events.is_sorted_by_key(|event| event.ns));
        for thread in 0..8 {
            let of = events.iter().filter(|event| event.stream == format!("thread-{thread}"));
            let numbers = of.clone().filter_map(|event| event.scopes[2].as_ref()?.member("number")?.integer());
            assert!(numbers.eq(0..500));
            let contexts = of.clone().filter_map(|event| event.scopes[0].as_ref()?.member("vtid")?.integer());
            assert!(contexts.eq(std::iter::repeat_n(1000 + thread, 501)));
        }
        let session = open(&path);
        let trace = &session.traces[0];
        assert_eq!(trace.schema.env("cores"), Some(&write::EnvValue::from(2)));
        let mut losses = 0;
        check(&session, 2, |finding| {
            losses += usize::from(finding.severity == Severity::Loss);
            true
        });
        assert_eq!(losses, 7 + 8, "each gap is found");
    }
}

#[test]
fn times_are_those_of_the_clock() {
    let folder = Folder::new("write-clock");
    for is_ctf18 in [false, true] {
        let path = folder.path().join(format!("made-{is_ctf18}"));
        let trace = create(&path, is_ctf18);
        let clock = Clock::new("counter").frequency(24_000_000).unix_origin().offset_seconds(1_700_000_000);
        let slow = trace.stream_class("slow").clock(clock.clone().offset_cycles(12_000_000)).build();
        let slow = slow.expect("a stream class");
        let other = trace.stream_class("other").clock(clock.clone());
        assert!(message(other.build()).ends_with("two different clocks are named `counter`"));
        let event = slow.event_class("e").build().expect("an event class");
        let mut out = slow.stream("s").expect("a stream");
        out.event(&event, 24, |e| e).expect("an event");
        out.finish().expect("the stream ends");
        trace.finish().expect("the trace ends");
        let (events, _) = read(&path);
        assert_eq!(events[0].ns, 1_700_000_000_500_001_000);
        assert_eq!(open(&path).traces[0].schema.clocks()[0].origin, tracemill::schema::ClockOrigin::Unix);
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let folder = Folder::new("write-refused");
    let path = folder.path().join("made");
    let trace = create(&path, false);
    let app = trace.stream_class("app").build().expect("a stream class");
    let pair = write::structure([("a", write::u8()), ("b", write::string())]);
    let event = app
        .event_class("event")
        .field("small", write::unsigned(5))
        .field("pairs", write::list(pair))
        .field("three", write::array(3, write::i8()))
        .field("maybe", write::optional(write::f32()))
        .field("either", write::variant([("yes", write::boolean()), ("no", write::blob_of(2))]))
        .build()
        .expect("an event class");
    let mut out = app.stream("s").expect("a stream");
    out.event(&event, 5, |e| {
        e.u32(31).array([1, 2], |e, at| e.u32(at).str("x")).array([-1, 0, 1], |e, at| e.i32(at));
        e.optional(Some(0.5), |e, value| e.f32(value)).variant("no", |e| e.bytes(&[1, 2]))
    })
    .expect("everything fits");
    type Put = fn(&mut write::FieldWriter<'_>);
    let cases: [(Put, &str); 12] = [
        (|e| _ = e.u64(32), "field `payload.small`: expected an unsigned integer of 5 bits, not 32"),
        (|e| _ = e.u64(1).u64(1), "field `payload.pairs`: expected an array, not 1"),
        (
            |e| _ = e.u64(1).array([7], |e, at| e.u64(at)),
            "field `payload.pairs[].b`: expected a string without a zero byte, not the end of the values",
        ),
        (
            |e| _ = e.u64(1).array([7], |e, at| e.u64(at).str("x").str("y")),
            "event `event`: no field is left for the string \"y\"",
        ),
        (
            |e| _ = e.u64(1).array([0; 0], |e, _| e).array([1, 2], |e, at| e.i64(at)),
            "field `payload.three`: expected an array of 3 elements, not 2 elements",
        ),
        (
            |e| _ = e.u64(1).array([0; 0], |e, _| e).array([1, 2, 200], |e, at| e.i64(at)),
            "field `payload.three[]`: expected a signed integer of 8 bits, not 200",
        ),
        (
            |e| _ = e.u64(1).array([0; 0], |e, _| e).array([1; 3], |e, at| e.i64(at)).f32(1.0),
            "field `payload.maybe`: expected an optional value, not a number of 64 bits, 1",
        ),
        (
            |e| {
                e.u64(1).array([0; 0], |e, _| e).array([1; 3], |e, at| e.i64(at)).optional(None, |e, ()| e);
                e.variant("perhaps", |e| e);
            },
            "field `payload.either`: expected an option of the variant (yes, no), not the option `perhaps`",
        ),
        (
            |e| {
                e.u64(1).array([0; 0], |e, _| e).array([1; 3], |e, at| e.i64(at)).optional(None, |e, ()| e);
                e.variant("no", |e| e.bytes(&[1]));
            },
            "field `payload.either.no`: expected 2 bytes, not 1 bytes",
        ),
        (
            |e| {
                e.u64(1).array([0; 0], |e, _| e).array([1; 3], |e, at| e.i64(at)).optional(None, |e, ()| e);
                e.variant("yes", |e| e.bool(true)).bool(true);
            },
            "event `event`: no field is left for true",
        ),
        (|_| {}, "field `payload.small`: expected an unsigned integer of 5 bits, not the end of the values"),
        (
            |e| _ = e.u64(1).array(["a\0b"], |e, text| e.u64(1).str(text)),
            "field `payload.pairs[].b`: expected a string without a zero byte, not the string \"a\\0b\"",
        ),
    ];
    for (put, want) in cases {
        let error = message(out.event(&event, 6, |e| {
            put(e);
            e
        }));
        assert_eq!(
            error
                .split_once(", event `event`, ")
                .map_or(&*error, |(_, rest)| rest)
                .replace(&format!("{}, ", path.join("s").display()), ""),
            want
        );
    }
    assert!(message(out.event(&event, 4, |e| e)).contains("event `event`: the time 4 is before 5"));
    let other = trace.stream_class("other").build().expect("a stream class");
    let foreign = other.event_class("event").build().expect("an event class");
    assert!(message(out.event(&foreign, 6, |e| e)).ends_with("its event class is one of another stream class"));
    out.finish().expect("the stream ends");
    trace.finish().expect("the trace ends");
    assert_eq!(read(&path).0.len(), 1, "what was refused left nothing");
}

#[test]
fn definitions_that_make_no_sense_are_refused() {
    let folder = Folder::new("write-definitions");
    let (new, old) = (create(&folder.path().join("new"), false), create(&folder.path().join("old"), true));
    let (new, old) =
        (new.stream_class("app").build().expect("a class"), old.stream_class("app").build().expect("a class"));
    let nested = write::list(write::list(write::u8()));
    let refused = |class: &write::StreamClass, field: Field| message(class.event_class("e").field("x", field).build());
    assert!(
        refused(&new, nested)
            .contains("field `payload.x`: a list, blob, optional field or variant that is not a member")
    );
    assert!(refused(&new, write::unsigned(0)).contains("an integer of 0 bits; 1 to 64 are possible"));
    assert!(refused(&new, write::array(0, write::u8())).contains("an array or blob of length 0"));
    assert!(refused(&new, write::string().hex()).ends_with("a base or labels of something that is not an integer"));
    assert!(refused(&new, write::blob().big_endian()).ends_with("a byte order of something that is not a number"));
    assert!(refused(&new, write::i8().label("x", 128)).contains("the label `x` stands for values"));
    assert!(refused(&old, write::optional(write::u8())).contains("CTF 1.8 has no optional fields"));
    assert!(refused(&old, write::variant([("int", write::u8())])).contains("CTF 1.8 cannot name an option `int`"));
    assert!(
        refused(&new, write::structure([("a", write::u8()), ("a", write::u8())])).contains("two fields are named `a`")
    );
    let deep = (0..40).fold(write::u8(), |field, _| write::structure([("a", field)]));
    assert!(refused(&new, deep).contains("fields more than 32 levels deep"));
    new.event_class("e").build().expect("what was refused took no name");
    assert!(message(new.event_class("e").build()).contains("has an event class of this name already"));
    for name in ["", "a/b", "..", ".hidden", "metadata"] {
        assert!(message(new.stream(name)).contains("is not a name of a stream"), "{name}");
    }
    let stream = new.stream("s").expect("a name");
    assert!(message(new.stream("s")).ends_with("there is a stream `s` already"));
    drop(stream);
}

#[test]
fn a_trace_that_is_not_finished_leaves_nothing() {
    let folder = Folder::new("write-dropped");
    let path = folder.path().join("around").join("made");
    let trace = create(&path, false);
    let app = trace.stream_class("app").packet_bytes(1).build().expect("a class");
    let tick = app.event_class("tick").build().expect("a class");
    let mut out = app.stream("s").expect("a stream");
    let written = (0..3).try_for_each(|at| out.event(&tick, at, |e| e));
    written.expect("it is written");
    drop(trace);
    // Its stream does not make the folder again.
    let result = (3..9).try_for_each(|at| out.event(&tick, at, |e| e)).and_then(|()| out.finish());
    drop(result);
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
    std::fs::create_dir_all(&path).expect("the folder can be made");
    assert!(message(Ctf2::create(&path)).contains("the trace would replace what is there"));
}

/// Examples are built before tests run, beside them.
#[test]
fn the_example_writes_and_reads_back() {
    let folder = Folder::new("write-example");
    let path = folder.path().join("made");
    let own = std::env::current_exe().expect("a test has a file");
    let built = own.ancestors().nth(2).expect("it is in a folder of the target").join("examples/write_trace");
    let output = std::process::Command::new(built.with_extension(std::env::consts::EXE_EXTENSION)).arg(&path).output();
    let output = output.expect("`cargo test` builds the examples");
    assert!(output.status.success(), "{output:?}");
    let line = "Some(2) events, Some(12) discarded\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), line.repeat(2));
    assert_eq!(read(&path).0.len(), 4);
}
