//! Whole files: what they hold, and what is reported of damaged ones.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::{Chunk, ChunkSink};
use tracemill_codec::plan::{NodeId, Visitor};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ByteOrder, ClockOrigin, FieldKind, Scope};

use super::builder::{FileBuilder, bytes, format, pack};
use tracemill_format::OpenTrace;
use tracemill_format::testing::OneFile;

fn try_open(bytes: Vec<u8>) -> Result<OpenTrace> {
    OneFile::new(bytes).open_as(&super::FORMAT)
}

fn open(bytes: Vec<u8>) -> OpenTrace {
    try_open(bytes).expect("a trace")
}

/// The result of reading: a line for each event, and the errors.
#[derive(Default)]
struct Read {
    lines: Vec<String>,
    faults: Vec<Error>,
    warnings: Vec<Error>,
    gaps: Vec<Gap>,
}

impl Read {
    fn faults(&self) -> Vec<&str> {
        self.faults.iter().map(Error::message).collect()
    }
}

fn read(trace: &OpenTrace) -> Read {
    let mut read = Read { faults: trace.faults.clone(), ..Read::default() };
    for stream in &trace.streams {
        let clock = trace.schema.stream(stream.class).default_clock.expect("a clock");
        let map = ClockMap::new(trace.schema.clock(clock), 0);
        for (index, packet) in stream.packets.iter().enumerate() {
            let opened = match trace.reader.open_packet(&trace.plans, stream, index, 0) {
                Ok(opened) => opened,
                Err(error) => {
                    read.faults.push(error);
                    continue;
                }
            };
            read.faults.extend(opened.faults);
            read.warnings.extend(opened.warnings);
            read.gaps.extend(opened.gaps);
            let data = Arc::new(opened.data);
            let mut chunk = Chunk::new(data.clone(), 0, 16);
            let (mut pos, mut state) = (data.first_event(), data.state.clone());
            data.scan(&mut pos, &mut state, &mut ChunkSink::new(&mut chunk, usize::MAX));
            for at in 0..chunk.len() {
                let event = chunk.event(at);
                let class = trace.schema.event(event.class());
                let ns = map.ns(event.cycles());
                assert!(packet.begin_cycles.is_none_or(|begin| begin <= event.cycles()));
                assert!(packet.end_cycles.is_none_or(|end| event.cycles() <= end));
                let mut line = format!("{} {ns} {}", stream.name, class.name.as_deref().unwrap_or("?"));
                let mut shown = Shown { trace, plan_names: Vec::new(), text: String::new() };
                shown.plan_names = names(trace, Scope::EventHeader, event.class());
                event.visit_header(&mut state, &mut shown).expect("a header");
                write!(line, " {{{}}}", shown.text.trim_start()).unwrap();
                let mut shown =
                    Shown { trace, plan_names: names(trace, Scope::Payload, event.class()), text: String::new() };
                let mut fields = event.fields(&mut state);
                for scope in [Scope::CommonContext, Scope::SpecificContext, Scope::Payload] {
                    fields.visit(scope, &mut state, &mut shown).expect("a field");
                }
                write!(line, " {{{}}}", shown.text.trim_start()).unwrap();
                read.lines.push(line);
            }
        }
    }
    read
}

/// Names of the members of a scope, in the order of a plan's nodes: the structure, then each member and its element.
fn names(trace: &OpenTrace, scope: Scope, class: tracemill_model::schema::EventClassId) -> Vec<String> {
    let root = trace.schema.scope_root(scope, class).expect("a scope");
    let FieldKind::Struct(of) = &trace.schema.field_class(root).kind else { panic!("a structure") };
    let mut names = vec![String::new()];
    for member in &of.members {
        names.push(member.name.to_string());
        if matches!(trace.schema.field_class(member.class).kind, FieldKind::Array(_)) {
            names.push(String::new());
        }
    }
    names
}

struct Shown<'t> {
    #[expect(dead_code, reason = "keeps the schema of the names alive")]
    trace: &'t OpenTrace,
    plan_names: Vec<String>,
    text: String,
}

impl Shown<'_> {
    fn show(&mut self, node: NodeId, value: &str) {
        let name = &self.plan_names[node as usize];
        let equals = if name.is_empty() { "" } else { "=" };
        write!(self.text, " {name}{equals}{value}").unwrap();
    }
}

impl Visitor for Shown<'_> {
    fn unsigned(&mut self, node: NodeId, value: u64) {
        self.show(node, &value.to_string());
    }
    fn signed(&mut self, node: NodeId, value: i64) {
        self.show(node, &value.to_string());
    }
    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        self.show(node, &format!("{:?}", String::from_utf8_lossy(bytes)));
    }
    fn begin_array(&mut self, node: NodeId, _: u64) {
        self.show(node, "[");
    }
    fn end_array(&mut self, _: NodeId) {
        self.text += " ]";
    }
}

/// The head of a record: number, flags 1, preemption 2, process 7.
fn common(order: ByteOrder, id: i64) -> Vec<u8> {
    pack(order, &[(id, 2), (1, 1), (2, 1), (7, 4)])
}

const COMMON: &str = "common_flags=1 common_preempt_count=2 common_pid=7";

/// A file with fields of every kind, with holes between them.
fn every_field(order: ByteOrder, long: u8) -> FileBuilder {
    let mut file = FileBuilder::new(order, long, 512);
    let size = long.to_string();
    let word = |declaration: &str, offset: usize| format!("{declaration};{offset};{size};0");
    let l = usize::from(long);
    file.ftrace_formats = vec![
        format("print", 5, &[&word("unsigned long ip", 8), &format!("char buf[];{};0;0", 8 + l)]),
        format(
            "bprint",
            6,
            &[&word("unsigned long ip", 8), &word("const char * fmt", 8 + l), &format!("u32 buf[];{};0;0", 8 + 2 * l)],
        ),
        format("kernel_stack", 4, &["int size;8;4;1", &format!("unsigned long caller[8];16;{};0", 8 * l)]),
        format("funcgraph_entry", 11, &[&word("unsigned long func", 8), &format!("int depth;{};4;1", 8 + l)]),
    ];
    let numbers = format(
        "numbers",
        100,
        &[
            "u8 a;8;1;0",
            "s8 b;9;1;1",
            "u16 c;10;2;0",
            "s16 d;12;2;1",
            "u32 e;16;4;0",
            "s32 f;20;4;1",
            "u64 g;24;8;0",
            "s64 h;40;8;1",
            "u32 before;32;4;0",
            "bool last;48;1;0",
        ],
    );
    let texts = format(
        "texts",
        101,
        &[
            "char comm[16];8;16;0",
            "__data_loc char[] name;24;4;0",
            "__rel_loc char[] other;28;4;0",
            "__data_loc u16[] list;32;4;0",
            "u16 fixed[3];36;6;0",
            "struct x whole;42;5;0",
        ],
    );
    file.systems = vec![("one", vec![numbers]), ("two", vec![texts])];
    let event = |id: i64, parts: &[(i64, usize)]| [common(order, id), pack(order, parts)].concat();
    let mut page = file.page(1000);
    page.event(
        1,
        &event(
            100,
            &[
                (200, 1),
                (-3, 1),
                (60_000, 2),
                (-300, 2),
                (0x7777, 2),
                (4_000_000_000, 4),
                (-5, 4),
                (-1, 8),
                (77, 4),
                (0x5555, 4),
                (i64::MIN, 8),
                (1, 1),
            ],
        ),
    );
    let mut text = event(101, &[]);
    text.extend(b"bash\0garbage....");
    // `name` 52..56, `other` behind itself (32) 56..58, `list` 58..62.
    text.extend(pack(order, &[(52 | 4 << 16, 4), (24 | 2 << 16, 4), (58 | 4 << 16, 4), (1, 2), (2, 2), (3, 2)]));
    text.extend([9, 8, 7, 6, 5, 0, 0, 0, 0, 0]);
    text.extend(b"eth\0");
    text.extend(b"xy");
    text.extend(pack(order, &[(500, 2), (600, 2)]));
    page.event(2, &text);
    page.event(3, &[event(5, &[(0x1234, l)]), b"hello\n\0".to_vec()].concat());
    page.event(4, &event(6, &[(1, l), (2, l), (3, 4), (4, 4)]));
    page.long_event(5, &event(4, &[(2, 4), (0, 4), (10, l), (11, l)]));
    page.event(6, &event(11, &[(99, l), (-1, 4)]));
    page.end_padding();
    file.cpu(vec![page]);
    file
}

fn every_line() -> Vec<String> {
    let line = |time: u64, name: &str, id: u32, payload: &str| {
        format!("cpu0 {time} {name} {{common_type={id} {COMMON}}} {{{payload}}}")
    };
    let numbers = format!("a=200 b=-3 c=60000 d=-300 e=4000000000 f=-5 g={} h={} before=77 last=1", u64::MAX, i64::MIN);
    vec![
        line(1001, "numbers", 100, &numbers),
        line(
            1003,
            "texts",
            101,
            "comm=\"bash\" name=\"eth\" other=\"xy\" list=[ 500 600 ] fixed=[ 1 2 3 ] whole=[ 9 8 7 6 5 ]",
        ),
        line(1006, "print", 5, "ip=4660 buf=\"hello\\n\""),
        line(1010, "bprint", 6, "ip=1 fmt=2 buf=[ 3 4 ]"),
        line(1015, "kernel_stack", 4, "size=2 caller=[ 10 11 ]"),
        line(1021, "funcgraph_entry", 11, "func=99 depth=-1"),
    ]
}

#[test]
fn every_kind_of_field_in_every_kind_of_file() {
    for (order, long) in [(ByteOrder::Little, 8), (ByteOrder::Little, 4), (ByteOrder::Big, 8), (ByteOrder::Big, 4)] {
        let mut file = every_field(order, long);
        for pages_packed in [0, 1] {
            file.pages_packed = pages_packed;
            let versions =
                if pages_packed == 0 { vec![file.build_v6(), file.build_v7()] } else { vec![file.build_v7()] };
            for bytes in versions {
                let trace = open(bytes);
                let read = read(&trace);
                assert_eq!(read.faults(), [""; 0]);
                assert_eq!(read.lines, every_line(), "{order:?} {long} {pages_packed}");
                let processes = trace.sections.iter().find(|section| section.title == "processes").unwrap();
                assert_eq!(processes.rows.len(), 2);
            }
        }
    }
}

/// A file of one event with a number, in as many pages as there are lists of times.
fn ticks(times: &[&[u64]]) -> FileBuilder {
    let mut file = FileBuilder::new(ByteOrder::Little, 8, 256);
    file.systems = vec![("t", vec![format("tick", 9, &["int n;8;4;1"])])];
    let page = |times: &&[u64]| {
        let mut page = file.page(times[0]);
        let mut before = times[0];
        for &time in *times {
            page.event(time - before, &tick(time as i64));
            before = time;
        }
        page
    };
    let pages = times.iter().map(page).collect();
    file.cpu(pages);
    file
}

fn tick(n: i64) -> Vec<u8> {
    [common(ByteOrder::Little, 9), pack(ByteOrder::Little, &[(n, 4)])].concat()
}

fn numbers(lines: &[String]) -> Vec<&str> {
    lines.iter().map(|line| line.rsplit_once("{n=").map_or("?", |(_, rest)| rest.trim_end_matches('}'))).collect()
}

#[test]
fn instances_have_their_own_clocks_and_names() {
    let mut file = ticks(&[&[10, 20]]);
    let mut page = file.page(5);
    page.event(1, &tick(6));
    let page = page.build(256);
    file.buffers.push(("net", "global", vec![page.clone(), page]));
    for (bytes, clocks) in [(file.build_v6(), ["local", "local"]), (file.build_v7(), ["mono", "global"])] {
        let trace = open(bytes);
        let read = read(&trace);
        assert_eq!(read.faults(), [""; 0]);
        let starts: Vec<String> =
            read.lines.iter().map(|line| line.split(" tick").next().unwrap().to_string()).collect();
        assert_eq!(starts, ["cpu0 10", "cpu0 20", "net/cpu0 6", "net/cpu1 6"]);
        let clock = |at: usize| {
            let class = trace.schema.stream(trace.streams[at].class);
            trace.schema.clock(class.default_clock.unwrap()).id.to_string()
        };
        assert_eq!([clock(0), clock(1)], clocks);
        assert_eq!(trace.streams.iter().map(|stream| stream.id).collect::<Vec<_>>(), [Some(0), Some(0), Some(1)]);
    }
}

#[test]
fn clocks_and_offsets() {
    let with = |options: &[(u16, &[u8])]| {
        let mut file = ticks(&[&[1000]]);
        file.buffers[0].1 = "";
        file.options = options.iter().map(|(id, content)| (*id, content.to_vec())).collect();
        let trace = open(file.build_v6());
        let clock = trace.schema.clocks()[0].clone();
        let read = read(&trace);
        assert_eq!(read.faults(), [""; 0]);
        (read.lines[0].split(' ').nth(1).unwrap().parse::<i64>().unwrap(), clock)
    };
    let (ns, clock) = with(&[]);
    assert_eq!((ns, &*clock.id, clock.origin), (1000, "local", ClockOrigin::Unknown));
    let (ns, clock) = with(&[(4, b"local [boot]\n\0"), (7, b"-1\0"), (1, b"0x2\0")]);
    assert_eq!((ns, &*clock.id, clock.origin), (2999, "boot", ClockOrigin::Unix));
    let (_, clock) = with(&[(4, b"local [counter]\0")]);
    assert_eq!(clock.frequency, 0);
    let tsc = pack(ByteOrder::Little, &[(3, 4), (1, 4), (100, 8)]);
    let (ns, clock) = with(&[(4, b"local [x86-tsc]\0"), (14, &tsc)]);
    assert_eq!((ns, clock.has_made_cycles, clock.frequency), (1400, true, 1_000_000_000));
}

#[test]
fn lost_events_are_gaps() {
    let mut file = ticks(&[&[10, 20]]);
    let mut page = file.page(50);
    page.event(0, &tick(50));
    let mut other = file.page(70);
    other.event(0, &tick(70));
    let pages = [page.missed(None), other.missed(Some(12))].into_iter().flat_map(|page| page.build(256));
    file.buffers[0].2[0].extend(pages);
    let read = read(&open(file.build_v6()));
    assert_eq!(numbers(&read.lines), ["10", "20", "50", "70"]);
    let gaps: Vec<_> = read.gaps.iter().map(|gap| (gap.count, gap.begin_cycles, gap.end_cycles)).collect();
    assert_eq!(gaps, [(None, Some(20), Some(50)), (Some(12), Some(50), Some(70))]);
}

#[test]
fn packets_tell_their_times() {
    // 300 pages of 256 bytes are more than one packet.
    let times: Vec<[u64; 2]> = (0..300).map(|at| [at * 100 + 1, at * 100 + 50]).collect();
    let times: Vec<&[u64]> = times.iter().map(|times| times.as_slice()).collect();
    let mut file = ticks(&times);
    let trace = open(file.build_v6());
    let packets = &trace.streams[0].packets;
    let spans: Vec<_> = packets.iter().map(|packet| (packet.begin_cycles, packet.end_cycles)).collect();
    assert_eq!(spans, [(Some(1), Some(25_601)), (Some(25_601), Some(29_950))]);
    assert_eq!(read(&trace).lines.len(), 600);
    file.pages_packed = 7;
    let trace = open(file.build_v7());
    assert_eq!(trace.streams[0].packets.len(), 43);
    assert_eq!(read(&trace).lines.len(), 600);
}

#[test]
fn larger_pages() {
    let mut file = FileBuilder::new(ByteOrder::Big, 4, 65_536);
    file.systems = vec![("t", vec![format("tick", 9, &["int n;8;4;1"])])];
    let mut page = file.page(0);
    for n in 0..4000 {
        page.event(1, &[common(ByteOrder::Big, 9), pack(ByteOrder::Big, &[(n, 4)])].concat());
    }
    file.cpu(vec![page]);
    let read = read(&open(file.build_v7()));
    assert_eq!((read.lines.len(), read.faults()), (4000, vec![]));
    assert_eq!(numbers(&read.lines)[3999], "3999");
}

#[test]
fn events_without_a_format_are_shown_as_bytes() {
    let mut file = ticks(&[]);
    let mut page = file.page(1);
    page.event(1, &tick(1));
    page.event(1, &[common(ByteOrder::Little, 77), vec![1, 2, 3, 4]].concat());
    page.event(1, &tick(3));
    file.buffers[0].2.clear();
    file.cpu(vec![page]);
    let trace = open(file.build_v6());
    let read = read(&trace);
    assert_eq!(
        read.lines[1],
        format!("cpu0 3 unknown {{common_type=77 {COMMON}}} {{record=[ 77 0 1 2 7 0 0 0 1 2 3 4 ]}}")
    );
    assert_eq!(numbers(&read.lines), ["1", "?", "3"]);
    assert_eq!(read.faults(), ["no format describes the event 77, of which there are 1"]);
}

#[test]
fn formats_that_lie() {
    let mut file = ticks(&[]);
    file.systems = vec![(
        "t",
        vec![
            format("tick", 9, &["int n;8;4;1"]),
            format("short", 10, &["u64 n;8;8;0"]),
            format("wild", 11, &["__data_loc char[] s;8;4;0"]),
            "name: broken\nID: 12\nformat:\n\tfield:int a;\toffset:nowhere;\tsize:4;\tsigned:1;\n".into(),
            format("again", 9, &[]),
            format("other", 13, &[]).replace("common_flags", "common_flugs"),
        ],
    )];
    let mut page = file.page(1);
    page.event(1, &[common(ByteOrder::Little, 10), vec![1, 2, 3, 4]].concat());
    page.event(1, &[common(ByteOrder::Little, 11), vec![12, 0, 100, 0], b"abc\0".to_vec()].concat());
    page.event(1, &tick(5));
    file.buffers[0].2.clear();
    file.cpu(vec![page]);
    let read = read(&open(file.build_v6()));
    assert_eq!(
        read.faults(),
        [
            "a record of 12 bytes, and the format of `short` needs 16",
            "`s` is said to be where the record is not",
            "`again` has the number 9 of `tick`",
        ],
        "formats of events that do not occur do not matter"
    );
    assert!(read.faults.iter().all(|fault| fault.place().offset.is_some()));
    assert_eq!(read.lines.len(), 2, "the short one is left out");
    assert!(read.lines[0].ends_with("{s=\"abc\"}"), "{}", read.lines[0]);
    assert_eq!(numbers(&read.lines[1..]), ["5"]);
}

#[test]
fn a_field_that_is_there_twice_has_two_names() {
    let submit = format("sys_enter_io_submit", 10, &["int nr;8;4;1", "u32 ctx;12;4;0", "long nr;16;8;1"]);
    let mut file = ticks(&[&[1]]);
    file.systems[0].1.push(submit);
    let quiet = read(&open(file.build_v6()));
    assert_eq!((quiet.lines.len(), quiet.faults(), quiet.warnings.len()), (1, vec![], 0));
    for _ in 0..300 {
        let mut page = file.page(10);
        let event = [common(ByteOrder::Little, 10), pack(ByteOrder::Little, &[(209, 4), (1, 4), (-2, 8)])].concat();
        page.event(0, &event);
        page.event(0, &event);
        file.buffers[0].2[0].extend(page.build(256));
    }
    let trace = open(file.build_v6());
    assert!(trace.streams[0].packets.len() > 1);
    let loud = read(&trace);
    assert!(loud.lines[1].ends_with("{nr=209 ctx=1 nr_2=-2}"), "{}", loud.lines[1]);
    assert_eq!(loud.faults(), [""; 0]);
    let warnings: Vec<&str> = loud.warnings.iter().map(Error::message).collect();
    assert_eq!(warnings, ["the format of `sys_enter_io_submit` has several fields `nr`"]);
    assert_eq!(read(&trace).warnings.len(), 1, "when it is read again too");
}

#[test]
fn formats_that_cannot_be_used_matter_when_their_events_occur() {
    let odd = [
        (20, "name: broken\nID: 20\nformat:\n\tfield:int a;\toffset:nowhere;\tsize:4;\tsigned:1;\n".to_string()),
        (21, format("other", 21, &[]).replace("common_flags", "common_flugs")),
        (22, format("headless", 22, &[]).replace("common_type", "common_kind")),
        (23, format("nameless", 23, &[]).replace("name: nameless\n", "")),
        (24, "\0\x01 no format at all".to_string()),
        (25, format("printed", 25, &[]).replace("print fmt: \"\"", "print fmt: \"%d %, ((")),
    ];
    for (at, (id, format)) in odd.iter().enumerate() {
        let mut file = ticks(&[&[1, 2]]);
        // The first one does not decide what all others must look like.
        file.systems[0].1.insert(0, format.clone());
        file.systems[0].1.push(super::builder::format("fine", 99, &[]));
        for bytes in [file.build_v6(), file.build_v7()] {
            let quiet = read(&open(bytes));
            assert_eq!((numbers(&quiet.lines), quiet.faults()), (vec!["1", "2"], vec![]), "{format}");
        }
        let mut page = file.page(3);
        page.event(0, &[common(ByteOrder::Little, *id), vec![0; 4]].concat());
        file.buffers[0].2[0].extend(page.build(256));
        let loud = read(&open(file.build_v6()));
        assert_eq!((loud.lines.len(), loud.faults.len()), (3, usize::from(at != 5)), "{format} {:?}", loud.faults);
    }
}

#[test]
fn texts_of_trace_printk() {
    for (order, long) in [(ByteOrder::Little, 8), (ByteOrder::Little, 4), (ByteOrder::Big, 8), (ByteOrder::Big, 4)] {
        let l = usize::from(long);
        let mut file = every_field(order, long);
        file.buffers[0].2.clear();
        file.format_strings = "0x2 : \"cpu_load: cpu: %d by %s\\n\"\n0x3 : \"a \\\"tab\\\"\\t%d\"\n";
        let ip = format!("unsigned long ip;8;{long};0");
        file.ftrace_formats.push(format("bputs", 14, &[&ip, &format!("const char * str;{};{long};0", 8 + l)]));
        let event = |id: i64, parts: &[(i64, usize)]| [common(order, id), pack(order, parts)].concat();
        let mut page = file.page(1);
        page.event(0, &[event(6, &[(1, l), (2, l), (3, 4)]), b"me\0.".to_vec()].concat());
        page.event(0, &event(6, &[(1, l), (9, l), (3, 4)]));
        page.event(0, &event(14, &[(1, l), (3, l)]));
        page.event(0, &event(14, &[(1, l), (4, l)]));
        file.cpu(vec![page]);
        for bytes in [file.build_v6(), file.build_v7()] {
            let read = read(&open(bytes));
            let payloads = read.lines.iter().map(|line| line.rsplit_once(" {").expect("a payload").1);
            let buf = pack(order, &[(3, 4)]).into_iter().chain(*b"me\0.").collect::<Vec<_>>();
            let second = tracemill_codec::bits::u32_at(&buf, 4, order).expect("four bytes");
            assert_eq!(
                payloads.collect::<Vec<_>>(),
                [
                    format!("ip=1 fmt=2 buf=[ 3 {second} ] text=\"cpu_load: cpu: 3 by me\"}}"),
                    "ip=1 fmt=9 buf=[ 3 ]}".to_string(),
                    "ip=1 str=3 text=\"a \\\"tab\\\"\\t%d\"}".to_string(),
                    "ip=1 str=4}".to_string(),
                ],
                "{order:?} {long}"
            );
            assert_eq!(read.faults(), [""; 0]);
        }
    }
}

#[test]
fn pages_that_lie() {
    let mut file = ticks(&[&[1, 2]]);
    let mut page = file.page(10);
    page.event(0, &tick(10));
    page.end_padding();
    let mut torn = file.page(20);
    torn.event(0, &tick(20));
    torn.event(0, &[0; 100]);
    let mut good = file.page(30);
    good.event(0, &tick(30));
    let pages = [page.commit(100_000), torn.commit(40), good];
    file.buffers[0].2[0].extend(pages.into_iter().flat_map(|page| page.build(256)));
    let bytes = file.build_v6();
    let data = bytes.len() as u64 - 4 * 256;
    let read = read(&open(bytes));
    assert_eq!(numbers(&read.lines), ["1", "2", "10", "20", "30"]);
    let told: Vec<_> = read.faults.iter().map(|fault| (fault.message(), fault.place().offset)).collect();
    assert_eq!(
        told,
        [
            ("a page says that it holds 100000 bytes, and has room for 240", Some(data + 256)),
            ("a record of 100 bytes does not fit; 24 bytes of the page are left", Some(data + 512 + 16 + 16)),
        ]
    );
}

#[test]
fn cut_files_give_what_is_there() {
    let file = ticks(&[&[1, 2], &[3, 4]]);
    let bytes = file.build_v6();
    let cut = bytes[..bytes.len() - 100].to_vec();
    let trace = open(cut);
    let read_cut = read(&trace);
    assert_eq!(numbers(&read_cut.lines), ["1", "2", "3", "4"]);
    let there = format!("{} of the 512 bytes of CPU 0 are there", 412);
    assert_eq!(read_cut.faults(), [there.as_str(), "the data ends inside a page, 156 of its 256 bytes are there"]);
    assert_eq!(trace.faults[0].kind(), ErrorKind::Truncated);
    // Everywhere: an error, or a trace with faults, but never less than a word.
    for mut file in [ticks(&[&[1, 2]]), every_field(ByteOrder::Big, 4)] {
        for version in 0..3 {
            file.pages_packed = usize::from(version == 2);
            let bytes = if version == 0 { file.build_v6() } else { file.build_v7() };
            for len in (0..bytes.len() - 256).step_by(7) {
                if let Ok(trace) = try_open(bytes[..len].to_vec()) {
                    assert!(!read(&trace).faults.is_empty(), "version {version} cut to {len}");
                }
            }
        }
    }
}

#[test]
fn absurd_numbers() {
    let file = ticks(&[&[1, 2]]);
    let order = ByteOrder::Little;
    let mut shared = file.clone();
    // Instances that share the data of the top one.
    shared.options = vec![];
    let built = shared.build_v6();
    let fly = built.windows(10).position(|window| window == b"flyrecord\0").unwrap() as u64;
    for name in ["a", "b"] {
        let content = [bytes(order, fly + 21, 8), name.bytes().chain([0]).collect()].concat();
        shared.options.push((3, content));
    }
    // Two options more move the word by 2 * 16 bytes.
    shared.options.iter_mut().for_each(|(_, content)| content[..8].copy_from_slice(&bytes(order, fly + 32, 8)));
    let read_shared = read(&open(shared.build_v6()));
    assert_eq!(numbers(&read_shared.lines), ["1", "2"]);
    assert_eq!(read_shared.faults(), ["the data of 2 CPUs overlaps that of others"]);
    // More CPUs than there can be.
    let mut many = file.build_v6();
    let at = many.windows(10).position(|window| window == b"options  \0").unwrap() - 4;
    many[at..at + 4].copy_from_slice(&[0xff; 4]);
    assert_eq!(read(&open(many)).faults(), ["4294967295 CPUs, more than 65536"]);
    // Sizes of pages.
    let mut small = file.build_v6();
    small[14..18].copy_from_slice(&[3, 0, 0, 0]);
    assert_eq!(try_open(small).err().unwrap().message(), "a page of 3 bytes");
    // A list of options that is its own successor.
    let mut endless = file.build_v7();
    let list = u64::from_le_bytes(endless[24..32].try_into().unwrap());
    let end = endless.len();
    endless[end - 8..].copy_from_slice(&list.to_le_bytes());
    let faults = read(&open(endless));
    assert_eq!(faults.faults()[0], format!("the list of options at {list} is its own successor"));
    // A number of formats that nothing holds.
    let mut formats = file.build_v6();
    let at = formats.windows(13).position(|window| window == b"header_event\0").unwrap() + 13 + 8 + 9;
    formats[at..at + 4].copy_from_slice(&[0xff; 4]);
    assert_eq!(open(formats).faults.len(), 1);
}

#[test]
fn files_that_are_none() {
    let storage = |bytes: &[u8]| OneFile::new(bytes);
    let probe = |bytes: &[u8]| (super::FORMAT.probe)(&storage(bytes), Path::new("t.dat"));
    assert!(probe(b"\x17\x08\x44tracing6\0"));
    assert!(!probe(b"\x17\x08\x44tracin"));
    assert!(!probe(b"tracing"));
    let error = |bytes: &[u8]| try_open(bytes.to_vec()).err().unwrap().message().to_string();
    assert_eq!(error(b"\x17\x08\x44tracing5\0\0\x08"), "version `5` of trace.dat");
    assert_eq!(error(b"\x17\x08\x44tracing6\0\x02\x08"), "the byte order is 2, neither 0 nor 1");
    assert_eq!(error(b"\x17\x08\x44tracing6\0\x01\x05"), "a long of 5 bytes, neither 4 nor 8");
}

#[test]
fn text_of_latency_tracers_is_said_to_be_unread() {
    let file = ticks(&[&[1]]);
    let mut bytes = file.build_v6();
    let at = bytes.windows(10).position(|window| window == b"flyrecord\0").unwrap();
    bytes[at..at + 10].copy_from_slice(b"latency  \0");
    let trace = open(bytes);
    assert_eq!((trace.streams.len(), trace.faults.len()), (0, 1));
    assert_eq!(trace.faults[0].kind(), ErrorKind::Unsupported);
}
