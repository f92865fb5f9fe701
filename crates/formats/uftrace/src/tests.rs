//! Whole folders, made of bytes: what `SPEC.md` says of sound ones, and what must still come out of damaged ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, Chunk, ChunkSink};
use tracemill_codec::plan::{DecoderState, NodeId, Visitor};
use tracemill_model::error::{Error, ErrorKind, Result};

use super::FORMAT;
use tracemill_format::calls::{CallSource, DumpOptions};
use tracemill_format::{Entry, EntryKind, FoundTrace, OpenContext, OpenTrace, Storage};

/// A folder of bytes.
#[derive(Clone, Default)]
pub(super) struct Folder(pub(super) BTreeMap<String, Vec<u8>>);

pub(super) const ROOT: &str = "/t";

impl Storage for Folder {
    fn list(&self, _directory: &Path) -> Result<Vec<Entry>> {
        let entry = |(name, bytes): (&String, &Vec<u8>)| Entry {
            path: Path::new(ROOT).join(name),
            name: name.clone(),
            kind: EntryKind::File(bytes.len() as u64),
        };
        Ok(self.0.iter().map(entry).collect())
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        match path.strip_prefix(ROOT).ok()?.to_str()? {
            "" => Some(EntryKind::Directory),
            name => self.0.get(name).map(|bytes| EntryKind::File(bytes.len() as u64)),
        }
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        let name = file.strip_prefix(ROOT).ok().and_then(Path::to_str).unwrap_or_default();
        let bytes = self.0.get(name).ok_or_else(|| Error::new(ErrorKind::Io, "no such file"))?;
        Ok(Arc::new(bytes.clone()))
    }
}

/// How numbers are written.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) big: bool,
    pub(super) is_64_bit: bool,
}

pub(super) const LITTLE_64: Target = Target { big: false, is_64_bit: true };

impl Target {
    pub(super) fn put(self, out: &mut Vec<u8>, value: u64, len: usize) {
        let mut bytes = value.to_le_bytes()[..len].to_vec();
        if self.big {
            bytes.reverse();
        }
        out.extend(bytes);
    }

    pub(super) fn record(self, out: &mut Vec<u8>, time: u64, kind: u64, more: bool, depth: u64, address: u64) {
        self.put(out, time, 8);
        self.put(out, kind | u64::from(more) << 2 | 5 << 3 | depth << 6 | address << 16, 8);
    }
}

const BASE: u64 = 0x40_0000;
pub(super) const MAIN: u64 = BASE + 0x1004;
pub(super) const WORK: u64 = BASE + 0x1104;

/// A folder of one task, 7, with a program of three functions: `main`, `work`, and `_Z4nameB5cxx11i`.
pub(super) fn folder(target: Target, specs: &str, records: Vec<u8>) -> Folder {
    let mut info = b"Ftrace!\0".to_vec();
    target.put(&mut info, 4, 4);
    target.put(&mut info, 40, 2);
    info.extend([1 + u8::from(target.big), 1 + u8::from(target.is_64_bit)]);
    target.put(&mut info, 0x363, 8);
    target.put(&mut info, 0x3bff, 8);
    target.put(&mut info, 1024, 2);
    info.resize(40, 0);
    info.extend(b"exename:/srv/prog\ntaskinfo:lines=2\ntaskinfo:nr_tid=1\ntaskinfo:tids=7\n");
    info.extend(specs.as_bytes());
    let task = b"SESS timestamp=0.000000001 pid=7 sid=0123456789abcdef exename=\"/srv/prog\"\n\
        TASK timestamp=0.000000002 tid=7 pid=7\n";
    let map = b"00400000-00410000 r-xp 00000000 00:00 0 /srv/prog\n";
    let symbols =
        b"# symbols: 4\n# path name: /srv/prog\n1000 T main\n1100 T work\n1200 T _Z4nameB5cxx11i\n1300 ? __sym_end\n";
    let files = [
        ("info", info),
        ("task.txt", task.to_vec()),
        ("sid-0123456789abcdef.map", map.to_vec()),
        ("prog.sym", symbols.to_vec()),
        ("7.dat", records),
    ];
    Folder(files.map(|(name, bytes)| (name.to_string(), bytes)).into())
}

pub(super) fn open(folder: &Folder) -> OpenTrace {
    let found = FoundTrace { path: PathBuf::from(ROOT), name: "t".into(), below: String::new() };
    let mut opened = (FORMAT.open)(&OpenContext::new(folder), &[found]);
    opened.pop().unwrap().unwrap()
}

/// Values as words.
#[derive(Default)]
struct Words(String);

impl Words {
    fn word(&mut self, word: impl std::fmt::Display) {
        self.0 += &format!(" {word}");
    }
}

impl Visitor for Words {
    fn unsigned(&mut self, _: NodeId, value: u64) {
        self.word(value);
    }
    fn signed(&mut self, _: NodeId, value: i64) {
        self.word(value);
    }
    fn boolean(&mut self, _: NodeId, value: bool) {
        self.word(value);
    }
    fn real(&mut self, _: NodeId, value: f64) {
        self.word(format!("{value:?}"));
    }
    fn string(&mut self, _: NodeId, bytes: &[u8]) {
        self.word(format!("{:?}", String::from_utf8_lossy(bytes)));
    }
    fn blob(&mut self, _: NodeId, bytes: &[u8]) {
        self.word(format!("{bytes:?}"));
    }
    fn absent(&mut self, _: NodeId) {
        self.word("-");
    }
}

/// All events as lines, and all faults and warnings of reading.
pub(super) fn read(trace: &OpenTrace) -> (Vec<String>, Vec<Error>, Vec<Error>) {
    let (mut lines, mut faults, mut warnings) = (Vec::new(), trace.faults.clone(), trace.warnings.clone());
    for stream in &trace.streams {
        let mut clock = 0;
        for index in 0..stream.packets.len() {
            let opened = trace.reader.open_packet(&trace.plans, stream, index, clock).unwrap();
            faults.extend(opened.faults);
            warnings.extend(opened.warnings);
            let data = Arc::new(opened.data);
            let mut chunk = Chunk::new(data.clone(), 0, 0);
            let mut state = data.state.clone();
            data.scan(&mut 0, &mut state, &mut ChunkSink::new(&mut chunk, usize::MAX));
            clock = state.clock;
            for at in 0..chunk.len() {
                let event = chunk.event(at);
                let mut words = Words::default();
                event.visit_flat(&mut DecoderState::default(), &mut words).unwrap();
                let name = trace.schema.event(event.class()).name.clone().unwrap();
                lines.push(format!("{} {name}{}", event.cycles(), words.0));
            }
        }
    }
    (lines, faults, warnings)
}

/// `main` calls `work`: four records.
fn calls() -> Vec<u8> {
    let mut out = Vec::new();
    LITTLE_64.record(&mut out, 100, 0, false, 0, MAIN);
    LITTLE_64.record(&mut out, 110, 0, false, 1, WORK);
    LITTLE_64.record(&mut out, 120, 1, false, 1, WORK);
    LITTLE_64.record(&mut out, 130, 1, false, 0, MAIN);
    out
}

fn calls_read() -> [String; 4] {
    let line =
        |time, name, depth, address: u64, symbol| format!("{time} {name} 7 {depth} {address} \"{symbol}\" \"prog\"");
    [
        line(100, "entry", 0, MAIN, "main"),
        line(110, "entry", 1, WORK, "work"),
        line(120, "exit", 1, WORK, "work"),
        line(130, "exit", 0, MAIN, "main"),
    ]
}

#[test]
fn only_folders_with_the_magic_are_ours() {
    let folder = folder(LITTLE_64, "", calls());
    assert!((FORMAT.probe)(&folder, Path::new(ROOT)));
    assert!(!(FORMAT.probe)(&folder, &Path::new(ROOT).join("7.dat")));
    let other = Folder([("info".to_string(), b"Ftrace\0\0".to_vec())].into());
    assert!(!(FORMAT.probe)(&other, Path::new(ROOT)));
}

#[test]
fn calls_have_their_symbols() {
    let (lines, faults, warnings) = read(&open(&folder(LITTLE_64, "", calls())));
    assert_eq!(lines, calls_read());
    assert!(faults.is_empty() && warnings.is_empty());
}

#[test]
fn functions_of_python_have_numbers_for_addresses() {
    let mut out = Vec::new();
    LITTLE_64.record(&mut out, 100, 0, false, 0, 1);
    LITTLE_64.record(&mut out, 101, 0, false, 1, 3);
    LITTLE_64.record(&mut out, 102, 0, false, 2, MAIN);
    LITTLE_64.record(&mut out, 103, 0, false, 2, 9);
    let mut folder = folder(LITTLE_64, "", out);
    let symbols = "# symbols: 3\n# path name: python.fake\n#                 \n0000000000000001 T __main__.<module>\n\
        0000000000000002 T __main__.work\n0000000000000003 P builtins.print\n0000000000000004 ? __sym_end\n";
    folder.0.insert("python.fake.sym".into(), symbols.as_bytes().to_vec());
    let (lines, faults, warnings) = read(&open(&folder));
    assert!(faults.is_empty() && warnings.is_empty(), "{faults:?} {warnings:?}");
    let names: Vec<&str> = lines.iter().map(|line| line.split('"').nth(1).unwrap_or_default()).collect();
    assert_eq!(names, ["__main__.<module>", "builtins.print", "main", "python.fake"], "{lines:?}");
    assert!(lines[3].ends_with(" 9 - \"python.fake\""), "a number without a function: {}", lines[3]);
}

#[test]
fn values_are_read_in_any_byte_order_and_word_size() {
    for target in [LITTLE_64, Target { big: true, is_64_bit: true }, Target { big: false, is_64_bit: false }] {
        let word = if target.is_64_bit { 8 } else { 4 };
        let mut out = Vec::new();
        target.record(&mut out, 100, 0, true, 0, MAIN);
        let from = out.len();
        target.put(&mut out, -5i64 as u64, word);
        target.put(&mut out, 0xfb, 1);
        out.resize(out.len().next_multiple_of(4), 0xee);
        target.put(&mut out, 2, 2);
        out.extend(b"hi");
        target.put(&mut out, u64::from(1.5f32.to_bits()), 4);
        target.put(&mut out, 5 | if word == 8 { 0xdead_0000_0000 } else { 0 }, word);
        out.extend(b"abc\xee");
        out.resize(from + (out.len() - from).next_multiple_of(8), 0xee);
        target.record(&mut out, 120, 1, true, 0, MAIN);
        target.put(&mut out, 0xffff_ffff, 4);
        out.extend([0; 4]);
        let specs = "argspec:main@arg1,arg2/u8,arg3/s,fparg1/32,arg5/e:Color,arg6/t3\nretspec:main@retval/i32\n\
            enumauto:enum Color { RED, GREEN = 5 };\n";
        let (lines, faults, _) = read(&open(&folder(target, specs, out)));
        assert!(faults.is_empty(), "{faults:?}");
        assert_eq!(lines[0], format!("100 entry 7 0 {MAIN} \"main\" \"prog\" -5 251 \"hi\" 1.5 5 [97, 98, 99]"));
        assert_eq!(lines[1], format!("120 exit 7 0 {MAIN} \"main\" \"prog\" -1"));
    }
}

#[test]
fn patterns_see_the_simple_name() {
    let mut out = Vec::new();
    LITTLE_64.record(&mut out, 100, 0, true, 0, BASE + 0x1204);
    LITTLE_64.put(&mut out, 9, 8);
    let (lines, ..) = read(&open(&folder(LITTLE_64, "argspec:^name::cxx@arg1\n", out)));
    assert_eq!(lines, [format!("100 entry 7 0 {} \"_Z4nameB5cxx11i\" \"prog\" 9", BASE + 0x1204)]);
}

#[test]
fn events_of_the_user_are_read() {
    let mut out = Vec::new();
    LITTLE_64.record(&mut out, 100, 3, true, 0, 100_002);
    LITTLE_64.put(&mut out, 16, 2);
    LITTLE_64.put(&mut out, 1, 8);
    LITTLE_64.put(&mut out, 2, 8);
    out.extend([0; 6]);
    LITTLE_64.record(&mut out, 101, 3, true, 0, 100_012);
    LITTLE_64.put(&mut out, 11, 2);
    LITTLE_64.put(&mut out, WORK, 8);
    LITTLE_64.put(&mut out, 0x0001_0203, 3);
    out.extend([0; 3]);
    LITTLE_64.record(&mut out, 102, 3, false, 0, 1_000_000);
    LITTLE_64.record(&mut out, 103, 3, true, 0, 77);
    LITTLE_64.put(&mut out, 2, 2);
    out.extend([0xab, 0xcd, 0, 0, 0, 0]);
    LITTLE_64.record(&mut out, 0, 2, false, 3, 12);
    let mut folder = folder(LITTLE_64, "", out);
    folder.0.insert("events.txt".into(), b"EVENT: 1000000 prov:name:x\n".to_vec());
    let trace = open(&folder);
    let (lines, faults, _) = read(&trace);
    assert!(faults.is_empty(), "{faults:?}");
    let expected = [
        "100 event 7 \"user\" 100002 \"read:page-fault\" 1 2".to_string(),
        format!("101 event 7 \"user\" 100012 \"watch:var\" {WORK} \"work\" 66051"),
        "102 event 7 \"user\" 1000000 \"prov:name:x\"".to_string(),
        "103 event 7 \"user\" 77 \"event:77\" \"abcd\"".to_string(),
        "103 lost 7 12".to_string(),
    ];
    assert_eq!(lines, expected);
    let opened = trace.reader.open_packet(&trace.plans, &trace.streams[0], 0, 0).unwrap();
    assert_eq!(opened.gaps[0].count, Some(12));
}

#[test]
fn messages_without_tasks_belong_to_nobody() {
    let mut folder = folder(LITTLE_64, "", Vec::new());
    folder.0.insert("extern.dat".into(), b"0.000000100 hello\n".to_vec());
    folder.0.remove("7.dat");
    // A list that names no task.
    let info = folder.0.get_mut("info").unwrap();
    let at = info.windows(6).position(|bytes| bytes == b"tids=7").unwrap();
    info[at + 5] = b'x';
    let trace = open(&folder);
    let source = trace.reader.calls().unwrap();
    let mut records = Vec::new();
    for stream in 0..source.stream_count() {
        source.open(stream).fill(&mut records);
    }
    assert!(source.tasks().is_empty() && records.is_empty(), "{records:?}");
}

#[test]
fn perf_and_messages_are_streams_of_their_own() {
    let mut perf = Vec::new();
    let mut put = |kind: u64, flags: u64, body: &[(u64, usize)], tid: u64, time: u64| {
        let size = 8 + body.iter().map(|field| field.1).sum::<usize>() + 16;
        for (value, len) in [(kind, 4), (flags, 2), (size as u64, 2)] {
            LITTLE_64.put(&mut perf, value, len);
        }
        for &(value, len) in body {
            LITTLE_64.put(&mut perf, value, len);
        }
        for (value, len) in [(7, 4), (tid, 4), (time, 8)] {
            LITTLE_64.put(&mut perf, value, len);
        }
    };
    put(3, 0x2000, &[(7, 4), (7, 4), (u64::from_le_bytes(*b"prog\0\0\0\0"), 8)], 7, 50);
    put(14, 0x6000, &[], 7, 60);
    put(14, 0, &[], 8, 61);
    put(99, 0, &[(1, 8)], 7, 62);
    put(7, 0, &[(7, 4), (6, 4), (7, 4), (6, 4), (70, 8)], 7, 71);
    perf.extend([1, 0, 0]);
    let mut folder = folder(LITTLE_64, "", calls());
    folder.0.insert("perf-cpu3.dat".into(), perf);
    folder.0.insert("extern.dat".into(), b"# note\n 0.0000001 hello  you \nodd\n0.000000200\n".to_vec());
    let trace = open(&folder);
    let (lines, faults, warnings) = read(&trace);
    let expected = [
        "50 event 7 \"perf\" 3 200006 \"linux:task-name\" \"prog\" true",
        "60 event 7 \"perf\" 3 200007 \"linux:sched-out (pre-empted)\"",
        "70 event 7 \"perf\" 3 200004 \"linux:task-new\" 7 6",
        "100 event \"extern\" 2000000 \"external-data\" \"hello  you \"",
    ];
    assert_eq!(lines[4..], expected);
    assert_eq!(faults.len(), 1, "three bytes are no record");
    let dumped = trace.reader.calls().unwrap().dump(DumpOptions::default(), &mut |_| true, &mut Vec::new()).unwrap();
    assert_eq!(dumped.faults.len(), 1, "who dumps records is told, too");
    assert_eq!(dumped.faults[0].place().offset, faults[0].place().offset);
    assert_eq!(warnings[0].place().text.as_ref().unwrap().line, 3);
}

// The damaged ones: each sentence of the corpus' `why.txt`.

#[test]
fn a_file_that_ends_inside_a_payload() {
    let mut out = calls();
    LITTLE_64.record(&mut out, 140, 0, true, 0, MAIN);
    out.extend([3, 0, b'a']);
    let (lines, faults, _) = read(&open(&folder(LITTLE_64, "argspec:main@arg1/s\n", out)));
    assert_eq!(lines[..4], calls_read());
    assert_eq!(lines[4], format!("140 entry 7 0 {MAIN} \"main\" \"prog\" -"));
    assert_eq!((faults.len(), faults[0].place().offset), (1, Some(64)));
}

#[test]
fn a_file_that_ends_inside_a_record() {
    let mut out = calls();
    out.truncate(out.len() - 7);
    let (lines, faults, _) = read(&open(&folder(LITTLE_64, "", out)));
    assert_eq!(lines, calls_read()[..3]);
    assert_eq!((faults.len(), faults[0].place().offset), (1, Some(48)));
}

#[test]
fn calls_that_do_not_fit_are_read_and_told() {
    let cut = calls().split_off(16);
    let mut deep = calls();
    deep[16 + 8..16 + 10].copy_from_slice(&((5 << 3 | 1023 << 6) as u16).to_le_bytes());
    for (bytes, offset, count) in [(cut, 32, 3), (deep, 32, 4)] {
        let (lines, faults, warnings) = read(&open(&folder(LITTLE_64, "", bytes)));
        assert_eq!((lines.len(), faults.len(), warnings.len()), (count, 0, 1));
        assert_eq!(warnings[0].place().offset, Some(offset), "{}", warnings[0]);
    }
}

#[test]
fn a_wrong_magic_costs_one_record() {
    let mut out = calls();
    out[16 + 8] ^= 7 << 3;
    let (lines, faults, _) = read(&open(&folder(LITTLE_64, "", out)));
    let [first, _, third, fourth] = calls_read();
    assert_eq!(lines, [first, third, fourth]);
    assert_eq!((faults.len(), faults[0].place().offset), (1, Some(16)));
}

#[test]
fn without_specifications_values_are_left_out_and_no_record_is() {
    let mut out = Vec::new();
    LITTLE_64.record(&mut out, 100, 0, true, 0, MAIN);
    out.extend([0xff; 24]);
    LITTLE_64.record(&mut out, 110, 0, true, 1, WORK);
    LITTLE_64.put(&mut out, 7, 8);
    out.extend(calls().split_off(32));
    let (lines, faults, _) = read(&open(&folder(LITTLE_64, "argspec:nothing@arg1\n", out.clone())));
    let [mut first, mut second, third, fourth] = calls_read();
    first += " -";
    second += " -";
    assert_eq!(lines, [first, second, third, fourth]);
    assert_eq!((faults.len(), faults[0].place().offset), (1, Some(0)), "told once: {faults:?}");
    // One that is too short, and one that is too long: they cost the values of their function.
    for wrong in ["argspec:main@arg1,arg2;work@arg1/u8\n", "argspec:main@arg1,arg2,arg3,arg4;work@arg1\n"] {
        let (lines, faults, _) = read(&open(&folder(LITTLE_64, wrong, out.clone())));
        assert!(lines[0].ends_with('-'), "{wrong}: {}", lines[0]);
        assert!(lines[1].ends_with(" 7"), "{wrong}: {}", lines[1]);
        assert_eq!((lines.len(), faults.len()), (4, 1), "{wrong}");
    }
}

#[test]
fn files_that_are_missing_cost_names_only() {
    let nameless = |name: &str| format!("100 entry 7 0 {MAIN} - {name}");
    for (file, first) in
        [("prog.sym", nameless("\"prog\"")), ("sid-0123456789abcdef.map", nameless("-")), ("task.txt", nameless("-"))]
    {
        let mut folder = folder(LITTLE_64, "", calls());
        folder.0.remove(file);
        let trace = open(&folder);
        let (lines, faults, warnings) = read(&trace);
        assert_eq!((lines.len(), lines[0].as_str()), (4, first.as_str()));
        assert_eq!((faults.len(), warnings.len()), (0, 1), "{file}: {warnings:?}");
        let path = warnings[0].place().file.clone().unwrap();
        assert!(path.ends_with(file), "{path:?}");
    }
}

#[test]
fn a_step_back_in_time_keeps_its_place() {
    let mut out = calls();
    out[16..24].copy_from_slice(&95u64.to_le_bytes());
    let (lines, faults, _) = read(&open(&folder(LITTLE_64, "", out)));
    assert_eq!(faults.len(), 0);
    assert!(lines[1].starts_with("95 entry"));
}

#[test]
fn a_folder_without_records_opens() {
    let mut folder = folder(LITTLE_64, "", Vec::new());
    folder.0.remove("7.dat");
    // A list that names no task.
    let info = folder.0.get_mut("info").unwrap();
    let at = info.windows(6).position(|bytes| bytes == b"tids=7").unwrap();
    info[at + 5] = b'x';
    let trace = open(&folder);
    assert_eq!((trace.streams.len(), trace.warnings.len(), trace.faults.len()), (0, 2, 0));
}

/// Random records with values: slices give what reading from the beginning gives, whatever their size.
#[test]
fn slices_begin_where_records_do() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let mut cuts = 0;
    for round in 0..40 {
        let target = Target { big: round % 2 == 1, is_64_bit: true };
        // Times near those that values look like, and values that look like records.
        let mut time = if round % 4 < 2 { 1_000_000 } else { 0x7ffd_0000_0000 };
        let (mut out, mut starts) = (Vec::new(), Vec::new());
        for _ in 0..3000 {
            time += random(3000);
            let own = time - random(2);
            starts.push(out.len());
            let kind = random(8);
            match kind {
                0 => target.record(&mut out, 0, 2, false, 0, 1 + random(9)),
                1 => {
                    target.record(&mut out, own, 3, true, 0, 100_011);
                    target.put(&mut out, 4, 2);
                    target.put(&mut out, random(4), 4);
                    out.extend([0; 2]);
                }
                2 | 3 => {
                    target.record(&mut out, own, 0, true, random(9), WORK);
                    let from = out.len();
                    let value = match random(3) {
                        0 => time + random(1 << 40),
                        1 => random(1 << 47),
                        _ => 5 << 3 | random(2) << 2 | MAIN << 16,
                    };
                    target.put(&mut out, value, 8);
                    let len = random(90);
                    target.put(&mut out, len, 2);
                    for _ in 0..len {
                        out.push(random(256) as u8);
                    }
                    out.resize(from + (out.len() - from).next_multiple_of(8), 0xa5);
                }
                _ => target.record(&mut out, own, kind % 2, false, random(9), MAIN),
            }
        }
        let folder = folder(target, "argspec:work@arg1,arg2/s\n", out.clone());
        let whole = open(&folder);
        let (lines, faults, _) = read(&whole);
        assert_eq!((lines.len(), faults.len()), (starts.len(), 0), "round {round}");
        for size in [1 << 10, 5000, 1 << 14] {
            let found = super::open::tests_support::cut(&folder, ROOT, &out, 7, size);
            assert_eq!((found[0].from, found[found.len() - 1].to), (0, out.len()));
            cuts += found.len() - 1;
            for pair in found.windows(2) {
                assert_eq!(pair[0].to, pair[1].from);
                assert!(starts.binary_search(&pair[1].from).is_ok(), "round {round}: {} is not a record", pair[1].from);
                assert_eq!(pair[0].end, pair[1].begin);
            }
            for slice in &found {
                let times: Vec<u64> = (starts.iter().zip(&lines))
                    .filter(|(start, line)| (slice.from..slice.to).contains(start) && !line.contains("lost"))
                    .map(|(_, line)| line.split(' ').next().unwrap().parse().unwrap())
                    .collect();
                assert!(times.iter().all(|&time| slice.begin.unwrap() <= time && time <= slice.end.unwrap()));
            }
        }
    }
    assert!(cuts > 500, "{cuts} cuts were made");
}

#[test]
fn the_library_of_a_name_is_looked_up_once_for_all() {
    let mut folder = folder(LITTLE_64, "", calls());
    let map = b"00400000-00410000 r-xp 00000000 00:00 0 /srv/prog\n\
        00500000-00510000 r-xp 00000000 00:00 0 /lib/first.so\n\
        00600000-00610000 r-xp 00000000 00:00 0 /lib/second.so\n";
    folder.0.insert("sid-0123456789abcdef.map".into(), map.to_vec());
    folder
        .0
        .insert("first.so.sym".into(), b"# path name: /lib/first.so\n10 P puts\n20 T both\n30 ? __sym_end\n".to_vec());
    let second = b"# path name: /lib/second.so\n10 T puts\n20 T both\n30 T work\n40 T _Z5crossi\n50 ? __sym_end\n";
    folder.0.insert("second.so.sym".into(), second.to_vec());
    let calls = super::open::tests_support::calls(&folder, ROOT);
    assert!(calls.library_by_name.get().is_none(), "nothing is looked at before it is wanted");
    // An entry of a linkage table is not the function; the first library wins; the program's own copy does not count.
    let cases = [
        ("puts", Some("second.so")),
        ("both", Some("first.so")),
        ("work", Some("second.so")),
        ("cross", Some("second.so")),
    ];
    for (name, library) in cases {
        assert_eq!(calls.library_of(name).as_deref(), library, "{name}");
    }
    assert_eq!((calls.library_of("main"), calls.library_of("nowhere")), (None, None));
    assert_eq!(calls.library_by_name.get().map(std::collections::HashMap::len), Some(4));
}
