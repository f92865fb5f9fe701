//! Fuzz targets: each is a function of bytes that must not panic, hang, or take memory in proportion to a number that
//! the bytes only claim.
//!
//! | target | the bytes are |
//! |---|---|
//! | [`run_tsdl`] | metadata in TSDL, bare or in packets |
//! | [`run_ctf2_json`] | metadata of CTF 2 |
//! | [`run_rfc11`] | metadata of RFC v1.1, bare or in packets; from the first byte 0xFF on, a stream file after it |
//! | [`run_rfc16`] | the same of RFC v1.6 |
//! | [`run_packets`] | the seed of a random schema (8 bytes), then packets of it |
//! | [`run_lttng_index`] | an index file beside a fixed trace |
//! | [`run_live_replies`] | the number of requests, their commands, then what a relay daemon answers |
//! | [`run_filter`] | a filter expression, or a time |
//! | [`run_lttng_definitions`] | a byte, then a definition file of LTTng 0.7 |
//! | [`run_lttng_blocks`] | a byte, then a tracefile of LTTng 0.7 or 0.8 |
//! | [`run_lttng_markers`] | two files of LTTng 2.x |
//! | [`run_lttng_formats`] | a marker format of LTTng 2.x and payloads |
//! | [`run_writing`] | the same as of [`run_trace`], written in every format and read back |
//! | [`run_concepts`] | a table that ties events to concepts of kernels |
//! | [`run_trace`] | metadata of either language, a zero byte, then a data stream file |
//! | [`run_ftrace_file`] | a whole `trace.dat` |
//! | [`run_ftrace_pages`] | a byte of choices, then pages of the ring buffer |
//! | [`run_ftrace_format`] | an event format, a zero byte, then a record of it |
//! | [`run_perf_file`] | a whole `perf.data` |
//! | [`run_perf_records`] | a byte of choices and the parts of samples (8 bytes), then records |
//! | [`run_cpel`] | a CPEL or Gist file, or any other that is found by its content |
//! | [`run_jsonl`] | canonical lines |
//! | [`run_chrome_json`] | trace JSON of Chrome, after the beginning of a list |
//! | [`run_profile`] | a byte, then a folded stack and more, or a profile of speedscope or Firefox after its beginning |
//! | [`run_perfetto`] | packets of Perfetto, after one |
//! | [`run_ftrace_text`] | text of ftrace, after a heading |
//! | [`run_elog`] | an event log of VPP after its magic |
//! | [`run_uftrace_records`] | specifications of arguments, a zero byte, then the records of a task of uftrace |
//! | [`run_uftrace_kernel`] | `kernel_header`, a zero byte, `kallsyms`, a zero byte, then pages of the ring buffer |
//! | [`run_uftrace_texts`] | the other files of a uftrace folder, a zero byte between two |
//! | [`run_symbols`] | two addresses (16 bytes), then an ELF file, a `kallsyms` or a `perf-PID.map` |
//!
//! A trace that can be read is then read in every way that the program has: with every event counted, checked, and
//! printed as text, JSON and CSV.

mod exercise;
mod ftrace;
mod lttng_legacy;
mod lttng_markers;
mod perf;
// The random schemas, and the comparison of plans with the referee, are those of codec's tests, which use
// more of them.
#[allow(dead_code)]
#[path = "../../crates/codec/tests/random/schemas.rs"]
mod generator;
#[path = "../../crates/codec/tests/random/leaves.rs"]
mod leaves;
#[path = "../../crates/codec/tests/random/packets.rs"]
mod packets;
mod storage;
mod symbols;
#[allow(dead_code)]
#[path = "../../crates/codec/tests/random/tree.rs"]
mod tree;
mod writing;

use std::sync::Arc;

use tracemill_calls::chrome::{self, ChromeOptions};
use tracemill_calls::replay::{self, ReplayField, ReplayOptions};
use tracemill_calls::{CallOptions, graph, report};
use tracemill_codec::layout::tree_sizes;
use tracemill_ctf::{ctf2, drafts, tsdl};
use tracemill_engine::filter::{Expression, TimeContext, parse_time};
use tracemill_engine::session::Session;
use tracemill_format::calls::DumpOptions;
use tracemill_live::protocol::{LiveCommand, MAX_METADATA, ReplyReader};
use tracemill_model::error::{Error, ErrorKind};
use tracemill_model::schema::ByteOrder;
use tracemill_semantics::Concepts;

pub use lttng_markers::{run_lttng_formats, run_lttng_markers};

pub use lttng_legacy::{block_seeds, run_lttng_blocks, run_lttng_definitions};

use generator::{Rng, random_schema};
use storage::Folder;

/// The names under which the shared test code imports its helpers; its random bytes are ours here.
mod schemas {
    pub(crate) use crate::generator::Rng;

    thread_local! {
        static BYTES: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    /// Sets the bytes of the next packet.
    pub(crate) fn set_bytes(bytes: &[u8]) {
        BYTES.with_borrow_mut(|kept| bytes.clone_into(kept));
    }

    /// The bytes of the packet, and where its content ends.
    pub(crate) fn random_bytes(rng: &mut Rng) -> (Vec<u8>, u64) {
        let bytes = BYTES.with_borrow(Clone::clone);
        let bits = bytes.len() as u64 * 8;
        let end = if rng.chance(60) { bits } else { rng.below(bits + 1) };
        (bytes, end)
    }
}

/// Counted by the shared test code.
#[derive(Default)]
struct Tally {
    cases: u64,
    packets: u64,
    whole_packets: u64,
    events: u64,
}

impl Tally {
    fn fault(&mut self, _kind: tracemill_codec::plan::FaultKind) {}
}

/// Larger packets make the referee slow, and show nothing new.
const MAX_PACKET_BYTES: usize = 4096;

/// A data stream file for metadata without packets made for it.
const SOME_STREAM: &[u8] = &[
    0xc1, 0x1f, 0xfc, 0xc1, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, b'a', b'b', 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1, 1, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x1f, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, b'x', 0, 0, 0, 0, 0, 0, 0, 7, 6, 5,
    4, 3, 2, 1, 0,
];

/// Metadata in TSDL.
pub fn run_tsdl(data: &[u8]) {
    match tsdl::read_text(data).and_then(|metadata| tsdl::parse(&metadata.text, false)) {
        Ok(_) => {}
        Err(error) => check_metadata_error(&error),
    }
    exercise::read(&Folder::new(data, SOME_STREAM));
}

/// Metadata of CTF 2.
pub fn run_ctf2_json(data: &[u8]) {
    if let Err(error) = ctf2::parse(data, false) {
        check_metadata_error(&error);
    }
    exercise::read(&Folder::new(data, SOME_STREAM));
}

/// Metadata of RFC v1.1.
pub fn run_rfc11(data: &[u8]) {
    run_rfc(data, SOME_PACKET_11);
}

/// Metadata of RFC v1.6.
pub fn run_rfc16(data: &[u8]) {
    run_rfc(data, SOME_PACKET_16);
}

/// Metadata of a draft, and after the first byte that no text has a stream file; without it, a packet of ours.
fn run_rfc(data: &[u8], packet: &[u8]) {
    let split = data.iter().position(|&byte| byte == 0xff);
    let (metadata, stream) = match split {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, packet),
    };
    for order in [ByteOrder::Little, ByteOrder::Big] {
        if let Err(error) = drafts::parse(metadata, order) {
            check_metadata_error(&error);
        }
    }
    exercise::read(&Folder::new(metadata, stream));
}

/// A packet of RFC v1.1 of 72 bytes.
const SOME_PACKET_11: &[u8] = &[
    0xc1, 0x1f, 0xfc, 0xc1, 7, 0, 0, 0, 72, 0, 0, 0, 72, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0x21, 0, 0, 0, 1, 2, 3, 4, b'a', 0, 2, 0, 1, 2, 0x41, 0, 0, 0, 5, 0, 0,
    0, 0, 0,
];

/// A packet of RFC v1.6 of 56 bytes, with a context of two sizes of 32 bits.
const SOME_PACKET_16: &[u8] = &[
    0xc1, 0x1f, 0xfc, 0xc1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0, 0, 0, 0, 56, 0, 0, 0, 56, 0, 0,
    0, 0x21, 0, 0, 0, 1, 2, b'a', 0, 0x1f, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0,
];

/// Every error of metadata says where it is.
fn check_metadata_error(error: &Error) {
    assert!(!error.message().is_empty());
    let place = error.place();
    assert!(place.text.is_some() || place.offset.is_some(), "no place: {error}");
    if let Some(text) = &place.text {
        assert!(text.line > 0 && text.column > 0, "{error}");
        assert!(text.excerpt.len() < 4096, "an excerpt of {} bytes", text.excerpt.len());
    }
    assert!(matches!(
        error.kind(),
        ErrorKind::NotThisFormat
            | ErrorKind::Malformed
            | ErrorKind::Unsupported
            | ErrorKind::Truncated
            | ErrorKind::Inconsistent
    ));
}

/// The seed of a random schema, then packets.
pub fn run_packets(data: &[u8]) {
    let Some((seed, bytes)) = data.split_first_chunk() else { return };
    let bytes = &bytes[..bytes.len().min(MAX_PACKET_BYTES)];
    let mut rng = Rng::new(u64::from_le_bytes(*seed));
    let schema = random_schema(&mut rng, 1);
    schemas::set_bytes(bytes);
    if let Err(message) = packets::packet(&schema, &mut rng, &mut Tally::default()) {
        panic!("{message}\n{}", tree::list(&schema));
    }
    exercise::read_with_schema(Arc::new(schema), bytes);
}

/// The metadata of the target for index files.
const INDEXED_METADATA: &[u8] = b"/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; packet.header := struct {
  integer { size = 32; } magic; integer { size = 32; } stream_id; integer { size = 64; } stream_instance_id; }; };
clock { name = c; freq = 1000; };
typealias integer { size = 64; map = clock.c.value; } := time_t;
stream { id = 0;
  packet.context := struct { time_t timestamp_begin; time_t timestamp_end; integer { size = 64; } content_size;
    integer { size = 64; } packet_size; integer { size = 64; } packet_seq_num; integer { size = 64; } events_discarded; };
  event.header := struct { integer { size = 8; map = clock.c.value; } timestamp; }; };
event { name = e; stream_id = 0; fields := struct { integer { size = 8; } n; }; };
";

/// Three packets of the metadata above, of 80 bytes each.
fn indexed_stream() -> Vec<u8> {
    let mut bytes = Vec::new();
    for at in 0..3u64 {
        bytes.extend_from_slice(&0xc1fc_1fc1u32.to_le_bytes());
        bytes.extend_from_slice(&0u32.to_le_bytes());
        for number in [1, at * 100, at * 100 + 50, 72 * 8, 80 * 8, at, at * 2] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        bytes.extend_from_slice(&[0; 8]);
    }
    bytes
}

/// The index that fits the stream of the target for index files: its seed.
pub fn index_seed() -> Vec<u8> {
    let words = [0xc1f1_dcc1u32, 1, 1, 72];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    for at in 0..3u64 {
        let entry = [at * 80, 80 * 8, 72 * 8, at * 100, at * 100 + 50, at * 2, 0, 1, at];
        bytes.extend(entry.iter().flat_map(|number| number.to_be_bytes()));
    }
    bytes
}

/// An index file beside a fixed trace: whatever it says, the same events come out.
pub fn run_lttng_index(data: &[u8]) {
    let mut folder = Folder::new(INDEXED_METADATA, &indexed_stream());
    folder.add("index/stream.idx", data);
    let events = exercise::read(&folder);
    assert!(events <= 12, "{events} events");
}

/// Replies of a relay daemon: a byte with the number of requests, a byte for each, then all that comes back.
pub fn run_live_replies(data: &[u8]) {
    let Some((&count, rest)) = data.split_first() else { return };
    let (commands, replies) = rest.split_at(rest.len().min(count.into()));
    let mut reader = ReplyReader::new(replies);
    for command in commands {
        let offset = reader.offset();
        let read = match command % 9 {
            0 => reader.connect(),
            1 => reader.sessions().map(|sessions| assert!(sessions.len() * 20 <= replies.len())),
            2 => reader.attached().map(|(_, streams)| assert!(streams.len() * 4371 <= replies.len())),
            3 => reader.index().map(|index| drop(index.fault())),
            4 => reader.packet(u32::from(*command) * 64).map(|reply| {
                assert!(reply.bytes.is_none_or(|bytes| bytes.len() <= replies.len()));
            }),
            5 => reader.metadata(MAX_METADATA).map(|(_, bytes)| {
                assert!(tracemill_live::metadata::whole_len(&bytes) <= bytes.len());
            }),
            6 => reader.new_streams().map(drop),
            7 => reader.status(LiveCommand::CreateSession).map(drop),
            _ => reader.status(LiveCommand::Detach).map(drop),
        };
        match read {
            Ok(()) => assert!(reader.offset() > offset),
            Err(error) => {
                assert!(error.offset <= replies.len() as u64 && error.to_string().starts_with("the reply to"));
                return;
            }
        }
    }
}

/// A filter expression, or a time.
pub fn run_filter(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let times = TimeContext { gmt: true, first_ns: Some(1), last_ns: Some(1_000_000_000) };
    let _ = parse_time(&text, &times);
    let Ok(expression) = Expression::parse(&text) else { return };
    let folder = Folder::new(INDEXED_METADATA, &indexed_stream());
    let session = exercise::open(&folder);
    let Ok(filter) = expression.bind(&session, &times) else { return };
    let classes = filter.classes(0);
    let range = filter.time_range();
    let mut matcher = filter.matcher();
    exercise::for_each_event(&session, |event| {
        let is_match = matcher.matches(&event);
        // The filter on the spine may only leave out events that do not match.
        let has_class = classes.as_ref().is_none_or(|classes| classes.has(event.raw.class().0));
        let in_range = range.is_none_or(|(first, last)| event.ns.is_some_and(|ns| first <= ns && ns <= last));
        assert!(!is_match || (has_class && in_range), "`{text}` leaves out an event that matches");
        if filter.is_decided_by_spine() {
            assert_eq!(is_match, has_class && in_range, "`{text}` is not decided by the spine");
        }
    });
}

/// Metadata of a trace whose events may be of concepts.
const KERNEL_METADATA: &str = "/* CTF 1.8 */
    typealias integer { size = 8; align = 8; signed = false; } := u8;
    typealias integer { size = 8; align = 8; signed = false; map = clock.c.value; } := t8;
    trace { major = 1; minor = 8; byte_order = le; };
    clock { name = c; freq = 1000000000; };
    stream {
        packet.context := struct { u8 cpu_id; };
        event.header := struct { u8 id; t8 timestamp; };
    };
    event { name = \"sched_switch\"; id = 0; fields := struct { u8 prev_tid; u8 prev_state; u8 next_tid; }; };
    event { name = \"sched_waking\"; id = 1; fields := struct { u8 tid; u8 target_cpu; }; };
    event { name = \"my_event\"; id = 2; fields := struct { u8 tid; u8 nr; u8 ret; }; };";

/// A table that ties events to concepts, used for a small trace.
pub fn run_concepts(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let file = std::path::Path::new("concepts");
    let concepts = match Concepts::with_built_in(file, &text) {
        Ok(concepts) => concepts,
        Err(error) => {
            assert!(error.place().text.is_some() && !error.message().is_empty(), "{error}");
            return;
        }
    };
    let mut events = vec![1u8];
    for at in 0..40u8 {
        events.extend(match at % 4 {
            0 => [0, at, at % 3, at, (at + 1) % 3].to_vec(),
            1 => [1, at, at % 5, 0].to_vec(),
            _ => [2, at, at % 7, at % 2, 255].to_vec(),
        });
    }
    let session = exercise::open(&Folder::new(KERNEL_METADATA.as_bytes(), &events));
    exercise::analyze(&session, &concepts);
}

/// Metadata, a zero byte, and a data stream file.
pub fn run_trace(data: &[u8]) {
    let Some(end) = data.iter().position(|&byte| byte == 0) else { return };
    exercise::read(&Folder::new(&data[..end], &data[end + 1..]));
}

/// Metadata, a zero byte, and a data stream file: a trace that is written in every format.
pub fn run_writing(data: &[u8]) {
    let Some(end) = data.iter().position(|&byte| byte == 0) else { return };
    let session = exercise::open(&Folder::new(&data[..end], &data[end + 1..]));
    check_size(&session, end);
    writing::write_all(&session);
}

/// A whole `trace.dat`.
pub fn run_ftrace_file(data: &[u8]) {
    ftrace::read(data);
}

/// A whole `perf.data`.
pub fn run_perf_file(data: &[u8]) {
    perf::read(data);
}

/// A byte of choices (1: big-endian, 2: a pipe, 4: a tracepoint, 8: an id in every record), the parts of samples (8 bytes),
/// then records.
pub fn run_perf_records(data: &[u8]) {
    if let Some((head, records)) = data.split_first_chunk::<9>() {
        perf::read(&perf::file(head, records));
    }
}

/// A byte of choices (1: big-endian, 2: a long of 4 bytes, 4: version 7), then the pages of a CPU.
pub fn run_ftrace_pages(data: &[u8]) {
    let Some((&choices, pages)) = data.split_first() else { return };
    ftrace::read(&ftrace::file(choices, ftrace::FORMATS, pages));
}

/// An event format, a zero byte, and the data of a record.
pub fn run_ftrace_format(data: &[u8]) {
    let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let text = String::from_utf8_lossy(&data[..end]);
    for choices in [0, 3] {
        ftrace::check_format(&text, choices, data.get(end + 1..).unwrap_or(&[]));
    }
}

/// A file that is a trace by its content: CPEL, Gist.
pub fn run_cpel(data: &[u8]) {
    exercise::read(&Folder::with_file("log", data));
}

/// Canonical lines.
pub fn run_jsonl(data: &[u8]) {
    exercise::read(&Folder::with_file("log", data));
}

/// Trace JSON of Chrome.
pub fn run_chrome_json(data: &[u8]) {
    // Without an event it is not recognized. Events may have stacks.
    let begin =
        b"{\"stackFrames\":{\"1\":{\"name\":\"a\"},\"2\":{\"name\":\"b\",\"category\":\"c\",\"parent\":\"1\"}},\
        \"traceEvents\":[{\"name\":\"a\",\"ph\":\"i\",\"ts\":1,\"sf\":2},";
    let text = [&begin[..], data].concat();
    exercise::read(&Folder::with_file("log", &text));
}

/// Profiles: the first byte chooses the format.
pub fn run_profile(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    // Without a beginning it is not recognized.
    let begin: &[u8] = match choice % 3 {
        0 => b"a;b 1\n",
        1 => b"{\"$schema\":\"speedscope\",\"shared\":{\"frames\":[{\"name\":\"a\"},{\"name\":\"b\"}]},\"profiles\":[",
        _ => b"{\"meta\":{\"preprocessedProfileVersion\":55},\"threads\":[{\"name\":\"a\",",
    };
    exercise::read(&Folder::with_file("log", &[begin, data].concat()));
}

/// A trace of Perfetto.
pub fn run_perfetto(data: &[u8]) {
    // Without a packet it is not recognized.
    let packets = [&b"\x0a\x02\x50\x01"[..], data].concat();
    exercise::read(&Folder::with_file("log", &packets));
}

/// Text of ftrace.
pub fn run_ftrace_text(data: &[u8]) {
    exercise::read(&Folder::with_file("perf.txt", &[b"x 1/1 [000] 1.0: a:\n", data].concat()));
    // Without a heading or a line of an event it is not recognized.
    let text = [&b"# tracer: nop\n"[..], data].concat();
    exercise::read(&Folder::with_file("log", &text));
}

/// An event log of VPP.
pub fn run_elog(data: &[u8]) {
    // Without its magic it is no log.
    let log = [&b"\0\0\0\x07elog v0"[..], data].concat();
    exercise::read(&Folder::with_file("log", &log));
}

/// The beginning of `info` in a folder of uftrace; the flags say that there are arguments.
fn uftrace_info(is_big: bool) -> Vec<u8> {
    let mut info = b"Ftrace!\0".to_vec();
    let number = |value: u64, len: usize| {
        if is_big { value.to_be_bytes()[8 - len..].to_vec() } else { value.to_le_bytes()[..len].to_vec() }
    };
    info.extend(number(4, 4));
    info.extend(number(40, 2));
    info.extend([1 + u8::from(is_big), 2]);
    info.extend(number(0x37b, 8));
    info.extend(number(0x3fff, 8));
    info.resize(40, 0);
    info.extend(b"exename:/a\ntaskinfo:tids=7\n");
    info
}

const UFTRACE_TASKS: &[u8] =
    b"SESS timestamp=0.0 pid=7 sid=0123456789abcdef exename=\"/a\"\nTASK timestamp=0.0 tid=7 pid=7\n";
const UFTRACE_MAP: &[u8] = b"00001000-00009000 r-xp 0 0:0 0 /a\n";
const UFTRACE_SYMBOLS: &[u8] = b"0 T f\n100 T _ZN1A1gEv\n200 T h\n300 ? __sym_end\n";
const UFTRACE_DEBUG: &[u8] = b"E: enum E {A,B=5}\nF: 0 f\nA: @arg1/s,fparg1/80,arg2/e:E\nR: @retval/t12\n";

/// Specifications of arguments, a zero byte, and the records of a task.
pub fn run_uftrace_records(data: &[u8]) {
    let Some(end) = data.iter().position(|&byte| byte == 0) else { return };
    for is_big in [false, true] {
        let mut info = uftrace_info(is_big);
        info.extend(&data[..end]);
        let folder = Folder::with_files([
            ("info", info.as_slice()),
            ("task.txt", UFTRACE_TASKS),
            ("sid-0123456789abcdef.map", UFTRACE_MAP),
            ("a.sym", UFTRACE_SYMBOLS),
            ("a.dbg", UFTRACE_DEBUG),
            ("7.dat", &data[end + 1..]),
        ]);
        exercise::read(&folder);
        follow_calls(&exercise::open(&folder));
    }
}

/// Kernel data of a uftrace folder: the formats, the symbols, and the pages, those of a second processor in their second
/// half.
pub fn run_uftrace_kernel(data: &[u8]) {
    let mut parts = data.splitn(3, |&byte| byte == 0);
    let (Some(header), Some(symbols), Some(pages)) = (parts.next(), parts.next(), parts.next()) else { return };
    let mut records = Vec::new();
    for (time, kind) in [(5_000_000_000u64, 0), (6_000_000_000, 1)] {
        records.extend(time.to_le_bytes());
        records.extend((5u64 << 3 | kind | 0x1010 << 16).to_le_bytes());
    }
    let (first, second) = pages.split_at(pages.len() / 2);
    let folder = Folder::with_files([
        ("info", uftrace_info(false).as_slice()),
        ("task.txt", UFTRACE_TASKS),
        ("sid-0123456789abcdef.map", UFTRACE_MAP),
        ("a.sym", UFTRACE_SYMBOLS),
        ("7.dat", &records),
        ("kernel_header", header),
        ("kallsyms", symbols),
        ("kernel-cpu0.dat", first),
        ("kernel-cpu1.dat", second),
    ]);
    exercise::read(&folder);
    follow_calls(&exercise::open(&folder));
}

/// Follows the calls of a session in every way that the program has.
fn follow_calls(session: &Session) {
    let sources = session.traces.iter().filter_map(|trace| trace.reader.calls());
    for source in sources {
        let options = || CallOptions { time_filter: 3, depth: 5, ..CallOptions::default() };
        let mut out = std::io::sink();
        for options in [CallOptions::default(), options()] {
            let look =
                ReplayOptions { fields: ReplayField::ALL.map(|(_, field)| field).to_vec(), ..Default::default() };
            replay::write(source, options.clone(), &look, &mut out).expect("a sink takes everything");
            let (functions, _) = report::functions(source, options.clone(), true);
            report::write(source, functions, &Default::default(), &mut out).expect("a sink takes everything");
            graph::write(source, options.clone(), &Default::default(), &mut out).expect("a sink takes everything");
            graph::write_folded(source, options.clone(), 1000, &mut out).expect("a sink takes everything");
            let balanced = ChromeOptions { is_balanced: true, ..Default::default() };
            chrome::write(source, options, balanced, &mut out).expect("a sink takes everything");
        }
        let hex = DumpOptions { hex: true, ..Default::default() };
        source.dump(hex, &mut |_| true, &mut out).expect("a sink takes everything");
    }
}

/// The other files of the folder: texts, and at last the records of a processor.
pub fn run_uftrace_texts(data: &[u8]) {
    const NAMES: [&str; 7] =
        ["task.txt", "sid-0123456789abcdef.map", "a.sym", "a.dbg", "events.txt", "extern.dat", "perf-cpu0.dat"];
    let mut record = Vec::new();
    for word in [100u64, 5 << 3 | 4 | 0x1010 << 16, 7, 120, 5 << 3 | 1 | 0x1110 << 16] {
        record.extend(word.to_le_bytes());
    }
    let mut info = uftrace_info(false);
    info.extend(b"argspec:f@arg1\nauto-args:1\n");
    let mut folder = Folder::with_files([("info", info.as_slice()), ("7.dat", &record)]);
    for (name, bytes) in NAMES.iter().zip(data.splitn(NAMES.len(), |&byte| byte == 0)) {
        folder.add(name, bytes);
    }
    exercise::read(&folder);
    follow_calls(&exercise::open(&folder));
    for line in String::from_utf8_lossy(data).lines() {
        tracemill_format::demangle::simple_name(line);
    }
}

/// Two addresses (16 bytes), then an ELF file, the kernel's list of symbols, or a program's list of the code it made.
pub fn run_symbols(data: &[u8]) {
    let Some((first, rest)) = data.split_first_chunk() else { return };
    let Some((second, bytes)) = rest.split_first_chunk() else { return };
    symbols::read([u64::from_le_bytes(*first), u64::from_le_bytes(*second)], bytes);
}

/// A target by its name.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 31] = [
    ("tsdl", run_tsdl),
    ("ctf2_json", run_ctf2_json),
    ("rfc11", run_rfc11),
    ("rfc16", run_rfc16),
    ("packets", run_packets),
    ("lttng_index", run_lttng_index),
    ("live_replies", run_live_replies),
    ("filter", run_filter),
    ("concepts", run_concepts),
    ("trace", run_trace),
    ("writing", run_writing),
    ("lttng_definitions", run_lttng_definitions),
    ("lttng_blocks", run_lttng_blocks),
    ("lttng_markers", run_lttng_markers),
    ("lttng_formats", run_lttng_formats),
    ("ftrace_file", run_ftrace_file),
    ("ftrace_pages", run_ftrace_pages),
    ("ftrace_format", run_ftrace_format),
    ("perf_file", run_perf_file),
    ("perf_records", run_perf_records),
    ("cpel", run_cpel),
    ("elog", run_elog),
    ("jsonl", run_jsonl),
    ("chrome_json", run_chrome_json),
    ("perfetto", run_perfetto),
    ("profile", run_profile),
    ("ftrace_text", run_ftrace_text),
    ("uftrace_records", run_uftrace_records),
    ("uftrace_kernel", run_uftrace_kernel),
    ("uftrace_texts", run_uftrace_texts),
    ("symbols", run_symbols),
];

/// A schema that passed the front end is of bounded size.
fn check_size(session: &Session, metadata_bytes: usize) {
    for trace in &session.traces {
        let size = tree_sizes(&trace.schema).into_iter().max().unwrap_or(0);
        assert!(size <= 1_000_000 + metadata_bytes as u64, "a tree of {size} fields");
    }
}
