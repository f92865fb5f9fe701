//! Tests of filters on events made by hand.

mod errors;
mod fields;
mod keys;
mod language;
mod spine;

use std::sync::Arc;

use tracemill_codec::chunk::Chunk;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_ctf::{ctf2, tsdl};
use tracemill_format::{OpenTrace, Stream};
use tracemill_model::packet::Packet;
use tracemill_model::schema::{Schema, StreamClassId};

use super::{Filter, TimeContext};
use crate::cursor::Cursor;
use crate::event::Event;
use crate::item::Item;
use crate::selection::SpineFilter;
use crate::session::Session;

/// A session with its events.
struct Input {
    session: Session,
    /// Trace, stream and events.
    chunks: Vec<(usize, usize, Chunk)>,
}

impl Input {
    /// Traces of one packet each.
    fn new(traces: Vec<(&str, Schema, Vec<u8>)>) -> Self {
        let mut session = Session::default();
        let mut chunks = Vec::new();
        for (at, (name, schema, bytes)) in traces.into_iter().enumerate() {
            let (trace, chunk) = open(name, schema, bytes);
            session.traces.push(trace);
            session.corrections.push(0);
            chunks.extend(chunk.map(|chunk| (at, 0, chunk)));
        }
        Input { session, chunks }
    }

    fn filter(&self, text: &str) -> Filter {
        let times = || self.events().filter_map(|event| event.ns);
        let times = TimeContext { gmt: true, first_ns: times().min(), last_ns: times().max() };
        Filter::compile(text, &self.session, &times).unwrap_or_else(|error| panic!("{error}"))
    }

    fn events(&self) -> impl Iterator<Item = Event<'_>> {
        self.chunks.iter().flat_map(|(trace, stream, chunk)| {
            let clock = self.session.clock_map(*trace, chunk.packet.packet.class);
            (0..chunk.len()).map(move |at| {
                let ns = clock.map(|clock| clock.ns(chunk.cycles[at]));
                Event { trace: *trace, stream: *stream, raw: chunk.event(at), ns }
            })
        })
    }

    /// The numbers of the events that match. What the filter says of classes and times must agree.
    #[track_caller]
    fn matching(&self, text: &str) -> Vec<usize> {
        let filter = self.filter(text);
        let mut matcher = filter.matcher();
        let mut matching = Vec::new();
        for (at, event) in self.events().enumerate() {
            let is_in_class = filter.classes(event.trace).is_none_or(|classes| classes.has(event.raw.class().0));
            let is_in_time = match (filter.time_range(), event.ns) {
                (Some((first, last)), Some(ns)) => first <= ns && ns <= last,
                (range, _) => range.is_none(),
            };
            let does_match = matcher.matches(&event);
            assert!(!does_match || (is_in_class && is_in_time), "{text}: event {at} is left out");
            if filter.is_decided_by_spine() {
                assert_eq!(does_match, is_in_class && is_in_time, "{text}: event {at}");
            }
            if does_match {
                matching.push(at);
            }
        }
        matching
    }

    /// Column and message of the error that the text gives.
    #[track_caller]
    fn fault(&self, text: &str) -> (u32, String) {
        let times = TimeContext { gmt: true, ..TimeContext::default() };
        let Err(error) = Filter::compile(text, &self.session, &times) else { panic!("no fault in {text}") };
        let place = error.place().text.as_ref().unwrap_or_else(|| panic!("no place: {error}"));
        let help = error.help().map_or(String::new(), |help| format!(" | {help}"));
        (place.column, format!("{}{help}", error.message()))
    }
}

fn open(name: &str, schema: Schema, bytes: Vec<u8>) -> (OpenTrace, Option<Chunk>) {
    let schema = Arc::new(schema);
    let plans = Arc::new(TracePlans::new(schema.clone()));
    let bits = bytes.len() as u64 * 8;
    let packet = Packet::new(StreamClassId(0), 0, bits);
    let file = tracemill_format::DataFile {
        is_indexed: false,
        path: "channel0_1".into(),
        relative: "channel0_1".into(),
        bytes: Arc::new(bytes),
    };
    let packets = if bits > 0 { vec![packet] } else { Vec::new() };
    let stream = Stream {
        name: "channel0_1".into(),
        class: StreamClassId(0),
        id: None,
        files: vec![file],
        packets: packets.into(),
    };
    let trace = OpenTrace {
        name: name.into(),
        path: name.into(),
        own_name: String::new(),
        schema,
        plans,
        has_other_bytes: false,
        reader: Arc::new(tracemill_ctf::CtfReader::default()),
        streams: vec![stream.clone()],
        sections: Vec::new(),
        remarks: Vec::new(),
        faults: Vec::new(),
        warnings: Vec::new(),
    };
    let mut cursor = Cursor::new(&trace, Arc::new(stream), None, SpineFilter::default(), 1000);
    let mut chunk = None;
    while let Some(item) = cursor.next() {
        match item {
            Item::Chunk(ready) => chunk = Some(ready.chunk),
            Item::Fault(error) | Item::Warning(error) => panic!("{error}"),
            Item::Gap(_) | Item::Packet(..) => {}
        }
    }
    (trace, chunk)
}

/// Bytes of events, put together field by field.
#[derive(Default)]
struct Data(Vec<u8>);

impl Data {
    fn put(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u8(self, value: u8) -> Self {
        self.put(&[value])
    }

    fn i32(self, value: i32) -> Self {
        self.put(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.put(&value.to_le_bytes())
    }

    fn f64(self, value: f64) -> Self {
        self.put(&value.to_le_bytes())
    }

    /// A string and its zero.
    fn text(self, text: &str) -> Self {
        self.put(text.as_bytes()).u8(0)
    }
}

const KERNEL: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := uint8_t;
typealias integer { size = 32; align = 8; signed = true; } := int;
typealias integer { size = 64; align = 8; } := uint64_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = mono; freq = 1000000000; offset_s = 1700000000; };
typealias integer { size = 64; align = 8; map = clock.mono.value; } := stamp_t;
stream {
	id = 7;
	packet.context := struct { int cpu_id; int shared; };
	event.header := struct { uint8_t id; stamp_t timestamp; };
	event.context := struct { int _vtid; string _procname; };
};
event {
	name = sched_switch; id = 0; stream_id = 7;
	fields := struct {
		string _prev_comm; int _prev_pid; int _args[3];
		enum : uint8_t { RUNNING = 0, SLEEPING = 1 ... 2, DEEP = 2 } _state;
	};
};
event {
	name = file_open; id = 1; stream_id = 7;
	context := struct { uint8_t _prio; int _shared; };
	fields := struct {
		string _path; int64_t _ret;
		floating_point { exp_dig = 11; mant_dig = 53; align = 8; } _load;
		uint8_t _len; int _items[_len];
	};
};
event { name = tick; id = 2; stream_id = 7; fields := struct { }; };
event { name = "odd name"; id = 3; stream_id = 7; fields := struct { int _in; int _name; int _vtid; }; };
"#;

/// Events of a kernel trace on cpu 2, 1 ms apart from 1,700,000,001 s on:
///
/// 0, 1 `sched_switch`; 2, 3 `file_open`; 4 `tick`; 5 `odd name`.
fn kernel() -> Input {
    kernel_named(&["kernel"])
}

fn kernel_named(names: &[&str]) -> Input {
    let head =
        |data: Data, id: u8, at: u64, vtid: i32| data.u8(id).u64(1_000_000_000 + at * 1_000_000).i32(vtid).text("prog");
    let data = Data::default().i32(2).i32(99);
    let data = head(data, 0, 0, 4711).text("swapper/0").i32(0).i32(1).i32(0x80).i32(-3).u8(0);
    let data = head(data, 0, 1, 4712).text("bash*").i32(-5).i32(4).i32(0x7f).i32(6).u8(2);
    let data = head(data, 1, 2, 4711).u8(9).i32(1).text("/proc/self/maps").u64(-2i64 as u64).f64(0.5).u8(0);
    let data = head(data, 1, 3, 1).u8(0).i32(2).text("/etc/é").u64(3).f64(f64::NAN).u8(2).i32(10).i32(20);
    let data = head(data, 2, 4, 0);
    let data = head(data, 3, 5, 4713).i32(1).i32(2).i32(3);
    let traces =
        names.iter().map(|name| (*name, tsdl::parse(KERNEL, false).expect("valid metadata").0, data.0.clone()));
    Input::new(traces.collect())
}

/// Metadata of CTF 2 with a clock and one event record class that has these members.
fn ctf2_schema(members: &[(&str, &str)]) -> Schema {
    let members: Vec<String> =
        members.iter().map(|(name, class)| format!(r#"{{"name": "{name}", "field-class": {class}}}"#)).collect();
    let members = members.join(", ");
    let text = format!(
        "\u{1e}{{\"type\": \"preamble\", \"version\": 2}}\n\
         \u{1e}{{\"type\": \"data-stream-class\"}}\n\
         \u{1e}{{\"type\": \"event-record-class\", \"payload-field-class\": \
         {{\"type\": \"structure\", \"member-classes\": [{members}]}}}}\n"
    );
    ctf2::parse(text.as_bytes(), true).unwrap_or_else(|error| panic!("{error}")).0
}
