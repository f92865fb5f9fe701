//! Whole files: events of every type, order, losses, and what is reported of damaged ones.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, Chunk, ChunkSink};
use tracemill_format::testing::{OneFile, shown_plain};
use tracemill_format::{Entry, EntryKind, FoundTrace, OpenContext, OpenTrace, Storage};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ByteOrder, ClockOrigin, Scope};

use super::attr::part;
use super::builder::{EventBuilder, PerfBuilder};
use super::records::{kind, misc};

fn open(bytes: Vec<u8>) -> OpenTrace {
    let file = OneFile::new(bytes);
    assert!(file.is_of(&super::FORMAT));
    file.open_as(&super::FORMAT).expect("a trace")
}

/// A line for each event, and what was reported.
#[derive(Default)]
struct Read {
    lines: Vec<String>,
    faults: Vec<Error>,
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
        let mut last = 0;
        for (index, packet) in stream.packets.iter().enumerate() {
            let opened = trace.reader.open_packet(&trace.plans, stream, index, 0).expect("a packet");
            read.faults.extend(opened.faults);
            read.gaps.extend(opened.gaps);
            let data = Arc::new(opened.data);
            let mut chunk = Chunk::new(data.clone(), 0, 16);
            let (mut pos, mut state) = (data.first_event(), data.state.clone());
            data.scan(&mut pos, &mut state, &mut ChunkSink::new(&mut chunk, usize::MAX));
            for at in 0..chunk.len() {
                let event = chunk.event(at);
                let time = event.cycles();
                assert!(packet.begin_cycles.is_none_or(|begin| begin <= time), "{time} in {packet:?}");
                assert!(packet.end_cycles.is_none_or(|end| time <= end), "{time} in {packet:?}");
                assert!(last <= time, "{time} after {last}");
                last = time;
                let name = trace.schema.event(event.class()).name.as_deref().unwrap_or("?");
                let mut line = format!("{} {time} {name}", stream.name);
                for scope in [Scope::SpecificContext, Scope::Payload] {
                    if let Some(value) = event.values(scope).expect("fields") {
                        write!(line, " {{{}}}", shown_plain(&value)).unwrap();
                    }
                }
                read.lines.push(line);
            }
        }
    }
    read
}

const SAMPLE_ID_ALL: u32 = 18;

/// A clock of software whose records say thread, time and CPU.
fn clock(more: u64) -> EventBuilder {
    EventBuilder {
        event_type: 1,
        sample_type: part::IP | part::TID | part::TIME | part::CPU | part::PERIOD | more,
        flags: vec![SAMPLE_ID_ALL],
        ..EventBuilder::default()
    }
}

/// The end of a record of thread 7 of process 5.
fn end(time: u64, cpu: u64) -> [(u64, usize); 5] {
    [(5, 4), (7, 4), (time, 8), (cpu, 4), (0, 4)]
}

/// A sample of thread 7 of process 5.
fn sample(file: &mut PerfBuilder, ip: u64, time: u64, cpu: u64, rest: &[(u64, usize)]) {
    let first = [(ip, 8), (5, 4), (7, 4), (time, 8), (cpu, 4), (0, 4), (1000, 8)];
    file.record(kind::SAMPLE, 2, &[&first[..], rest].concat(), "", &[]);
}

#[test]
fn samples_and_records_of_both_byte_orders() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut file = PerfBuilder::new(order);
        file.events.push(clock(part::CALLCHAIN));
        file.features = vec![(3, file.text("host")), (7, file.pack(&[(8, 4), (4, 4)]))];
        file.record(kind::COMM, 0, &[(5, 4), (7, 4)], "shell", &[(0, 8), (0, 8), (0, 8)]);
        let chain = [-128i64 as u64, 0xffff_0001, -512i64 as u64, 0x1001, 0x1002];
        let chain: Vec<(u64, usize)> = [5].into_iter().chain(chain).map(|value| (value, 8)).collect();
        sample(&mut file, 0x1001, 100, 1, &chain);
        file.record(kind::MMAP, 0, &[(5, 4), (7, 4), (0x1000, 8), (0x100, 8), (0, 8)], "/bin/x", &end(65, 1));
        file.record(kind::COMM, misc::COMM_EXEC, &[(5, 4), (7, 4)], "x", &end(60, 0));
        let switch = [(9, 4), (10, 4)];
        file.record(kind::SWITCH_CPU_WIDE, misc::SWITCH_OUT | misc::SWITCH_PREEMPT, &switch, "", &end(110, 1));
        file.record(kind::SWITCH_CPU_WIDE, 0, &switch, "", &end(120, 1));
        for bytes in [file.build(), file.build_pipe()] {
            let trace = open(bytes);
            let read = read(&trace);
            assert_eq!(read.faults(), [] as [&str; 0]);
            assert_eq!(
                read.lines,
                [
                    "cpu0 60 PERF_RECORD_COMM {pid=5 tid=7 comm=x} {pid=5 tid=7 exec=true comm=x}",
                    "cpu1 65 PERF_RECORD_MMAP {pid=5 tid=7 comm=x} \
                     {pid=5 tid=7 addr=4096 len=256 pgoff=0 data=false filename=/bin/x}",
                    "cpu1 100 cpu-clock {pid=5 tid=7 comm=x} \
                     {ip=4097 bin=x+0x1 period=1000 callchain_kernel=[4294901761] callchain_user=[4097 4098]}",
                    "cpu1 110 PERF_RECORD_SWITCH_CPU_WIDE {pid=5 tid=7 comm=x} \
                     {out=true preempt=true next_pid=9 next_tid=10}",
                    "cpu1 120 PERF_RECORD_SWITCH_CPU_WIDE {pid=5 tid=7 comm=x} \
                     {out=false preempt=false prev_pid=9 prev_tid=10}",
                    "untimed 0 PERF_RECORD_COMM {pid=5 tid=7 exec=false comm=shell}",
                ]
            );
            assert_eq!(trace.reader.cpu_count(), Some(4));
            assert_eq!(trace.schema.byte_order, order);
        }
    }
}

#[test]
fn a_chain_with_a_guest_is_shown_whole() {
    let mut file = PerfBuilder::new(ByteOrder::Little);
    file.events.push(clock(part::CALLCHAIN));
    let guest = -2048i64 as u64;
    sample(&mut file, 1, 10, 0, &[(2, 8), (guest, 8), (77, 8)]);
    sample(&mut file, 2, 20, 0, &[(1, 8), (88, 8)]);
    let read = read(&open(file.build()));
    assert_eq!(
        read.lines,
        [
            "cpu0 10 cpu-clock {pid=5 tid=7 comm=null} \
             {ip=1 bin=null period=1000 callchain_kernel=[] callchain_user=[] callchain=[18446744073709549568 77]}",
            "cpu0 20 cpu-clock {pid=5 tid=7 comm=null} {ip=2 bin=null period=1000 callchain_kernel=[] callchain_user=[88]}",
        ]
    );
}

/// A format with a field elsewhere.
fn format() -> String {
    "name: note\nID: 40\nformat:\n\
     \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
     \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
     \tfield:__data_loc char[] text;\toffset:8;\tsize:4;\tsigned:0;\n\
     \tfield:u32 x;\toffset:12;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n"
        .to_string()
}

#[test]
fn tracepoints_have_the_fields_of_their_formats() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut file = PerfBuilder::new(order);
        file.events.push(EventBuilder { event_type: 2, config: 40, ..clock(part::RAW | part::CALLCHAIN) });
        file.features = vec![(1, file.tracing_data("own", &[format()]))];
        let raw = [(40, 2), (0, 2), (7, 4), (4 << 16 | 16, 4), (9, 4)];
        let raw = [file.pack(&raw), b"abc\0".to_vec()].concat();
        let mut content = file.pack(&[(1, 8), (5, 4), (7, 4), (10, 8), (0, 4), (0, 4), (1, 8), (1, 8), (3, 8)]);
        content.extend(file.pack(&[(raw.len() as u64, 4)]));
        content.extend(&raw);
        let record = file.packed_record(kind::SAMPLE, 2, &content);
        file.records.extend(record);
        let shorter = raw.len() as u64 - 8;
        let at = content.len() - raw.len() - 4;
        content.splice(at..at + 4, file.pack(&[(shorter, 4)]));
        let record = file.packed_record(kind::SAMPLE, 2, &content);
        file.records.extend(record);
        let read = read(&open(file.build()));
        assert_eq!(read.faults(), ["12 raw bytes, and the format of `note` needs 16"]);
        let line = &read.lines[0];
        assert!(line.starts_with("cpu0 10 note {pid=5 tid=7 comm="), "{line}");
        let rest = "ip=1 period=1 callchain_kernel=[] callchain_user=[3] common_type=40 common_pid=7} {text=abc x=9}";
        assert!(line.ends_with(rest), "{line}");
    }
}

#[test]
fn every_part_of_a_sample() {
    let mut file = PerfBuilder::new(ByteOrder::Little);
    file.events.push(EventBuilder {
        sample_type: part::ALL & !part::WEIGHT & !part::CALLCHAIN,
        read_format: 0x1f,
        branch_type: 1 << 17 | 1 << 19,
        regs_user: 0b101,
        flags: vec![SAMPLE_ID_ALL],
        ids: vec![33],
        ..EventBuilder::default()
    });
    let first = [(33, 8), (1, 8), (5, 4), (7, 4), (10, 8), (2, 8), (33, 8), (3, 8), (4, 4), (0, 4), (6, 8)];
    let counts = [2, 100, 90, 11, 33, 0, 12, 34, 1].map(|value| (value, 8));
    let raw = [(4, 4), (0xabcd, 4)];
    let branches = [1, 7, 21, 22, 23, 99].map(|value| (value, 8));
    let regs = [2, 51, 52].map(|value| (value, 8));
    let stack = [(8, 8), (0x0102, 8), (2, 8)];
    let last =
        [(3 << 48 | 2 << 32 | 1, 8), (61, 8), (62, 8), (0, 8), (63, 8), (64, 8), (65, 8), (66, 8), (8, 8), (5, 8)];
    let all = [&first[..], &counts, &raw, &branches, &regs, &stack, &last].concat();
    file.record(kind::SAMPLE, 2, &all, "", &[]);
    file.record(kind::SAMPLE, 2, &all[..30], "", &[]);
    let read = read(&open(file.build()));
    assert_eq!(read.faults(), ["a record of 224 bytes is too short for its fields"]);
    assert_eq!(
        read.lines[0],
        format!(
            "cpu4 10 cycles {{pid=5 tid=7 comm=null}} {{id=33 ip=1 bin=null addr=2 stream_id=3 period=6 time_enabled=100 \
             time_running=90 values=[11 12] value_ids=[33 34] value_lost=[0 1] raw=[205 171 0 0] branch_hw_index=7 \
             branch_from=[21] branch_to=[22] branch_flags=[23] branch_counters=[99] user_abi=2 user_regs=[51 52] \
             user_stack=[2 1] weight=1 weight2=2 weight3=3 data_src=61 transaction=62 intr_abi=0 intr_regs=[] \
             phys_addr=63 cgroup=64 data_page_size=65 code_page_size=66 aux=[5 0 0 0 0 0 0 0]}}"
        )
    );
}

#[test]
fn records_are_sorted_over_rounds_and_slices() {
    // Two rings take turns, each of them a round after the other.
    let mut file = PerfBuilder::new(ByteOrder::Little);
    file.events.push(EventBuilder { sample_type: part::IP | part::TIME | part::PERIOD, ..clock(0) });
    let sample = |file: &mut PerfBuilder, time: u64| {
        file.record(kind::SAMPLE, 2, &[(1, 8), (time, 8), (1, 8)], "", &[]);
    };
    let (rounds, each) = (6, 20_000);
    for round in 0..rounds {
        (0..each).for_each(|at| sample(&mut file, 1000 + round * each + at));
        (0..each).for_each(|at| sample(&mut file, 1000 + round * each + at - (each / 2).min(round * each)));
        file.record(kind::FINISHED_ROUND, 0, &[], "", &[]);
    }
    let trace = open(file.build());
    assert_eq!((trace.streams.len(), trace.streams[0].packets.len()), (1, 6));
    let in_order = read(&trace);
    assert_eq!((in_order.lines.len() as u64, in_order.faults.len()), (2 * rounds * each, 0));
    // In any other order, too.
    let stream = &trace.streams[0];
    let count =
        |index: usize| trace.reader.open_packet(&trace.plans, stream, index, 0).expect("it").data.spine.unwrap().len();
    let backwards: usize = (0..stream.packets.len()).rev().map(count).sum();
    assert_eq!(backwards, in_order.lines.len());
}

#[test]
fn lost_records_are_gaps() {
    let mut file = PerfBuilder::new(ByteOrder::Little);
    file.events.push(clock(0));
    sample(&mut file, 1, 10, 0, &[]);
    file.record(kind::LOST, 0, &[(1, 8), (42, 8)], "", &end(30, 0));
    file.record(kind::LOST_SAMPLES, misc::LOST_SAMPLES_BPF, &[(9, 8)], "", &end(40, 0));
    // perf's count of the whole recording: the kernel reported 42 of them.
    file.record(kind::LOST_SAMPLES, 0, &[(40, 8)], "", &end(0, 0));
    file.record(kind::LOST_SAMPLES, 0, &[(5, 8)], "", &end(0, 0));
    let read = read(&open(file.build()));
    let gaps: Vec<_> = read.gaps.iter().map(|gap| (gap.count, gap.begin_cycles, gap.end_cycles)).collect();
    assert_eq!(gaps, [(Some(42), Some(10), Some(30)), (Some(3), Some(0), Some(0))]);
    assert!(read.lines[1].ends_with("{id=1 lost=42}"), "{}", read.lines[1]);
    assert!(read.lines[2].ends_with("{lost=9 filtered=true}"), "{}", read.lines[2]);
}

#[test]
fn damage_costs_itself() {
    let mut file = PerfBuilder::new(ByteOrder::Little);
    file.events.push(clock(0));
    (0..3).for_each(|at| sample(&mut file, at, 10 + at, 0, &[]));
    let at = file.records.len();
    file.records.extend([0; 16]);
    (0..9).for_each(|at| sample(&mut file, at, 20 + at, 0, &[]));
    file.record(30, 0, &[(5, 8)], "", &end(40, 0));
    let whole = file.build();
    let records_at = whole.len() - file.records.len();
    let trace = open(whole.clone());
    let read_on = read(&trace);
    assert_eq!(read_on.faults(), ["a record of 0 bytes, expected at least 8"]);
    assert_eq!(read_on.faults[0].place().offset, Some((records_at + at) as u64));
    assert_eq!(read_on.faults[0].help(), Some("16 bytes are skipped"));
    assert_eq!(read_on.lines.len(), 13);
    assert!(read_on.lines[12].contains("PERF_RECORD_30 {pid=5 tid=7"), "{}", read_on.lines[12]);
    assert_eq!(trace.warnings[0].message(), "records of the unknown type 30: 1");
    // Cut, at every place.
    for len in 16..whole.len() {
        let storage = OneFile::new(&whole[..len]);
        match storage.open_as(&super::FORMAT) {
            Ok(trace) => assert!(!read(&trace).faults.is_empty(), "{len}"),
            Err(error) => assert_eq!(error.message(), format!("{len} of the 104 bytes of the head are there")),
        }
    }
    // Not finished.
    let mut unfinished = whole;
    unfinished[48..56].fill(0);
    let read = read(&open(unfinished));
    assert_eq!(read.lines.len(), 13);
    assert_eq!(read.faults()[0], "the head says that there are no records: the recording was not finished");
}

/// A frame of zstd with a block that is not packed for each part, and no end (RFC 8878, 3.1.1).
fn frame(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut blocks: Vec<Vec<u8>> = parts
        .iter()
        .map(|part| {
            let head = (part.len() as u32) << 3;
            [&head.to_le_bytes()[..3], part].concat()
        })
        .collect();
    // A window of 1 MiB.
    blocks[0].splice(0..0, [0x28, 0xb5, 0x2f, 0xfd, 0x00, 10 << 3]);
    blocks
}

#[test]
fn packed_records_go_through_their_parts() {
    let mut plain = PerfBuilder::new(ByteOrder::Little);
    plain.events.push(clock(0));
    (0..5).for_each(|at| sample(&mut plain, at, 10 + at, at % 2, &[]));
    let want = read(&open(plain.build())).lines;
    let records = std::mem::take(&mut plain.records);
    for packing in [kind::COMPRESSED, kind::COMPRESSED2] {
        let mut file = plain.clone();
        for block in frame(&[&records[..60], &records[60..61], &records[61..]]) {
            let size = match packing {
                kind::COMPRESSED2 => file.pack(&[(block.len() as u64, 8)]),
                _ => Vec::new(),
            };
            let content = [size, block].concat();
            // Only the newer type is padded.
            let mut record = file.packed_record(packing, 0, &content);
            if packing == kind::COMPRESSED {
                record.truncate(8 + content.len());
                let size = record.len() as u16;
                record[6..8].copy_from_slice(&size.to_le_bytes());
            }
            file.records.extend(record);
            file.record(kind::FINISHED_ROUND, 0, &[], "", &[]);
        }
        let trace = open(file.build());
        let read_packed = read(&trace);
        assert_eq!(read_packed.faults(), [] as [&str; 0]);
        assert_eq!(read_packed.lines, want);
        // Without its last records.
        let cut = file.records.len() - 70;
        file.records.truncate(cut);
        let read_cut = read(&open(file.build()));
        assert!(!read_cut.faults.is_empty() && read_cut.lines.len() < want.len());
    }
}

/// A folder in memory, in the order of names.
struct OneFolder(Vec<(&'static str, Arc<Vec<u8>>)>);

impl OneFolder {
    fn find(&self, path: &Path) -> Option<&Arc<Vec<u8>>> {
        self.0.iter().find(|(name, _)| Path::new("x").join(name) == path).map(|(_, bytes)| bytes)
    }
}

impl Storage for OneFolder {
    fn list(&self, _: &Path) -> Result<Vec<Entry>> {
        let entry = |(name, bytes): &(&'static str, Arc<Vec<u8>>)| Entry {
            path: Path::new("x").join(name),
            name: name.to_string(),
            kind: EntryKind::File(bytes.len() as u64),
        };
        Ok(self.0.iter().map(entry).collect())
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        self.find(path).map(|bytes| EntryKind::File(bytes.len() as u64))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Bytes>> {
        Ok(self.find(path).expect("a file").clone())
    }
}

#[test]
fn files_of_threads_are_put_together() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let part = |samples: &[(u64, u64)]| {
            let mut file = PerfBuilder::new(order);
            file.events.push(EventBuilder { flags: vec![SAMPLE_ID_ALL], ..clock(0) });
            samples.iter().for_each(|(cpu, time)| sample(&mut file, 0x1000 + time, *time, *cpu, &[]));
            file
        };
        let comm = |file: &mut PerfBuilder| {
            file.record(kind::COMM, 0, &[(5, 4), (7, 4)], "shell", &[(0, 8), (0, 8), (0, 8)]);
        };
        let mut whole = part(&[(0, 10), (1, 11), (0, 20), (1, 21), (0, 30)]);
        comm(&mut whole);
        let want = read(&open(whole.build())).lines;
        let mut head = part(&[]);
        comm(&mut head);
        // The feature of folders: a version.
        head.features = vec![(24, head.pack(&[(1, 8)]))];
        let (first, mut second) = (part(&[(1, 11), (0, 20), (0, 30)]).records, part(&[(0, 10), (1, 21)]).records);
        let files = |second: &[u8]| {
            let files =
                [("data", head.build()), ("data.0", first.clone()), ("data.1", second.to_vec()), ("data.x", vec![1])];
            OneFolder(files.map(|(name, bytes)| (name, Arc::new(bytes))).to_vec())
        };
        let open_folder = |storage: &OneFolder| {
            let found = FoundTrace { path: "x/data".into(), name: "x".into(), below: String::new() };
            (super::FORMAT.open)(&OpenContext::new(storage), &[found]).remove(0).expect("a trace")
        };
        let trace = open_folder(&files(&second));
        assert_eq!((read(&trace).lines, trace.faults.len()), (want.clone(), 0));
        second.truncate(second.len() - 5);
        let trace = open_folder(&files(&second));
        assert_eq!(read(&trace).lines.len(), want.len() - 1);
        assert_eq!(trace.faults[0].place().file.as_deref(), Some(Path::new("x/data.1")));
        let alone = OneFolder(vec![("data", Arc::new(head.build()))]);
        assert!(open_folder(&alone).faults[0].message().contains("next to this one"));
    }
}

#[test]
fn ids_say_the_event() {
    let mut file = PerfBuilder::new(ByteOrder::Little);
    let event = |config: u64, ids: Vec<u64>| EventBuilder { config, ids, ..clock(part::IDENTIFIER) };
    file.events = vec![event(0, vec![1, 2]), event(2, vec![3])];
    for (id, time) in [(2, 10), (3, 11), (4, 12)] {
        let numbers = [(id, 8), (77, 8), (5, 4), (7, 4), (time, 8), (0, 4), (0, 4), (1000, 8)];
        file.record(kind::SAMPLE, 2, &numbers, "", &[]);
    }
    let trace = open(file.build());
    let names: Vec<String> =
        read(&trace).lines.iter().map(|line| line.split(' ').nth(2).unwrap_or_default().to_string()).collect();
    assert_eq!(names, ["cpu-clock", "page-faults", "unknown"]);
    assert_eq!(trace.warnings[0].message(), "samples of events that the file does not describe: 1");
}

#[test]
fn times_are_those_of_the_day_where_two_clocks_were_read() {
    let mut file = PerfBuilder::new(ByteOrder::Little);
    file.events.push(EventBuilder { flags: vec![SAMPLE_ID_ALL, 25], clock_id: 1, ..clock(0) });
    file.features = vec![(29, file.pack(&[(1, 4), (1, 4), (1_000_000_500, 8), (500, 8)]))];
    sample(&mut file, 1, 510, 0, &[]);
    let trace = open(file.build());
    let clock = trace.default_clocks().next().expect("a clock");
    assert_eq!((&*clock.id, clock.offset_cycles, &clock.origin), ("monotonic", 1_000_000_000, &ClockOrigin::Unix));
}
